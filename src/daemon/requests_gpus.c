/* SPDX-License-Identifier: MIT
 * The GPUs, and the daemon itself.
 *
 * The core knows users by number and GPUs by place, and of a drain only that it is there; names, reasons and ends are known
 * here, so they are added to what it says. Of other users' processes no command lines are told: they hold passwords.
 */
#include "daemon/requests_internal.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/scope.h"
#include "base/version.h"
#include "daemon/chronicle.h"
#include "daemon/now.h"
#include "daemon/people.h"
#include "map/map.h"
#include "submit/wire.h"

#include <stdio.h>
#include <string.h>

/* Of a user whom the database has not named yet the number stands there as text: who looks at GPUs is not kept waiting for it,
 * and the next look has the name. */
static void gpus_name_claims(const struct requests *q, json_t *claims)
{
	size_t i;
	json_t *claim;
	const char *name;
	json_array_foreach(claims, i, claim) {
		names_of(q->names, (uid_t)json_integer_value(json_object_get(claim, "uid")), &name);
		json_object_set_new(claim, "user", json_text(name));
	}
}

static void gpus_tell_more(const struct requests *q, const struct message *m, json_t *gpu)
{
	json_t *drain = drains_json(q->drains, q->names, json_string_value(json_object_get(gpu, "uuid")));
	people_show(q->names, m->uid, json_object_get(gpu, "processes"));
	gpus_name_claims(q, json_object_get(gpu, "claims"));
	json_object_set_new(gpu, "drain", drain ? drain : json_null());
	json_object_set_new(gpu, "reservations", reserving_gpu_json(q->reserving, q->names,
								    json_string_value(json_object_get(gpu, "uuid"))));
}

int request_gpus(const struct requests *q, const struct message *m, struct reply *reply, struct error *err)
{
	json_t *answer = core_gpus_json(q->core, now_read()), *gpu;
	size_t i;
	(void)err;
	json_array_foreach(json_object_get(answer, "gpus"), i, gpu)
		gpus_tell_more(q, m, gpu);
	return request_answer(reply, answer);
}

/* The GPU that is named, for an administrator. */
static const char *gpus_named(const struct requests *q, const struct message *m, struct error *err)
{
	const char *word = json_string_value(json_object_get(m->json, "gpu"));
	if (!word)
		return error_set(err, ERR_INVALID, "'gpu' must be an index or a UUID as text"), NULL;
	return request_need_admin(m, "draining a GPU", err) ? NULL : core_find_gpu(q->core, word, err);
}

static int gpus_answer_drained(const char *uuid, bool drained, bool changed, struct reply *reply)
{
	return request_answer(reply, json_pack("{si, ss, sb, sb}", "schema", 1, "uuid", uuid, "drained", drained, "changed", changed));
}

/* All words are read before the first effect: a drain that is refused for its last word must leave the GPU as it was. The
 * reason goes into the log and into `rad why` of others, so it is made one line here, once. */
int request_drain(const struct requests *q, const struct message *m, struct reply *reply, struct error *err)
{
	scoped_free char *reason = NULL;
	int64_t until_ms = 0;
	const char *uuid = gpus_named(q, m, err);
	if (!uuid || json_read_text(m->json, "reason", DRAIN_MAX_REASON, &reason, err) ||
	    json_read_int(m->json, "until_ms", 0, REQUEST_LATEST_MS, &until_ms, err))
		return -1;
	if (until_ms && until_ms <= clock_wall_ms())
		return error_set(err, ERR_INVALID, "a drain until then would be over: that time is past");
	request_make_line(reason);
	if (drains_add(q->drains, uuid, m->uid, reason, until_ms, err))
		return -1;
	chronicle_act(q->names, m->uid, "GPU %s drained%s%s", uuid, reason ? ": " : "", reason ? reason : "");
	return gpus_answer_drained(uuid, true, true, reply);
}

int request_undrain(const struct requests *q, const struct message *m, struct reply *reply, struct error *err)
{
	const char *uuid = gpus_named(q, m, err);
	int rc = uuid ? drains_remove(q->drains, uuid, err) : -1;
	if (rc < 0)
		return -1;
	if (!rc)
		chronicle_act(q->names, m->uid, "GPU %s put back into use", uuid);
	return gpus_answer_drained(uuid, false, !rc, reply);
}

/* " (by root, since 2026-11-20T16:00:00.000Z, until ...: fan)" */
static void explain_drained(const json_t *drain, json_t *finding)
{
	static const char *const keys[] = { "user", "since_time", "until_time" }, *const words[] = { "by ", "since ", "until " };
	const char *reason = json_string_value(json_object_get(drain, "reason"));
	scoped_buf text = { 0 };
	buf_add_text(&text, json_string_value(json_object_get(finding, "text")));
	const char *mark = " (";
	for (size_t i = 0; i < COUNT_OF(keys); i++) {
		const char *value = json_string_value(json_object_get(drain, keys[i]));
		if (value)
			buf_printf(&text, "%s%s%s", mark, words[i], value);
		mark = value ? ", " : mark;
	}
	if (*mark == ',')
		buf_add_text(&text, ")");
	if (reason)
		buf_printf(&text, ": %s", reason);
	json_object_set_new(finding, "text", json_text(buf_text(&text)));
}

/* " (reservation 3, of ada)": the first one on that GPU that is not the asker's. */
static void explain_reserved(const struct requests *q, const struct message *m, json_t *finding)
{
	scoped_json *list = reserving_gpu_json(q->reserving, q->names, json_string_value(json_object_get(finding, "uuid")));
	const char *text = json_string_value(json_object_get(finding, "text"));
	size_t i;
	json_t *r;
	json_array_foreach(list, i, r) {
		json_int_t id = json_integer_value(json_object_get(r, "id"));
		uid_t user = m->uid;
		if (!reserving_user(q->reserving, (uint32_t)id, &user) || (user == m->uid && i + 1 < json_array_size(list)))
			continue;
		json_object_set_new(finding, "text", json_printf("%s (reservation %lld, of %s)", text, (long long)id,
								  json_string_value(json_object_get(r, "user"))));
		return;
	}
}

/* "user 1001's MPS server", "task 12 of user 1001": by name, as people know him. */
static void explain_user(const struct requests *q, json_t *finding)
{
	const char *text = json_string_value(json_object_get(finding, "text")), *at = strstr(text, "user "), *name;
	unsigned uid;
	int end = 0;
	if (at && sscanf(at, "user %10u%n", &uid, &end) == 1 && names_of(q->names, uid, &name) == NAME_KNOWN)
		json_object_set_new(finding, "text", json_printf("%.*suser %s%s", (int)(at - text), text, name, at + end));
}

/* Of what the core told as JSON, where a reason is a word. */
static bool is_reason(const json_t *finding, enum map_reason r)
{
	return !strcmp(json_string_value(json_object_get(finding, "reason")), map_reason_word(r));
}

/* The foreigners' names come first: what the others add goes behind the text that they leave. */
void request_explain(const struct requests *q, const struct message *m, json_t *findings)
{
	size_t i;
	json_t *f;
	people_explain(q->names, m->uid, findings);
	json_array_foreach(findings, i, f) {
		scoped_json *drain = drains_json(q->drains, q->names, json_string_value(json_object_get(f, "uuid")));
		if (drain)
			explain_drained(drain, f);
		if (is_reason(f, MAP_RESERVED))
			explain_reserved(q, m, f);
		if (is_reason(f, MAP_USER) || is_reason(f, MAP_TURN))
			explain_user(q, f);
	}
}

static const char *mps_users_word(bool together)
{
	return together ? "together" : "apart";
}

/* Of those that are not over: ended tasks leave the core, so a count of them here would begin anew with each radd. */
static json_t *counts_json(const struct core *core)
{
	json_t *counts = json_object();
	for (unsigned i = 0; i < TASK_STATE_COUNT; i++)
		if (!task_state_terminal((enum task_state)i))
			json_object_set_new(counts, task_state_name((enum task_state)i),
					    json_integer((json_int_t)core_count(core, (enum task_state)i)));
	return counts;
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
		"{si, ss, si, sI, ss, so, so, sI, ss, ss, sb, so, ss, ss, sb, sb, sI, si, so, so, sI, si, so, so, so, so}", "schema", 1,
		"version", version_build,
		"protocol", WIRE_VERSION, "pid", (json_int_t)getpid(), "devices", q->config->devices, "state_dir", json_text(q->state_dir),
		"socket", json_text(q->socket_path), "gpus", (json_int_t)core_gpu_count(q->core), "placement", map_rank_name(c->map.rank),
		"share", share_mode_name(c->map.share), "mps_available", mps != CORE_MPS_NONE,
		"mps_users", json_text_or_null(mps == CORE_MPS_NONE ? NULL : mps_users_word(together)),
		"mps_users_wanted", mps_users_word(c->mps_together), "mps_users_why", why,
		"positional_policy", q->config->positional_policy, "ledger", c->map.ledger,
		"uid", (json_int_t)geteuid(), "sampler_restarts", (int)sampling_restarts(q->sampling),
		"snapshot_age_s", age < 0 ? json_null() : json_round3((double)age / 1000),
		"start_time", json_time_or_null(q->started_ms),
		"running", (json_int_t)core_count(q->core, TASK_RUNNING), "other_gpus", (int)sampling_others(q->sampling),
		"troubles", troubles, "tasks", counts_json(q->core), "since_start", counting_json(q->counting),
		"host_pace", core_host_pace_json(q->core)));
}
