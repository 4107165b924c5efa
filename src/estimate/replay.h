/* SPDX-License-Identifier: MIT
 *
 * A capture played through the simulated allocator: what the job would reserve when memory is free, and the smallest cap under
 * which it still gets through. Pure.
 */
#ifndef RAD_ESTIMATE_REPLAY_H
#define RAD_ESTIMATE_REPLAY_H

#include "estimate/alloc.h"
#include "estimate/capture.h"
#include "models/overheads.h"

/* Caps are looked for in steps of this: what segments are multiples of. */
#define REPLAY_GRID ((uint64_t)2 << 20)

/* By what part of it a workspace that rules guess is taken to be wrong. */
#define REPLAY_GUESS_PART 64

struct replay_figures {
	uint64_t comfort;		/* bytes reserved at most, no cap (or the job's own) */
	uint64_t high;			/* comfort, or what it would be with guessed workspaces a REPLAY_GUESS_PART-th larger or smaller */
	uint64_t need;			/* smallest cap in bytes that works, a multiple of REPLAY_GRID; at most `comfort` rounded up */
	uint64_t allocated;		/* bytes in use at most, in the run without a cap */
	uint64_t scratch;		/* bytes that one convolution takes besides at most: not captured, by rules */
	uint64_t fixed;			/* bytes outside the allocator: context, communicators */
	bool capped;			/* the job's own per_process_memory_fraction is too small for it: figures are without it */
};

/* What the job's environment says of cuBLAS's workspaces: the values of CUBLAS_WORKSPACE_CONFIG, CUBLASLT_WORKSPACE_SIZE and
 * TORCH_CUBLASLT_UNIFIED_WORKSPACE; NULL: not set. */
struct replay_environment { const char *cublas_config, *lt_size, *lt_unified; };

/* Workspaces per handle and stream, in bytes; of 0 none is asked for. */
struct replay_blas {
	uint64_t bytes, lt_bytes;
	enum { REPLAY_LT_CALL, REPLAY_LT_KEPT, REPLAY_LT_SHARED } lt;	/* one a call; kept; that of cuBLAS */
};

/* As PyTorch of that version takes them (aten/src/ATen/cuda/CublasHandlePool.cpp). */
struct replay_blas replay_blas_of(const struct overheads *o, alloc_torch torch, const struct replay_environment *env);

/* The row for a card, as the driver names it; NULL: not known. */
const struct overheads *replay_overheads(const char *gpu_name);

/* `total` is the GPU's memory in bytes, for the job's own per_process_memory_fraction; 0: not known. Returns 0, or -1 for
 * a capture whose replay would take too long, as only one made for it does. */
int replay_capture(const struct capture *c, const struct alloc_conf *conf, const struct replay_environment *env,
		   const struct overheads *o, uint64_t total, struct replay_figures *out, struct error *err);

#endif
