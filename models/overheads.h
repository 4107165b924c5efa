/* SPDX-License-Identifier: MIT
 *
 * GPU memory that a training job takes and its own requests do not show: the CUDA context, library workspaces, communicators.
 * A card or a version that no row knows takes the largest row: an estimate errs to the safe side. Every figure has its source.
 *
 * Measured on one NVIDIA H200, driver 580.159, CUDA 13.0, PyTorch 2.11.0+cu130, what NVML shows for the process less what the
 * allocator reserves: first tensor 518 MiB, with an fp32 GEMM 584, a bf16 GEMM 676, a convolution's forward and backward 692,
 * fused attention 694; 378 whole training jobs 742 to 764 (transformers 742 or 758, convolutional networks 758 to 762), those
 * without GEMMs 630 to 634 (doc/results/memory). MPS makes no difference to it.
 */
#ifndef RAD_MODELS_OVERHEADS_H
#define RAD_MODELS_OVERHEADS_H

#include <stdint.h>

/* One row a card. `card` is a part of the driver's name for it; "" ends the table and holds the largest of every column. */
struct overheads {
	const char *card;
	unsigned context_mib;		/* context and loaded kernels of a whole training job, lazy loading (CUDA 11.7 on) */
	unsigned context_plain_mib;	/* the same without GEMMs */
	uint64_t cublas_bytes;		/* workspace per handle and stream, allocated inside the caching allocator */
	unsigned nccl_pair_mib;		/* per communicator, in a job of two GPUs */
	unsigned nccl_mib;		/* the same in a job of more */
	unsigned all_to_all_mib;	/* on top, after the first all_to_all */
};

/* Context:	H200 as above; A100 520 from the residuals of published job figures (CARMA, 17 jobs), 560 the safe end of them.
 * cuBLAS:	32 MiB on sm_90, seen in the allocator's history on H200 (two handles: the script's and the backward pass's);
 *		8,519,680 bytes before (PyTorch issue 95668); Blackwell as Hopper (PyTorch PR 175344).
 * NCCL:	A100 544 MB of two GPUs, 688 MB of more (NCCL issue 964); 8 x H100 1.06 GB, 4.34 GB after the first all_to_all (NCCL
 *		issue 1685). Of two H100 or H200 nothing is published: they are taken for more, the larger. */
static const struct overheads overheads_table[] = {
	{ "H200", 760, 632, 32u << 20, 1011, 1011, 3128 },
	{ "H100", 760, 632, 32u << 20, 1011, 1011, 3128 },
	{ "A100", 560, 520, 8519680, 519, 657, 3128 },
	{ "", 760, 632, 32u << 20, 1011, 1011, 3128 },
};

/* What cuSOLVER brings on top once a task decomposes a matrix. Measured on one H100, CUDA 13.0, PyTorch 2.11.0+cu130, what NVML shows
 * for the process less what the allocator reserves, beyond a context of 630 MiB: qr and svd 98 (qr of 1024 lines 100), a matrix
 * product 66, a product with eigh or cholesky 162 (of 1024 lines 164): the two add up. In tasks that train, beside the 755 of a product:
 * lu, qr, svd 717 to 719 in all, inv, solve, eigh with a product 783, cholesky with a model 847. Other cards and versions are taken
 * for the same. */
#define OVERHEADS_SOLVER_MIB 100u

/* cuBLASLt's own workspace (CUBLASLT_WORKSPACE_SIZE unset): one a call until 2.8; from 2.9 kept per handle and stream, as the
 * history on H200 with 2.11 shows; from 2.12 it shares cuBLAS's (PyTorch PR 168175), which could be asked for from 2.8 on
 * (PR 151163). Versions as alloc_torch. */
#define OVERHEADS_LT_BYTES ((uint64_t)1 << 20)
#define OVERHEADS_LT_SHARABLE 208
#define OVERHEADS_LT_KEPT 209
#define OVERHEADS_LT_SHARED 212

/* Scratch memory of cuDNN's convolutions (src/estimate/workspace.h): constants of its rules, from histories on H200.
 * Partial sums of a gradient of weights, in fp32: as many copies as fit into so many bytes, but no more than COPIES; from
 * SINGLE on one, some twelfths of it, and none from WHOLE on. The tail: cuDNN asks for 16 or 147 bytes more than copies take. */
#define OVERHEADS_CONV_PARTIAL_FULL ((uint64_t)8 << 20)
#define OVERHEADS_CONV_PARTIAL_HALF ((uint64_t)16 << 20)
#define OVERHEADS_CONV_COPIES_FULL 14u
#define OVERHEADS_CONV_COPIES_HALF 13u
#define OVERHEADS_CONV_TWELFTHS_FULL 11u
#define OVERHEADS_CONV_TWELFTHS_HALF 10u
#define OVERHEADS_CONV_SINGLE ((uint64_t)9 << 19)
#define OVERHEADS_CONV_WHOLE ((uint64_t)36 << 20)
#define OVERHEADS_CONV_TAIL 147u
/* Gradients of depthwise weights (doc/results/memory/scratch.jsonl.gz): fewer channels are not summed a sample unless they are a
 * multiple of 32; more are not unfolded; tenths of the input that an unfolded one takes. */
#define OVERHEADS_CONV_DEPTHWISE_FEW 96u
#define OVERHEADS_CONV_DEPTHWISE_MANY 240u
#define OVERHEADS_CONV_UNFOLDED_TENTHS 81u
/* Of a convolution that reads an image: kernels up to 3 x 3 read it as it is, 4 x 4 cuts it into patches, 7 x 7 is a stem. */
#define OVERHEADS_CONV_SMALL_TAPS 9u
#define OVERHEADS_CONV_PATCH_TAPS 16u
#define OVERHEADS_CONV_STEM_TAPS 49u

#endif
