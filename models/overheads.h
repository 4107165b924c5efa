/* SPDX-License-Identifier: MIT
 *
 * GPU memory that a training job takes and its own requests do not show: the CUDA context, library workspaces, communicators.
 * A card or a version that no row knows takes the largest row: an estimate errs to the safe side. Every figure has its source.
 *
 * Measured on one NVIDIA H200, driver 580.159, CUDA 13.0, PyTorch 2.11.0+cu130, what NVML shows for the process less what the
 * allocator reserves: first tensor 518 MiB, with an fp32 GEMM 584, a bf16 GEMM 676, a convolution's forward and backward 692,
 * fused attention 694; whole training jobs 740 to 766, one without GEMMs (SqueezeNet) 632. MPS makes no difference to it.
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
	unsigned nccl_mib;		/* per communicator of more than two GPUs */
	unsigned all_to_all_mib;	/* on top, after the first all_to_all */
};

/* Context:	H200 as above; A100 520 from the residuals of published job figures (CARMA, 17 jobs), 560 the safe end of them.
 * cuBLAS:	32 MiB on sm_90, seen in the allocator's history on H200 (two handles: the script's and the backward pass's);
 *		8,519,680 bytes before (PyTorch issue 95668); Blackwell as Hopper (PyTorch PR 175344).
 * NCCL:	8 x H100 1.06 GB, 4.34 GB after the first all_to_all (NCCL issue 1685); A100 688 MB (NCCL issue 964). */
static const struct overheads overheads_table[] = {
	{ "H200", 766, 632, 32u << 20, 1011, 3128 },
	{ "H100", 766, 632, 32u << 20, 1011, 3128 },
	{ "A100", 560, 520, 8519680, 657, 3128 },
	{ "", 766, 632, 32u << 20, 1011, 3128 },
};

/* cuBLASLt's own workspace (CUBLASLT_WORKSPACE_SIZE unset): one a call until 2.8; from 2.9 kept per handle and stream, as the
 * history on H200 with 2.11 shows; from 2.12 it shares cuBLAS's (PyTorch PR 168175), which could be asked for from 2.8 on
 * (PR 151163). Versions as alloc_torch. */
#define OVERHEADS_LT_BYTES ((uint64_t)1 << 20)
#define OVERHEADS_LT_SHARABLE 208
#define OVERHEADS_LT_KEPT 209
#define OVERHEADS_LT_SHARED 212

/* Scratch memory of one cuDNN convolution. In the histories of ResNet50 and VGG16 on H200 (fp32 storage, TF32 kernels, contiguous
 * tensors) it is the copies in the layout of its kernels, input + output + weights where the kernel has more than one tap, plus
 * 16 to 400 bytes; gradients of weights take up to 8 MiB more for partial sums. Some layers run without it: those are counted
 * too high. Channels-last tensors need no copies. Depthwise kernels are PyTorch's own and take none. */
#define OVERHEADS_CONV_PARTIAL_BYTES ((uint64_t)8 << 20)

#endif
