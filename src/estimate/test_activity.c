/* SPDX-License-Identifier: MIT
 * What a step is said to take and do: steps small enough to work out by hand, GPUs that are known and those that are not, and
 * figures that no training step has.
 */
#include "estimate/activity.h"

#include "base/scope.h"
#include "models/activity.h"
#include "models/gpus.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define H200 "NVIDIA H200"

/* n products of 8192 x 8192 matrices in TF32. */
static struct capture_kernel products(uint64_t n)
{
	const uint64_t side = 8192;

	return (struct capture_kernel){ .count = n, .flops = n * 2 * side * side * side, .bytes = n * 3 * 4 * side * side,
		.blocks = n * side / 128 * side / 64, .depth = n * side, .class = KERNEL_PRODUCT, .unit = UNIT_TF32 };
}

static struct capture_kernel tiny(uint64_t n)
{
	return (struct capture_kernel){ .count = n, .flops = n * 1000, .bytes = n * 8000, .blocks = n, .class = KERNEL_POINTWISE };
}

static struct activity of(const struct capture_kernel *kernels, size_t n, const struct capture_host *host, const char *gpu)
{
	const struct capture c = { .kernels = (struct capture_kernel *)kernels, .n_kernels = n, .host = *host };
	struct activity a;

	assert_int_equal(activity_from_capture(&c, gpu, &a, NULL), 0);
	return a;
}

static const struct capture_host idle_host = { .forward = 10, .backward = 10 };

static void test_products_decide(void **state)
{
	const struct capture_kernel k = products(10);
	struct activity a = of(&k, 1, &idle_host, H200);
	double expected = 10 * 2 * pow(8192, 3) / (494.7e12 * activity_classes[KERNEL_PRODUCT].compute[UNIT_TF32]);

	(void)state;
	assert_true(fabs(a.step_s / expected - 1) < 0.05);
	assert_true(a.host_s < 0.1 * a.busy_s);
	assert_true(a.load.load.gract > 0.99 && a.load.load.smact > 0.8 && a.load.load.smact <= a.load.load.gract);
	assert_true(a.kernels == 10 && a.flops == (double)k.flops);
	assert_int_equal(a.load.source, LOAD_GUESSED);
	assert_true(a.load.watts > 300 && a.load.watts <= 700);
}

/* Where the capture counted them; of the time between them it may know what evaluations take. */
static void test_steps_of_a_run(void **state)
{
	struct capture_kernel k = products(10);
	struct capture c = { .kernels = &k, .n_kernels = 1, .host = idle_host, .steps = 5000 };
	struct activity a;

	(void)state;
	assert_int_equal(activity_from_capture(&c, H200, &a, NULL), 0);
	assert_true(a.steps == 5000 && fabs(a.load.run_s / (5000 * a.step_s) - 1) < 1e-9);
	c.beside = 250;
	assert_int_equal(activity_from_capture(&c, H200, &a, NULL), 0);
	assert_true(a.steps == 5000 && fabs(a.load.run_s / (5250 * a.step_s) - 1) < 1e-9);
	c.steps = 0;
	assert_int_equal(activity_from_capture(&c, H200, &a, NULL), 0);
	assert_true(a.steps == 0 && a.load.run_s == 0);
	a = of(&k, 1, &idle_host, H200);
	assert_true(a.steps == 0 && a.load.run_s == 0);
}

/* Whichever comes first: its steps are over, or its own clock ends it, at whatever pace. */
static void test_a_run_that_its_own_clock_ends(void **state)
{
	struct capture_kernel k = products(10);
	struct capture c = { .kernels = &k, .n_kernels = 1, .host = idle_host, .limit_ms = 60000 };
	struct activity a;

	(void)state;
	assert_int_equal(activity_from_capture(&c, H200, &a, NULL), 0);
	assert_true(load_run_s(&a.load) == 60);
	c.steps = 5;
	assert_int_equal(activity_from_capture(&c, H200, &a, NULL), 0);
	assert_true(load_run_s(&a.load) == a.load.run_s && a.load.run_s < 60);
	c.steps = (uint64_t)(180 / a.step_s);
	assert_int_equal(activity_from_capture(&c, H200, &a, NULL), 0);
	assert_true(load_run_s(&a.load) == 60 && a.load.run_s > 170);
	c.limit_ms = 0;
	assert_int_equal(activity_from_capture(&c, H200, &a, NULL), 0);
	assert_true(load_run_s(&a.load) == a.load.run_s && a.load.run_s > 170);
}

static void test_memory_decides(void **state)
{
	const struct capture_kernel k = { .count = 4, .flops = 4u << 28, .bytes = (uint64_t)4 << 31, .blocks = 4u << 18,
		.class = KERNEL_POINTWISE };
	struct activity a = of(&k, 1, &idle_host, H200);

	(void)state;
	assert_true(fabs(a.step_s / (4 * 2147483648.0 / (4.8e12 * activity_classes[KERNEL_POINTWISE].memory)) - 1) < 0.05);
	assert_true(a.load.dram > 0.5);
}

/* A thousand small operators: the GPU waits for the host, whose time is the step's. */
static void test_the_host_decides(void **state)
{
	const struct capture_kernel k = tiny(1000);
	const struct capture_host host = { .forward = 500, .backward = 500, .modules = 200 };
	struct activity a = of(&k, 1, &host, H200);
	double us = 500 * activity_host_us.forward + 500 * activity_host_us.backward + 200 * activity_host_us.modules +
		    activity_host_us.step;

	(void)state;
	assert_true(fabs(a.host_s / (us * 1e-6) - 1) < 1e-9);
	assert_true(a.step_s >= a.host_s && a.step_s < 1.1 * a.host_s);
	assert_true(a.load.load.gract < 0.9 && a.load.load.smact < 0.3);
}

/* Where the script waits for the GPU, neither runs ahead of the other. */
static void test_waits_add_up(void **state)
{
	const struct capture_kernel k = products(1);
	struct capture_host host = { .forward = 500 };
	struct activity before = of(&k, 1, &host, H200), after;

	(void)state;
	host.waits = 1;
	after = of(&k, 1, &host, H200);
	assert_true(after.step_s > before.step_s + 0.9 * ACTIVITY_WAIT * fmin(before.host_s, before.busy_s));
	assert_true(after.load.load.gract < before.load.load.gract);
}

static void test_copies_take_their_time(void **state)
{
	const struct capture_kernel k = tiny(10);
	struct capture_host host = idle_host;
	double before = of(&k, 1, &host, H200).step_s;

	(void)state;
	host.transferred = 94000000;
	assert_true(fabs(of(&k, 1, &host, H200).step_s - before - 0.094 / ACTIVITY_COPY_GB_S) < 1e-9);
}

/* The GPU's seconds of one kernel, without what any launch costs. */
static double alone(struct capture_kernel k)
{
	double busy_s;

	k.count = 1;
	busy_s = of(&k, 1, &idle_host, H200).busy_s;
	return busy_s - 1e-6 * (activity_classes[k.class].fixed_us + ACTIVITY_GAP_US);
}

static bool alike(double a, double b)
{
	return fabs(a / b - 1) < 1e-9;
}

static struct capture_kernel normalised(unsigned channels, bool last)
{
	return (struct capture_kernel){ .count = 1, .bytes = (uint64_t)8 << 26, .blocks = channels, .depth = (1 << 26) / channels,
		.class = KERNEL_CHANNEL_NORM, .layout = last };
}

/* Of the time that it takes, how much of all SMs. */
static double filled(struct capture_kernel k)
{
	struct share_task load = of(&k, 1, &idle_host, H200).load.load;

	return load.smact / load.gract;
}

/* A block goes over its channel value by value, of whatever type; few channels leave SMs idle. Channels last, memory is all. */
static void test_normalisation_goes_by_its_channels(void **state)
{
	const double memory = 8 * (1 << 26) / (4.8e12 * activity_classes[KERNEL_CHANNEL_NORM].memory);
	struct capture_kernel few = normalised(16, false), many = normalised(4096, false), last = normalised(16, true);

	(void)state;
	assert_true(alike(alone(few), 1e-9 * ACTIVITY_CHANNEL_NS * (1 << 22)));
	assert_true(alike(alone(many), fmax(memory, 1e-9 * ACTIVITY_CHANNEL_NS * (1 << 26) / 132)));
	assert_true(alike(alone(last), memory));
	assert_true(filled(few) < 0.2 * filled(many) && filled(last) > 0.9 * filled(many));
	few.unit = last.unit = UNIT_HALF;
	assert_true(alike(alone(few), 1e-9 * ACTIVITY_CHANNEL_NS * ACTIVITY_CHANNEL_HALF * (1 << 22)));
	assert_true(alike(alone(last), memory));
}

/* By the values that it looks at, not by their bytes, where memory does not take longer. */
static void test_pooling_goes_by_its_windows(void **state)
{
	struct capture_kernel k = { .bytes = (uint64_t)2 << 26, .blocks = 1 << 16, .class = KERNEL_POOL };
	double windows = 1e-9 * ACTIVITY_WINDOW_NS * (1 << 26) / 132;

	(void)state;
	assert_true(alike(alone(k), windows));
	k.bytes = (uint64_t)64 << 26;
	assert_true(alike(alone(k), 64.0 * (1 << 26) / (4.8e12 * activity_classes[KERNEL_POOL].memory)) && alone(k) > windows);
}

/* Units that multiply matrices take channels last: what is not costs one more pass over its bytes, in fp32 proper nothing. */
static void test_planar_convolutions_are_turned(void **state)
{
	struct capture_kernel k = { .flops = (uint64_t)1 << 30, .bytes = (uint64_t)1 << 28, .blocks = 1 << 16, .depth = 64,
		.class = KERNEL_CONV_OUT };
	double turned = 1e-6 * ACTIVITY_TURNED_US + 268435456 / (4.8e12 * ACTIVITY_TURNED);

	(void)state;
	for (unsigned unit = UNIT_SINGLE; unit <= UNIT_HALF; unit++) {
		struct capture_kernel last = k;

		k.unit = last.unit = (uint8_t)unit;
		last.layout = 1;
		assert_true(alike(alone(k) + 1e-3, alone(last) + 1e-3 + (unit == UNIT_SINGLE ? 0 : turned)));
	}
}

/* One block a channel computes each tap: at 3 x 3 memory may decide, at 7 x 7 it does not. */
static void test_depthwise_goes_by_its_taps(void **state)
{
	const double peak = 66.9e12, values = 1 << 26;
	struct capture_kernel k = { .bytes = (uint64_t)8 << 26, .blocks = 1 << 16, .class = KERNEL_DEPTHWISE, .unit = UNIT_TF32 };

	(void)state;
	for (unsigned last = 0; last <= 1; last++)
		for (unsigned side = 1; side <= 7; side += 2) {
			double compute = 2.0 * values * side * side / (peak * activity_taps[last]);
			double memory = 8 * values / (4.8e12 * activity_classes[KERNEL_DEPTHWISE].memory);

			k.flops = (uint64_t)(2 * values * side * side);
			k.layout = (uint8_t)last;
			assert_true(alike(alone(k), fmax(compute, memory)));
			assert_true(side != 7 || compute > memory);
		}
}

/* By layout, and channels last by type. */
static void test_depthwise_weights(void **state)
{
	static const struct { uint8_t layout, unit; unsigned strips; } rows[] = {
		{ 0, UNIT_SINGLE, 0 }, { 0, UNIT_HALF, 0 }, { 1, UNIT_TF32, 1 }, { 1, UNIT_SINGLE, 1 }, { 1, UNIT_HALF, 2 },
	};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct capture_kernel k = { .bytes = 8, .blocks = 9 * 512, .depth = 1 << 20, .class = KERNEL_DEPTHWISE_WEIGHTS,
			.layout = rows[i].layout, .unit = rows[i].unit };

		assert_true(alike(alone(k), 2.0 * 9 * 512 * 1048576 / (66.9e12 * activity_strips[rows[i].strips])));
	}
}

/* What computes is slower on a GPU that computes less; what waits for the host is not. */
static void test_another_gpu(void **state)
{
	const struct capture_kernel heavy = products(10), light = tiny(1000);
	const struct capture_host host = { .forward = 2000 };
	struct activity here = of(&heavy, 1, &idle_host, H200), there = of(&heavy, 1, &idle_host, "NVIDIA A100-SXM4-40GB");

	(void)state;
	assert_true(fabs(there.step_s / here.step_s - 494.7 / 156) < 0.05 * 494.7 / 156);
	assert_true(there.step_spread > here.step_spread && there.load.smact_sd > here.load.smact_sd);
	assert_true(fabs(of(&light, 1, &host, "NVIDIA A100-SXM4-40GB").step_s / of(&light, 1, &host, H200).step_s - 1) < 0.05);
}

static void test_doubts_widen(void **state)
{
	const struct capture_kernel k = products(1);
	struct capture c = { .kernels = (struct capture_kernel *)&k, .n_kernels = 1, .host = idle_host };
	struct activity sure, unsure;

	(void)state;
	assert_int_equal(activity_from_capture(&c, H200, &sure, NULL), 0);
	c.flags = CAPTURE_COMPILED;
	assert_int_equal(activity_from_capture(&c, H200, &unsure, NULL), 0);
	assert_true(unsure.step_spread > sure.step_spread && unsure.step_s == sure.step_s);
}

/* Names as drivers give them. */
static void test_names_of_gpus(void **state)
{
	static const struct { const char *name; double gb_s; } known[] = {
		{ "NVIDIA A100-SXM4-40GB", 1555 }, { "NVIDIA A100-SXM4-80GB", 2039 }, { "NVIDIA A100 80GB PCIe", 1935 },
		{ "NVIDIA A100-PCIE-40GB", 1555 }, { "NVIDIA H100 80GB HBM3", 3352 }, { "NVIDIA H100 PCIe", 2039 },
		{ "NVIDIA H100 NVL", 3938 }, { "NVIDIA H200", 4800 }, { "Tesla V100-SXM2-16GB", 900 }, { "Tesla T4", 320 },
		{ "NVIDIA L4", 300 }, { "NVIDIA L40S", 864 }, { "NVIDIA A10", 600 }, { "NVIDIA A10G", 600 }, { "NVIDIA A40", 696 },
		{ "NVIDIA RTX A6000", 768 }, { "NVIDIA GeForce RTX 3090", 936 }, { "NVIDIA GeForce RTX 3090 Ti", 1008 },
		{ "NVIDIA GeForce RTX 4090", 1008 }, { "NVIDIA B200", 8000 }, { "h200", 4800 },
		{ "NVIDIA A800-SXM4-80GB", 2039 }, { "NVIDIA A800 80GB PCIe", 1935 }, { "NVIDIA H800", 3352 }, { "NVIDIA H800 PCIe", 2039 },
		{ "NVIDIA H20", 4000 }, { "NVIDIA L20", 864 }, { "NVIDIA L40", 864 }, { "NVIDIA A30", 933 }, { "Tesla P100-PCIE-16GB", 732 },
		{ "Tesla P100-SXM2-16GB", 732 }, { "NVIDIA RTX 6000 Ada Generation", 960 }, { "NVIDIA GeForce RTX 5080", 960 },
		{ "NVIDIA RTX PRO 6000 Blackwell Workstation Edition", 1792 }, { "NVIDIA GeForce RTX 5090", 1792 },
		{ "NVIDIA GeForce RTX 4080", 717 }, { "NVIDIA GeForce RTX 4070", 504 }, { "NVIDIA GeForce RTX 4070 Ti", 504 },
		{ "NVIDIA GeForce RTX 3070", 448 }, { "NVIDIA GeForce RTX 3070 Ti", 608 },
		{ "h200-141g", 4800 }, { "a100-40g", 1555 }, { "NVIDIA GH200 480GB", 4000 }, { "NVIDIA GH200 144G HBM3e", 4900 },
		{ "NVIDIA RTX A4000", 448 }, { "NVIDIA GeForce RTX 4080 SUPER", 736 },
		{ "NVIDIA GeForce RTX 4070 Ti SUPER", 672 }, { "NVIDIA GeForce RTX 2080 Ti", 616 }, { "NVIDIA A2", 200 },
		{ "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", 1792 }, { "NVIDIA GeForce RTX 2080", 448 },
		{ "NVIDIA TITAN RTX", 672 }, { "Quadro RTX 8000", 672 },
		{ "NVIDIA RTX 5000 Ada Generation", 576 }, { "NVIDIA GeForce GTX 1080 Ti", 484 }, { "NVIDIA GeForce RTX 3060 Ti", 448 },
	};
	static const char *const unknown[] = { "", "NVIDIA RTX A2000", "NVIDIA T400", "NVIDIA A100X-unknown", "NVIDIA RTX PRO 6000",
		"NVIDIA GB200", "NVIDIA H200 MIG 1g.18gb", "NVIDIA GeForce RTX 4090 Laptop GPU", "GRID A10-8Q", "NVIDIA A40-48C",
		"NVIDIA GeForce RTX 3080 SUPER", "NVIDIA GeForce RTX 2080 Super with Max-Q Design",
		"AMD Instinct MI300X", "A workstation's GPU" };
	const struct capture_kernel k = { .count = 1, .bytes = (uint64_t)1 << 34, .blocks = 1 << 20, .class = KERNEL_POINTWISE };
	const struct capture c = { .kernels = (struct capture_kernel *)&k, .n_kernels = 1 };
	struct error err = ERROR_INIT;
	struct activity a;

	(void)state;
	for (size_t i = 0; i < COUNT_OF(known); i++) {
		a = of(&k, 1, &idle_host, known[i].name);
		double gb_s = 17179869184e-9 / activity_classes[KERNEL_POINTWISE].memory / a.busy_s;

		if (fabs(gb_s / known[i].gb_s - 1) > 0.01)
			fail_msg("%s: taken for one of %.0f GB/s", known[i].name, gb_s);
	}
	for (size_t i = 0; i < COUNT_OF(unknown); i++) {
		assert_int_equal(activity_from_capture(&c, unknown[i], &a, &err), -1);
		assert_int_equal(a.load.source, LOAD_UNKNOWN);
		assert_non_null(strstr(err.text, "no figures of the GPU"));
	}
	assert_int_equal(activity_from_capture(&c, NULL, &a, &err), -1);
	assert_non_null(strstr(err.text, "--gpu-model"));
}

static void test_no_load_in_the_capture(void **state)
{
	const struct capture older = { .batch = 8 };
	struct error err = ERROR_INIT;
	struct activity a;

	(void)state;
	assert_int_equal(activity_from_capture(&older, H200, &a, &err), -1);
	assert_non_null(strstr(err.text, "capture again"));
	assert_true(a.step_s == 0 && a.load.source == LOAD_UNKNOWN);
}

static void test_absurd_steps_are_unknown(void **state)
{
	const uint64_t most = CAPTURE_MAX_WORK;
	const struct capture_kernel kernels[] = { { most, most, most, most, most, KERNEL_PRODUCT, UNIT_SINGLE, 0 },
		{ .count = most, .class = KERNEL_SORT }, { .count = 1, .bytes = most, .class = KERNEL_COPY } };
	struct capture c = { .n_kernels = 1 };
	struct error err = ERROR_INIT;
	struct activity a;

	(void)state;
	for (size_t i = 0; i < COUNT_OF(kernels); i++) {
		c.kernels = (struct capture_kernel *)&kernels[i];
		assert_int_equal(activity_from_capture(&c, H200, &a, &err), -1);
		assert_non_null(strstr(err.text, "not those of a training step"));
		assert_true(a.step_s == 0 && a.load.source == LOAD_UNKNOWN);
	}
}

/* Whatever the figures: unknown, or all of it finite and in its bounds. */
static void test_any_figures(void **state)
{
	struct capture_kernel k[3];
	const struct capture c = { .kernels = k, .n_kernels = COUNT_OF(k), .host = { .forward = 3, .transferred = 7 } };
	unsigned known = 0;

	(void)state;
	srand(1);
	for (unsigned n = 0; n < 20000; n++) {
		struct activity a;

		for (size_t i = 0; i < COUNT_OF(k); i++)
			k[i] = (struct capture_kernel){ 1 + (uint64_t)rand() % 100, (uint64_t)rand() << rand() % 29,
				(uint64_t)rand() << rand() % 29, (uint64_t)rand() % 1000, (uint64_t)rand() % 5000,
				(uint8_t)(rand() % KERNEL_CLASSES), (uint8_t)(rand() % UNIT_COUNT), (uint8_t)(rand() % CAPTURE_LAYOUTS) };
		if (activity_from_capture(&c, n % 2 ? H200 : "Tesla T4", &a, NULL))
			continue;
		known++;
		assert_true(isfinite(a.step_s) && a.step_s > 0 && a.step_s >= a.host_s && a.step_spread > 0);
		assert_true(a.load.load.gract >= 0 && a.load.load.gract <= 1 && a.load.load.smact >= 0);
		assert_true(a.load.load.smact <= a.load.load.gract && a.load.dram >= 0 && a.load.dram <= 1);
		assert_true(a.load.watts >= 10 && a.load.watts <= 700 && a.load.smact_sd > 0 && a.load.smact_sd <= LOAD_VAGUE_SD);
	}
	assert_true(known > 10000);
}

static void test_tables_are_whole(void **state)
{
	(void)state;
	assert_int_equal(COUNT_OF(activity_classes), KERNEL_CLASSES);
	assert_int_equal(COUNT_OF(activity_uneven), UNIT_COUNT);
	for (size_t i = 0; i < KERNEL_CLASSES; i++) {
		const struct activity_class *c = &activity_classes[i];

		assert_true(c->fixed_us > 0 && c->memory > 0 && c->active > 0);
		for (size_t k = 0; k < UNIT_COUNT; k++)
			assert_true(c->compute[k] > 0);
	}
	for (const struct gpus_row *g = gpus_table; *g->words; g++)
		assert_true(g->sms && g->single > 0 && g->tf32 > 0 && g->half > 0 && g->twice > 0 && g->gb_s > 0 && g->l2_mib > 0 &&
			    g->idle_w > 0 && g->board_w > g->idle_w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_products_decide), cmocka_unit_test(test_steps_of_a_run),
		cmocka_unit_test(test_a_run_that_its_own_clock_ends),
		cmocka_unit_test(test_memory_decides), cmocka_unit_test(test_the_host_decides),
		cmocka_unit_test(test_waits_add_up), cmocka_unit_test(test_copies_take_their_time),
		cmocka_unit_test(test_normalisation_goes_by_its_channels),
		cmocka_unit_test(test_pooling_goes_by_its_windows), cmocka_unit_test(test_planar_convolutions_are_turned),
		cmocka_unit_test(test_depthwise_goes_by_its_taps), cmocka_unit_test(test_depthwise_weights),
		cmocka_unit_test(test_another_gpu), cmocka_unit_test(test_doubts_widen), cmocka_unit_test(test_names_of_gpus),
		cmocka_unit_test(test_no_load_in_the_capture), cmocka_unit_test(test_absurd_steps_are_unknown),
		cmocka_unit_test(test_any_figures), cmocka_unit_test(test_tables_are_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
