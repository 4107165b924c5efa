/* SPDX-License-Identifier: MIT
 *
 * Made by bench/memory/learn_scratch.py from doc/results/memory/scratch.jsonl.gz: not for editing. */
#ifndef RAD_MODELS_CONV_SCRATCH_H
#define RAD_MODELS_CONV_SCRATCH_H

#include <stdint.h>

enum scratch_kind { SCRATCH_NONE, SCRATCH_COPIES, SCRATCH_SUMS };

enum scratch_feature {
	SCRATCH_BATCH, SCRATCH_IN, SCRATCH_OUT, SCRATCH_PIXELS, SCRATCH_OUT_PIXELS, SCRATCH_STRIDED, SCRATCH_WEIGHT_KIB,
	SCRATCH_PIXELS_MOD_8, SCRATCH_FEATURES,
};

/* x[feature] <= threshold: go to node `left`, else to `left` + 1; `left` 0: a leaf, of kind `threshold`. */
struct scratch_node { uint8_t feature, left; uint32_t threshold; };

static const struct scratch_node scratch_full_forward[] = {
	{ 6, 1, 2272 }, { 5, 3, 0 }, { 5, 7, 0 }, { 0, 11, 168 },
	{ 2, 5, 232 }, { 1, 29, 88 }, { 2, 25, 352 }, { 7, 9, 0 },
	{ 0, 0, SCRATCH_COPIES }, { 6, 23, 5056 }, { 6, 27, 5152 }, { 1, 31, 656 },
	{ 2, 13, 136 }, { 0, 0, SCRATCH_NONE }, { 3, 15, 56 }, { 0, 0, SCRATCH_COPIES },
	{ 1, 17, 304 }, { 3, 19, 226 }, { 0, 0, SCRATCH_NONE }, { 0, 0, SCRATCH_NONE },
	{ 1, 21, 136 }, { 0, 0, SCRATCH_NONE }, { 0, 0, SCRATCH_COPIES }, { 0, 0, SCRATCH_NONE },
	{ 0, 0, SCRATCH_COPIES }, { 0, 0, SCRATCH_COPIES }, { 0, 0, SCRATCH_COPIES }, { 3, 37, 242 },
	{ 0, 0, SCRATCH_COPIES }, { 0, 0, SCRATCH_NONE }, { 0, 0, SCRATCH_NONE }, { 0, 0, SCRATCH_NONE },
	{ 7, 33, 0 }, { 0, 0, SCRATCH_NONE }, { 7, 35, 2 }, { 0, 0, SCRATCH_COPIES },
	{ 0, 0, SCRATCH_NONE }, { 0, 0, SCRATCH_COPIES }, { 0, 0, SCRATCH_NONE },
};

static const struct scratch_node scratch_full_input[] = {
	{ 5, 1, 0 }, { 6, 5, 5280 }, { 1, 3, 176 }, { 0, 0, SCRATCH_NONE },
	{ 2, 19, 247 }, { 3, 7, 82 }, { 2, 15, 1728 }, { 6, 9, 188 },
	{ 6, 25, 3592 }, { 0, 0, SCRATCH_NONE }, { 2, 11, 496 }, { 2, 23, 248 },
	{ 0, 13, 132 }, { 0, 0, SCRATCH_NONE }, { 0, 0, SCRATCH_COPIES }, { 2, 17, 1088 },
	{ 0, 29, 30 }, { 0, 0, SCRATCH_COPIES }, { 3, 27, 226 }, { 0, 21, 84 },
	{ 0, 0, SCRATCH_COPIES }, { 0, 0, SCRATCH_COPIES }, { 0, 0, SCRATCH_COPIES }, { 0, 0, SCRATCH_COPIES },
	{ 0, 35, 80 }, { 2, 37, 416 }, { 1, 31, 1408 }, { 0, 0, SCRATCH_NONE },
	{ 0, 0, SCRATCH_NONE }, { 0, 0, SCRATCH_COPIES }, { 0, 0, SCRATCH_COPIES }, { 6, 33, 4208 },
	{ 0, 0, SCRATCH_NONE }, { 0, 0, SCRATCH_NONE }, { 0, 0, SCRATCH_NONE }, { 0, 0, SCRATCH_COPIES },
	{ 0, 0, SCRATCH_COPIES }, { 0, 0, SCRATCH_NONE }, { 0, 0, SCRATCH_NONE },
};

static const struct scratch_node scratch_full_weights[] = {
	{ 4, 1, 842 }, { 6, 3, 61 }, { 6, 11, 738 }, { 3, 9, 132 },
	{ 5, 5, 0 }, { 6, 7, 2059 }, { 0, 0, SCRATCH_COPIES }, { 0, 15, 152 },
	{ 3, 27, 680 }, { 0, 23, 15 }, { 0, 0, SCRATCH_NONE }, { 5, 19, 0 },
	{ 3, 13, 2120 }, { 0, 0, SCRATCH_SUMS }, { 0, 0, SCRATCH_NONE }, { 0, 0, SCRATCH_SUMS },
	{ 3, 17, 182 }, { 6, 21, 263 }, { 0, 0, SCRATCH_SUMS }, { 1, 29, 36 },
	{ 1, 25, 88 }, { 0, 0, SCRATCH_SUMS }, { 0, 0, SCRATCH_COPIES }, { 0, 0, SCRATCH_NONE },
	{ 0, 0, SCRATCH_SUMS }, { 0, 0, SCRATCH_NONE }, { 0, 0, SCRATCH_COPIES }, { 2, 33, 800 },
	{ 0, 0, SCRATCH_SUMS }, { 0, 31, 60 }, { 0, 37, 1 }, { 0, 0, SCRATCH_COPIES },
	{ 0, 0, SCRATCH_NONE }, { 3, 35, 182 }, { 0, 0, SCRATCH_COPIES }, { 0, 0, SCRATCH_COPIES },
	{ 0, 0, SCRATCH_SUMS }, { 0, 0, SCRATCH_SUMS }, { 0, 0, SCRATCH_NONE },
};

static const struct scratch_node scratch_half_forward[] = {
	{ 5, 1, 0 }, { 6, 5, 594 }, { 2, 3, 120 }, { 0, 19, 17 },
	{ 0, 0, SCRATCH_COPIES }, { 6, 7, 71 }, { 7, 9, 0 }, { 0, 0, SCRATCH_NONE },
	{ 3, 11, 56 }, { 3, 21, 2120 }, { 3, 13, 74 }, { 0, 0, SCRATCH_COPIES },
	{ 7, 29, 0 }, { 0, 37, 52 }, { 6, 15, 2640 }, { 3, 17, 3133 },
	{ 0, 0, SCRATCH_COPIES }, { 0, 25, 608 }, { 0, 0, SCRATCH_COPIES }, { 0, 0, SCRATCH_COPIES },
	{ 3, 23, 530 }, { 1, 35, 1408 }, { 0, 0, SCRATCH_NONE }, { 0, 27, 208 },
	{ 0, 0, SCRATCH_NONE }, { 0, 0, SCRATCH_NONE }, { 0, 0, SCRATCH_NONE }, { 0, 0, SCRATCH_COPIES },
	{ 0, 0, SCRATCH_NONE }, { 0, 0, SCRATCH_NONE }, { 0, 31, 240 }, { 1, 33, 544 },
	{ 0, 0, SCRATCH_NONE }, { 0, 0, SCRATCH_NONE }, { 0, 0, SCRATCH_COPIES }, { 0, 0, SCRATCH_NONE },
	{ 0, 0, SCRATCH_COPIES }, { 0, 0, SCRATCH_COPIES }, { 0, 0, SCRATCH_COPIES },
};

static const struct scratch_node scratch_half_input[] = {
	{ 5, 1, 0 }, { 1, 3, 496 }, { 0, 21, 9 }, { 3, 17, 56 },
	{ 3, 5, 182 }, { 0, 7, 92 }, { 3, 11, 5404 }, { 6, 15, 608 },
	{ 1, 9, 700 }, { 0, 0, SCRATCH_NONE }, { 6, 13, 1404 }, { 3, 25, 4568 },
	{ 2, 37, 544 }, { 0, 0, SCRATCH_COPIES }, { 0, 0, SCRATCH_COPIES }, { 0, 0, SCRATCH_NONE },
	{ 0, 0, SCRATCH_NONE }, { 2, 19, 255 }, { 0, 0, SCRATCH_NONE }, { 0, 0, SCRATCH_NONE },
	{ 0, 0, SCRATCH_COPIES }, { 3, 23, 962 }, { 0, 0, SCRATCH_COPIES }, { 0, 0, SCRATCH_COPIES },
	{ 0, 0, SCRATCH_COPIES }, { 0, 27, 21 }, { 0, 0, SCRATCH_NONE }, { 0, 0, SCRATCH_NONE },
	{ 0, 29, 104 }, { 1, 31, 800 }, { 0, 0, SCRATCH_NONE }, { 0, 0, SCRATCH_NONE },
	{ 6, 33, 2640 }, { 3, 35, 904 }, { 0, 0, SCRATCH_NONE }, { 0, 0, SCRATCH_NONE },
	{ 0, 0, SCRATCH_NONE }, { 0, 0, SCRATCH_NONE }, { 0, 0, SCRATCH_COPIES },
};

static const struct scratch_node scratch_half_weights[] = {
	{ 4, 1, 1690 }, { 6, 3, 88 }, { 5, 7, 0 }, { 3, 9, 306 },
	{ 4, 5, 530 }, { 0, 21, 11 }, { 3, 15, 1800 }, { 6, 11, 1106 },
	{ 0, 0, SCRATCH_COPIES }, { 5, 17, 0 }, { 5, 13, 0 }, { 6, 33, 254 },
	{ 3, 29, 4568 }, { 6, 19, 29 }, { 0, 0, SCRATCH_COPIES }, { 0, 0, SCRATCH_SUMS },
	{ 0, 0, SCRATCH_COPIES }, { 0, 0, SCRATCH_SUMS }, { 6, 37, 11 }, { 0, 0, SCRATCH_NONE },
	{ 3, 31, 962 }, { 5, 25, 0 }, { 6, 23, 230 }, { 0, 0, SCRATCH_COPIES },
	{ 0, 0, SCRATCH_COPIES }, { 6, 27, 1448 }, { 0, 0, SCRATCH_COPIES }, { 0, 0, SCRATCH_SUMS },
	{ 0, 0, SCRATCH_COPIES }, { 0, 0, SCRATCH_SUMS }, { 0, 0, SCRATCH_COPIES }, { 0, 0, SCRATCH_SUMS },
	{ 0, 0, SCRATCH_NONE }, { 0, 0, SCRATCH_NONE }, { 3, 35, 3616 }, { 0, 0, SCRATCH_SUMS },
	{ 0, 0, SCRATCH_NONE }, { 0, 0, SCRATCH_NONE }, { 0, 0, SCRATCH_COPIES },
};

/* By element (fp32 with TF32, half) and direction (forward, input, weights). */
static const struct scratch_node *const scratch_trees[2][3] = {
	{ scratch_full_forward, scratch_full_input, scratch_full_weights },
	{ scratch_half_forward, scratch_half_input, scratch_half_weights },
};

#endif
