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
#include "models/conv_scratch.h"
#include "models/overheads.h"

#include <string.h>

#define SIDE_MOST 1024u	/* of an image whose convolutions are looked at one by one */

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

/* For each sample. Both are people's words: beyond all requests it is the largest of them, and wraps nowhere. */
static uint64_t workspace_batch(const struct workspace_job *j, uint64_t bytes)
{
	return bytes && j->batch > CAPTURE_MAX_REQUEST / bytes ? CAPTURE_MAX_REQUEST : j->batch * bytes;
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

/* ---- one tap: learnt ---- */

/* Channels and sides of a convolution of one tap, from its tensors' bytes: square images of the job's batch, which are halved
 * or not. False: it is none such. x: the features of models/conv_scratch.h. */
static bool shape_of(const struct workspace_job *j, const struct capture_conv *v, uint32_t x[SCRATCH_FEATURES])
{
	uint64_t each = j->batch * workspace_element(j);

	for (uint64_t side = 1; each && side <= SIDE_MOST && side * side * each <= v->in; side++)
		for (unsigned strided = 0; strided < 2 && v->in % (side * side * each) == 0; strided++) {
			uint64_t after = strided ? (side + 1) / 2 : side, in = v->in / (side * side * each);
			uint64_t out = v->out / (after * after * each);

			if (v->out % (after * after * each) || in > UINT32_MAX || out > UINT32_MAX ||
			    in * out != v->weight / workspace_element(j))
				continue;
			x[SCRATCH_BATCH] = (uint32_t)least_of(j->batch, UINT32_MAX);
			x[SCRATCH_IN] = (uint32_t)in, x[SCRATCH_OUT] = (uint32_t)out;
			x[SCRATCH_PIXELS] = (uint32_t)(side * side), x[SCRATCH_OUT_PIXELS] = (uint32_t)(after * after);
			x[SCRATCH_STRIDED] = side != after;
			x[SCRATCH_WEIGHT_KIB] = (uint32_t)least_of(v->weight >> 10, UINT32_MAX);
			x[SCRATCH_PIXELS_MOD_8] = side * side % 8;
			return true;
		}
	return false;
}

static enum scratch_kind scratch_ask(const struct scratch_node *tree, const uint32_t x[SCRATCH_FEATURES])
{
	const struct scratch_node *at = tree;

	while (at->left)
		at = &tree[at->left + (x[at->feature] > at->threshold)];
	return (enum scratch_kind)at->threshold;
}

/* Whether the kernel is a product on the tensors as they are, or one that has them copied, is not to be told by a rule:
 * channels, sides and batch all have a part in it. Sums: those of each sample, fewer of them where they would be more than
 * copies. */
static uint64_t of_one_tap(const struct workspace_job *j, const struct capture_conv *v, const uint32_t x[SCRATCH_FEATURES])
{
	uint64_t copies = v->in + v->out, sums = workspace_batch(j, v->weight / workspace_element(j) * 4);

	switch (scratch_ask(scratch_trees[j->half][v->direction], x)) {
	case SCRATCH_NONE:	/* learnt as: less than 15 % of the copies */
		return v->direction == CAPTURE_CONV_WEIGHTS && sums < copies / 20 * 3 ? sums : 0;
	case SCRATCH_SUMS:
		return least_of(sums, copies + OVERHEADS_CONV_PARTIAL_FULL);
	case SCRATCH_COPIES:
		break;
	}
	return copies;
}

/* Kernels want channels last: a contiguous tensor is copied, in and out. 1x1 convolutions are products and need no copy
 * forwards. */
static uint64_t workspace_contiguous(const struct workspace_job *j, const struct capture_conv *v)
{
	uint64_t copies = v->in + v->out, weight = v->weight / workspace_element(j) * 4;
	bool weights = v->direction == CAPTURE_CONV_WEIGHTS;

	uint32_t shape[SCRATCH_FEATURES];

	if (v->taps > 1)
		return copies + v->weight + (weights ? partial_sums(j, weight) : 0);
	if (v->groups == 1 && shape_of(j, v, shape))
		return of_one_tap(j, v, shape);
	if (!weights)
		return 0;
	copies += OVERHEADS_CONV_PARTIAL_FULL;
	return j->batch ? least_of(workspace_batch(j, weight), copies) : copies;
}

/* Gradients of depthwise weights, channels last: in half precision eight partial sums a sample, in fp32 of large kernels an
 * unfolded input, unless channels are many. */
static uint64_t of_depthwise(const struct workspace_job *j, const struct capture_conv *v)
{
	uint64_t weight = v->weight / workspace_element(j) * 4;

	if (v->direction != CAPTURE_CONV_WEIGHTS || !v->channels_last || v->taps < OVERHEADS_CONV_SMALL_TAPS)
		return 0;
	if (j->half) {
		bool odd = v->groups < OVERHEADS_CONV_DEPTHWISE_FEW && v->groups % 32;

		return odd || v->taps > OVERHEADS_CONV_STEM_TAPS ? 0 : workspace_batch(j, 8 * weight);
	}
	return v->taps >= OVERHEADS_CONV_STEM_TAPS && v->groups <= OVERHEADS_CONV_DEPTHWISE_MANY && v->in < 2 * v->out ?
	       v->in / 10 * OVERHEADS_CONV_UNFOLDED_TENTHS : 0;
}

/* Groups of 24 or 48 channels are padded to 32 or 64 where they are copied, and copied for it where others are not. */
static uint64_t of_groups(const struct workspace_job *j, const struct capture_conv *v, uint64_t bytes)
{
	uint64_t square = v->weight / workspace_element(j) / v->taps / v->groups;	/* channels in and out of a group */

	if (v->groups < 2 || v->taps < 2 || (square != 24 * 24 && square != 48 * 48))
		return bytes;
	return (v->channels_last ? v->in + v->out : bytes) / 3 * 4;
}

/* Whether samples of so many numbers may be square images of one channel: those of two or three are not. */
static bool is_square(uint64_t numbers)
{
	for (uint64_t side = 1; side <= SIDE_MOST && side * side <= numbers; side++)
		if (side * side == numbers)
			return true;
	return false;
}

/* One channel in: the weights are those of so many channels out, and the output has as many times the input, or a ninth of that
 * where it has fewer pixels. With more channels the input is larger by their square: two look like a stride of two. */
static bool reads_one_channel(const struct workspace_job *j, const struct capture_conv *v)
{
	uint64_t channels = v->weight / workspace_element(j) / v->taps, each = j->batch * workspace_element(j), pixels;

	if (v->groups != 1 || v->taps < 2 || v->channels_last || !channels)
		return false;
	pixels = v->out / channels;
	return v->in / 3 < pixels || (v->in / 9 < pixels && each && v->in % each == 0 && is_square(v->in / each));
}

/* It is read as it is in fp32, in all directions; gradients in half precision copy it with 8 channels, and the output. */
static uint64_t of_one_channel(const struct workspace_job *j, const struct capture_conv *v)
{
	return !j->half || v->direction == CAPTURE_CONV_FORWARD ? 0 : v->in * 8 + v->out;
}

uint64_t workspace_conv(const struct workspace_job *j, const struct capture_conv *v)
{
	uint64_t bytes;

	if (is_depthwise(v))
		return of_depthwise(j, v);
	if (reads_image(j, v))
		bytes = of_image(j, v);
	else if (reads_one_channel(j, v))
		bytes = of_one_channel(j, v);
	else if (!v->channels_last)
		bytes = workspace_contiguous(j, v);
	else if (v->direction == CAPTURE_CONV_WEIGHTS && !j->half)
		bytes = v->out + v->weight + OVERHEADS_CONV_PARTIAL_FULL;
	else
		bytes = 0;
	bytes = of_groups(j, v, bytes);
	return bytes ? bytes + OVERHEADS_CONV_TAIL : 0;
}
