/* SPDX-License-Identifier: MIT
 * Tasks and whole runs from JSON: the objects of the daemon, of the simulator, and a report's own.
 */
#include "account/report_internal.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/json.h"

#include <math.h>
#include <string.h>

#define MAX_GPUS 65536
#define MAX_SECONDS 1e11	/* about three thousand years */

static double number_of(const json_t *o, const char *key)
{
	const json_t *v = json_object_get(o, key);
	double d = json_number_value(v);
	return json_is_number(v) && fabs(d) < 1e18 ? d : NAN;
}

static char *text_of(const json_t *o, const char *key)
{
	return alloc_string(json_member_text(o, key));
}

/* Seconds from the origin, given as ISO time under one name or as a number under another. */
static double moment_of(const struct report_run *run, const json_t *o, const char *iso, const char *seconds)
{
	const char *text = json_string_value(json_object_get(o, iso));
	double s = number_of(o, seconds);
	int64_t ms;
	if (text && !clock_parse_iso(text, &ms))
		s = (double)(ms - run->origin_ms) / 1000;
	return fabs(s) <= MAX_SECONDS ? s : NAN;
}

/* Places up to that one, of GPUs that only have a number. */
static int add_numbered(struct report_run *run, size_t number, struct error *err)
{
	while (run->n_gpus <= number) {
		char uuid[24];
		size_t place = run->n_gpus;
		snprintf(uuid, sizeof uuid, "#%zu", place);
		if (report_add_gpu(run, uuid, (uint32_t)place, "", 0) != place)
			return error_set(err, ERR_INVALID, "'gpus' has '%s' by its UUID, and numbers too", uuid);
	}
	return 0;
}

static int read_gpus(struct report_run *run, struct report_attempt *a, const json_t *list, struct error *err)
{
	size_t n = json_array_size(list);
	if (n > SPEC_MAX_GPUS)
		return error_set(err, ERR_INVALID, "an attempt on %zu GPUs; there can be %d", n, SPEC_MAX_GPUS);
	a->gpus = alloc_zero((n + 1) * sizeof *a->gpus);
	for (size_t i = 0; i < n; i++) {
		const json_t *v = json_array_get(list, i);
		json_int_t number = json_integer_value(v);
		if (run->n_gpus > MAX_GPUS)
			return error_set(err, ERR_INVALID, "there are more than %d GPUs", MAX_GPUS);
		if (json_is_string(v)) {
			a->gpus[a->n_gpus++] = report_add_gpu(run, json_string_value(v), (uint32_t)run->n_gpus, "", 0);
			continue;
		}
		if (!json_is_integer(v) || number < 0 || number >= MAX_GPUS)
			return error_set(err, ERR_INVALID, "'gpus' must be UUIDs, or numbers below %d", MAX_GPUS);
		if (add_numbered(run, (size_t)number, err))
			return -1;
		a->gpus[a->n_gpus++] = (unsigned)number;
	}
	return 0;
}

static void read_shares(struct report_attempt *a, const json_t *list)
{
	if (json_array_size(list) != a->n_gpus || !a->n_gpus)
		return;
	a->share_s = alloc_zero(a->n_gpus * sizeof *a->share_s);
	for (size_t i = 0; i < a->n_gpus; i++) {
		double s = json_number_value(json_array_get(list, i));
		a->share_s[i] = s >= 0 && s <= MAX_SECONDS ? s : 0;
	}
}

static int read_attempt(struct report_run *run, struct report_attempt *a, const json_t *o, struct error *err)
{
	a->start_s = moment_of(run, o, "start", "start_s");
	a->end_s = moment_of(run, o, "end", "end_s");
	a->mode = text_of(o, json_object_get(o, "mode") ? "mode" : "share");
	a->verdict = text_of(o, "verdict");
	a->evidence = text_of(o, "evidence");
	a->claim_mib = number_of(o, "claim_mib");
	a->peak_mib = number_of(o, "peak_mib");
	a->mean_smact = number_of(o, "mean_smact");
	a->energy_j = number_of(o, "energy_j");
	a->gpu_s = number_of(o, "gpu_s");
	if (read_gpus(run, a, json_object_get(o, "gpus"), err))
		return -1;
	read_shares(a, json_object_get(o, "gpu_share_s"));
	return 0;
}

static int read_task(struct report_run *run, struct report_task *t, const json_t *o, struct error *err)
{
	const json_t *attempts = json_object_get(o, "attempts"), *estimate = json_object_get(o, "estimate");
	size_t n = json_array_size(attempts);
	t->id = text_of(o, "id");
	t->name = text_of(o, json_object_get(o, "name") ? "name" : "workload");
	t->user = text_of(o, "user");
	t->state = text_of(o, "state");
	t->estimator = text_of(estimate, "estimator");
	t->submit_s = moment_of(run, o, "submit_time", "submit_s");
	t->wait_s = number_of(o, "wait_s");
	t->held_s = number_of(o, "held_s");
	t->exec_s = number_of(o, json_object_get(o, "exec_s") ? "exec_s" : "run_s");
	if (!n && !(t->exec_s > 0))	/* it never ran: no run of 0 s */
		t->exec_s = NAN;
	t->lost_s = number_of(o, "lost_s");
	t->jct_s = number_of(o, "jct_s");
	t->claim_mib = number_of(estimate, "claim_mib");
	t->attempts = alloc_zero((n + 1) * sizeof *t->attempts);
	for (size_t i = 0; i < n; i++)
		if (read_attempt(run, &t->attempts[t->n_attempts++], json_array_get(attempts, i), err))
			return error_wrap(err, "task '%.40s'", t->id);
	/* The first attempt's claim is what was expected; later ones know of a failure. Where there was no estimate, it is what is
	 * kept free for such tasks. */
	if (!estimate && n && t->attempts[0].claim_mib > 0)
		t->claim_mib = t->attempts[0].claim_mib;
	return *t->id ? 0 : error_set(err, ERR_INVALID, "a task without an id");
}

int report_add_tasks(struct report_run *run, const json_t *tasks, struct error *err)
{
	size_t i;
	json_t *o;
	if (!json_is_array(tasks))
		return error_set(err, ERR_INVALID, "'tasks' must be a list");
	json_array_foreach(tasks, i, o) {
		alloc_grow(run->tasks, run->n_tasks, run->cap_tasks);
		struct report_task *t = &run->tasks[run->n_tasks++];
		*t = (struct report_task){ 0 };
		if (read_task(run, t, o, err))
			return -1;
	}
	return 0;
}

/* Files ------------------------------------------------------------------------------------------------------------------- */

static void read_gpu_list(struct report_run *run, const json_t *gpus)
{
	size_t i;
	json_t *g;
	json_array_foreach(gpus, i, g) {
		const char *uuid = json_string_value(json_object_get(g, "uuid"));
		const char *number = json_string_value(json_object_get(g, "number"));
		double mib = number_of(g, "mem_total_mib"), index = number_of(g, "index");
		if (!uuid)
			continue;
		unsigned n = report_add_gpu(run, uuid, index >= 0 && index < MAX_GPUS ? (uint32_t)index : 0,
					    json_member_text(g, "name"), mib > 0 ? (uint64_t)mib : 0);
		if (number)
			report_name_gpu(run, n, number);
	}
}

/* One of the lists of a series, at one place. */
static double value_at(const json_t *series, const char *key, size_t i)
{
	const json_t *v = json_array_get(json_object_get(series, key), i);
	return json_is_number(v) ? json_number_value(v) : NAN;
}

static int read_series(struct report_run *run, const json_t *s, struct error *err)
{
	double gpu = number_of(s, "gpu"), process = number_of(s, "process");
	double from_s = moment_of(run, s, "from", "from_s"), step_s = number_of(s, "step_s");
	size_t n = json_array_size(json_object_get(s, "mem_mib"));
	bool of_process = process >= 0 && process < (double)run->n_processes;
	bool of_gpu = gpu >= 0 && gpu < (double)run->n_gpus;
	if ((!of_process && !of_gpu) || !(fabs(from_s) <= MAX_SECONDS) || !(step_s >= 0.001 && step_s <= 1e9) || n > 10000)
		return error_set(err, ERR_INVALID, "'series' is not as a report writes it");
	for (size_t i = 0; i < n; i++) {
		int64_t from_ms = llround(from_s * 1000) + llround(step_s * 1000) * (int64_t)i;
		double v[SERIES_VALUES];
		for (size_t k = 0; k < SERIES_VALUES; k++)
			v[k] = value_at(s, series_name((enum series_value)k), i);
		int64_t to_ms = from_ms + llround(step_s * 1000);
		if (of_process)
			report_add_usage(run, (unsigned)process, from_ms, to_ms, v);
		else
			report_add_means(run, (unsigned)gpu, from_ms, to_ms, v);
	}
	return 0;
}

static int read_run(struct report *r, const char *name, const json_t *o, const json_t *totals, struct error *err)
{
	const char *iso = json_string_value(json_object_get(o, "origin")), *made = json_string_value(json_object_get(o, "made"));
	const char *note = json_string_value(json_object_get(o, "note"));
	int64_t origin_ms = 0;
	size_t i;
	json_t *s;
	if (iso && (clock_parse_iso(iso, &origin_ms) || origin_ms < 0))
		return error_set(err, ERR_INVALID, "'origin' must be an ISO time since 1970");
	struct report_run *run = report_add_run(r, name, origin_ms, err);
	if (!run)
		return -1;
	if (made && (clock_parse_iso(made, &run->made_ms) || run->made_ms < 0))
		return error_set(err, ERR_INVALID, "'made' must be an ISO time since 1970");
	if (note && *note)
		report_note(run, note);
	read_gpu_list(run, json_object_get(o, "gpus"));
	report_set_totals(run, totals);
	if (report_add_tasks(run, json_object_get(o, "tasks"), err))
		return -1;
	const json_t *all = json_object_get(o, "series"), *processes = json_object_get(o, "processes");
	json_array_foreach(processes, i, s)
		if (json_is_string(s) && i < MAX_GPUS)
			report_add_process(run, json_string_value(s));
	json_array_foreach(all, i, s)
		if (read_series(run, s, err))
			return -1;
	return 0;
}

/* Accounts have ISO times and no origin: their first submission will do. */
static json_t *with_origin(const json_t *file)
{
	json_t *copy = json_copy((json_t *)file), *t;
	int64_t first = INT64_MAX, ms;
	size_t i;
	const json_t *tasks = json_object_get(file, "tasks");
	json_array_foreach(tasks, i, t) {
		const char *iso = json_string_value(json_object_get(t, "submit_time"));
		if (iso && !clock_parse_iso(iso, &ms) && ms > 0 && ms < first)
			first = ms;
	}
	if (first != INT64_MAX && !json_object_get(file, "origin"))
		json_object_set_new(copy, "origin", json_time_or_null(first));
	return copy;
}

static bool name_taken(const struct report *r, const char *name)
{
	for (size_t i = 0; i < r->n; i++)
		if (!strcmp(r->runs[i]->name, name))
			return true;
	return false;
}

int report_add_json(struct report *r, const char *name, const json_t *file, struct error *err)
{
	const json_t *runs = json_object_get(file, "runs"), *totals = json_object_get(file, "totals");
	size_t i;
	json_t *o;
	if (json_is_array(runs)) {
		json_array_foreach(runs, i, o) {
			const char *own = json_string_value(json_object_get(o, "name"));
			if (read_run(r, own && !name_taken(r, own) ? own : name, o, json_object_get(o, "totals"), err))
				return -1;
		}
		return 0;
	}
	if (!json_is_array(json_object_get(file, "tasks")))
		return error_set(err, ERR_INVALID, "neither a report's JSON nor the output of 'rad simulate' or 'rad acct' with --json");
	scoped_json *run = with_origin(file);
	return read_run(r, name, run, totals ? totals : file, err);
}
