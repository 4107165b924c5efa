/* SPDX-License-Identifier: MIT
 * GPUs for one user in a span of time. Administrators make reservations, since each takes GPUs from everybody else; everybody
 * sees them, and whose it is may give it back.
 */
#include "daemon/requests_internal.h"

#include "base/json.h"
#include "base/scope.h"

#include <string.h>

/* `gpus`: a list of indices or UUIDs, or how many. *given: they are named. */
static int reserve_read_gpus(const struct requests *q, const struct message *m, struct core_reservation *r, bool *given,
			     struct error *err)
{
	const json_t *gpus = json_object_get(m->json, "gpus");
	size_t n = json_array_size(gpus);
	int64_t count = 0;
	*given = json_is_array(gpus);
	if (!*given && json_read_int(m->json, "gpus", 1, SPEC_MAX_GPUS, &count, err))
		return -1;
	r->n_gpus = (unsigned)count;
	if (*given ? !n || n > SPEC_MAX_GPUS : !count)
		return error_set(err, ERR_INVALID, "'gpus' must be a number from 1 to %d, or a list of so many GPUs", SPEC_MAX_GPUS);
	for (size_t i = 0; i < n; i++) {
		const char *word = json_string_value(json_array_get(gpus, i));
		const char *uuid = word ? core_find_gpu(q->core, word, err) : NULL;
		if (!uuid)
			return word ? -1 : error_set(err, ERR_INVALID, "'gpus' must name GPUs by index or UUID as text");
		for (unsigned k = 0; k < r->n_gpus; k++)
			if (!strcmp(r->gpus[k], uuid))
				return error_set(err, ERR_INVALID, "GPU '%.60s': is named twice", word);
		memcpy(r->gpus[r->n_gpus++], uuid, strlen(uuid) + 1);
	}
	return 0;
}

/* `overlaps` is told after it was made and does not prevent it: tasks that run there are not ended for it, and the
 * administrator is the one who can ask for that. */
int request_reserve(const struct requests *q, const struct message *m, struct reply *reply, struct error *err)
{
	char gpus[SPEC_MAX_GPUS][GPU_UUID_LEN];
	struct core_reservation r = { .gpus = gpus };
	scoped_free char *reason = NULL;
	int64_t uid = -1;
	bool given;
	if (request_need_admin(m, "reserving GPUs", err) || request_need_room(q, err) || reserve_read_gpus(q, m, &r, &given, err) ||
	    json_read_int(m->json, "uid", 0, UINT32_MAX - 3, &uid, err) ||
	    json_read_int(m->json, "begin_ms", 0, REQUEST_LATEST_MS, &r.begin_ms, err) ||
	    json_read_int(m->json, "end_ms", 0, REQUEST_LATEST_MS, &r.end_ms, err) ||
	    json_read_text(m->json, "reason", RESERVING_MAX_REASON, &reason, err))
		return -1;
	if (uid < 0 || !r.begin_ms || !r.end_ms)
		return error_set(err, ERR_INVALID, "'uid', 'begin_ms' and 'end_ms' are needed");
	r.uid = (uid_t)uid;
	request_make_line(reason);
	if (reserving_add(q->reserving, &r, given, m->uid, reason, err))
		return -1;
	return request_answer(reply, json_pack("{si, sI, so, so}", "schema", 1, "id", (json_int_t)r.id,
					       "gpus", task_uuids_json(r.gpus, r.n_gpus),
					       "overlaps", core_overlaps_json(q->core, &r, now_read())));
}

/* Names are waited for: whose the GPUs are is the point of the list. */
int request_reservations(const struct requests *q, const struct message *m, struct reply *reply, struct error *err)
{
	(void)m, (void)err;
	if (!reserving_are_named(q->reserving, q->names))
		return request_again(reply);
	return request_answer(reply, json_pack("{si, so}", "schema", 1, "reservations", reserving_json(q->reserving, q->names)));
}

/* Whose it is may give it back, as others may start there then; that it is there at all is asked by its removal. */
int request_unreserve(const struct requests *q, const struct message *m, struct reply *reply, struct error *err)
{
	int64_t id = 0;
	uid_t user = (uid_t)-1;
	if (json_read_int(m->json, "id", 1, UINT32_MAX, &id, err))
		return -1;
	if (!id)
		return error_set(err, ERR_INVALID, "'id' must be the number of a reservation");
	if (reserving_user(q->reserving, (uint32_t)id, &user) && user != m->uid &&
	    request_need_admin(m, "taking back another user's reservation", err))
		return -1;
	if (reserving_remove(q->reserving, (uint32_t)id, m->uid, err))
		return -1;
	return request_answer(reply, json_pack("{si, sI}", "schema", 1, "id", (json_int_t)id));
}
