/* SPDX-License-Identifier: MIT
 *
 * Readings as lines of CSV, and back (`rad monitor`, `rad report --monitor`). A line is of a GPU at a moment, with "pid" empty;
 * or of a process with all that descend from it, with the GPUs that it is on in "gpu" ("0 1"), what it holds on them in
 * "mem_used_mib", and nothing in the other columns of GPUs. What is not known is empty. Pure.
 */
#ifndef RAD_MONITOR_ROWS_H
#define RAD_MONITOR_ROWS_H

#include "base/buf.h"
#include "device/reading.h"
#include "monitor/usage.h"

#include <stdbool.h>

/* The line of names, in the order of the fields. */
extern const char rows_header[];

/* What a column of numbers is of a reading. */
struct rows_column {
	const char *name;
	uint32_t bit;		/* of gpu_reading.valid */
	enum { ROWS_SHARE, ROWS_RATE, ROWS_WHOLE, ROWS_MIB } form;
	size_t member;		/* offset in struct gpu_reading: a uint64_t of ROWS_MIB, a double else */
};
extern const struct rows_column rows_columns[];
extern const size_t rows_n_columns;

/* "0", or the UUID of a MIG instance, which shares its index with others. */
const char *rows_gpu(const struct gpu_reading *r, char text[GPU_UUID_LEN]);
/* "power+heat", "none"; "" where nothing is known. */
const char *rows_throttle(const struct gpu_reading *r, char text[64]);

void rows_add_gpu(struct buf *out, int64_t wall_ms, const struct gpu_reading *r);

struct rows_process {
	const char *gpus;	/* "0 1"; "": it is on none */
	pid_t pid;
	task_id task;		/* 0: none */
	bool mem_known;
	uint64_t mem_mib;
	struct usage_figures usage;
	const char *program;
};
void rows_add_process(struct buf *out, int64_t wall_ms, const struct rows_process *p);

#endif
