/* SPDX-License-Identifier: MIT
 *
 * The GPU of a bench: which it is, what it shows over a span, and how tasks are pointed at it.
 */
#ifndef RAD_CLI_BENCH_GPU_H
#define RAD_CLI_BENCH_GPU_H

#include "cli/bench.h"
#include "cli/bench_task.h"
#include "device/device.h"

struct bench_gpu;

/* The GPU with that index, or with -1 the one of the task that this is (RAD_GPU_UUIDS). Where it is cut into MIG instances, the
 * first of these stands for it. Waits for its first reading. NULL with *err. */
struct bench_gpu *bench_gpu_open(int64_t index, struct error *err);
void bench_gpu_close(struct bench_gpu *g);	/* takes NULL */

const char *bench_gpu_name(const struct bench_gpu *g);
const char *bench_gpu_uuid(const struct bench_gpu *g, size_t instance);
const struct device_kind *bench_gpu_kind(const struct bench_gpu *g);
size_t bench_gpu_instances(const struct bench_gpu *g);	/* of MIG; 0: it is whole */
/* -1 with *err when processes that are no descendants of ours hold more than a GiB of it. */
int bench_gpu_check_free(const struct bench_gpu *g, struct error *err);

/* To be polled for reading; -1: there is nothing to wait for but time. */
int bench_gpu_fd(const struct bench_gpu *g);
/* Reads what there is. -1 with *err when it cannot be read any more. */
int bench_gpu_read(struct bench_gpu *g, struct error *err);
/* A span begins: means are of what is read from now on, over the first `instances` of MIG, or the GPU itself. */
void bench_gpu_mark(struct bench_gpu *g, size_t instances);
/* Members of a row: gract smact smocc dram pcie_rx_mib_s pcie_tx_mib_s power_w mem_used_mib, null where it is not known. */
void bench_gpu_row(const struct bench_gpu *g, json_t *row);

/* The variables by which a task is pointed at the GPU, or at that instance; `pipe`: of the MPS server, or where none is. Fills
 * `out` (of BENCH_GPU_VARIABLES), which ends with a NULL name and borrows from g and pipe. */
#define BENCH_GPU_VARIABLES 12
void bench_gpu_variables(const struct bench_gpu *g, size_t instance, const char *pipe, struct bench_variable *out);
/* The file of simulated devices, which stands for an MPS server's folder there; NULL on real ones. */
const char *bench_gpu_file(const struct bench_gpu *g);

#endif
