/* SPDX-License-Identifier: MIT
 * Meters and accounts: plain sums, with "not known" kept apart from zero.
 */
#include "account/account.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/order.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Asked of every reading of every sample, so by comparisons: fmin and fmax are calls. What is not known stays NaN. */
static double unit(double v)
{
	return v < 0 ? 0 : v > 1 ? 1 : v;
}

static void add_load(struct meter_load *l, double load, int64_t for_ms)
{
	if (!isfinite(load))
		return;
	l->sum_ms += load * (double)for_ms;
	l->seen_ms += (double)for_ms;
}

static double mean_load(const struct meter_load *l)
{
	return l->seen_ms > 0 ? l->sum_ms / l->seen_ms : NAN;
}

void meter_add(struct meter *m, const struct meter_sample *s)
{
	if (s->mem_known && s->mem_mib > m->peak_mib)
		m->peak_mib = s->mem_mib;
	bool first = !m->last_ms;
	int64_t since = s->mono_ms - m->last_ms;
	if (!first && since <= 0)
		return;
	m->last_ms = s->mono_ms;
	if (first)
		return;
	if (isfinite(s->energy_j))
		m->energy_j += s->energy_j;
	if (s->suspended)
		return;
	m->ran_ms += (double)since;
	m->work_ms += unit(s->speed) * (double)since;
	if (s->alone)
		m->alone_ms += (double)since;
	add_load(&m->smact, unit(s->smact), since);
	add_load(&m->smocc, unit(s->smocc), since);
	add_load(&m->dram, unit(s->dram), since);
	add_load(&m->pcie_rx, s->pcie_rx_mib_s, since);
	add_load(&m->pcie_tx, s->pcie_tx_mib_s, since);
	if (s->alone && s->active) {
		add_load(&m->alone_gract, unit(s->gract), since);
		add_load(&m->alone_smact, unit(s->smact), since);
		add_load(&m->alone_dram, unit(s->dram), since);
		add_load(&m->alone_watts, s->watts, since);
	}
}

static void resume_load(struct meter_load *l, double load, double for_ms)
{
	if (isfinite(load))
		*l = (struct meter_load){ load * for_ms, for_ms };
}

void meter_resume(struct meter *m, const struct measured *seen, int64_t ran_ms)
{
	*m = (struct meter){ .peak_mib = seen->peak_mib, .ran_ms = ran_ms > 0 ? (double)ran_ms : 0 };
	if (isfinite(seen->alone_s))
		m->alone_ms = seen->alone_s * 1000;
	if (isfinite(seen->work_s))
		m->work_ms = seen->work_s * 1000;
	resume_load(&m->smact, seen->mean_smact, m->ran_ms);
	resume_load(&m->smocc, seen->mean_smocc, m->ran_ms);
	resume_load(&m->dram, seen->mean_dram, m->ran_ms);
	resume_load(&m->pcie_rx, seen->mean_pcie_rx_mib_s, m->ran_ms);
	resume_load(&m->pcie_tx, seen->mean_pcie_tx_mib_s, m->ran_ms);
	resume_load(&m->alone_gract, seen->alone_gract, m->alone_ms);
	resume_load(&m->alone_smact, seen->alone_smact, m->alone_ms);
	resume_load(&m->alone_dram, seen->alone_dram, m->alone_ms);
	resume_load(&m->alone_watts, seen->alone_watts, m->alone_ms);
	if (isfinite(seen->energy_j))
		m->energy_j = seen->energy_j;
}

struct measured meter_read(const struct meter *m)
{
	return (struct measured){
		.peak_mib = m->peak_mib,
		.mean_smact = mean_load(&m->smact),
		.mean_smocc = mean_load(&m->smocc),
		.mean_dram = mean_load(&m->dram),
		.mean_pcie_rx_mib_s = mean_load(&m->pcie_rx),
		.mean_pcie_tx_mib_s = mean_load(&m->pcie_tx),
		.alone_s = m->ran_ms > 0 ? m->alone_ms / 1000 : NAN,
		.energy_j = m->energy_j > 0 ? m->energy_j : NAN,	/* no GPU runs on nothing */
		.alone_gract = mean_load(&m->alone_gract),
		.alone_smact = mean_load(&m->alone_smact),
		.alone_dram = mean_load(&m->alone_dram),
		.alone_watts = mean_load(&m->alone_watts),
		.work_s = m->ran_ms > 0 ? round(m->work_ms) / 1000 : NAN,	/* does not hang on the order of the sums */
	};
}

static void add_attempt(struct account *a, const struct attempt *t, int64_t now_ms)
{
	a->attempts++;
	a->ooms += t->verdict == VERDICT_OOM;
	int64_t end = t->end_ms ? t->end_ms : now_ms;
	if (t->placed_ms && end > t->placed_ms)
		a->gpu_s += (double)(end - t->placed_ms) / 1000 * t->n_gpus;
	if (isfinite(t->seen.energy_j))
		a->energy_j += t->seen.energy_j;
}

static void add_task(struct account *a, enum task_state state, const struct task_times *times, bool began)
{
	a->n++;
	a->by_state[state]++;
	a->wait_s += times->wait_s;
	a->held_s += times->held_s;
	a->run_s += times->run_s;
	a->lost_s += times->lost_s;
	if (!began)
		return;
	alloc_grow(a->jct_list, a->began, a->cap);
	a->jct_list[a->began++] = times->jct_s;
	a->began_wait_s += times->wait_s;
	a->began_jct_s += times->jct_s;
}

static void add_span(struct account *a, int64_t submit_ms, int64_t end_ms)
{
	if (!a->first_submit_ms || submit_ms < a->first_submit_ms)
		a->first_submit_ms = submit_ms;
	if (end_ms > a->last_end_ms)
		a->last_end_ms = end_ms;
}

void account_add(struct account *a, const struct task *t, int64_t now_ms)
{
	const struct task_times times = task_times(t, now_ms);
	add_task(a, t->state, &times, t->n_attempts > 0);
	add_span(a, t->submit_ms, t->end_ms);
	for (uint32_t i = 0; i < t->n_attempts; i++)
		add_attempt(a, &t->attempts[i], now_ms);
}

static double told(const json_t *o, const char *key)
{
	return json_number_value(json_object_get(o, key));
}

static int64_t told_ms(const json_t *o, const char *key)
{
	const char *iso = json_string_value(json_object_get(o, key));
	int64_t ms;
	return iso && !clock_parse_iso(iso, &ms) ? ms : 0;
}

void account_add_told(struct account *a, const json_t *task)
{
	const json_t *attempts = json_object_get(task, "attempts");
	enum task_state state = TASK_LOST;
	size_t i;
	json_t *t;
	task_state_parse(json_member_text(task, "state"), &state);
	add_task(a, state, &(struct task_times){ .wait_s = told(task, "wait_s"), .held_s = told(task, "held_s"),
		 .run_s = told(task, "run_s"), .lost_s = told(task, "lost_s"), .jct_s = told(task, "jct_s") }, json_array_size(attempts));
	add_span(a, told_ms(task, "submit_time"), told_ms(task, "end_time"));
	a->gpu_s += told(task, "gpu_s");
	a->gpu_share_s += told(task, "gpu_share_s");
	json_array_foreach(attempts, i, t) {
		const char *verdict = json_string_value(json_object_get(t, "verdict"));
		a->attempts++;
		a->ooms += verdict && !strcmp(verdict, verdict_name(VERDICT_OOM));
		a->energy_j += told(t, "energy_j");
	}
}

void account_clear(struct account *a)
{
	free(a->jct_list);
	*a = (struct account){ 0 };
}

double account_jct_percentile(const struct account *a, double fraction)
{
	if (!a->began)
		return NAN;
	double *sorted = alloc_resize(NULL, a->began, sizeof *sorted);
	memcpy(sorted, a->jct_list, a->began * sizeof *sorted);
	qsort(sorted, a->began, sizeof *sorted, order_double);
	double rank = ceil(fmin(fmax(fraction, 0), 1) * a->began - 1e-9);
	double value = sorted[rank < 1 ? 0 : (size_t)rank - 1];
	free(sorted);
	return value;
}

json_t *account_to_json(const struct account *a)
{
	json_t *states = json_object();
	for (unsigned i = 0; i < TASK_STATE_COUNT; i++)
		json_object_set_new(states, task_state_name((enum task_state)i), json_integer(a->by_state[i]));
	double n = a->began ? (double)a->began : NAN;
	/* The wall clock may have been set back between the two. */
	double total = a->last_end_ms ? fmax(0, (double)(a->last_end_ms - a->first_submit_ms) / 1000) : NAN;
	return json_pack("{so, so, so, so, so, si, so, si, si, so, so, so, so, so, si}",
		"trace_total_s", json_round3(total), "avg_wait_s", json_round3(a->began_wait_s / n),
		"avg_exec_s", json_round3(a->run_s / n), "avg_jct_s", json_round3(a->began_jct_s / n),
		"p95_jct_s", json_round3(account_jct_percentile(a, 0.95)), "tasks", (int)a->n, "by_state", states,
		"oom", (int)a->ooms, "attempts", (int)a->attempts, "held_s", json_round3(a->held_s),
		"lost_s", json_round3(a->lost_s), "gpu_hours", json_round3(a->gpu_s / 3600),
		"gpu_share_hours", json_round3(a->gpu_share_s > 0 ? a->gpu_share_s / 3600 : NAN),
		"energy_j", json_round3(a->energy_j > 0 ? a->energy_j : NAN), "began", (int)a->began);
}
