/* SPDX-License-Identifier: MIT
 *
 * Reads a task's output as it grows and remembers the last error in it. Bounded: a line of a gigabyte costs 4 KiB.
 * Runs in the shim (which holds the open log), so it links nothing but base.
 */
#ifndef RAD_RECOVER_SCAN_H
#define RAD_RECOVER_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum scan_kind {
	SCAN_NOTHING,
	SCAN_GPU_OOM,		/* PyTorch, TensorFlow, JAX, CUDA, cuDNN, cuBLAS wordings */
	SCAN_HOST_OOM,		/* "MemoryError", "Cannot allocate memory", DataLoader worker killed */
	SCAN_MPS,		/* CUDA errors 805-810: MPS server, not the task */
	SCAN_DEVICE_FAULT,	/* illegal address, device-side assert, launch failure, Xid wordings */
	SCAN_OTHER_ERROR,	/* a traceback or error line that is none of these */
};

struct scan_result {
	enum scan_kind kind;		/* of the last error; SCAN_NOTHING: no error seen */
	char line[240];			/* that line, cut, control characters replaced; always valid UTF-8 */
	char source[16];		/* whose wording: "PyTorch", "TensorFlow", "JAX", "CUDA", "cuDNN", "cuBLAS", "NCCL", ..., "" */
	uint64_t offset;		/* where it began */
	bool survived;			/* output went on for more than a traceback's worth after it */
	bool oom_near;			/* it is another error than GPU out-of-memory, but one came within a traceback's worth before it */
	unsigned oom_seen;		/* how many GPU out-of-memory errors in all */
	/* Of the last GPU out-of-memory that said so, where that is the last error or near it; MiB, 0: not told. */
	uint64_t tried_mib;		/* what it asked for and did not get */
	uint64_t held_mib;		/* what the process had by then */
};

struct scan;

struct scan *scan_create(void);
/* Takes NULL. */
void scan_destroy(struct scan *s);
/* More output; any cut is fine. */
void scan_feed(struct scan *s, const char *bytes, size_t n);
/* The verdict on all that was fed so far (an unfinished last line counts). Changes nothing: feeding may go on. */
void scan_finish(const struct scan *s, struct scan_result *out);

#endif
