/* SPDX-License-Identifier: MIT
 *
 * An MPS server for the tasks of a bench, and the folder in which none is.
 */
#ifndef RAD_CLI_BENCH_MPS_H
#define RAD_CLI_BENCH_MPS_H

#include "cli/bench_gpu.h"

#include <signal.h>

struct bench_mps;

/* A folder of our own; no server yet. */
struct bench_mps *bench_mps_create(struct error *err);
/* Stops what was started, and removes the folder. Takes NULL. */
void bench_mps_destroy(struct bench_mps *m);

/* Whether tasks on it can be MPS clients here. */
bool bench_mps_available(const struct bench_gpu *g);
/* Waits until a server answers, *stop being looked at meanwhile. */
int bench_mps_begin(struct bench_mps *m, const struct bench_gpu *g, const volatile sig_atomic_t *stop, struct error *err);
/* Waits until it is gone. */
void bench_mps_end(struct bench_mps *m);
/* What CUDA_MPS_PIPE_DIRECTORY is to be: of the server, or of none. */
const char *bench_mps_pipe(const struct bench_mps *m);

#endif
