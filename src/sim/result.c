/* SPDX-License-Identifier: MIT
 * The result of a simulation as JSON.
 */
#include "sim/sim.h"

#include "base/json.h"
#include "base/scope.h"

static json_t *seconds(int64_t ms)
{
	return json_round3((double)ms / 1000);
}

static json_t *attempt_json(const struct sim_attempt *a)
{
	json_t *gpus = json_array();
	for (unsigned i = 0; i < a->n_gpus; i++)
		json_array_append_new(gpus, json_integer(a->gpus[i]));
	return json_pack("{so, so, so, ss, sI, ss, so, so, so, so}", "start_s", seconds(a->start_ms), "end_s", seconds(a->end_ms),
		"gpus", gpus, "mode", a->mode == SHARE_NEVER ? "exclusive" : share_mode_name(a->mode),
		"claim_mib", (json_int_t)a->claim_mib, "verdict", verdict_name(a->verdict),
		"peak_mib", json_int_or_null((int64_t)a->seen.peak_mib, a->seen.peak_mib != 0),
		"mean_smact", json_round3(a->seen.mean_smact), "alone_s", json_round3(a->seen.alone_s),
		"energy_j", json_round3(a->seen.energy_j));
}

static json_t *task_json(const struct sim_options *o, const struct sim_task *t, size_t place)
{
	json_t *attempts = json_array();
	char id[TASK_ID_TEXT];
	for (unsigned i = 0; i < t->n_attempts; i++)
		json_array_append_new(attempts, attempt_json(&t->attempts[i]));
	bool known = t->estimated && t->n_attempts;
	return json_pack("{ss, ss, ss, so, so, so, so, so, so, so, so, s{so}}", "id", task_id_text(TASK_ID(place + 1, -1), id),
		"workload", o->workloads->list[t->workload].name, "state", task_state_name(t->state),
		"submit_s", seconds(t->submit_ms), "start_s", seconds(t->start_ms), "end_s", seconds(t->end_ms),
		"wait_s", json_round3(t->times.wait_s), "exec_s", json_round3(t->times.run_s),
		"lost_s", json_round3(t->times.lost_s), "jct_s", json_round3(t->times.jct_s), "attempts", attempts,
		"estimate", "claim_mib", json_int_or_null(known ? (int64_t)t->attempts[0].claim_mib : 0, known));
}

static void copy(json_t *to, const json_t *from, const char *key)
{
	json_object_set(to, key, json_object_get(from, key));
}

json_t *sim_result_json(const struct sim_options *o, const struct sim_result *r)
{
	static const char *const sums[] = { "avg_wait_s", "avg_exec_s", "avg_jct_s", "p95_jct_s", "oom" };
	json_t *out = json_pack("{si}", "schema", 1), *tasks = json_array();
	scoped_json *account = account_to_json(&r->account);
	copy(out, account, "trace_total_s");
	json_object_set_new(out, "lower_bound_s", json_round3(r->lower_bound_s));
	for (size_t i = 0; i < COUNT_OF(sums); i++)
		copy(out, account, sums[i]);
	json_object_set_new(out, "neighbours_lost", json_integer((json_int_t)r->neighbours_lost));
	json_object_set_new(out, "undone_s", json_round3(r->undone_s));
	json_object_set_new(out, "slots", json_integer((json_int_t)r->slots));
	json_object_set_new(out, "energy_j", json_round3(r->energy_j));
	json_object_set_new(out, "mean_smact", json_round3(r->mean_smact));
	copy(out, account, "by_state");
	copy(out, account, "lost_s");
	for (size_t i = 0; i < r->n; i++)
		json_array_append_new(tasks, task_json(o, &r->tasks[i], i));
	json_object_set_new(out, "tasks", tasks);
	return out;
}
