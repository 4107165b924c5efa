/* SPDX-License-Identifier: MIT
 *
 * Scratch memory of cuDNN's convolutions: which a capture cannot know, since cuDNN chooses its kernels on the GPU. Pure.
 *
 * The rules are read off the allocator's history of convolutional networks on an H200 (cuDNN 9.19; bench/memory, about 40,000
 * convolutions of 30 networks). What cuDNN takes there:
 *  - contiguous, more than one tap: copies of input, output and weights in the layout of its kernels; gradients of weights get
 *    partial sums on top, in fp32, as many copies as fill the multiprocessors;
 *  - contiguous, one tap: nothing, but for gradients of weights a partial sum for each sample, or both copies if that is less;
 *  - channels last: no copies; gradients of weights in fp32 take one of the output;
 *  - the first one, which reads an image of 3 channels: its input is padded to 4 channels (8 in half precision); small kernels
 *    read it as it is.
 * Read off 20,185 convolutions drawn at random and measured one at a time (bench/memory/scratch.py):
 *  - contiguous, one tap, square: whether both tensors are copied depends on channels, sides and batch, by trees that were
 *    learnt (models/conv_scratch.h); other one-tap ones as above;
 *  - depthwise, channels last, gradients of weights: partial sums, or an unfolded input;
 *  - groups of 24 and of 48 channels are padded to 32 and 64;
 *  - one channel in, contiguous, more than one tap: nothing, but for gradients in half precision (of 77 in fp32 66 took nothing
 *    forwards and 63 nothing for the weights' gradient, of 103 in half precision 89 nothing forwards).
 * cuDNN's own heuristics decide differently for some sizes. Those are not foreseen here and are a part of the margin.
 */
#ifndef RAD_ESTIMATE_WORKSPACE_H
#define RAD_ESTIMATE_WORKSPACE_H

#include "estimate/capture.h"

/* What the rules want to know of a job besides the convolution. */
struct workspace_job {
	bool half;			/* fp16 or bf16 */
	uint64_t batch;			/* samples; 0: not known */
	uint64_t image, first_weight;	/* bytes of input and weights of the first convolution */
};

struct workspace_job workspace_job(const struct capture *c);

/* Bytes; 0: none. */
uint64_t workspace_conv(const struct workspace_job *j, const struct capture_conv *v);

#endif
