/* SPDX-License-Identifier: MIT
 *
 * One task of a bench: a process of its own group, and what its output says of how far it is.
 */
#ifndef RAD_CLI_BENCH_TASK_H
#define RAD_CLI_BENCH_TASK_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bench_task;
struct bench_pattern;

/* What lines of progress look like: an extended regular expression. Its first group is the number of steps done; without a
 * group each line that matches is a step. NULL with *err when it is none. */
struct bench_pattern *bench_pattern_create(const char *text, struct error *err);
void bench_pattern_destroy(struct bench_pattern *p);	/* takes NULL */

/* A change of the environment: NULL takes the variable out. */
struct bench_variable { const char *name, *value; };

/* Starts argv with the caller's environment and these changes (ends with a NULL name), nothing on standard input. `pattern`
 * NULL: progress lines that rad knows (parse/progress.h). It ends with us. */
struct bench_task *bench_task_start(char *const argv[], const struct bench_variable *changes,
				    const struct bench_pattern *pattern, struct error *err);
/* Their processes are gone when this returns: TERM, some seconds, KILL; all of `n` at once, so that nobody runs on alone.
 * Frees them. */
void bench_task_end_all(struct bench_task **tasks, size_t n);

/* Its output, to be polled for reading; -1: there is no more. */
int bench_task_fd(const struct bench_task *t);
/* Reads what there is, and looks whether it ended. Never blocks. */
void bench_task_read(struct bench_task *t, int64_t mono_ms);

/* Whether it has said how far it is, ever. */
bool bench_task_reported(const struct bench_task *t);
int64_t bench_task_heard_ms(const struct bench_task *t);	/* when last, or when it was started */
/* -1 with *err when it has ended: how, and its last line. */
int bench_task_check(const struct bench_task *t, struct error *err);

/* A span begins now. */
void bench_task_mark(struct bench_task *t);
/* Whether two reports came since. */
bool bench_task_measurable(const struct bench_task *t);
/* Steps a second between the first and the last report of the span. */
double bench_task_rate(const struct bench_task *t);
/* What a step is called: "it", "step". */
const char *bench_task_unit(const struct bench_task *t);

#endif
