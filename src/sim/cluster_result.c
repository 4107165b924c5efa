/* SPDX-License-Identifier: MIT
 * What a simulated cluster came to, as figures and JSON.
 */
#include "sim/cluster.h"

#include "base/alloc.h"
#include "base/json.h"
#include "base/order.h"
#include "base/scope.h"

#include <stdlib.h>

/* Sorts the list. */
static struct cluster_spread spread_of(int64_t *ms, size_t n)
{
	double sum = 0;
	for (size_t i = 0; i < n; i++)
		sum += (double)ms[i];
	qsort(ms, n, sizeof *ms, order_i64);
	return (struct cluster_spread){ sum / (double)n / 1000, (double)ms[(n - 1) / 2] / 1000,
					(double)ms[(n * 95 + 99) / 100 - 1] / 1000 };
}

struct cluster_spread cluster_jcts(const struct cluster_result *r)
{
	scoped_free int64_t *ms = alloc_resize(NULL, r->n, sizeof *ms);
	for (size_t i = 0; i < r->n; i++)
		ms[i] = r->jobs[i].end_ms - r->jobs[i].submit_ms;
	return spread_of(ms, r->n);
}

struct cluster_spread cluster_waits(const struct cluster_result *r)
{
	scoped_free int64_t *ms = alloc_resize(NULL, r->n, sizeof *ms);
	for (size_t i = 0; i < r->n; i++)
		ms[i] = r->jobs[i].end_ms - r->jobs[i].submit_ms - r->jobs[i].run_ms;
	return spread_of(ms, r->n);
}

static double mean_s(const struct cluster_result *r, bool lost)
{
	double sum = 0;
	for (size_t i = 0; i < r->n; i++)
		sum += (double)(lost ? r->jobs[i].lost_ms : r->jobs[i].run_ms) / 1000;
	return sum / (double)r->n;
}

json_t *cluster_result_json(const struct cluster_options *o, const struct cluster_result *r)
{
	const struct cluster_spread wait = cluster_waits(r), jct = cluster_jcts(r);
	json_t *out = json_pack("{si, ss, sI, sI, sI}", "schema", 1, "cluster", cluster_way_name(o->way),
				"nodes", (json_int_t)o->n_nodes, "gpus", (json_int_t)o->sim->n_devices, "jobs", (json_int_t)r->n);
	scoped_json *figures = json_pack("{so, so, so, so, so, so, so, so, so, so}",
		"trace_total_s", json_round3((double)r->span_ms / 1000), "lower_bound_s", json_round3(r->lower_bound_s),
		"gpu_hours", json_round3(r->gpu_hours), "avg_wait_s", json_round3(wait.mean_s), "p50_wait_s", json_round3(wait.median_s),
		"p95_wait_s", json_round3(wait.p95_s), "avg_exec_s", json_round3(mean_s(r, false)),
		"avg_jct_s", json_round3(jct.mean_s), "p50_jct_s", json_round3(jct.median_s), "p95_jct_s", json_round3(jct.p95_s));
	scoped_json *rest = json_pack("{sI, sI, sI, sI, so, so, so, sI}", "oom", (json_int_t)r->ooms,
		"sent_back", (json_int_t)r->sent_back, "failed", (json_int_t)r->failed, "past_limit", (json_int_t)r->past_limit,
		"avg_lost_s", json_round3(mean_s(r, true)), "energy_j", json_round3(r->energy_j),
		"mean_smact", json_round3(r->mean_smact), "moments", (json_int_t)r->moments);
	json_object_update(out, figures);
	json_object_update(out, rest);
	return out;
}

void cluster_result_clear(struct cluster_result *r)
{
	free(r->jobs);
	*r = (struct cluster_result){ 0 };
}
