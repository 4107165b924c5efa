/* SPDX-License-Identifier: MIT
 * Events as the store keeps them: one JSON body per kind. Reading checks everything; a body that is not as it should be
 * makes that task broken, never the daemon.
 *
 * Bodies of all earlier versions are read for ever. So a member may be added, absent meaning what its absence meant when it
 * did not exist (json_read_* leave the value as it is), and none may change its meaning or its unit. Words are written, not
 * numbers: the order of an enum is nobody's business but the compiler's.
 */
#include "task/task.h"

#include "base/alloc.h"
#include "base/json.h"
#include "base/scope.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const nexts[] = { [NEXT_DONE] = "done", [NEXT_QUEUE] = "queue", [NEXT_RECOVER] = "recover" };
static const char *const stops[] = {
	[STOP_NONE] = "none", [STOP_CANCEL] = "cancel", [STOP_TIME_LIMIT] = "time_limit", [STOP_REQUEUE] = "requeue",
	[STOP_GIVEN_BACK] = "given_back",
};

#define NOTE_MAX 1000
#define CLOCK_MOST_MS (INT64_C(1) << 45)	/* a thousand years */

static const struct { const char *name; size_t member; } measured_means[] = {
	{ "mean_smocc", offsetof(struct measured, mean_smocc) }, { "mean_dram", offsetof(struct measured, mean_dram) },
	{ "mean_pcie_rx_mib_s", offsetof(struct measured, mean_pcie_rx_mib_s) },
	{ "mean_pcie_tx_mib_s", offsetof(struct measured, mean_pcie_tx_mib_s) },
};

/* Three decimals are more than any of these is known to, and keep a log of a million events small. NaN becomes null; of the
 * means that few GPUs tell, those that are not known are left out. */
static json_t *measured_to_json(const struct measured *m)
{
	json_t *o = json_pack("{so, so, so, so, so, sb, so, so, so, so, so, so, so}", "pace", pace_to_json(&m->pace),
		"peak_mib", json_int_or_null((int64_t)m->peak_mib, m->peak_mib != 0),
		"mean_smact", json_round3(m->mean_smact), "alone_s", json_round3(m->alone_s),
		"energy_j", json_round3(m->energy_j), "warm", m->warm,
		"alone_gract", json_round3(m->alone_gract), "alone_smact", json_round3(m->alone_smact),
		"alone_dram", json_round3(m->alone_dram), "alone_watts", json_round3(m->alone_watts),
		"work_s", json_round3(m->work_s), "inferred", load_to_json(&m->inferred), "begin_s", json_round3(m->begin_s));
	if (m->host_peak_mib)
		json_object_set_new(o, "host_peak_mib", json_integer((json_int_t)m->host_peak_mib));
	if (m->cpu.ran_ms)
		json_object_set_new(o, "cpu", json_pack("{sI, sI, sI}", "ran_ms", (json_int_t)m->cpu.ran_ms, "cpu_ms",
			(json_int_t)m->cpu.cpu_ms, "wait_ms", (json_int_t)m->cpu.wait_ms));
	for (size_t i = 0; i < COUNT_OF(measured_means); i++) {
		double mean = *(const double *)((const char *)m + measured_means[i].member);
		if (isfinite(mean))
			json_object_set_new(o, measured_means[i].name, json_round3(mean));
	}
	return o;
}

static json_t *placed_to_json(const struct event *ev)
{
	json_t *o = json_pack("{so, ss, sI, sb}", "gpus", task_uuids_json(ev->u.placed.gpus, ev->u.placed.n_gpus),
			      "mode", share_mode_name(ev->u.placed.mode),
			      "claim_mib", (json_int_t)ev->u.placed.claim_mib, "fenced", ev->u.placed.fence_mib > 0);
	if (ev->u.placed.fence_mib)
		json_object_set_new(o, "fence_mib", json_integer((json_int_t)ev->u.placed.fence_mib));
	if (ev->u.placed.together)	/* logs from before there was such a server do not have it */
		json_object_set_new(o, "together", json_true());
	return o;
}

/* What is not there was not changed. */
static json_t *updated_to_json(const struct event *ev)
{
	json_t *o = json_object();
	if (ev->u.updated.set_priority)
		json_object_set_new(o, "priority", json_integer(ev->u.updated.priority));
	if (ev->u.updated.set_time_limit)
		json_object_set_new(o, "time_limit_s", json_integer(ev->u.updated.time_limit_s));
	if (ev->u.updated.set_gpu_mem)
		json_object_set_new(o, "gpu_mem_mib", json_integer((json_int_t)ev->u.updated.gpu_mem_mib));
	if (ev->u.updated.set_max_slowdown)
		json_object_set_new(o, "max_slowdown", json_real(ev->u.updated.max_slowdown));
	if (ev->u.updated.set_array_limit)
		json_object_set_new(o, "array_limit", json_integer(ev->u.updated.array_limit));
	if (ev->u.updated.set_begin)
		json_object_set_new(o, "begin_s", json_integer(ev->u.updated.begin_s));
	if (ev->u.updated.set_gpus)
		json_object_set_new(o, "gpus", json_integer(ev->u.updated.gpus));
	if (ev->u.updated.set_host_mem)
		json_object_set_new(o, "host_mem_mib", json_integer((json_int_t)ev->u.updated.host_mem_mib));
	if (ev->u.updated.set_retries)
		json_object_set_new(o, "retries", json_integer(ev->u.updated.retries));
	if (ev->u.updated.set_deps)
		json_object_set_new(o, "deps", spec_deps_to_json(ev->u.updated.deps, ev->u.updated.n_deps));
	if (ev->u.updated.name)
		json_object_set_new(o, "name", json_text(ev->u.updated.name));
	if (ev->u.updated.by_known)
		json_object_set_new(o, "uid", json_integer(ev->u.updated.uid));
	return o;
}

bool event_actor(const struct event *ev, uint32_t *uid)
{
	switch (ev->kind) {
	case EV_HELD: case EV_RELEASED: case EV_CANCELLED: case EV_REQUEUED: case EV_SUSPENDED: case EV_RESUMED:
		*uid = ev->u.by.uid;
		return !ev->u.by.unmet.task;
	case EV_UPDATED:
		*uid = ev->u.updated.uid;
		return ev->u.updated.by_known;
	case EV_STOP_ASKED:
		*uid = ev->u.stop.uid;
		return ev->u.stop.reason != STOP_TIME_LIMIT;
	default:
		return false;
	}
}

/* Says also what comes next, so that a replay decides nothing: the rules of recovery may have changed since. */
static json_t *ended_to_json(const struct event *ev)
{
	json_t *o = measured_to_json(&ev->u.ended.seen);
	json_t *more = json_pack("{ss, si, si, so, ss, ss, sI, sb}", "verdict", verdict_name(ev->u.ended.verdict),
		"exit_code", ev->u.ended.exit_code, "signal", ev->u.ended.signal,
		"evidence", json_text_or_null(ev->u.ended.evidence), "next", nexts[ev->u.ended.next],
		"state", task_state_name(ev->u.ended.state), "next_claim_mib", (json_int_t)ev->u.ended.next_claim_mib,
		"next_exclusive", ev->u.ended.next_exclusive);
	json_object_update(o, more);
	json_decref(more);
	if (ev->u.ended.next_host_mem_mib)
		json_object_set_new(o, "next_host_mem_mib", json_integer((json_int_t)ev->u.ended.next_host_mem_mib));
	if (ev->u.ended.next_delay_s)
		json_object_set_new(o, "next_delay_s", json_integer(ev->u.ended.next_delay_s));
	return o;
}

json_t *event_to_json(const struct event *ev)
{
	const struct estimate *e = &ev->u.estimate;
	switch (ev->kind) {
	case EV_HELD: case EV_RELEASED: case EV_CANCELLED: case EV_REQUEUED: case EV_SUSPENDED: case EV_RESUMED:
		if (ev->u.by.unmet.task)
			return json_pack("{so}", "unmet", spec_deps_to_json(&ev->u.by.unmet, 1));
		return json_pack("{sI}", "uid", (json_int_t)ev->u.by.uid);
	case EV_UPDATED: return updated_to_json(ev);
	case EV_CLOCK_SET: return json_pack("{sI}", "by_ms", (json_int_t)ev->u.clock.by_ms);
	case EV_ESTIMATED:
		return json_pack("{ss, sI, sI, sI, sb, sb, so, so}", "estimator", e->estimator, "need_mib", (json_int_t)e->need_mib,
			"comfort_mib", (json_int_t)e->comfort_mib, "claim_mib", (json_int_t)e->claim_mib,
			"fenced", e->fenced, "for_life", e->enforced_for_life, "note", json_text_or_null(e->note),
			"load", load_to_json(&e->prior));
	case EV_PLACED: return placed_to_json(ev);
	case EV_STARTED:
		return json_pack("{sI, sI}", "pid", (json_int_t)ev->u.started.shim.pid,
				 "start_ticks", (json_int_t)ev->u.started.shim.start_ticks);
	case EV_STOP_ASKED:
		return json_pack("{ss, sI}", "reason", stops[ev->u.stop.reason], "uid", (json_int_t)ev->u.stop.uid);
	case EV_MEASURED: return measured_to_json(&ev->u.measured);
	case EV_ENDED: return ended_to_json(ev);
	case EV_MOVED:
		return json_pack("{so, si}", "gpus", task_uuids_json(ev->u.moved.gpus, ev->u.moved.n_gpus),
				 "extra", (int)ev->u.moved.n_extra);
	case EV_SUBMITTED: case EV_ELIGIBLE: case EV_SLOT_ASKED: case EV_WARNED: case EVENT_KIND_COUNT: break;
	}
	return json_object();
}

json_t *event_told(const struct event *ev)
{
	uint32_t uid = 0;
	bool person = event_actor(ev, &uid);
	return json_pack("{so, ss, so, so}", "time", json_time_or_null(ev->t_ms), "event", event_kind_name(ev->kind), "data",
			 event_to_json(ev), "by_uid", json_int_or_null(uid, person));
}

/* The position of a word in a list. One that this version does not know makes the event unreadable, not something near it. */
static int read_word(const json_t *body, const char *key, const char *const *words, size_t n, int *value, struct error *err)
{
	const char *word = json_string_value(json_object_get(body, key));
	for (size_t i = 0; word && i < n; i++)
		if (!strcmp(word, words[i])) {
			*value = (int)i;
			return 0;
		}
	return error_set(err, ERR_CORRUPT, "'%s' is '%.40s'", key, word ? word : "(missing)");
}

static int read_u64(const json_t *body, const char *key, uint64_t *value, struct error *err)
{
	int64_t v = 0;
	if (json_read_int(body, key, 0, INT64_MAX, &v, err))
		return -1;
	*value = (uint64_t)v;
	return 0;
}

static int read_cpu(const json_t *v, struct cpu_sums *cpu, struct error *err)
{
	return v && (json_read_int(v, "ran_ms", 0, INT64_MAX, &cpu->ran_ms, err) ||
		     json_read_int(v, "cpu_ms", 0, INT64_MAX, &cpu->cpu_ms, err) ||
		     json_read_int(v, "wait_ms", -1, INT64_MAX, &cpu->wait_ms, err)) ? -1 : 0;
}

/* Members that an older version did not know stay "not known", which is NaN and not 0. */
static int read_measured(const json_t *body, struct measured *m, struct error *err)
{
	*m = task_measured_nothing();
	if (read_u64(body, "peak_mib", &m->peak_mib, err) || read_u64(body, "host_peak_mib", &m->host_peak_mib, err) ||
	    json_read_double(body, "mean_smact", &m->mean_smact, err) ||
	    json_read_double(body, "alone_s", &m->alone_s, err) || json_read_double(body, "energy_j", &m->energy_j, err) ||
	    json_read_bool(body, "warm", &m->warm, err) || json_read_double(body, "alone_gract", &m->alone_gract, err) ||
	    json_read_double(body, "alone_smact", &m->alone_smact, err) ||
	    json_read_double(body, "alone_dram", &m->alone_dram, err) ||
	    json_read_double(body, "alone_watts", &m->alone_watts, err) || json_read_double(body, "work_s", &m->work_s, err) ||
	    json_read_double(body, "begin_s", &m->begin_s, err))
		return -1;
	for (size_t i = 0; i < COUNT_OF(measured_means); i++)
		if (json_read_double(body, measured_means[i].name, (double *)((char *)m + measured_means[i].member), err))
			return -1;
	return load_from_json(json_object_get(body, "inferred"), &m->inferred, err) ||
	       read_cpu(json_object_get(body, "cpu"), &m->cpu, err) ||
	       pace_from_json(json_object_get(body, "pace"), &m->pace, err) ? -1 : 0;
}

/* UUIDs are copied into arrays of fixed size by others, so their length is checked here, once. */
static int read_uuids(const json_t *body, char (**uuids)[GPU_UUID_LEN], uint32_t *n_uuids, struct error *err)
{
	const json_t *gpus = json_object_get(body, "gpus");
	size_t n = json_array_size(gpus);
	if (!json_is_array(gpus) || n > SPEC_MAX_GPUS)	/* none: of a CPU task */
		return error_set(err, ERR_CORRUPT, "'gpus' is no list of at most %d GPUs", SPEC_MAX_GPUS);
	*uuids = alloc_zero(n * sizeof **uuids);
	*n_uuids = (uint32_t)n;
	for (size_t i = 0; i < n; i++) {
		const char *uuid = json_string_value(json_array_get(gpus, i));
		if (!uuid || !*uuid || strlen(uuid) >= GPU_UUID_LEN)
			return error_set(err, ERR_CORRUPT, "'gpus' holds something that is no UUID");
		memcpy((*uuids)[i], uuid, strlen(uuid) + 1);
	}
	return 0;
}

/* A fence was the claim before it had a size of its own. */
static int read_placed(const json_t *body, struct event *ev, struct error *err)
{
	bool fenced = false;
	if (share_mode_parse(json_member_text(body, "mode"), &ev->u.placed.mode, err) ||
	    read_u64(body, "claim_mib", &ev->u.placed.claim_mib, err) ||
	    json_read_bool(body, "fenced", &fenced, err) || read_u64(body, "fence_mib", &ev->u.placed.fence_mib, err) ||
	    json_read_bool(body, "together", &ev->u.placed.together, err))
		return -1;
	if (fenced && !ev->u.placed.fence_mib)
		ev->u.placed.fence_mib = ev->u.placed.claim_mib;
	return read_uuids(body, &ev->u.placed.gpus, &ev->u.placed.n_gpus, err);
}

static int read_moved(const json_t *body, struct event *ev, struct error *err)
{
	int64_t extra = 0;
	if (json_read_int(body, "extra", 0, SPEC_MAX_GPUS, &extra, err))
		return -1;
	ev->u.moved.n_extra = (uint32_t)extra;
	return read_uuids(body, &ev->u.moved.gpus, &ev->u.moved.n_gpus, err);
}

/* A name that is too long is cut: it is shown and compared, and no estimator of ours has such a one. */
static int read_estimate(const json_t *body, struct estimate *e, struct error *err)
{
	const char *name = json_string_value(json_object_get(body, "estimator"));
	snprintf(e->estimator, sizeof e->estimator, "%s", name ? name : "none");
	if (read_u64(body, "need_mib", &e->need_mib, err) || read_u64(body, "comfort_mib", &e->comfort_mib, err) ||
	    read_u64(body, "claim_mib", &e->claim_mib, err) || json_read_bool(body, "fenced", &e->fenced, err) ||
	    json_read_bool(body, "for_life", &e->enforced_for_life, err) || json_read_text(body, "note", NOTE_MAX, &e->note, err))
		return -1;
	return load_from_json(json_object_get(body, "load"), &e->prior, err);
}

static int read_uid(const json_t *body, uint32_t *uid, struct error *err)
{
	int64_t v = 0;
	if (json_read_int(body, "uid", 0, UINT32_MAX, &v, err))
		return -1;
	*uid = (uint32_t)v;
	return 0;
}

static int read_unmet(const json_t *body, struct dependency *unmet, struct error *err)
{
	struct dependency *deps;
	size_t n;
	if (spec_deps_from_json(json_object_get(body, "unmet"), &deps, &n, err))
		return -1;
	if (n)
		*unmet = *deps;
	free(deps);
	return 0;
}

static int read_updated(const json_t *body, struct event *ev, struct error *err)
{
	ev->u.updated.set_priority = json_object_get(body, "priority");
	ev->u.updated.set_time_limit = json_object_get(body, "time_limit_s");
	ev->u.updated.set_gpu_mem = json_object_get(body, "gpu_mem_mib");
	ev->u.updated.set_max_slowdown = json_object_get(body, "max_slowdown");
	ev->u.updated.set_array_limit = json_object_get(body, "array_limit");
	ev->u.updated.set_begin = json_object_get(body, "begin_s");
	ev->u.updated.set_gpus = json_object_get(body, "gpus");
	ev->u.updated.set_host_mem = json_object_get(body, "host_mem_mib");
	ev->u.updated.set_retries = json_object_get(body, "retries");
	ev->u.updated.set_deps = json_object_get(body, "deps");
	if (json_read_int(body, "priority", INT32_MIN, INT32_MAX, &ev->u.updated.priority, err) ||
	    json_read_int(body, "time_limit_s", 0, INT64_MAX / 1000, &ev->u.updated.time_limit_s, err) ||
	    read_u64(body, "gpu_mem_mib", &ev->u.updated.gpu_mem_mib, err) ||
	    json_read_double(body, "max_slowdown", &ev->u.updated.max_slowdown, err) ||
	    json_read_int(body, "array_limit", 0, UINT32_MAX, &ev->u.updated.array_limit, err) ||
	    json_read_int(body, "begin_s", 0, INT64_MAX / 1000, &ev->u.updated.begin_s, err) ||
	    json_read_int(body, "gpus", 0, SPEC_MAX_GPUS, &ev->u.updated.gpus, err) ||
	    read_u64(body, "host_mem_mib", &ev->u.updated.host_mem_mib, err) ||
	    json_read_int(body, "retries", 0, SPEC_MAX_RETRIES, &ev->u.updated.retries, err) ||
	    spec_deps_from_json(json_object_get(body, "deps"), &ev->u.updated.deps, &ev->u.updated.n_deps, err) ||
	    read_uid(body, &ev->u.updated.uid, err) || json_read_text(body, "name", 1000, &ev->u.updated.name, err))
		return -1;
	ev->u.updated.by_known = json_is_integer(json_object_get(body, "uid"));
	return 0;
}

static int read_started(const json_t *body, struct event *ev, struct error *err)
{
	int64_t pid = 0;
	if (json_read_int(body, "pid", 0, INT32_MAX, &pid, err) ||
	    read_u64(body, "start_ticks", &ev->u.started.shim.start_ticks, err))
		return -1;
	ev->u.started.shim.pid = (pid_t)pid;
	return 0;
}

static int read_ended(const json_t *body, struct event *ev, struct error *err)
{
	int next = NEXT_DONE;
	int64_t code = 0, sig = 0;
	const char *verdict = json_string_value(json_object_get(body, "verdict"));
	const char *state = json_string_value(json_object_get(body, "state"));
	if (read_word(body, "next", nexts, sizeof nexts / sizeof *nexts, &next, err) ||
	    json_read_int(body, "exit_code", INT32_MIN, INT32_MAX, &code, err) ||
	    json_read_int(body, "signal", 0, 128, &sig, err) ||
	    read_u64(body, "next_claim_mib", &ev->u.ended.next_claim_mib, err) ||
	    json_read_bool(body, "next_exclusive", &ev->u.ended.next_exclusive, err) ||
	    read_u64(body, "next_host_mem_mib", &ev->u.ended.next_host_mem_mib, err) ||
	    json_read_int(body, "next_delay_s", 0, SPEC_MAX_TIME_S, &ev->u.ended.next_delay_s, err) ||
	    json_read_text(body, "evidence", 4096, &ev->u.ended.evidence, err) ||
	    read_measured(body, &ev->u.ended.seen, err))
		return -1;
	if (!state || task_state_parse(state, &ev->u.ended.state))
		return error_set(err, ERR_CORRUPT, "'state' is '%.40s'", state ? state : "(missing)");
	if (!verdict || verdict_parse(verdict, &ev->u.ended.verdict))
		return error_set(err, ERR_CORRUPT, "'verdict' is '%.40s'", verdict ? verdict : "(missing)");
	ev->u.ended.next = (enum task_next)next;
	ev->u.ended.exit_code = (int)code;
	ev->u.ended.signal = (int)sig;
	return 0;
}

static int read_stop(const json_t *body, struct event *ev, struct error *err)
{
	int reason = STOP_NONE;
	if (read_word(body, "reason", stops, sizeof stops / sizeof *stops, &reason, err) ||
	    read_uid(body, &ev->u.stop.uid, err))
		return -1;
	ev->u.stop.reason = (enum stop_reason)reason;
	return 0;
}

static int read_body(const json_t *body, struct event *ev, struct error *err)
{
	switch (ev->kind) {
	case EV_HELD: case EV_RELEASED: case EV_CANCELLED: case EV_REQUEUED: case EV_SUSPENDED: case EV_RESUMED:
		return read_unmet(body, &ev->u.by.unmet, err) || read_uid(body, &ev->u.by.uid, err) ? -1 : 0;
	case EV_UPDATED: return read_updated(body, ev, err);
	case EV_CLOCK_SET: return json_read_int(body, "by_ms", -CLOCK_MOST_MS, CLOCK_MOST_MS, &ev->u.clock.by_ms, err);
	case EV_ESTIMATED: return read_estimate(body, &ev->u.estimate, err);
	case EV_PLACED: return read_placed(body, ev, err);
	case EV_STARTED: return read_started(body, ev, err);
	case EV_STOP_ASKED: return read_stop(body, ev, err);
	case EV_MEASURED: return read_measured(body, &ev->u.measured, err);
	case EV_ENDED: return read_ended(body, ev, err);
	case EV_MOVED: return read_moved(body, ev, err);
	case EV_SUBMITTED: case EV_ELIGIBLE: case EV_SLOT_ASKED: case EV_WARNED: return 0;
	case EVENT_KIND_COUNT: break;
	}
	return error_set(err, ERR_CORRUPT, "event kind %d is not known to this version", (int)ev->kind);
}

int event_from_json(enum event_kind kind, const json_t *body, struct event *ev, struct error *err)
{
	memset(&ev->u, 0, sizeof ev->u);
	ev->kind = kind;
	if (read_body(body, ev, err)) {
		event_clear(ev);
		return error_wrap(err, "event '%s'", kind < EVENT_KIND_COUNT ? event_kind_name(kind) : "?");
	}
	return 0;
}

/* Only for events that event_from_json filled: those that the core makes borrow their pointers. */
void event_clear(struct event *ev)
{
	if (ev->kind == EV_ESTIMATED)
		free(ev->u.estimate.note);
	else if (ev->kind == EV_PLACED)
		free(ev->u.placed.gpus);
	else if (ev->kind == EV_MOVED)
		free(ev->u.moved.gpus);
	else if (ev->kind == EV_UPDATED)
		free(ev->u.updated.name), free(ev->u.updated.deps);
	else if (ev->kind == EV_ENDED)
		free(ev->u.ended.evidence);
	memset(&ev->u, 0, sizeof ev->u);
}
