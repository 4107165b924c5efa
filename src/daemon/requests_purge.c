/* SPDX-License-Identifier: MIT
 * Ended tasks that somebody wants gone now, not when rules say so. A request removes one piece, and says where the
 * next begins: so a purge of a year costs each turn a few milliseconds and its caller's share of time, nothing has to
 * be remembered here, and a caller or a radd that goes away leaves whole tasks.
 */
#include "daemon/requests_internal.h"

#include "base/clock.h"
#include "base/json.h"
#include "daemon/folding.h"

#define PURGE_PIECE 64

/* Whose: one's own, unless an administrator says otherwise. */
static int purge_whose(const struct message *m, struct store_folding *f, struct error *err)
{
	int64_t uid = m->uid;
	if (json_read_int(m->json, "uid", -1, UINT32_MAX, &uid, err))
		return -1;
	if (uid != (int64_t)m->uid && request_need_admin(m, "removing the tasks of others", err))
		return -1;
	f->one_user = uid >= 0;
	f->uid = (uid_t)uid;
	return 0;
}

int request_purge(const struct requests *q, const struct message *m, struct reply *reply, struct error *err)
{
	struct store_folding f = { .purge = true, .named = folding_named, .ctx = q->core };
	int64_t at = 0;
	if (!json_object_get(m->json, "before_ms"))
		return error_set(err, ERR_INVALID, "'before_ms' must say before when they ended");
	if (json_read_int(m->json, "before_ms", 0, clock_wall_ms(), &f.before_ms, err) ||
	    json_read_int(m->json, "at_ms", 0, INT64_MAX, &f.at_ms, err) || json_read_int(m->json, "at", 0, INT64_MAX, &at, err) ||
	    json_read_bool(m->json, "dry_run", &f.dry_run, err) || purge_whose(m, &f, err))
		return -1;
	f.at = at;
	int rc = store_fold(q->store, &f, PURGE_PIECE, err);
	if (rc < 0)
		return -1;
	return request_answer(reply, json_pack("{si, sI, sI, sb, sI, sI}", "schema", 1, "tasks", (json_int_t)f.tasks, "kept",
					       (json_int_t)f.kept, "done", rc > 0, "at_ms", (json_int_t)f.at_ms, "at", (json_int_t)f.at));
}
