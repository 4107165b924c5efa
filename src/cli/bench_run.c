/* SPDX-License-Identifier: MIT
 * Going through the modes: see bench_run.h.
 */
#include "cli/bench_run.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/scope.h"
#include "cli/bench_mps.h"
#include "cli/cli.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

#define TICK_MS 100

volatile sig_atomic_t bench_run_stop;

struct bench_run {
	const struct bench_plan *plan;
	struct bench_gpu *gpu;
	struct bench_file *file;
	struct bench_mps *mps;
	struct bench_pattern *pattern;
	struct bench_task *tasks[BENCH_MAX_DEGREE];
	size_t n;
	bool failed;
};

/* What a chain of measurements is of. */
struct stage { enum bench_mode mode; int64_t command; /* -1: all in turn */ };

/* Tasks -------------------------------------------------------------------------------------------------------------------- */

static size_t command_at(const struct bench_run *r, const struct stage *s, size_t n)
{
	return s->command >= 0 ? (size_t)s->command : n % r->plan->n_commands;
}

static const char *name_at(const struct bench_run *r, const struct stage *s, size_t n)
{
	return r->plan->commands[command_at(r, s, n)].name;
}

static void end_tasks(struct bench_run *r)
{
	bench_task_end_all(r->tasks, r->n);
	r->n = 0;
}

/* One more; under mps-percent it gets its part of a GPU on which there will be `degree`. */
static int add_task(struct bench_run *r, const struct stage *s, int64_t degree, struct error *err)
{
	struct bench_variable changes[BENCH_GPU_VARIABLES];
	char percent[8];
	bench_gpu_variables(r->gpu, s->mode == BENCH_MIG ? r->n : 0, bench_mps_pipe(r->mps), changes);
	snprintf(percent, sizeof percent, "%d", (int)(100 / degree));
	for (struct bench_variable *v = changes; v->name && s->mode == BENCH_PERCENT; v++)
		if (!strcmp(v->name, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"))
			v->value = percent;
	struct bench_task *t = bench_task_start(r->plan->commands[command_at(r, s, r->n)].argv, changes, r->pattern, err);
	if (!t)
		return -1;
	r->tasks[r->n++] = t;
	return 0;
}

/* Reads whatever comes within a tick. -1: a task ended, or the GPU cannot be read. */
static int watch(struct bench_run *r, const struct stage *s, struct error *err)
{
	struct pollfd p[BENCH_MAX_DEGREE + 1];
	for (size_t i = 0; i < r->n; i++)
		p[i] = (struct pollfd){ bench_task_fd(r->tasks[i]), POLLIN, 0 };
	p[r->n] = (struct pollfd){ bench_gpu_fd(r->gpu), POLLIN, 0 };
	poll(p, r->n + 1, TICK_MS);
	if (bench_run_stop)
		return error_set(err, ERR_CONFLICT, "interrupted");
	int64_t now = clock_mono_ms();
	for (size_t i = 0; i < r->n; i++) {
		bench_task_read(r->tasks[i], now);
		if (bench_task_check(r->tasks[i], err))
			return error_wrap(err, "task %zu of %zu (%s)", i + 1, r->n, name_at(r, s, i));
	}
	return bench_gpu_read(r->gpu, err) < 0 ? -1 : 0;
}

/* A task that has said nothing for too long. */
static int check_heard(const struct bench_run *r, const struct stage *s, bool ever, struct error *err)
{
	int64_t now = clock_mono_ms();
	for (size_t i = 0; i < r->n; i++)
		if ((double)(now - bench_task_heard_ms(r->tasks[i])) > r->plan->patience_s * 1000)
			return error_set(err, ERR_UNAVAILABLE, "task %zu of %zu (%s): %s in %.0f s%s", i + 1, r->n, name_at(r, s, i),
				ever ? "no more progress" : r->plan->pattern ? "printed nothing that matches --pattern"
				: "printed no progress that rad knows", r->plan->patience_s,
				r->plan->pattern ? "" : "; say how its lines look with --pattern, or wait longer with --patience");
	return 0;
}

static int wait_reported(struct bench_run *r, const struct stage *s, struct error *err)
{
	for (bool all = false; !all;) {
		if (watch(r, s, err) || check_heard(r, s, false, err))
			return -1;
		all = true;
		for (size_t i = 0; i < r->n; i++)
			all &= bench_task_reported(r->tasks[i]);
	}
	return 0;
}

/* Measurements ------------------------------------------------------------------------------------------------------------- */

static int wait_span(struct bench_run *r, const struct stage *s, struct error *err)
{
	int64_t begin = clock_mono_ms();
	bench_gpu_mark(r->gpu, s->mode == BENCH_MIG ? r->n : 1);
	for (size_t i = 0; i < r->n; i++)
		bench_task_mark(r->tasks[i]);
	for (bool all = false; !all || (double)(clock_mono_ms() - begin) < r->plan->seconds * 1000;) {
		if (watch(r, s, err) || check_heard(r, s, true, err))
			return -1;
		all = true;
		for (size_t i = 0; i < r->n; i++)
			all &= bench_task_measurable(r->tasks[i]);
	}
	return 0;
}

static json_t *row_begin(const struct stage *s, int64_t degree)
{
	json_t *row = json_pack("{ss, sI}", "mode", bench_mode_name(s->mode), "degree", (json_int_t)degree);
	if (s->command >= 0)
		json_object_set_new(row, "command", json_integer(s->command));
	return row;
}

static int measure(struct bench_run *r, const struct stage *s, int64_t degree, int64_t repeat, struct error *err)
{
	int64_t begin = clock_mono_ms();
	if (wait_span(r, s, err))
		return -1;
	json_t *row = row_begin(s, degree), *tasks = json_array();
	for (size_t i = 0; i < r->n; i++)
		json_array_append_new(tasks, json_pack("{sI, ss, so, ss}", "command", (json_int_t)command_at(r, s, i), "name",
			name_at(r, s, i), "steps_s", json_real(bench_task_rate(r->tasks[i])), "unit", bench_task_unit(r->tasks[i])));
	json_object_set_new(row, "repeat", json_integer(repeat));
	json_object_set_new(row, "tasks", tasks);
	json_object_set_new(row, "seconds", json_round3((double)(clock_mono_ms() - begin) / 1000));
	bench_gpu_row(r->gpu, row);
	json_object_set_new(row, "time", json_time_or_null(clock_wall_ms()));
	return bench_file_add(r->file, row, err);
}

static bool has_degree(const struct bench_run *r, const struct stage *s, int64_t degree)
{
	for (int64_t k = 1; k <= r->plan->repeat; k++)
		if (!bench_file_has(r->file, s->mode, degree, s->command, k))
			return false;
	return true;
}

static int measure_degree(struct bench_run *r, const struct stage *s, int64_t degree, struct error *err)
{
	if (s->mode == BENCH_PERCENT)	/* a part is a process's for as long as it lives */
		end_tasks(r);
	while (r->n < (size_t)degree)
		if (add_task(r, s, degree, err))
			return -1;
	if (wait_reported(r, s, err))
		return -1;
	for (int64_t k = 1; k <= r->plan->repeat; k++)
		if (!bench_file_has(r->file, s->mode, degree, s->command, k) && measure(r, s, degree, k, err))
			return -1;
	return 0;
}

/* "mps, 3 at a time"; "serial, python train.py". Free it. */
static char *stage_text(const struct bench_run *r, const struct stage *s, int64_t degree)
{
	if (s->command >= 0)
		return alloc_printf("%s, %s", bench_mode_name(s->mode), r->plan->commands[s->command].name);
	return alloc_printf("%s, %lld at a time", bench_mode_name(s->mode), (long long)degree);
}

/* What could not be measured: the bench goes on with another mode, since more tasks would not do better. */
static int note_failure(struct bench_run *r, const struct stage *s, int64_t degree, const struct error *why, struct error *err)
{
	if (bench_run_stop)
		return error_set(err, ERR_CONFLICT, "interrupted");
	scoped_free char *what = stage_text(r, s, degree);
	cli_note("%s: %s", what, why->text);
	json_t *row = row_begin(s, degree);
	json_object_set_new(row, "error", json_text(why->text));
	r->failed = true;
	return bench_file_add(r->file, row, err);
}

static int check_fits(const struct bench_run *r, const struct stage *s, int64_t degree, struct error *err)
{
	size_t instances = bench_gpu_instances(r->gpu);
	if (s->mode != BENCH_MIG || (size_t)degree <= instances)
		return 0;
	bool one = instances == 1, given = getenv("RAD_TASK_ID");	/* a task has what it was given: one of them */
	return error_set(err, ERR_CONFLICT, "there %s %zu MIG instance%s here%s", one ? "is" : "are", instances, one ? "" : "s",
			 given ? ", what this task was given: drain the GPU's instances (rad drain), and run rad bench with --gpu, "
				 "outside of a task" : "");
}

/* The degrees of a mode, from the smallest on. 0, or -1 when nothing more can be measured at all. */
static int go_through(struct bench_run *r, const struct stage *s, struct error *err)
{
	struct error why = ERROR_INIT;
	const int64_t one = 1, *degrees = s->mode == BENCH_SERIAL ? &one : r->plan->degrees;
	size_t n = s->mode == BENCH_SERIAL ? 1 : r->plan->n_degrees;
	bool mps = s->mode == BENCH_MPS || s->mode == BENCH_PERCENT, begun = false;
	int rc = 0;
	for (size_t i = 0; i < n && !rc; i++) {
		if (has_degree(r, s, degrees[i]))
			continue;
		if (!begun && mps && bench_mps_begin(r->mps, r->gpu, &bench_run_stop, &why)) {
			rc = note_failure(r, s, degrees[i], &why, err);
			break;
		}
		begun = true;
		if (check_fits(r, s, degrees[i], &why) || measure_degree(r, s, degrees[i], &why)) {
			rc = note_failure(r, s, degrees[i], &why, err);
			break;
		}
		scoped_free char *what = stage_text(r, s, degrees[i]);
		cli_note("%s: measured", what);
	}
	end_tasks(r);
	bench_mps_end(r->mps);
	return rc;
}

/* A command that cannot be measured alone is compared with nothing. */
static int all_alone(struct bench_run *r, struct error *err)
{
	for (size_t c = 0; c < r->plan->n_commands; c++) {
		struct stage s = { BENCH_SERIAL, (int64_t)c };
		if (go_through(r, &s, err))
			return -1;
		if (!has_degree(r, &s, 1))
			return error_set(err, ERR_CONFLICT, "%s: could not be measured alone, and nothing can be compared with it",
					 r->plan->commands[c].name);
	}
	return 0;
}

int bench_run(const struct bench_plan *p, struct bench_gpu *g, struct bench_file *f, struct error *err)
{
	struct bench_run r = { .plan = p, .gpu = g, .file = f };
	int rc = 0;
	if (p->pattern && !(r.pattern = bench_pattern_create(p->pattern, err)))
		return error_wrap(err, "--pattern");
	r.mps = bench_mps_create(err);
	if (!r.mps)
		rc = -1;
	else
		rc = all_alone(&r, err);
	for (enum bench_mode m = BENCH_SERIAL + 1; m < BENCH_MODE_COUNT && !rc; m++) {
		struct stage s = { m, -1 };
		if (p->modes[m])
			rc = go_through(&r, &s, err);
	}
	bench_mps_destroy(r.mps);
	bench_pattern_destroy(r.pattern);
	return rc ? -1 : r.failed;
}
