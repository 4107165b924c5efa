/* SPDX-License-Identifier: MIT
 * The sharing models: their properties on random mixes, and the published figures.
 */
#include "share/share.h"

#include "models/share.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>

#define MOST 48
#define ROUNDS 2000

static uint64_t seed;

/* splitmix64: the same mixes in every run. */
static double next_unit(void)
{
	uint64_t z = (seed += 0x9e3779b97f4a7c15u);
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return (double)((z ^ (z >> 31)) >> 11) / 9007199254740992.0;
}

static size_t random_mix(struct share_task *tasks)
{
	size_t n = 2 + (size_t)(next_unit() * (MOST - 2));
	if (next_unit() < 0.5)
		n = 2 + n % 4;
	for (size_t i = 0; i < n; i++) {
		double gract = next_unit();
		tasks[i] = (struct share_task){ gract, gract * next_unit(), 0 };
		if (next_unit() < 0.05)
			tasks[i].smact = NAN;
	}
	return n;
}

static const enum share_mode modes[] = { SHARE_STREAMS, SHARE_MPS };

static void test_speeds_are_fractions(void **state)
{
	(void)state;
	struct share_task tasks[MOST];
	double speed[MOST];
	seed = 1;
	for (int round = 0; round < ROUNDS; round++) {
		size_t n = random_mix(tasks);
		for (size_t m = 0; m < 2; m++) {
			share_speeds(tasks, n, modes[m], speed);
			for (size_t i = 0; i < n; i++)
				assert_true(speed[i] > 0 && speed[i] <= 1);
		}
	}
}

static size_t random_mix_with_kernels(struct share_task *tasks);
static void assert_near(double got, double want, double relative);

static void test_order_does_not_matter(void **state)
{
	(void)state;
	struct share_task tasks[MOST], turned[MOST];
	double speed[MOST], again[MOST];
	seed = 2;
	for (int round = 0; round < ROUNDS; round++) {
		size_t n = round % 2 ? random_mix(tasks) : random_mix_with_kernels(tasks), by = 1 + (size_t)(next_unit() * (double)(n - 1));
		for (size_t i = 0; i < n; i++)
			turned[i] = tasks[(i + by) % n];
		for (size_t m = 0; m < 2; m++) {
			share_speeds(tasks, n, modes[m], speed);
			share_speeds(turned, n, modes[m], again);
			for (size_t i = 0; i < n; i++)
				assert_true(fabs(again[i] - speed[(i + by) % n]) < 1e-9);
		}
	}
}

static void test_an_arrival_speeds_nobody_up(void **state)
{
	(void)state;
	struct share_task tasks[MOST];
	double with[MOST], without[MOST];
	seed = 3;
	for (int round = 0; round < ROUNDS; round++) {
		size_t n = random_mix(tasks);
		for (size_t m = 0; m < 2; m++) {
			share_speeds(tasks, n - 1, modes[m], without);
			share_speeds(tasks, n, modes[m], with);
			for (size_t i = 0; i < n - 1; i++)
				assert_true(with[i] <= without[i] + 1e-9);
		}
	}
}

static void test_streams_use_their_capacity(void **state)
{
	(void)state;
	struct share_task tasks[MOST];
	double speed[MOST];
	seed = 5;
	for (int round = 0; round < ROUNDS; round++) {
		size_t n = random_mix(tasks);
		double gract = 0;
		for (size_t i = 0; i < n; i++) {
			tasks[i].gract = 0.02 + 0.98 * tasks[i].gract;
			gract += tasks[i].gract;
		}
		share_speeds(tasks, n, SHARE_STREAMS, speed);
		assert_true(fabs(share_activity(tasks, n, speed).gract - fmin(gract, SHARE_STREAMS_CAPACITY)) < 1e-9);
	}
}

/* What the speeds would be if a full GPU's kernels took no longer. */
static void uncrowd(const struct share_task *tasks, size_t n, double *speed)
{
	double sum = 0;
	for (size_t i = 0; i < n; i++)
		sum += tasks[i].smact;
	for (size_t i = 0; i < n; i++)
		speed[i] *= 1 + SHARE_CROWDING * fmax(sum - SHARE_CROWDED, 0);
}

/* The law as it is said in doc/share.md, each task's speed from those of the others. */
static void test_mps_speeds_are_the_fixed_point(void **state)
{
	(void)state;
	struct share_task tasks[MOST];
	double speed[MOST];
	seed = 6;
	for (int round = 0; round < ROUNDS; round++) {
		size_t n = random_mix(tasks);
		double rho = 0;
		for (size_t i = 0; i < n; i++) {
			tasks[i].gract = 0.1 + 0.9 * tasks[i].gract;	/* none below the least load */
			tasks[i].smact = tasks[i].gract * (0.1 + 0.9 * (double)i / MOST);
		}
		share_speeds(tasks, n, SHARE_MPS, speed);
		uncrowd(tasks, n, speed);
		for (size_t i = 0; i < n; i++)
			rho += tasks[i].smact * speed[i];
		assert_true(rho < SHARE_MPS_CAPACITY);
		for (size_t i = 0; i < n; i++) {
			double others = rho - tasks[i].smact * speed[i];
			double kernels = pow(tasks[i].gract, 13.0 / 16) / (1 - others / SHARE_MPS_CAPACITY);
			if (fabs(speed[i] - 1 / fmax(1, kernels)) > 1e-9)
				fail_msg("round %d: %zu of %zu: %.12f, not %.12f", round, i, n, speed[i], 1 / fmax(1, kernels));
		}
	}
}

/* With the kernels of all known: of any length from 1 to 1000 microseconds, which is more than counts. */
static size_t random_mix_with_kernels(struct share_task *tasks)
{
	size_t n = random_mix(tasks);
	for (size_t i = 0; i < n; i++) {
		if (isnan(tasks[i].smact))
			tasks[i].smact = tasks[i].gract / 2;
		tasks[i].gract = 0.1 + 0.9 * tasks[i].gract;
		tasks[i].smact = fmax(tasks[i].smact, 0.01);
		tasks[i].kernels = tasks[i].gract * 1e6 / pow(1000, next_unit());
	}
	return n;
}

static double kernel_us(const struct share_task *t)
{
	return fmin(fmax(t->gract / t->kernels * 1e6, SHARE_SHORTEST_KERNEL_US), SHARE_LONGEST_KERNEL_US);
}

static void test_launches_wait(void **state)
{
	(void)state;
	struct share_task tasks[MOST];
	double speed[MOST], plain[MOST];
	seed = 7;
	for (int round = 0; round < ROUNDS; round++) {
		size_t n = random_mix_with_kernels(tasks);
		double rho = 0, all_us = 0;
		share_speeds(tasks, n, SHARE_MPS, speed);
		uncrowd(tasks, n, speed);
		for (size_t i = 0; i < n; i++) {
			assert_true(speed[i] > 0 && speed[i] <= 1);
			rho += tasks[i].smact * speed[i];
			all_us += kernel_us(&tasks[i]);
		}
		for (size_t i = 0; i < n; i++) {
			double own = kernel_us(&tasks[i]), waits = SHARE_KERNELS_WAIT * tasks[i].gract / own * (all_us - own);
			double kernels = pow(tasks[i].gract, 7.0 / 8) + waits;
			double want = 1 / fmax(1, kernels / (1 - (rho - tasks[i].smact * speed[i]) / SHARE_KERNELS_CAPACITY));
			if (fabs(speed[i] - want) > 1e-9)
				fail_msg("round %d: %zu of %zu: %.12f, not %.12f", round, i, n, speed[i], want);
		}
		/* One of which they are not known: they count for nobody. */
		tasks[0].kernels = round % 2 ? 0 : NAN;
		share_speeds(tasks, n, SHARE_MPS, speed);
		for (size_t i = 0; i < n; i++)
			tasks[i].kernels = 0;
		share_speeds(tasks, n, SHARE_MPS, plain);
		assert_memory_equal(speed, plain, n * sizeof *speed);
	}
}

/* Fifteen kinds of training task as they were alone on an H200, MobileNetV2 and VGG16 beside each other as measured there; and
 * no arrival among them speeds anybody up. */
static void test_measured_kernels(void **state)
{
	(void)state;
	static const struct share_task kinds[] = {
		{ 1, .817, 27000 }, { .61, .215, 84000 }, { .147, .035, 23000 }, { .45, .245, 49000 }, { .595, .41, 50000 },
		{ 1, .684, 41800 }, { .828, .249, 105000 }, { .54, .411, 25800 }, { .55, .389, 23800 }, { 1, .705, 17500 },
		{ .295, .13, 42700 }, { .434, .196, 55300 }, { .341, .15, 48900 }, { 1, .819, 22600 }, { 1, .92, 11100 },
	};
	const struct share_task pair[] = { kinds[9], kinds[14] };
	struct share_task tasks[8];
	double with[8], without[8];
	share_speeds(pair, 2, SHARE_MPS, with);
	assert_near(with[0], 0.405, 0.15);
	assert_near(with[1], 0.738, 0.15);
	seed = 8;
	for (int round = 0; round < ROUNDS; round++) {
		size_t n = 3 + (size_t)(next_unit() * 6);
		for (size_t i = 0; i < n; i++)
			tasks[i] = kinds[(size_t)(next_unit() * 15)];
		share_speeds(tasks, n - 1, SHARE_MPS, without);
		share_speeds(tasks, n, SHARE_MPS, with);
		for (size_t i = 0; i < n - 1; i++)
			assert_true(with[i] <= without[i] + 1e-9);
	}
}

static void test_alone_is_undisturbed(void **state)
{
	(void)state;
	const struct share_task busy[3] = { { 1, 1 }, { 1, 1 }, { 1, 1 } };
	double speed[3];
	for (enum share_mode mode = 0; mode < SHARE_MODE_COUNT; mode++) {
		share_speeds(busy, 1, mode, speed);
		assert_true(speed[0] == 1);
	}
	const enum share_mode apart[] = { SHARE_NEVER, SHARE_MIG };
	for (size_t m = 0; m < 2; m++) {
		memset(speed, 0, sizeof speed);
		share_speeds(busy, 3, apart[m], speed);
		assert_true(speed[0] == 1 && speed[1] == 1 && speed[2] == 1);
	}
	share_speeds(busy, 0, SHARE_MPS, speed);
	share_speeds(busy, 3, SHARE_AUTO, speed);
	assert_true(fabs(speed[0] - SHARE_STREAMS_CAPACITY / 3) < 1e-12);
}

static void test_unknown_and_absurd_loads(void **state)
{
	(void)state;
	const struct share_task unknown[2] = { { NAN, NAN }, { NAN, NAN } }, known[2] = { { 0.5, 0.5 }, { 0.5, 0.5 } };
	const struct share_task absurd[3] = { { -1, INFINITY }, { 7, 7 }, { 0, 0 } };
	double a[3], b[3];
	for (size_t m = 0; m < 2; m++) {
		share_speeds(unknown, 2, modes[m], a);
		share_speeds(known, 2, modes[m], b);
		assert_true(a[0] == b[0] && a[1] == b[1]);
		share_speeds(absurd, 3, modes[m], a);
		for (size_t i = 0; i < 3; i++)
			assert_true(a[i] > 0 && a[i] <= 1);
	}
}

/* SMs are busy for no longer than the GPU is: of two figures the one that is known bounds the other. */
static void test_half_known_loads(void **state)
{
	(void)state;
	const struct share_task half[3] = { { NAN, .8 }, { .1, NAN }, { .9, .6 } }, whole[3] = { { .8, .8 }, { .1, .1 }, { .9, .6 } };
	double a[3], b[3];
	for (size_t m = 0; m < 2; m++) {
		share_speeds(half, 3, modes[m], a);
		share_speeds(whole, 3, modes[m], b);
		for (size_t i = 0; i < 3; i++)
			assert_true(a[i] == b[i]);
	}
	struct share_task l = share_filled((struct share_task){ NAN, NAN, 7 }, .7);
	assert_true(l.gract == .7 && l.smact == .7 && l.kernels == 7);
	l = share_filled((struct share_task){ .9, NAN }, .7);
	assert_true(l.gract == .9 && l.smact == .7);
	l = share_filled((struct share_task){ NAN, .2 }, .7);
	assert_true(l.gract == .7 && l.smact == .2);
}

static void assert_near(double got, double want, double relative)
{
	if (fabs(got - want) > relative * want)
		fail_msg("%.4f is not within %.1f %% of %.4f", got, 100 * relative, want);
}

/* ResNet18 on 32x32 images, batch 128, measured on an H200: alone 119.77 steps/s at GRACT 0.2886 and SMACT 0.1388. The mixes
 * ran on a day when it did 141 alone; load goes with the steps. */
static void test_published_copies_of_resnet18(void **state)
{
	(void)state;
	const double alone = 141, scale = alone / 119.77;
	struct share_task tasks[7];
	for (size_t i = 0; i < 7; i++)
		tasks[i] = (struct share_task){ 0.2886 * scale, 0.1388 * scale };
	const struct { size_t n; enum share_mode mode; double steps, within; } rows[] = {
		{ 4, SHARE_STREAMS, 383, 0.01 }, { 7, SHARE_STREAMS, 383, 0.01 },
		{ 4, SHARE_MPS, 555, 0.03 }, { 7, SHARE_MPS, 785, 0.08 },
	};
	for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
		double speed[7];
		share_speeds(tasks, rows[r].n, rows[r].mode, speed);
		assert_near((double)rows[r].n * alone * speed[0], rows[r].steps, rows[r].within);
	}
}

/* Seven copies as measured on an H200 (doc/results/collocation): the sum of their speeds. The SMs are as busy as with
 * three, and do less. */
static void test_many_copies_that_fill_the_gpu(void **state)
{
	(void)state;
	const struct { struct share_task alone; double together, smact; } rows[] = {
		{ { .84, .64 }, 1.46, .99 }, { { .98, .77 }, 1.18, .98 }, { { .67, .43 }, 2.15, .98 },
	};
	for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
		struct share_task tasks[7];
		double speed[7];
		for (size_t i = 0; i < 7; i++)
			tasks[i] = rows[r].alone;
		share_speeds(tasks, 7, SHARE_MPS, speed);
		assert_near(7 * speed[0], rows[r].together, 0.03);
		assert_near(share_shown(tasks, 7, SHARE_MPS, speed).smact, rows[r].smact, 0.05);
	}
}

static void test_published_pairs(void **state)
{
	(void)state;
	double speed[2];
	/* A light task starves beside one that fills the GPU: ResNet18/32px beside VGG16, batch 64. */
	const struct share_task starved[] = { { 0.2886, 0.1388 }, { 0.9962, 0.9486 } };
	share_speeds(starved, 2, SHARE_MPS, speed);
	assert_near(speed[0], 0.37, 0.13);
	assert_near(speed[1], 0.96, 0.03);
	/* Two that each keep the GPU busy: 0.46 each when time-sliced. */
	const struct share_task busy[] = { { 0.99, 0.9 }, { 0.99, 0.9 } };
	share_speeds(busy, 2, SHARE_STREAMS, speed);
	assert_near(speed[0], 0.46, 0.02);
	/* Dissertation, table 4.2 (A100): ResNet152 and a recommender under MPS took 1.05/1.10 and 5.36/5.57 of their speed. */
	const struct share_task mixed[] = { { 0.99, 0.82 }, { 0.10, 0.05 } };
	share_speeds(mixed, 2, SHARE_MPS, speed);
	assert_near(speed[0], 1.05 / 1.10, 0.05);
	assert_near(speed[1], 5.36 / 5.57, 0.05);
}

static void a_part_of_the_sms_slows_those_who_fill_more(void **state)
{
	(void)state;
	struct share_task light = { 0.5, 0.1 }, heavy = { 0.9, 0.8 };
	assert_true(share_part_speed(&light, 0.2) == 1 && share_part_speed(&heavy, 1) == 1);
	assert_true(fabs(share_part_speed(&heavy, 0.2) - 0.25) < 1e-9);
	struct share_task l = share_part_load(&light, 0.2), h = share_part_load(&heavy, 0.2);
	assert_true(fabs(l.smact - 0.5) < 1e-9 && fabs(l.gract - 0.5) < 1e-9);
	assert_true(fabs(h.smact - 1) < 1e-9 && fabs(h.gract - 1) < 1e-9);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_speeds_are_fractions),
		cmocka_unit_test(test_order_does_not_matter),
		cmocka_unit_test(test_an_arrival_speeds_nobody_up),
		cmocka_unit_test(test_mps_speeds_are_the_fixed_point),
		cmocka_unit_test(test_launches_wait),
		cmocka_unit_test(test_measured_kernels),
		cmocka_unit_test(test_streams_use_their_capacity),
		cmocka_unit_test(test_alone_is_undisturbed),
		cmocka_unit_test(test_unknown_and_absurd_loads),
		cmocka_unit_test(test_half_known_loads),
		cmocka_unit_test(test_published_copies_of_resnet18),
		cmocka_unit_test(test_many_copies_that_fill_the_gpu),
		cmocka_unit_test(test_published_pairs),
		cmocka_unit_test(a_part_of_the_sms_slows_those_who_fill_more),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
