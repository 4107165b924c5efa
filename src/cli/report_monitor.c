/* SPDX-License-Identifier: MIT
 * See report_monitor.h.
 */
#include "cli/report_monitor.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/scope.h"
#include "base/units.h"
#include "monitor/rows.h"
#include "sim/csv.h"

#include <math.h>
#include <string.h>

#define MAX_PROCESSES 10000
#define MAX_GPUS 1024

/* Figures of a process's lines: sums over them, and the largest. */
struct report_watched {
	int64_t pid;
	char *name, *task, *gpus;	/* owned */
	unsigned number;		/* in the run */
	int64_t first_ms, last_ms;
	double mem_mib, rss_mib;	/* NaN: not known */
	double cores, read_mib_s, written_mib_s;
	unsigned lines;
};

struct report_watching {
	struct report_run *run;
	struct csv csv;
	int time, gpu, pid, task, program, cores, rss, read, written, mem;	/* columns; -1: there is none */
	int usage[SERIES_VALUES];	/* those of SERIES_CORES and the values behind it */
	int *places;		/* of rows_columns; owned */
	int64_t origin_ms, last_ms;	/* what the clock shows at 0, moved where it was set back; from there */
	struct report_watched *list;
	size_t n, cap;
	/* By the GPU's number in the run: when it was read last, and what it used. */
	struct { int64_t ms; bool read; struct reading_energy energy; } gpus[MAX_GPUS];
	double smact, smact_lines;
};

static double number_at(const struct report_watching *w, int column)
{
	double v;
	const char *text = column < 0 ? "" : w->csv.fields[column];
	return *text && !units_parse_double(text, -1e18, 1e18, &v, NULL) ? v : NAN;
}

static int find_columns(struct report_watching *w, struct error *err)
{
	const struct { const char *name; int *place; } columns[] = {
		{ "time", &w->time }, { "gpu", &w->gpu }, { "pid", &w->pid }, { "task", &w->task }, { "program", &w->program },
		{ "cpu_cores", &w->cores }, { "rss_mib", &w->rss }, { "read_mib_s", &w->read }, { "write_mib_s", &w->written },
		{ "mem_used_mib", &w->mem },
	};
	for (size_t i = 0; i < COUNT_OF(columns); i++) {
		*columns[i].place = csv_column(&w->csv, columns[i].name);
		if (*columns[i].place < 0)
			return error_set(err, ERR_INVALID, "%s: has no column '%s': it is not what rad monitor writes", w->csv.name,
					 columns[i].name);
	}
	w->places = alloc_zero(rows_n_columns * sizeof *w->places);
	for (size_t i = 0; i < rows_n_columns; i++)
		w->places[i] = csv_column(&w->csv, rows_columns[i].name);
	for (size_t v = SERIES_OF_GPUS; v < SERIES_VALUES; v++)
		w->usage[v] = csv_column(&w->csv, series_name((enum series_value)v));
	return 0;
}

/* A line speaks for the time since the one before of that GPU. */
static void add_reading(struct report_watching *w, int64_t t_ms, const struct gpu_reading *r)
{
	double values[SERIES_VALUES];
	unsigned gpu = report_add_gpu(w->run, r->uuid, r->index, "", r->valid & GPU_MEM_TOTAL ? r->mem_total_mib : 0);
	if (gpu >= MAX_GPUS)
		return;
	series_of_reading(r, values);
	if (w->gpus[gpu].read)
		report_add_means(w->run, gpu, w->gpus[gpu].ms, t_ms, values);
	w->gpus[gpu].read = true;
	w->gpus[gpu].ms = t_ms;
	reading_energy_add(&w->gpus[gpu].energy, r);
	if (r->valid & GPU_SMACT) {
		w->smact += r->smact;
		w->smact_lines++;
	}
}

/* Both columns of a pair make its bit; where one of them is missing, neither is known. */
static void add_gpu(struct report_watching *w, int64_t t_ms)
{
	const char *name = w->csv.fields[w->gpu];
	struct gpu_reading r = { .valid = ~0u };
	int64_t index;
	if (units_parse_int(name, 0, MAX_GPUS - 1, &index, NULL)) {
		snprintf(r.uuid, sizeof r.uuid, "%s", name);
		json_make_showable(r.uuid);
		r.mig = true;
	} else {
		snprintf(r.uuid, sizeof r.uuid, "#%d", (int)index);
		r.index = (uint32_t)index;
	}
	for (size_t i = 0; i < rows_n_columns; i++) {
		const struct rows_column *c = &rows_columns[i];
		double v = number_at(w, w->places[i]);
		void *at = (char *)&r + c->member;
		if (isnan(v) || v < 0)
			r.valid &= ~c->bit;
		else if (c->form == ROWS_MIB)
			*(uint64_t *)at = (uint64_t)fmin(v, 1e15);
		else
			*(double *)at = v;
	}
	add_reading(w, t_ms, &r);
}

static struct report_watched *find_process(struct report_watching *w, int64_t pid, int64_t t_ms)
{
	for (size_t i = 0; i < w->n; i++)
		if (w->list[i].pid == pid)
			return &w->list[i];
	if (w->n == MAX_PROCESSES)
		return NULL;
	alloc_grow(w->list, w->n, w->cap);
	scoped_free char *name = alloc_printf("%s (%lld)", w->csv.fields[w->program], (long long)pid);
	w->list[w->n] = (struct report_watched){ .pid = pid, .number = report_add_process(w->run, name), .first_ms = t_ms,
		.last_ms = t_ms, .mem_mib = NAN, .rss_mib = NAN,
		.name = alloc_string(w->csv.fields[w->program]), .task = alloc_string(w->csv.fields[w->task]),
		.gpus = alloc_string("") };
	return &w->list[w->n++];
}

static void add_known(double *sum, double v)
{
	*sum += isnan(v) ? 0 : v;
}

static void add_process(struct report_watching *w, int64_t pid, int64_t t_ms)
{
	struct report_watched *p = find_process(w, pid, t_ms);
	if (!p)
		return;
	double values[SERIES_VALUES];
	for (size_t v = 0; v < SERIES_VALUES; v++)
		values[v] = v < SERIES_OF_GPUS ? NAN : number_at(w, w->usage[v]);
	report_add_usage(w->run, p->number, p->last_ms, t_ms, values);
	p->last_ms = t_ms;
	p->lines++;
	if (strlen(w->csv.fields[w->gpu]) > strlen(p->gpus)) {
		free(p->gpus);
		p->gpus = alloc_string(w->csv.fields[w->gpu]);
	}
	p->mem_mib = fmax(p->mem_mib, number_at(w, w->mem));
	p->rss_mib = fmax(p->rss_mib, number_at(w, w->rss));
	add_known(&p->cores, number_at(w, w->cores));
	add_known(&p->read_mib_s, number_at(w, w->read));
	add_known(&p->written_mib_s, number_at(w, w->written));
}

static int read_line(struct report_watching *w, struct report *r, const char *name, struct error *err)
{
	int64_t wall_ms, pid;
	const char *text = w->csv.fields[w->pid];
	if (!strcmp(w->csv.fields[w->time], w->csv.columns[w->time]))	/* a header: several runs were written into the file */
		return 0;
	if (clock_parse_iso(w->csv.fields[w->time], &wall_ms))
		return error_set(err, ERR_INVALID, "'%.40s' is no time", w->csv.fields[w->time]);
	if (!w->run) {
		w->origin_ms = wall_ms;
		w->run = report_add_run(r, name, wall_ms, err);
		if (!w->run)
			return -1;
	}
	/* Where the clock was set back, time goes on from where it had come to. */
	if (wall_ms - w->origin_ms < w->last_ms)
		w->origin_ms = wall_ms - w->last_ms;
	w->last_ms = wall_ms - w->origin_ms;
	if (!*text)
		add_gpu(w, w->last_ms);
	else if (units_parse_int(text, 1, INT32_MAX, &pid, err))
		return error_wrap(err, "pid");
	else
		add_process(w, pid, w->last_ms);
	return 0;
}

static json_t *task_of(const struct report_watched *p)
{
	scoped_free char *id = alloc_printf("%lld", (long long)p->pid), *list = alloc_string(p->gpus);
	char *rest = list, *word;
	json_t *gpus = json_array();
	while ((word = strsep(&rest, " ")))
		if (*word) {
			scoped_free char *uuid = alloc_printf("%s%s", strchr(word, '-') ? "" : "#", word);
			json_array_append_new(gpus, json_text(uuid));
		}
	scoped_free char *did = alloc_printf("%.2f cores on average, %.0f MiB of memory at most, disks: %.1f MiB/s read, %.1f MiB/s "
					     "written", p->cores / p->lines, isnan(p->rss_mib) ? 0 : p->rss_mib,
					     p->read_mib_s / p->lines, p->written_mib_s / p->lines);
	return json_pack("{so, so, ss, s[{so, so, so, ss, so, ss}]}", "id", json_text(*p->task ? p->task : id), "name",
			 json_text(p->name), "state", "watched", "attempts", "start_s", json_round3((double)p->first_ms / 1000), "end_s",
			 json_round3((double)p->last_ms / 1000), "gpus", gpus, "verdict", "ok", "peak_mib", json_round3(p->mem_mib),
			 "evidence", did);
}

static void set_totals(struct report_watching *w)
{
	double energy_j = 0;
	for (size_t i = 0; i < MAX_GPUS; i++)
		energy_j += w->gpus[i].energy.used_j;
	scoped_json *totals = json_pack("{so, so, so}", "trace_total_s", json_round3((double)w->last_ms / 1000), "energy_j",
		json_round3(energy_j > 0 ? energy_j : NAN), "mean_smact", json_round3(w->smact / w->smact_lines));
	report_set_totals(w->run, totals);
}

static int finish(struct report_watching *w, struct error *err)
{
	scoped_json *tasks = json_array();
	if (!w->run)
		return error_set(err, ERR_INVALID, "%s: nothing was measured", w->csv.name);
	for (size_t i = 0; i < w->n; i++)
		json_array_append_new(tasks, task_of(&w->list[i]));
	set_totals(w);
	return report_add_tasks(w->run, tasks, err);
}

int report_monitor_add(struct report *r, const char *name, const char *path, struct error *err)
{
	struct report_watching w = { 0 };
	int rc = csv_open(&w.csv, path, err) || find_columns(&w, err) ? -1 : 1;
	while (rc > 0 && (rc = csv_next(&w.csv, err)) > 0)
		if (read_line(&w, r, name, err)) {
			csv_wrong(&w.csv, err);
			rc = -1;
		}
	if (!rc)
		rc = finish(&w, err);
	for (size_t i = 0; i < w.n; i++) {
		free(w.list[i].name);
		free(w.list[i].task);
		free(w.list[i].gpus);
	}
	free(w.list);
	free(w.places);
	csv_clear(&w.csv);
	return rc;
}
