/* SPDX-License-Identifier: MIT
 * The GPUs, and the daemon itself. A drained GPU stays so over a restart, in the store's meta and not as an event: it is no
 * task's.
 */
#include "daemon/requests_internal.h"

#include "base/alloc.h"
#include "base/json.h"
#include "base/scope.h"
#include "daemon/chronicle.h"
#include "daemon/now.h"
#include "daemon/people.h"
#include "map/map.h"
#include "submit/wire.h"

static void gpus_name_claims(const struct requests *q, json_t *claims)
{
	size_t i;
	json_t *claim;
	const char *name;
	json_array_foreach(claims, i, claim) {
		names_of(q->names, (uid_t)json_integer_value(json_object_get(claim, "uid")), &name);
		json_object_set_new(claim, "user", json_string(name));
	}
}

/* The core knows owners by number. */
int request_gpus(const struct requests *q, const struct message *m, struct reply *reply, struct error *err)
{
	json_t *answer = core_gpus_json(q->core, now_read()), *gpu;
	size_t i;
	(void)err;
	json_array_foreach(json_object_get(answer, "gpus"), i, gpu) {
		people_show(q->names, m->uid, json_object_get(gpu, "processes"));
		gpus_name_claims(q, json_object_get(gpu, "claims"));
	}
	return request_answer(reply, answer);
}

static int gpus_set_drained(const struct requests *q, const struct message *m, bool drained, struct reply *reply,
			    struct error *err)
{
	const char *word = json_string_value(json_object_get(m->json, "gpu"));
	if (!word)
		return error_set(err, ERR_INVALID, "'gpu' must be an index or a UUID as text");
	const char *uuid = request_need_admin(m, "draining a GPU", err) ? NULL : core_find_gpu(q->core, word, err);
	if (!uuid)
		return -1;
	core_drain(q->core, uuid, drained);
	scoped_free char *key = alloc_printf("drained:%s", uuid);
	if (store_set_meta(q->store, key, drained ? "1" : NULL, err))
		return -1;
	chronicle_act(q->names, m->uid, "GPU %s %s", uuid, drained ? "drained" : "put back into use");
	return request_answer(reply, json_pack("{si, ss, sb}", "schema", 1, "uuid", uuid, "drained", drained));
}

int request_drain(const struct requests *q, const struct message *m, struct reply *reply, struct error *err)
{
	return gpus_set_drained(q, m, true, reply, err);
}

int request_undrain(const struct requests *q, const struct message *m, struct reply *reply, struct error *err)
{
	return gpus_set_drained(q, m, false, reply, err);
}

static const char *mps_users_word(bool together)
{
	return together ? "together" : "apart";
}

int request_status(const struct requests *q, const struct message *m, struct reply *reply, struct error *err)
{
	const struct core_config *c = core_get_config(q->core);
	long long age = sampling_age_ms(q->sampling);
	json_t *troubles = json_array();
	const char *why;
	enum core_mps mps = q->has_mps(q->ctx, &why);
	bool together = mps == CORE_MPS_TOGETHER && c->mps_together;
	q->troubles(q->ctx, troubles);
	(void)m;
	(void)err;
	return request_answer(reply, json_pack(
		"{si, ss, si, sI, ss, ss, ss, sI, ss, ss, sb, so, ss, ss, sb, sb, sI, si, so, so, sI, si, so}", "schema", 1,
		"version", RAD_VERSION,
		"protocol", WIRE_VERSION, "pid", (json_int_t)getpid(), "devices", q->config->devices, "state_dir", q->state_dir,
		"socket", q->socket_path, "gpus", (json_int_t)core_gpu_count(q->core), "placement", map_rank_name(c->map.rank),
		"share", share_mode_name(c->map.share), "mps_available", mps != CORE_MPS_NONE,
		"mps_users", json_text_or_null(mps == CORE_MPS_NONE ? NULL : mps_users_word(together)),
		"mps_users_wanted", mps_users_word(c->mps_together), "mps_users_why", why,
		"positional_policy", q->config->positional_policy, "ledger", c->map.ledger,
		"uid", (json_int_t)geteuid(), "sampler_restarts", (int)sampling_restarts(q->sampling),
		"snapshot_age_s", age < 0 ? json_null() : json_round3((double)age / 1000),
		"start_time", json_time_or_null(q->started_ms),
		"running", (json_int_t)core_count(q->core, TASK_RUNNING), "other_gpus", (int)sampling_others(q->sampling),
		"troubles", troubles));
}
