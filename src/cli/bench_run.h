/* SPDX-License-Identifier: MIT
 *
 * Going through the modes of a bench. Tasks stay: of degrees 1, 2, 3 in one mode the second is measured by adding a task to the
 * first, so that starts are waited for once and are in no figure. A measurement begins when every task has said how far it is.
 */
#ifndef RAD_CLI_BENCH_RUN_H
#define RAD_CLI_BENCH_RUN_H

#include "cli/bench_file.h"
#include "cli/bench_gpu.h"

#include <signal.h>

/* Set it non-zero, from a signal handler, to have everything ended. */
extern volatile sig_atomic_t bench_run_stop;

/* Leaves out what the file has. 0: all was measured; 1: something could not be, which is in the file and was told; -1: nothing
 * more can be (or bench_run_stop), with *err. Nothing that it started is left when it returns. */
int bench_run(const struct bench_plan *p, struct bench_gpu *g, struct bench_file *f, struct error *err);

#endif
