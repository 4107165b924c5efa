/* SPDX-License-Identifier: MIT
 * Workloads and traces from CSV. Every number is bounded, so that sums over a trace stay far from the limits of the types.
 */
#include "sim/trace.h"

#include "base/alloc.h"
#include "base/hash.h"
#include "base/scope.h"
#include "base/units.h"
#include "sim/csv.h"
#include "task/spec.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_S 1e7		/* of one task: about four months */
#define MOST_SUBMIT_S 1e9	/* of a trace: about thirty years */
#define MOST_MIB 16777216.0	/* 16T */
#define MOST_TASKS 10000000

const char *const sim_class_names[SIM_CLASSES] = { "light", "medium", "heavy" };
const char *const sim_estimator_columns[SIM_ESTIMATORS] = { "horus_mib", "faketensor_mib", "gpumemnet_mib" };

enum column {
	NAME, GPUS, SOLO, MEM, GRACT, SMACT, N_NEEDED,
	ESTIMATES = N_NEEDED, WATTS = ESTIMATES + SIM_ESTIMATORS, START, DECLARED, NEED, KERNELS, CLASS, N_COLUMNS,
};

static const char *column_name(unsigned i)
{
	static const char *const names[] = { "workload", "gpus", "solo_s", "mem_mib", "gract", "smact" };
	static const char *const more[] = { "watts", "start_s", "declared_mib", "need_mib", "kernels_s", "class" };
	return i < N_NEEDED ? names[i] : i < WATTS ? sim_estimator_columns[i - ESTIMATES] : more[i - WATTS];
}

/* One "ours=theirs" of --map. */
static int map_column(char *pair, const char *theirs[N_COLUMNS], struct error *err)
{
	char *equals = strchr(pair, '=');
	if (!equals || !equals[1])
		return error_set(err, ERR_INVALID, "'%.60s': write COLUMN=NAME, such as solo_s=solo_s_a100", pair);
	*equals = 0;
	for (unsigned i = 0; i < N_COLUMNS; i++)
		if (!strcmp(pair, column_name(i))) {
			theirs[i] = equals + 1;
			return 0;
		}
	return error_set(err, ERR_INVALID, "'%.60s' is no column that is read; those are workload gpus solo_s mem_mib gract smact "
			 "horus_mib faketensor_mib gpumemnet_mib watts start_s declared_mib need_mib kernels_s class", pair);
}

/* `words` is cut up and must outlive `theirs`. */
static int read_map(char *words, const char *theirs[N_COLUMNS], struct error *err)
{
	for (unsigned i = 0; i < N_COLUMNS; i++)
		theirs[i] = column_name(i);
	for (char *rest = words, *pair; rest && (pair = strsep(&rest, ","));)
		if (*pair && map_column(pair, theirs, err))
			return error_wrap(err, "--map");
	return 0;
}

static int find_columns(const struct csv *c, const char *const theirs[N_COLUMNS], int at[N_COLUMNS], struct error *err)
{
	for (unsigned i = 0; i < N_COLUMNS; i++) {
		at[i] = csv_column(c, theirs[i]);
		bool asked = theirs[i] != column_name(i);
		if (at[i] >= 0 || (i >= N_NEEDED && !asked))
			continue;
		return error_set(err, ERR_INVALID, "%s:1: has no column '%.60s'%s%s%s", c->name, theirs[i],
				 asked ? "" : "; --map ", asked ? "" : column_name(i), asked ? "" : "=NAME reads it under another name");
	}
	return 0;
}

static int read_number(const struct csv *c, const int at[N_COLUMNS], unsigned i, double min, double max, double *v,
		       struct error *err)
{
	if (!units_parse_double(c->fields[at[i]], min, max, v, err))
		return 0;
	error_wrap(err, "%s", column_name(i));
	return csv_wrong(c, err);
}

static bool is_empty(const struct csv *c, const int at[N_COLUMNS], unsigned i)
{
	return at[i] < 0 || !*c->fields[at[i]];
}

static int read_figures(struct csv *c, const int at[N_COLUMNS], struct sim_workload *w, struct error *err)
{
	static const struct { double min, max; } range[N_NEEDED] = {
		[GPUS] = { 1, SPEC_MAX_GPUS }, [SOLO] = { 0.001, MOST_S }, [MEM] = { 1, MOST_MIB }, [GRACT] = { 0, 1 }, [SMACT] = { 0, 1 } };
	double v[N_COLUMNS] = { 0 };
	for (unsigned i = GPUS; i < CLASS; i++) {
		if (is_empty(c, at, i)) {
			w->missing = i < N_NEEDED && !w->missing ? column_name(i) : w->missing;
			continue;
		}
		if (read_number(c, at, i, i < N_NEEDED ? range[i].min : 0, i < N_NEEDED ? range[i].max : MOST_MIB, &v[i], err))
			return -1;
	}
	if (floor(v[GPUS]) < v[GPUS]) {
		error_set(err, ERR_INVALID, "gpus: '%.20s' is not a whole number", c->fields[at[GPUS]]);
		return csv_wrong(c, err);
	}
	if (v[START] > 0 && v[START] >= v[SOLO] && !w->missing) {
		error_set(err, ERR_INVALID, "start_s: %g is not below solo_s %g, of which it is a part", v[START], v[SOLO]);
		return csv_wrong(c, err);
	}
	if (v[NEED] > v[MEM] && !w->missing) {
		error_set(err, ERR_INVALID, "need_mib: %g is above mem_mib %g, which it takes where nothing limits it", v[NEED], v[MEM]);
		return csv_wrong(c, err);
	}
	w->gpus = (unsigned)v[GPUS];
	w->solo_ms = (int64_t)ceil(v[SOLO] * 1000);
	w->start_ms = (int64_t)(v[START] * 1000);
	w->mem_mib = (uint64_t)ceil(v[MEM]);
	w->need_mib = (uint64_t)ceil(v[NEED]);
	w->declared_mib = (uint64_t)ceil(v[DECLARED]);
	w->gract = v[GRACT];
	w->smact = v[SMACT];
	w->watts = v[WATTS];
	w->kernels = v[KERNELS];
	for (unsigned i = 0; i < SIM_ESTIMATORS; i++)
		w->estimates_mib[i] = (uint64_t)ceil(v[ESTIMATES + i]);
	return 0;
}

static int read_class(struct csv *c, const int at[N_COLUMNS], struct sim_workload *w, struct error *err)
{
	w->class = -1;
	if (is_empty(c, at, CLASS))
		return 0;
	for (int i = 0; i < SIM_CLASSES; i++)
		if (!strcmp(c->fields[at[CLASS]], sim_class_names[i]))
			w->class = i;
	if (w->class >= 0)
		return 0;
	error_set(err, ERR_INVALID, "class: '%.40s' is none of light, medium, heavy", c->fields[at[CLASS]]);
	return csv_wrong(c, err);
}

/* Indices are kept, not pointers: the list moves while it grows. */
static size_t find_index(const struct sim_workloads *w, const char *name)
{
	size_t at = (size_t)(uintptr_t)idmap_get(&w->by_name, hash_key(name));
	if (!at || !strcmp(w->list[at - 1].name, name))
		return at ? at - 1 : w->n;
	for (at = 0; at < w->n && strcmp(w->list[at].name, name);)	/* two of one hash */
		at++;
	return at;
}

const struct sim_workload *sim_workload_find(const struct sim_workloads *w, const char *name)
{
	size_t at = find_index(w, name);
	return at < w->n ? &w->list[at] : NULL;
}

static int add_workload(struct sim_workloads *w, struct csv *c, const int at[N_COLUMNS], struct error *err)
{
	const char *name = c->fields[at[NAME]];
	struct sim_workload one = { .line = c->line };
	if (!*name || strlen(name) > 200) {
		error_set(err, ERR_INVALID, "a workload needs a name of at most 200 bytes");
		return csv_wrong(c, err);
	}
	const struct sim_workload *other = sim_workload_find(w, name);
	if (other) {
		error_set(err, ERR_INVALID, "workload '%.60s' is in line %zu already", name, other->line);
		return csv_wrong(c, err);
	}
	if (read_figures(c, at, &one, err) || read_class(c, at, &one, err))
		return -1;
	one.name = alloc_string(name);
	alloc_grow(w->list, w->n, w->cap);
	w->list[w->n++] = one;
	if (!idmap_get(&w->by_name, hash_key(name)))
		idmap_put(&w->by_name, hash_key(name), (void *)(uintptr_t)w->n);
	return 0;
}

static int read_workloads(struct sim_workloads *w, struct csv *c, const char *const theirs[N_COLUMNS], struct error *err)
{
	int at[N_COLUMNS], rc;
	if (find_columns(c, theirs, at, err))
		return -1;
	for (unsigned i = 0; i < SIM_ESTIMATORS; i++)
		w->has_estimates[i] = at[ESTIMATES + i] >= 0;
	while ((rc = csv_next(c, err)) > 0)
		if (add_workload(w, c, at, err))
			return -1;
	if (!rc && !w->n)
		return error_set(err, ERR_INVALID, "%s: has a header and no workload", c->name);
	return rc;
}

static const char catalogue[] =
#include "workloads.csv.inc"
;

int sim_workloads_read(struct sim_workloads *w, const char *path, const char *map, struct error *err)
{
	scoped_free char *words = alloc_string_or_null(map);
	const char *theirs[N_COLUMNS];
	struct csv c;
	*w = (struct sim_workloads){ .path = alloc_string(path) };
	if (read_map(words, theirs, err))
		return -1;
	bool ours = !strcmp(path, SIM_CATALOGUE);
	int rc = ours ? csv_open_text(&c, SIM_CATALOGUE, catalogue, sizeof catalogue - 1, err) : csv_open(&c, path, err);
	if (!rc)
		rc = read_workloads(w, &c, theirs, err);
	csv_clear(&c);
	return rc;
}

void sim_workloads_clear(struct sim_workloads *w)
{
	for (size_t i = 0; i < w->n; i++)
		free(w->list[i].name);
	free(w->list);
	free(w->path);
	idmap_free(&w->by_name);
	*w = (struct sim_workloads){ 0 };
}

/* Length of the common beginning: enough to find a typing error in a name like resnet18_cifar100_20e_1. */
static size_t likeness(const char *a, const char *b)
{
	size_t n = 0;
	while (a[n] && a[n] == b[n])
		n++;
	return n;
}

const struct sim_workload *sim_workload_need(const struct sim_workloads *w, const char *name, struct error *err)
{
	const struct sim_workload *found = sim_workload_find(w, name), *near = NULL;
	size_t best = 2;
	if (found && !found->missing)
		return found;
	if (found) {
		error_set(err, ERR_INVALID, "workload '%.60s' has no %s in %s:%zu", name, found->missing, w->path, found->line);
		return NULL;
	}
	for (size_t i = 0; i < w->n; i++)
		if (likeness(name, w->list[i].name) > best)
			best = likeness(name, w->list[i].name), near = &w->list[i];
	error_set(err, ERR_NOT_FOUND, "no workload is called '%.60s' in %s%s%s%s", name, w->path, near ? "; did you mean '" : "",
		  near ? near->name : "", near ? "'?" : "");
	return NULL;
}

static int add_arrival(struct sim_trace *t, const struct csv *c, int submit, int workload, const struct sim_workloads *w,
		       struct error *err)
{
	double at_s;
	if (units_parse_double(c->fields[submit], 0, MOST_SUBMIT_S, &at_s, err)) {
		error_wrap(err, "submit_s");
		return csv_wrong(c, err);
	}
	const struct sim_workload *of = sim_workload_need(w, c->fields[workload], err);
	if (!of)
		return csv_wrong(c, err);
	int64_t at_ms = (int64_t)floor(at_s * 1000 + 0.5);
	if (t->n && at_ms < t->list[t->n - 1].submit_ms) {
		error_set(err, ERR_INVALID, "submit_s %.20s is before that of line %u: a trace is in the order of its times",
			  c->fields[submit], t->list[t->n - 1].line);
		return csv_wrong(c, err);
	}
	if (t->n == MOST_TASKS) {
		error_set(err, ERR_INVALID, "a trace has at most %d tasks", MOST_TASKS);
		return csv_wrong(c, err);
	}
	alloc_grow(t->list, t->n, t->cap);
	t->list[t->n++] = (struct sim_arrival){ at_ms, (uint32_t)(of - w->list), (uint32_t)c->line };
	return 0;
}

static int read_trace(struct sim_trace *t, struct csv *c, const struct sim_workloads *w, struct error *err)
{
	int submit = csv_column(c, "submit_s"), workload = csv_column(c, "workload"), rc;
	if (submit < 0 || workload < 0)
		return error_set(err, ERR_INVALID, "%s:1: has no column '%s'; a trace has submit_s and workload", c->name,
				 submit < 0 ? "submit_s" : "workload");
	while ((rc = csv_next(c, err)) > 0)
		if (add_arrival(t, c, submit, workload, w, err))
			return -1;
	if (!rc && !t->n)
		return error_set(err, ERR_INVALID, "%s: has a header and no task", c->name);
	return rc;
}

int sim_trace_read(struct sim_trace *t, const char *path, const struct sim_workloads *w, struct error *err)
{
	struct csv c;
	*t = (struct sim_trace){ .path = alloc_string(path) };
	int rc = csv_open(&c, path, err);
	if (!rc)
		rc = read_trace(t, &c, w, err);
	csv_clear(&c);
	return rc;
}

void sim_trace_write(const struct sim_trace *t, const struct sim_workloads *w, struct buf *out)
{
	buf_add_text(out, "submit_s,workload\n");
	for (size_t i = 0; i < t->n; i++) {
		const char *name = w->list[t->list[i].workload].name;
		int64_t ms = t->list[i].submit_ms;
		buf_printf(out, "%lld", (long long)ms / 1000);
		if (ms % 1000)
			buf_printf(out, ".%03d", (int)(ms % 1000));
		buf_add_text(out, ",");
		if (name[strcspn(name, ",\"\r\n")]) {
			buf_add_text(out, "\"");
			for (const char *p = name; *p; p++)
				buf_printf(out, *p == '"' ? "\"\"" : "%c", *p);
			buf_add_text(out, "\"");
		} else {
			buf_add_text(out, name);
		}
		buf_add_text(out, "\n");
	}
}

void sim_trace_clear(struct sim_trace *t)
{
	free(t->list);
	free(t->path);
	*t = (struct sim_trace){ 0 };
}
