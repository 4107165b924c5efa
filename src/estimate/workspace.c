/* SPDX-License-Identifier: MIT
 *
 * The rules of workspace.h, with the constants of models/overheads.h.
 *
 * cuDNN chooses a kernel on the GPU, and the kernel decides the workspace: workspace.h says what was read off measurements,
 * and where that fails. The rules are right in kind and near in size, which is why estimates with convolutions have a margin
 * of their own (MARGIN_REPLAY_CONVOLUTIONS). A workspace is scratch: a job that gets none takes a slower kernel, so it never
 * decides need.
 */
#include "estimate/workspace.h"

#include "base/least.h"
#include "base/units.h"
#include "models/overheads.h"

#include <string.h>

struct workspace_job workspace_job(const struct capture *c)
{
	struct workspace_job j = { .half = strstr(c->precision, "16") != NULL, .batch = c->batch };

	for (size_t i = 0; i < c->n_records; i++)
		if (c->records[i].kind == CAPTURE_CONV) {
			const struct capture_conv *first = &c->convs[c->records[i].id];

			j.image = first->in;
			j.first_weight = first->weight;
			break;
		}
	return j;
}

/* One channel in and out per group: its weights are the taps alone, of at most 4 bytes each. */
static bool is_depthwise(const struct capture_conv *v)
{
	return v->groups > 1 && v->weight <= (uint64_t)4 * v->taps * v->groups;
}

static uint64_t workspace_element(const struct workspace_job *j)
{
	return j->half ? 2 : 4;
}

/* Whether it is the first convolution and reads 3 channels. A batch and a row of weights are multiples of 3 elements then. */
static bool reads_image(const struct workspace_job *j, const struct capture_conv *v)
{
	uint64_t row = workspace_element(j) * v->taps;

	return j->batch && v->in == j->image && v->weight == j->first_weight && v->groups == 1 && v->taps > 1 &&
	       v->in % (3 * workspace_element(j) * j->batch) == 0 && v->weight % (3 * row) == 0;
}

/* Partial sums of the gradient of the weights: full copies of them that fill the multiprocessors, of one size in fp32; large
 * weights fill them alone, but for a part. */
static uint64_t partial_sums(const struct workspace_job *j, uint64_t weight)
{
	uint64_t most = j->half ? OVERHEADS_CONV_PARTIAL_HALF : OVERHEADS_CONV_PARTIAL_FULL;
	uint64_t copies = j->half ? OVERHEADS_CONV_COPIES_HALF : OVERHEADS_CONV_COPIES_FULL;

	if (weight >= OVERHEADS_CONV_WHOLE)
		return 0;
	if (weight >= OVERHEADS_CONV_SINGLE)
		return weight / 12 * (j->half ? OVERHEADS_CONV_TWELFTHS_HALF : OVERHEADS_CONV_TWELFTHS_FULL);
	return weight ? least_of(copies, most / weight) * weight : 0;
}

/* Three channels suit no tensor core: cuDNN pads them to 4 (fp32) or 8 (half), in a copy of the image. */
static uint64_t of_image(const struct workspace_job *j, const struct capture_conv *v)
{
	uint64_t padded = j->half ? v->in / 3 * 8 : v->in / 3 * 4;
	bool small = v->taps <= OVERHEADS_CONV_SMALL_TAPS;

	if (v->direction == CAPTURE_CONV_WEIGHTS) {
		if (v->channels_last)
			return j->half ? padded + OVERHEADS_CONV_PARTIAL_FULL : 0;
		return !j->half && v->taps <= OVERHEADS_CONV_PATCH_TAPS ? 0 : padded + v->out + OVERHEADS_CONV_PARTIAL_FULL;
	}
	if (small)
		return 0;
	if (v->channels_last)
		return j->half ? padded : v->in;
	if (j->half)
		return padded + v->out;
	return v->taps <= OVERHEADS_CONV_PATCH_TAPS || v->taps > OVERHEADS_CONV_STEM_TAPS ? padded : v->in + v->out;
}

/* Kernels want channels last: a contiguous tensor is copied, in and out. 1x1 convolutions are products and need no copy
 * forwards. */
static uint64_t workspace_contiguous(const struct workspace_job *j, const struct capture_conv *v)
{
	uint64_t copies = v->in + v->out, weight = v->weight / workspace_element(j) * 4;
	bool weights = v->direction == CAPTURE_CONV_WEIGHTS;

	if (v->taps > 1)
		return copies + v->weight + (weights ? partial_sums(j, weight) : 0);
	if (!weights)
		return 0;
	copies += OVERHEADS_CONV_PARTIAL_FULL;
	return j->batch ? least_of(j->batch * weight, copies) : copies;
}

uint64_t workspace_conv(const struct workspace_job *j, const struct capture_conv *v)
{
	uint64_t bytes;

	if (is_depthwise(v))
		return 0;
	if (reads_image(j, v))
		bytes = of_image(j, v);
	else if (!v->channels_last)
		bytes = workspace_contiguous(j, v);
	else if (v->direction == CAPTURE_CONV_WEIGHTS && !j->half)
		bytes = v->out + v->weight + OVERHEADS_CONV_PARTIAL_FULL;
	else
		bytes = 0;
	return bytes ? bytes + OVERHEADS_CONV_TAIL : 0;
}
