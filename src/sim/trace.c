/* SPDX-License-Identifier: MIT
 * Workloads and traces from CSV. Every number is bounded, so that sums over a trace stay far from the limits of the types.
 */
#include "sim/trace.h"

#include "base/alloc.h"
#include "base/hash.h"
#include "base/units.h"
#include "sim/csv.h"
#include "task/spec.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MOST_S 1e7		/* of one task: about four months */
#define MOST_SUBMIT_S 1e9	/* of a trace: about thirty years */
#define MOST_MIB 16777216.0	/* 16T */
#define MOST_TASKS 10000000
#define MOST_CPUS 65536

const char *const sim_class_names[SIM_CLASSES] = { "light", "medium", "heavy" };

enum column {
	NAME, GPUS, SOLO, MEM, GRACT, SMACT, N_NEEDED,
	ESTIMATES = N_NEEDED, WATTS = ESTIMATES + SIM_ESTIMATORS, START, DECLARED, NEED, KERNELS, CPUS, CLOCK, CLASS, N_COLUMNS,
};

static const char *const column_names[N_COLUMNS] = {
	"workload", "gpus", "solo_s", "mem_mib", "gract", "smact", "horus_mib", "faketensor_mib", "gpumemnet_mib",
	"watts", "start_s", "declared_mib", "need_mib", "kernels_s", "cpus", "clock_s", "class",
};
const char *const *const sim_estimator_columns = column_names + ESTIMATES;

static int read_number(const struct csv *c, const int at[N_COLUMNS], unsigned i, double min, double max, double *v,
		       struct error *err)
{
	if (!units_parse_double(c->fields[at[i]], min, max, v, err))
		return 0;
	error_wrap(err, "%s", column_names[i]);
	return csv_wrong(c, err);
}

static bool is_empty(const struct csv *c, const int at[N_COLUMNS], unsigned i)
{
	return at[i] < 0 || !*c->fields[at[i]];
}

static int check_whole(const struct csv *c, const int at[N_COLUMNS], unsigned i, double v, double most, struct error *err)
{
	if (!(floor(v) < v) && v <= most)
		return 0;
	error_set(err, ERR_INVALID, "%s: '%.20s' is not a whole number up to %g", column_names[i], c->fields[at[i]], most);
	return csv_wrong(c, err);
}

static int read_figures(struct csv *c, const int at[N_COLUMNS], struct sim_workload *w, struct error *err)
{
	static const struct { double min, max; } range[N_NEEDED] = {
		[GPUS] = { 0, SPEC_MAX_GPUS }, [SOLO] = { 0.001, MOST_S }, [MEM] = { 1, MOST_MIB }, [GRACT] = { 0, 1 }, [SMACT] = { 0, 1 } };
	double v[N_COLUMNS] = { 0 };
	for (unsigned i = GPUS; i < CLASS; i++) {
		bool on_cpu = !is_empty(c, at, GPUS) && !(v[GPUS] > 0), needed = i < (on_cpu ? MEM : N_NEEDED);
		if (is_empty(c, at, i)) {
			w->missing = needed && !w->missing ? column_names[i] : w->missing;
			continue;
		}
		if (read_number(c, at, i, needed ? range[i].min : 0, i < N_NEEDED ? range[i].max : MOST_MIB, &v[i], err))
			return -1;
	}
	if (check_whole(c, at, GPUS, v[GPUS], SPEC_MAX_GPUS, err) || check_whole(c, at, CPUS, v[CPUS], MOST_CPUS, err))
		return -1;
	if (v[START] > 0 && v[START] >= v[SOLO] && !w->missing) {
		error_set(err, ERR_INVALID, "start_s: %g is not below solo_s %g, of which it is a part", v[START], v[SOLO]);
		return csv_wrong(c, err);
	}
	if (v[NEED] > v[MEM] && !w->missing) {
		error_set(err, ERR_INVALID, "need_mib: %g is above mem_mib %g, which it takes where nothing limits it", v[NEED], v[MEM]);
		return csv_wrong(c, err);
	}
	w->gpus = (unsigned)v[GPUS];
	w->cpus = (unsigned)v[CPUS];
	w->solo_ms = (int64_t)ceil(v[SOLO] * 1000);
	w->start_ms = (int64_t)(v[START] * 1000);
	w->clock_ms = (int64_t)ceil(v[CLOCK] * 1000);
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

static int read_workloads(struct sim_workloads *w, struct csv *c, const char *map, struct error *err)
{
	int at[N_COLUMNS], rc;
	if (csv_columns(c, column_names, N_COLUMNS, N_NEEDED, map, at, err))
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
	struct csv c;
	*w = (struct sim_workloads){ .path = alloc_string(path) };
	bool ours = !strcmp(path, SIM_CATALOGUE);
	int rc = ours ? csv_open_text(&c, SIM_CATALOGUE, catalogue, sizeof catalogue - 1, err) : csv_open(&c, path, err);
	if (!rc)
		rc = read_workloads(w, &c, map, err);
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
	idmap_free(&w->variants);
	*w = (struct sim_workloads){ 0 };
}

int sim_workloads_estimates(const struct sim_workloads *w, const char *estimator, int *place, struct error *err)
{
	size_t n = strlen(estimator);
	*place = -1;
	for (int i = 0; i < SIM_ESTIMATORS; i++)
		if (!strncmp(sim_estimator_columns[i], estimator, n) && !strcmp(sim_estimator_columns[i] + n, "_mib"))
			*place = i;
	if (*place < 0 || w->has_estimates[*place])
		return 0;
	return error_set(err, ERR_INVALID, "%s: has no column '%s', which the estimator %s needs", w->path,
			 sim_estimator_columns[*place], estimator);
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
	error_set(err, ERR_INVALID, "no workload is called '%.60s' in %s%s%s%s", name, w->path, near ? "; did you mean '" : "",
		  near ? near->name : "", near ? "'?" : "");
	return NULL;
}

/* Variants ---------------------------------------------------------------------------------------------------------------- */

/* Of three numbers, each below a limit that the readers keep to. */
static int64_t variant_key(uint32_t of, unsigned gpus, uint64_t declared_mib)
{
	return (int64_t)(((uint64_t)of * (SIM_MAX_GPUS + 1) + gpus) * ((uint64_t)MOST_MIB + 1) + declared_mib) + 1;
}

uint32_t sim_workload_variant(struct sim_workloads *w, uint32_t of, unsigned gpus, uint64_t declared_mib)
{
	struct sim_workload one = w->list[of];
	one.gpus = gpus ? gpus : one.gpus;
	one.declared_mib = declared_mib ? declared_mib : one.declared_mib;
	if (one.gpus == w->list[of].gpus && one.declared_mib == w->list[of].declared_mib)
		return of;
	int64_t key = variant_key(of, one.gpus, one.declared_mib);
	size_t at = (size_t)(uintptr_t)idmap_get(&w->variants, key);
	if (at)
		return (uint32_t)(at - 1);
	one.name = alloc_string(one.name);
	one.variant_of = of + 1;
	alloc_grow(w->list, w->n, w->cap);
	w->list[w->n++] = one;
	idmap_put(&w->variants, key, (void *)(uintptr_t)w->n);
	return (uint32_t)(w->n - 1);
}

/* Traces ------------------------------------------------------------------------------------------------------------------ */

enum trace_column { T_SUBMIT, T_WORKLOAD, T_NEEDED, T_GPUS = T_NEEDED, T_SOLO, T_DECLARED, T_LIMIT, T_COLUMNS };
static const char *const trace_columns[T_COLUMNS] = { "submit_s", "workload", "gpus", "solo_s", "declared_mib", "limit_s" };

/* What that task has of its own; 0 where the column is not there or empty. */
static int read_own(const struct csv *c, const int at[T_COLUMNS], enum trace_column i, double min, double max, double *v,
		    struct error *err)
{
	*v = 0;
	if (at[i] < 0 || !*c->fields[at[i]] || !units_parse_double(c->fields[at[i]], min, max, v, err))
		return 0;
	error_wrap(err, "%s", trace_columns[i]);
	return csv_wrong(c, err);
}

static int read_owns(const struct csv *c, const int at[T_COLUMNS], struct sim_arrival *a, struct sim_workloads *w,
		     struct error *err)
{
	double gpus, solo_s, mib, limit_s;
	if (read_own(c, at, T_GPUS, 1, SIM_MAX_GPUS, &gpus, err) || read_own(c, at, T_SOLO, 0.001, MOST_S, &solo_s, err) ||
	    read_own(c, at, T_DECLARED, 1, MOST_MIB, &mib, err) || read_own(c, at, T_LIMIT, 1, MOST_SUBMIT_S, &limit_s, err))
		return -1;
	if (floor(gpus) < gpus) {
		error_set(err, ERR_INVALID, "gpus: '%.20s' is not a whole number", c->fields[at[T_GPUS]]);
		return csv_wrong(c, err);
	}
	a->solo_ms = (int64_t)ceil(solo_s * 1000);
	a->limit_ms = (int64_t)ceil(limit_s * 1000);
	a->workload = sim_workload_variant(w, a->workload, (unsigned)gpus, (uint64_t)ceil(mib));
	return 0;
}

static int add_arrival(struct sim_trace *t, const struct csv *c, const int at[T_COLUMNS], struct sim_workloads *w,
		       struct error *err)
{
	double at_s;
	if (units_parse_double(c->fields[at[T_SUBMIT]], 0, MOST_SUBMIT_S, &at_s, err)) {
		error_wrap(err, "submit_s");
		return csv_wrong(c, err);
	}
	const struct sim_workload *of = sim_workload_need(w, c->fields[at[T_WORKLOAD]], err);
	if (!of)
		return csv_wrong(c, err);
	struct sim_arrival a = { .submit_ms = (int64_t)floor(at_s * 1000 + 0.5), .workload = (uint32_t)(of - w->list),
				 .line = (uint32_t)c->line };
	if (t->n && a.submit_ms < t->list[t->n - 1].submit_ms) {
		error_set(err, ERR_INVALID, "submit_s %.20s is before that of line %u: a trace is in the order of its times",
			  c->fields[at[T_SUBMIT]], t->list[t->n - 1].line);
		return csv_wrong(c, err);
	}
	if (t->n == MOST_TASKS) {
		error_set(err, ERR_INVALID, "a trace has at most %d tasks", MOST_TASKS);
		return csv_wrong(c, err);
	}
	if (read_owns(c, at, &a, w, err))
		return -1;
	alloc_grow(t->list, t->n, t->cap);
	t->list[t->n++] = a;
	return 0;
}

static int read_trace(struct sim_trace *t, struct csv *c, struct sim_workloads *w, struct error *err)
{
	int at[T_COLUMNS], rc;
	for (unsigned i = 0; i < T_COLUMNS; i++)
		at[i] = csv_column(c, trace_columns[i]);
	if (at[T_SUBMIT] < 0 || at[T_WORKLOAD] < 0)
		return error_set(err, ERR_INVALID, "%s:1: has no column '%s'; a trace has submit_s and workload", c->name,
				 trace_columns[at[T_SUBMIT] < 0 ? T_SUBMIT : T_WORKLOAD]);
	while ((rc = csv_next(c, err)) > 0)
		if (add_arrival(t, c, at, w, err))
			return -1;
	if (!rc && !t->n)
		return error_set(err, ERR_INVALID, "%s: has a header and no task", c->name);
	return rc;
}

int sim_trace_read(struct sim_trace *t, const char *path, struct sim_workloads *w, struct error *err)
{
	struct csv c;
	*t = (struct sim_trace){ .path = alloc_string(path) };
	int rc = csv_open(&c, path, err);
	if (!rc)
		rc = read_trace(t, &c, w, err);
	csv_clear(&c);
	return rc;
}

static void write_seconds(int64_t ms, struct buf *out)
{
	buf_printf(out, "%lld", (long long)ms / 1000);
	if (ms % 1000)
		buf_printf(out, ".%03d", (int)(ms % 1000));
}

static void write_name(const char *name, struct buf *out)
{
	if (!name[strcspn(name, ",\"\r\n")]) {
		buf_add_text(out, name);
		return;
	}
	buf_add_text(out, "\"");
	for (const char *p = name; *p; p++)
		buf_printf(out, *p == '"' ? "\"\"" : "%c", *p);
	buf_add_text(out, "\"");
}

/* What it has of its own, and nothing where that is what the workload says. */
static void write_owns(const struct sim_arrival *a, const struct sim_workload *of, struct buf *out)
{
	buf_add_text(out, ",");
	if (of->variant_of)
		buf_printf(out, "%u", of->gpus);
	buf_add_text(out, ",");
	if (a->solo_ms)
		write_seconds(a->solo_ms, out);
	buf_add_text(out, ",");
	if (of->variant_of && of->declared_mib)
		buf_printf(out, "%llu", (unsigned long long)of->declared_mib);
	buf_add_text(out, ",");
	if (a->limit_ms)
		write_seconds(a->limit_ms, out);
}

void sim_trace_write(const struct sim_trace *t, const struct sim_workloads *w, struct buf *out)
{
	bool own = false;
	for (size_t i = 0; i < t->n; i++)
		own = own || t->list[i].solo_ms || t->list[i].limit_ms || w->list[t->list[i].workload].variant_of;
	buf_add_text(out, own ? "submit_s,workload,gpus,solo_s,declared_mib,limit_s\n" : "submit_s,workload\n");
	for (size_t i = 0; i < t->n; i++) {
		write_seconds(t->list[i].submit_ms, out);
		buf_add_text(out, ",");
		write_name(w->list[t->list[i].workload].name, out);
		if (own)
			write_owns(&t->list[i], &w->list[t->list[i].workload], out);
		buf_add_text(out, "\n");
	}
}

void sim_trace_clear(struct sim_trace *t)
{
	free(t->list);
	free(t->path);
	*t = (struct sim_trace){ 0 };
}
