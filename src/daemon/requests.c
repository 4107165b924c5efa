/* SPDX-License-Identifier: MIT
 * The table of operations: see requests.h. Their files are requests_*.c, one for each subject; what they share is in
 * requests_check.c.
 *
 * An operation sees the message, and who sent it, but no connection: what it answers is a value. So none can answer before the
 * commit, or keep a client waiting by its own means, and a test needs no socket.
 */
#include "daemon/requests_internal.h"

#include "base/scope.h"
#include "submit/wire.h"

#include <string.h>

static const struct { const char *op; request_operation *run; } operations[] = {
	{ "submit", request_submit }, { "capturing", request_capturing },
	{ "captured", request_captured }, { "list", request_list }, { "show", request_show },
	{ "events", request_events }, { "script", request_script },
	{ "why", request_why }, { "gpus", request_gpus }, { "cancel", request_cancel }, { "hold", request_hold },
	{ "release", request_release }, { "requeue", request_requeue },
	{ "signal", request_signal },
	{ "suspend", request_suspend }, { "resume", request_resume }, { "update", request_update }, { "drain", request_drain },
	{ "undrain", request_undrain }, { "wait", request_wait }, { "acct", request_acct }, { "series", request_series },
	{ "status", request_status }, { "purge", request_purge }, { "users", request_users }, { "limit", request_limit },
	{ "starts", request_starts },
	{ "reserve", request_reserve }, { "reservations", request_reservations }, { "unreserve", request_unreserve },
	{ "give_back", request_give_back }, { "environ", request_environ },
	{ "announce", request_announce }, { "depart", request_depart },
};

int requests_run(const struct requests *q, const struct message *m, struct reply *reply, struct error *err)
{
	const char *op = wire_check_request(m->json, err);
	if (!op)
		return -1;
	for (size_t i = 0; i < COUNT_OF(operations); i++)
		if (!strcmp(op, operations[i].op))
			return operations[i].run(q, m, reply, err);
	return error_set(err, ERR_INVALID, "radd " RAD_VERSION " knows no operation '%.40s'", op);
}
