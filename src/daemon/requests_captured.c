/* SPDX-License-Identifier: MIT
 * What whoever makes the capture that a job waits for says of it: that it has its turn or has begun, and what came of it.
 */
#include "daemon/requests_internal.h"

#include "base/alloc.h"
#include "base/json.h"
#include "base/scope.h"

#include <stdlib.h>
#include <string.h>

/* The spec of a job that waits for its capture; NULL: it does not, or is not the sender's. */
static struct spec *captured_awaiting(const struct requests *q, const struct message *m, uint32_t *job, struct error *err)
{
	scoped_free task_id *ids = NULL;
	size_t n = 0;
	char text[TASK_ID_TEXT];
	if (request_need_room(q, err) || request_live_ids(q, m, &ids, &n, err))
		return NULL;
	const struct task *t = core_task(q->core, ids[0]);
	if (t && request_need_owner(m, t, err))
		return NULL;
	*job = TASK_JOB(ids[0]);
	if (t && capturing_awaits(q->capturing, t->spec))
		return t->spec;
	error_set(err, ERR_CONFLICT, "task %s: waits for no capture", task_id_text(ids[0], text));
	return NULL;
}

/* Its capture waits for its turn, which is waited for in all until capture_turn_s; or that has come, and it has its time. The
 * spec is stored anew each time. */
int request_capturing(const struct requests *q, const struct message *m, struct reply *reply, struct error *err)
{
	uint32_t job;
	struct spec *s = captured_awaiting(q, m, &job, err);
	if (!s || request_need_store(q, m, err))
		return -1;
	request_spend_store(q, m, s->bytes);
	if (capturing_goes_on(q->capturing, s, q->config->capture_wait_ms, json_is_true(json_object_get(m->json, "begun")),
			      json_is_true(json_object_get(m->json, "aside"))))
		core_reconsider(q->core);
	if (store_set_spec(q->store, job, s, err))
		return -1;
	return request_answer(reply, json_pack("{si, si}", "schema", 1, "changed", 1));
}

/* It is kept, in memory and in the store, as what was submitted is. One that goes beyond what its user may have there is none:
 * its tasks go on, and say why. */
static void captured_bound(const struct requests *q, const struct message *m, uint32_t job, char **capture, char **why)
{
	struct error full = ERROR_INIT;
	if (!*capture)
		return;
	if (request_need_store(q, m, &full) || request_need_size(q, m, strlen(*capture), &full)) {
		free(steal(*capture));
		free(*why);
		*why = alloc_string(full.text);
		return;
	}
	request_spend_store(q, m, m->bytes);
	core_spec_grew(q->core, job, strlen(*capture));
}

/* The capture of a job that waits for it, or why there is none. A reference of its own, since those who wait for it may
 * end while they are told. The spec is stored anew: what was submitted is now what came with its capture. */
int request_captured(const struct requests *q, const struct message *m, struct reply *reply, struct error *err)
{
	scoped_free char *capture = NULL, *notes = NULL, *why = NULL;
	uint32_t job;
	struct spec *s;
	if (json_read_text(m->json, "capture", SPEC_MAX_CAPTURE, &capture, err) ||
	    json_read_text(m->json, "notes", SPEC_MAX_NOTES, &notes, err) ||
	    json_read_text(m->json, "why", 1000, &why, err) || !(s = captured_awaiting(q, m, &job, err)))
		return -1;
	spec_ref(s);
	captured_bound(q, m, job, &capture, &why);
	const char *said = capture ? notes : why;
	capturing_came(q->capturing, s, steal(capture), said ? said : "");
	int failed = store_set_spec(q->store, job, s, err);
	spec_unref(s);
	return failed ? -1 : request_answer(reply, json_pack("{si, si}", "schema", 1, "changed", 1));
}
