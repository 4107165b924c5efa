/* SPDX-License-Identifier: MIT
 * The report as it is collected: runs, their GPUs with what these showed over time, and their tasks.
 */
#include "account/report_internal.h"

#include "base/alloc.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/scope.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of files, and of who calls: both may be of another encoding, which is none of a page or of JSON. */
static char *showable(const char *name)
{
	char *text = alloc_string(name);
	json_make_showable(text);
	return text;
}

struct report *report_create(const char *title, int64_t made_ms)
{
	struct report *r = alloc_zero(sizeof *r);
	r->title = showable(title);
	r->made_ms = made_ms;
	return r;
}

static void free_task(struct report_task *t)
{
	for (size_t i = 0; i < t->n_attempts; i++) {
		struct report_attempt *a = &t->attempts[i];
		free(a->gpus);
		free(a->share_s);
		free(a->mode);
		free(a->verdict);
		free(a->evidence);
	}
	free(t->attempts);
	free(t->id);
	free(t->name);
	free(t->user);
	free(t->state);
	free(t->estimator);
}

static void free_run(struct report_run *run)
{
	for (size_t i = 0; i < run->n_gpus; i++) {
		free(run->gpus[i].uuid);
		free(run->gpus[i].name);
		series_clear(&run->gpus[i].series);
	}
	for (size_t i = 0; i < run->n_processes; i++) {
		free(run->processes[i].name);
		series_clear(&run->processes[i].series);
	}
	for (size_t i = 0; i < run->n_tasks; i++)
		free_task(&run->tasks[i]);
	free(run->processes);
	free(run->gpus);
	idmap_free(&run->by_uuid);
	free(run->tasks);
	free(run->name);
	buf_free(&run->note);
	free(run);
}

void report_destroy(struct report *r)
{
	if (!r)
		return;
	for (size_t i = 0; i < r->n; i++)
		free_run(r->runs[i]);
	free(r->title);
	free(r);
}

struct report_run *report_add_run(struct report *r, const char *name, int64_t origin_ms, struct error *err)
{
	if (r->n == REPORT_MAX_RUNS) {
		error_set(err, ERR_INVALID, "a report shows at most %d runs", REPORT_MAX_RUNS);
		return NULL;
	}
	struct report_run *run = r->runs[r->n++] = alloc_zero(sizeof *run);
	run->name = showable(name);
	run->origin_ms = origin_ms;
	run->made_ms = r->made_ms;
	for (size_t i = 0; i < REPORT_TOTAL_COUNT; i++)
		run->totals[i] = NAN;
	return run;
}

void report_note(struct report_run *run, const char *text)
{
	buf_printf(&run->note, "%s%s", run->note.len ? "; " : "", text);
}

/* GPUs -------------------------------------------------------------------------------------------------------------------- */

/* By its hash: a file may have tens of thousands, and name each in every attempt. */
static struct report_gpu *find_gpu(struct report_run *run, const char *uuid)
{
	size_t at = (size_t)(uintptr_t)idmap_get(&run->by_uuid, hash_key(uuid));
	if (!at || !strcmp(run->gpus[at - 1].uuid, uuid))
		return at ? &run->gpus[at - 1] : NULL;
	for (size_t i = 0; i < run->n_gpus; i++)	/* two of one hash */
		if (!strcmp(run->gpus[i].uuid, uuid))
			return &run->gpus[i];
	return NULL;
}

unsigned report_add_gpu(struct report_run *run, const char *uuid, uint32_t index, const char *name, uint64_t mem_total_mib)
{
	struct report_gpu *g = find_gpu(run, uuid);
	if (!g) {
		alloc_grow(run->gpus, run->n_gpus, run->cap_gpus);
		g = &run->gpus[run->n_gpus++];
		*g = (struct report_gpu){ .uuid = alloc_string(uuid), .index = index };
		if (!idmap_get(&run->by_uuid, hash_key(uuid)))
			idmap_put(&run->by_uuid, hash_key(uuid), (void *)(uintptr_t)run->n_gpus);
	}
	if (name && *name && !g->name)
		g->name = alloc_string(name);
	if (mem_total_mib)
		g->mem_total_mib = mem_total_mib;
	return (unsigned)(g - run->gpus);
}

void report_name_gpu(struct report_run *run, unsigned gpu, const char *number)
{
	if (strspn(number, "0123456789:") == strlen(number))
		snprintf(run->gpus[gpu].number, sizeof run->gpus[gpu].number, "%s", number);
}

const char *report_gpu_number(const struct report_gpu *g, char text[GPU_NUMBER_LEN])
{
	if (*g->number)
		return g->number;
	return reading_number(g->index, false, 0, text);
}

static void stood_until(struct report_gpu *g, int64_t t_ms)
{
	if (g->read && t_ms > g->last_ms)
		series_add(&g->series, g->last_ms, t_ms, g->last);
}

void report_add_reading(struct report_run *run, int64_t t_ms, const struct gpu_reading *r)
{
	unsigned n = report_add_gpu(run, r->uuid, r->index, r->name, r->valid & GPU_MEM_TOTAL ? r->mem_total_mib : 0);
	struct report_gpu *g = &run->gpus[n];
	reading_number(r->index, r->mig, r->instance, g->number);
	stood_until(g, t_ms);
	g->read = true;
	g->last_ms = t_ms;
	series_of_reading(r, g->last);
}

void report_add_means(struct report_run *run, unsigned gpu, int64_t from_ms, int64_t to_ms, const double values[SERIES_VALUES])
{
	if (gpu < run->n_gpus)
		series_add(&run->gpus[gpu].series, from_ms, to_ms, values);
}

unsigned report_add_process(struct report_run *run, const char *name)
{
	alloc_grow(run->processes, run->n_processes, run->cap_processes);
	run->processes[run->n_processes] = (struct report_process){ .name = showable(name) };
	return (unsigned)run->n_processes++;
}

void report_add_usage(struct report_run *run, unsigned process, int64_t from_ms, int64_t to_ms,
		      const double values[SERIES_VALUES])
{
	if (process < run->n_processes)
		series_add(&run->processes[process].series, from_ms, to_ms, values);
}

void report_end(struct report_run *run, int64_t t_ms)
{
	for (size_t i = 0; i < run->n_gpus; i++) {
		stood_until(&run->gpus[i], t_ms);
		run->gpus[i].last_ms = t_ms;
	}
}

/* Sums -------------------------------------------------------------------------------------------------------------------- */

const char *const report_total_names[REPORT_TOTAL_COUNT] = {
#define X(name) #name,
	REPORT_TOTALS(X)
#undef X
};

void report_set_totals(struct report_run *run, const json_t *totals)
{
	for (size_t i = 0; i < REPORT_TOTAL_COUNT; i++) {
		const json_t *v = json_object_get(totals, report_total_names[i]);
		if (json_is_number(v))
			run->totals[i] = json_number_value(v);
	}
}

static bool is_oom(const struct report_attempt *a)
{
	return !strcmp(a->verdict, "oom");
}

static double plus(double sum, double v) { return isnan(v) ? sum : isnan(sum) ? v : sum + v; }

struct report_took report_took(const struct report_task *t)
{
	struct report_took sum = { NAN, NAN, NAN, 0 };
	for (size_t i = 0; i < t->n_attempts; i++) {
		const struct report_attempt *a = &t->attempts[i];
		sum.peak_mib = fmax(sum.peak_mib, a->peak_mib);
		sum.energy_j = plus(sum.energy_j, a->energy_j);
		sum.mean_smact = isnan(a->mean_smact) ? sum.mean_smact : a->mean_smact;
		sum.ooms += is_oom(a);
	}
	return sum;
}

/* Means are of these: that a task began, and how long it took in the end, is known. */
static bool began_and_ended(const struct report_task *t)
{
	enum task_state state;
	bool lives = !task_state_parse(t->state, &state) && !task_state_terminal(state);	/* runs, or waits to run again */
	return !isnan(t->exec_s) && !lives;
}

static double mean_of(const struct report_run *run, size_t offset)
{
	double sum = 0, n = 0;
	for (size_t i = 0; i < run->n_tasks; i++) {
		double v = *(const double *)((const char *)&run->tasks[i] + offset);
		if (!isnan(v) && began_and_ended(&run->tasks[i]))
			sum += v, n++;
	}
	return n > 0 ? sum / n : NAN;
}

/* From the first submission to the last end. */
static double total_s(const struct report_run *run)
{
	double first = NAN, last = NAN;
	for (size_t i = 0; i < run->n_tasks; i++) {
		const struct report_task *t = &run->tasks[i];
		first = fmin(first, t->submit_s);
		for (size_t k = 0; k < t->n_attempts; k++)
			last = fmax(last, t->attempts[k].end_s);
	}
	return last - first;
}

double report_total(const struct report_run *run, enum report_total which)
{
	double sum = NAN, ooms = 0;
	if (!isnan(run->totals[which]))
		return run->totals[which];
	for (size_t i = 0; i < run->n_tasks; i++) {
		struct report_took took = report_took(&run->tasks[i]);
		sum = plus(sum, took.energy_j);
		ooms += took.ooms;
	}
	switch (which) {
	case REPORT_trace_total_s: return total_s(run);
	case REPORT_avg_wait_s: return mean_of(run, offsetof(struct report_task, wait_s));
	case REPORT_avg_exec_s: return mean_of(run, offsetof(struct report_task, exec_s));
	case REPORT_avg_jct_s: return mean_of(run, offsetof(struct report_task, jct_s));
	case REPORT_oom: return ooms;
	case REPORT_energy_j: return sum;
	default: return NAN;
	}
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct report_user *)a)->name, ((const struct report_user *)b)->name);
}

struct report_user *report_users(const struct report_run *run, size_t *n)
{
	struct report_user *list = alloc_zero((run->n_tasks + 1) * sizeof *list);
	scoped_free struct report_gpu_time *times = report_gpu_times(run);
	size_t merged = 0;
	for (size_t i = 0; i < run->n_tasks; i++) {
		const struct report_task *t = &run->tasks[i];
		struct report_took took = report_took(t);
		bool counts = began_and_ended(t);
		list[i] = (struct report_user){ t->user, 1, !strcmp(t->state, "COMPLETED"), took.ooms, counts ? plus(0, t->wait_s) : 0,
						counts ? t->exec_s : 0, counts ? plus(0, t->jct_s) : 0, took.energy_j,
						times[i].gpu_s, times[i].share_s, counts };
	}
	qsort(list, run->n_tasks, sizeof *list, by_name);
	for (size_t i = 0; i < run->n_tasks; i++) {
		struct report_user *u = &list[merged ? merged - 1 : 0];
		if (!merged || strcmp(u->name, list[i].name)) {
			list[merged++] = list[i];
			continue;
		}
		u->tasks++;
		u->completed += list[i].completed;
		u->ooms += list[i].ooms;
		u->wait_s += list[i].wait_s;
		u->exec_s += list[i].exec_s;
		u->began += list[i].began;
		u->jct_s += list[i].jct_s;
		u->energy_j = plus(u->energy_j, list[i].energy_j);
		u->gpu_s += list[i].gpu_s;
		u->share_s += list[i].share_s;
	}
	*n = merged;
	return list;
}
