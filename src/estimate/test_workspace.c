/* SPDX-License-Identifier: MIT
 * Scratch memory of convolutions, against what cuDNN took on an H200: each row was seen in the history of the named network.
 */
#include "base/scope.h"
#include "base/units.h"
#include "estimate/workspace.h"
#include "models/overheads.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#define N 64u	/* samples, where it does not matter */

/* Elements a sample of input and output; of the weights. Bytes over the copies that cuDNN took as well. */
struct row {
	const char *what;
	bool half;
	enum capture_direction direction;
	uint64_t batch, in, out, weight;
	uint32_t taps, groups;
	bool last;
	uint64_t expected;
};

#define IMAGE(n) ((uint64_t)(n) * (n))

static const struct row rows[] = {
	{ "vgg16, 64 to 64 channels, amp", true, CAPTURE_CONV_FORWARD, 576, 64 * IMAGE(224), 64 * IMAGE(224), 64 * 64 *
	  9, 9, 1, false,
	  2 * (2 * 576 * 64 * IMAGE(224) + 64 * 64 * 9) },
	{ "its gradient of the weights: 13 partial sums", true, CAPTURE_CONV_WEIGHTS, 576, 64 * IMAGE(224), 64 *
	  IMAGE(224), 64 * 64 * 9,
	  9, 1, false, 2 * (2 * 576 * 64 * IMAGE(224) + 64 * 64 * 9) + 13 * 4 * 64 * 64 * 9 },
	{ "128 to 128 channels, fp32: 14 of them", false, CAPTURE_CONV_WEIGHTS, 12, 128 * IMAGE(28), 128 * IMAGE(28),
	  128 * 128 * 9, 9, 1,
	  false, 4 * (2 * 12 * 128 * IMAGE(28) + 128 * 128 * 9) + 14 * 4 * 128 * 128 * 9 },
	{ "256 to 256: only 3 fit", false, CAPTURE_CONV_WEIGHTS, 12, 256 * IMAGE(14), 256 * IMAGE(14), 256 * 256 * 9,
	  9, 1, false,
	  4 * (2 * 12 * 256 * IMAGE(14) + 256 * 256 * 9) + 3 * 4 * 256 * 256 * 9 },
	{ "512 to 512: a part of one", false, CAPTURE_CONV_WEIGHTS, 12, 512 * IMAGE(14), 512 * IMAGE(14), 512 * 512 *
	  9, 9, 1, false,
	  4 * (2 * 12 * 512 * IMAGE(14) + 512 * 512 * 9) + 4 * 512 * 512 * 9 / 12 * 11 },
	{ "the same in half precision", true, CAPTURE_CONV_WEIGHTS, 12, 512 * IMAGE(14), 512 * IMAGE(14), 512 * 512 *
	  9, 9, 1, false,
	  2 * (2 * 12 * 512 * IMAGE(14) + 512 * 512 * 9) + 4 * 512 * 512 * 9 / 12 * 10 },
	{ "1024 to 1024: none", false, CAPTURE_CONV_WEIGHTS, 5, 1024 * IMAGE(7), 1024 * IMAGE(7), 1024 * 1024 * 9, 9, 1, false,
	  4 * (2 * 5 * 1024 * IMAGE(7) + 1024 * 1024 * 9) },
	{ "one tap", false, CAPTURE_CONV_FORWARD, N, 256 * IMAGE(56), 64 * IMAGE(56), 256 * 64, 1, 1, false, 0 },
	{ "its gradient of the input", false, CAPTURE_CONV_INPUT, N, 256 * IMAGE(56), 64 * IMAGE(56), 256 * 64, 1, 1,
	  false, 0 },
	{ "and of the weights: a sum for each sample", true, CAPTURE_CONV_WEIGHTS, N, 256 * IMAGE(56), 64 * IMAGE(56),
	  256 * 64, 1, 1,
	  false, N * 4 * 256 * 64 },
	{ "channels last", true, CAPTURE_CONV_FORWARD, N, 64 * IMAGE(56), 64 * IMAGE(56), 64 * 64 * 9, 9, 1, true, 0 },
	{ "its gradient of the weights, fp16", true, CAPTURE_CONV_WEIGHTS, N, 64 * IMAGE(56), 64 * IMAGE(56), 64 * 64 *
	  9, 9, 1, true, 0 },
	{ "in fp32", false, CAPTURE_CONV_WEIGHTS, N, 64 * IMAGE(56), 64 * IMAGE(56), 64 * 64 * 9, 9, 1, true,
	  4 * (N * 64 * IMAGE(56) + 64 * 64 * 9) + 8 * MIB },
	{ "depthwise", false, CAPTURE_CONV_WEIGHTS, N, 96 * IMAGE(56), 96 * IMAGE(56), 96 * 49, 49, 96, false, 0 },
	{ "its gradient of the weights, channels last, ConvNeXt: unfolded", false, CAPTURE_CONV_WEIGHTS, 128, 192 * IMAGE(32), 192 *
	  IMAGE(32), 192 * 49, 49, 192, true, 4 * 128 * 192 * IMAGE(32) / 10 * 81 },
	{ "of more channels it is not", false, CAPTURE_CONV_WEIGHTS, 128, 384 * IMAGE(16), 384 * IMAGE(16), 384 * 49, 49, 384,
	  true, 0 },
	{ "in half precision: eight sums a sample", true, CAPTURE_CONV_WEIGHTS, 80, 128 * IMAGE(64), 128 * IMAGE(58), 128 * 49,
	  49, 128, true, 8 * 80 * 4 * 128 * 49 },
	{ "one tap that halves the image, ResNet50: copies", true, CAPTURE_CONV_FORWARD, 576, 256 * IMAGE(64), 512 * IMAGE(32), 256 *
	  512, 1, 1, false, 2 * 576 * (256 * IMAGE(64) + 512 * IMAGE(32)) },
	{ "groups of 24 channels, RegNet: padded to 32", false, CAPTURE_CONV_FORWARD, 56, 336 * IMAGE(14), 336 * IMAGE(14), 336 * 24 *
	  9, 9, 14, false, 4 * (2 * 56 * 336 * IMAGE(14) + 336 * 24 * 9) / 3 * 4 },
	{ "groups of four channels", false, CAPTURE_CONV_FORWARD, N, 128 * IMAGE(56), 128 * IMAGE(56), 128 * 4 * 9, 9,
	  32, false,
	  4 * (2 * N * 128 * IMAGE(56) + 128 * 4 * 9) },
	{ "a stem of 7 x 7, bf16: the image gets 8 channels", true, CAPTURE_CONV_FORWARD, 1536, 3 * IMAGE(224), 64 * IMAGE(112),
	  64 * 3 * 49, 49, 1, false, 2 * 1536 * (8 * IMAGE(224) + 64 * IMAGE(112)) },
	{ "in fp32 it is copied as it is", false, CAPTURE_CONV_FORWARD, 96, 3 * IMAGE(224), 64 * IMAGE(112), 64 * 3 *
	  49, 49, 1, false,
	  4 * 96 * (3 * IMAGE(224) + 64 * IMAGE(112)) },
	{ "a first convolution of 3 x 3 reads it in place", true, CAPTURE_CONV_FORWARD, 576, 3 * IMAGE(224), 64 *
	  IMAGE(224), 64 * 3 * 9, 9,
	  1, false, 0 },
	{ "its gradient does not", true, CAPTURE_CONV_WEIGHTS, 576, 3 * IMAGE(224), 64 * IMAGE(224), 64 * 3 * 9, 9, 1, false,
	  2 * 576 * (8 * IMAGE(224) + 64 * IMAGE(224)) + 8 * MIB },
	{ "but in fp32", false, CAPTURE_CONV_WEIGHTS, 64, 3 * IMAGE(224), 64 * IMAGE(224), 64 * 3 * 9, 9, 1, false, 0 },
	{ "one channel, 5 x 5, fp32: read as it is", false, CAPTURE_CONV_FORWARD, 1792, IMAGE(128), 16 * IMAGE(128), 16 * 25, 25, 1,
	  false, 0 },
	{ "nor does its gradient take anything", false, CAPTURE_CONV_WEIGHTS, 1792, IMAGE(128), 16 * IMAGE(128), 16 * 25, 25, 1,
	  false, 0 },
	{ "with a stride of 2", false, CAPTURE_CONV_WEIGHTS, 192, IMAGE(299), 24 * IMAGE(150), 24 * 25, 25, 1, false, 0 },
	{ "two channels: not measured", false, CAPTURE_CONV_FORWARD, 64, 2 * IMAGE(128), 16 * IMAGE(128), 16 * 2 * 25, 25, 1,
	  false, 4 * (64 * (2 * IMAGE(128) + 16 * IMAGE(128)) + 16 * 2 * 25) },
	{ "in half precision", true, CAPTURE_CONV_FORWARD, 1024, IMAGE(96), 64 * IMAGE(96), 64 * 25, 25, 1, false, 0 },
	{ "where the gradient has 8 channels", true, CAPTURE_CONV_WEIGHTS, 1024, IMAGE(96), 64 * IMAGE(96), 64 * 25, 25, 1, false,
	  2 * 1024 * (8 * IMAGE(96) + 64 * IMAGE(96)) },
	{ "patches of 4 x 4, fp32", false, CAPTURE_CONV_FORWARD, 144, 3 * IMAGE(224), 96 * IMAGE(56), 96 * 3 * 16, 16, 1, false,
	  4 * 144 * 4 * IMAGE(224) },
};

static void what_was_seen(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		const struct row *r = &rows[i];
		uint64_t size = r->half ? 2 : 4, got;
		const struct capture_conv v = { r->batch * r->in * size, r->batch * r->out * size, r->weight * size, r->taps,
						r->groups, r->direction, r->last };
		struct workspace_job j = { r->half, r->batch, 0, 0 };

		print_message("%s\n", r->what);
		if (r->in % 3 == 0 && r->in < 5 * IMAGE(224)) {
			j.image = v.in;
			j.first_weight = v.weight;
		}
		got = workspace_conv(&j, &v);
		assert_in_range(got, r->expected, r->expected + 511);
	}
}

/* The first convolution of a capture is the one that reads the image; precision decides on the size of an element. */
static void from_a_capture(void **state)
{
	struct capture_conv convs[] = { { 30, 40, 50, 9, 1, CAPTURE_CONV_FORWARD, false },
					{ 7, 8, 9, 1, 1, CAPTURE_CONV_FORWARD, false } };
	struct capture_record records[] = { { .kind = CAPTURE_ALLOC }, { .kind = CAPTURE_CONV, .id = 0 },
					    { .kind = CAPTURE_CONV, .id = 1 } };
	struct capture c = { .records = records, .n_records = COUNT_OF(records), .convs = convs, .n_convs = COUNT_OF(convs),
			     .batch = 5, .precision = "amp-bf16" };
	struct workspace_job j = workspace_job(&c);

	(void)state;
	assert_true(j.half && j.batch == 5 && j.image == 30 && j.first_weight == 50);
	snprintf(c.precision, sizeof c.precision, "tf32");
	c.n_records = 1;
	j = workspace_job(&c);
	assert_true(!j.half && !j.image && !j.first_weight);
}

/* No batch is known, no channel divides anything: nothing is divided by zero. */
static void nothing_known(void **state)
{
	const struct capture_conv v = { 0, 0, 0, 1, 1, CAPTURE_CONV_WEIGHTS, false };
	const struct workspace_job j = { 0 };

	(void)state;
	assert_true(workspace_conv(&j, &v) <= OVERHEADS_CONV_PARTIAL_FULL + 512);
}

/* A batch and weights that no network has come to no less than the rules say, though their product has no place in 64 bits. */
static void beyond_all_sizes(void **state)
{
	const struct workspace_job full = { .batch = (uint64_t)1 << 32 }, half = { .half = true, .batch = (uint64_t)1 << 32 };
	const struct capture_conv one_tap = { CAPTURE_MAX_REQUEST - 1, 0, CAPTURE_MAX_REQUEST, 1, 1, CAPTURE_CONV_WEIGHTS, false };
	const struct capture_conv depthwise = { 1, 1, (uint64_t)4 * 9 << 20, 9, 1 << 20, CAPTURE_CONV_WEIGHTS, true };

	(void)state;
	assert_int_equal(workspace_conv(&full, &one_tap), CAPTURE_MAX_REQUEST + OVERHEADS_CONV_TAIL);
	assert_int_equal(workspace_conv(&half, &depthwise), CAPTURE_MAX_REQUEST);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_seen), cmocka_unit_test(from_a_capture), cmocka_unit_test(nothing_known),
		cmocka_unit_test(beyond_all_sizes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
