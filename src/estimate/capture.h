/* SPDX-License-Identifier: MIT
 *
 * Reading a capture file: what a training job asks of the allocator, as `rad capture` wrote it down. The format, and what each
 * field means, is doc/capture-format.md. The bytes come from people: nothing in them is believed before it is checked.
 */
#ifndef RAD_ESTIMATE_CAPTURE_H
#define RAD_ESTIMATE_CAPTURE_H

#include "base/error.h"
#include "estimate/capture_limits.h"	/* CAPTURE_VERSION, CAPTURE_MAX_...: made of python/radrm/capture/limits.py */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum capture_flag {
	CAPTURE_DATA_DEPENDENT = 1 << 0,
	CAPTURE_UNKNOWN_OP = 1 << 1,
	CAPTURE_VARIABLE_SHAPES = 1 << 2,
	CAPTURE_COMPILED = 1 << 3,
	CAPTURE_CUDNN_BENCHMARK = 1 << 4,
	CAPTURE_CUDNN_OFF = 1 << 5,
	CAPTURE_ALL_TO_ALL = 1 << 6,
	CAPTURE_CUT_SHORT = 1 << 7,
	CAPTURE_PAIR = 1 << 8,
	CAPTURE_SOLVER = 1 << 9,
	CAPTURE_MAY_LEARN = 1 << 10,
	CAPTURE_FLAGS = (1 << 11) - 1,
};

enum capture_kind {
	CAPTURE_ALLOC = 1, CAPTURE_FREE, CAPTURE_MARK = 4, CAPTURE_GEMM, CAPTURE_EMPTY, CAPTURE_CONV, CAPTURE_ATTENTION,
	CAPTURE_SCRATCH,
};

enum capture_phase {
	CAPTURE_SETUP, CAPTURE_ITERATION, CAPTURE_FORWARD, CAPTURE_BACKWARD, CAPTURE_STEP, CAPTURE_ZERO_GRAD, CAPTURE_EVAL,
	CAPTURE_PHASES,
};

enum capture_direction { CAPTURE_CONV_FORWARD, CAPTURE_CONV_INPUT, CAPTURE_CONV_WEIGHTS, CAPTURE_DIRECTIONS };

struct capture_conv {
	uint64_t in, out, weight;	/* bytes of the tensors of the forward convolution */
	uint32_t taps, groups;
	enum capture_direction direction;
	bool channels_last;
};

struct capture_record {
	uint8_t kind;			/* enum capture_kind */
	uint8_t what;			/* ALLOC: stream; MARK: phase; GEMM: thread; ATTENTION: kernel */
	bool lt;			/* GEMM: through cuBLASLt */
	uint8_t stream;			/* GEMM */
	uint32_t id;			/* ALLOC and FREE: which storage; CONV: which of `convs` */
	uint64_t bytes;			/* ALLOC, SCRATCH */
};

/* Of the load part: kinds of kernels, and the units they compute with. */
enum capture_class {
	KERNEL_POINTWISE, KERNEL_COPY, KERNEL_REDUCE, KERNEL_NORM, KERNEL_SOFTMAX, KERNEL_GATHER, KERNEL_SCATTER, KERNEL_POOL,
	KERNEL_SORT, KERNEL_MANY, KERNEL_PRODUCT, KERNEL_CONV_OUT, KERNEL_CONV_INPUT, KERNEL_CONV_WEIGHTS, KERNEL_DEPTHWISE,
	KERNEL_DEPTHWISE_WEIGHTS, KERNEL_ATTENTIVE, KERNEL_RECURRENT, KERNEL_CHANNEL_NORM, KERNEL_CLASSES,
};
enum capture_unit { UNIT_NONE, UNIT_SINGLE, UNIT_TF32, UNIT_HALF, UNIT_DOUBLE, UNIT_COUNT };
#define CAPTURE_LAYOUTS 4	/* bit 0: channels last, bit 1: in groups */

/* `count` alike kernels of one step; the other figures are sums over them. */
struct capture_kernel {
	uint64_t count, flops, bytes, blocks, depth;
	uint8_t class, unit, layout;	/* enum capture_class, enum capture_unit, bits */
};

/* What the host does in one step: operators dispatched in each phase, and what else takes its time. */
struct capture_host {
	uint64_t forward, backward, updates, views, modules;
	uint64_t listed;		/* tensors in lists that operators were called with */
	uint64_t parameters;		/* tensors that optimizers hold */
	uint64_t waits;			/* for the GPU */
	uint64_t transfers, transferred;	/* between host and GPU; bytes */
};

/* A data loader that training takes batches from. */
struct capture_loader {
	uint64_t workers;		/* that it has; 0: the main thread loads */
	uint64_t cpu_us;		/* processor time of one batch */
	uint64_t measured;		/* batches that this was measured of */
	uint64_t batches, steps;	/* optimizer steps took so many of it */
};

struct capture {
	char torch[CAPTURE_MAX_TORCH + 1], alloc_conf[CAPTURE_MAX_ALLOC_CONF + 1], model[CAPTURE_MAX_MODEL + 1];
	char optimizer[CAPTURE_MAX_OPTIMIZER + 1], precision[CAPTURE_MAX_PRECISION + 1], key[CAPTURE_MAX_KEY + 1];
	uint64_t params, batch, seq_len;
	unsigned flags;			/* of enum capture_flag */
	uint64_t growth;
	unsigned communicators;
	struct capture_record *records;	/* owned */
	size_t n_records;
	struct capture_conv *convs;	/* owned */
	size_t n_convs;
	struct capture_host host;
	struct capture_kernel *kernels;	/* owned; none: the load is not known, as with files of version 1 */
	size_t n_kernels;
	struct capture_loader loaders[CAPTURE_MAX_LOADERS];
	size_t n_loaders;		/* 0: there are none, or it is not known, as with files before version 5 */
	uint64_t steps;			/* optimizer steps of the whole run; 0: not known, as with files before version 3 */
	uint64_t beside;		/* what its evaluations take, in steps; 0: none, or not known, as with files before version 4 */
	uint64_t limit_ms;		/* of its own clock, from its first step on; 0: none, or not known, as with files before version 6 */
	uint32_t n_allocs;		/* ids are below */
	unsigned iterations;
	uint64_t peak_live;		/* bytes asked for and not yet given back, at most */
};

/* Reads one. Returns 0, or -1 with *c empty and an error that says what is wrong and at which byte. Records are consistent:
 * every FREE names a live storage. Free it with capture_clear. */
int capture_read(const void *bytes, size_t len, struct capture *c, struct error *err);
/* The same from base64 (RFC 4648, with padding), as specs hold captures. */
int capture_read_text(const char *base64, struct capture *c, struct error *err);
void capture_clear(struct capture *c);

#define scoped_capture __attribute__((cleanup(capture_clear))) struct capture

#endif
