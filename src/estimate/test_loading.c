/* SPDX-License-Identifier: MIT
 * Data loaders: the cores they keep busy, the step that they hold up, and when nothing is said.
 */
#include "estimate/loading.h"

#include "base/scope.h"
#include "estimate/activity.h"
#include "estimate/estimate.h"
#include "estimate/hostpace.h"
#include "tests/capture_write.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#define H200 "NVIDIA H200"

static struct capture_kernel kernel = { .count = 1000, .flops = 1000000, .bytes = 8000000, .blocks = 1000,
	.class = KERNEL_POINTWISE };

/* A step of some 15 ms of the host, with such loaders. */
static struct capture with(const struct capture_loader *loaders, size_t n)
{
	struct capture c = { .host = { .forward = 1000 }, .kernels = &kernel, .n_kernels = 1, .n_loaders = n, .steps = 100 };

	for (size_t i = 0; i < n; i++)
		c.loaders[i] = loaders[i];
	return c;
}

static struct activity of(const struct capture_loader *loaders, size_t n)
{
	struct capture c = with(loaders, n);
	struct activity a;

	assert_int_equal(activity_from_capture(&c, H200, &a, NULL), 0);
	return a;
}

static bool near(double a, double b)
{
	return fabs(a - b) <= 1e-9 * fmax(fabs(a), fabs(b));
}

static struct capture_loader loader(uint64_t workers, double ms, uint64_t batches)
{
	return (struct capture_loader){ .workers = workers, .cpu_us = (uint64_t)(ms * 1000), .measured = 2, .batches = batches,
		.steps = 2 };
}

/* Workers that keep up are as busy as a step lets them be, and change nothing else. */
static void those_that_keep_up_only_take_cores(void **state)
{
	struct activity without = of(NULL, 0), a = of((struct capture_loader[]){ loader(8, 40, 2) }, 1);

	(void)state;
	assert_true(without.step_s > 0.01 && without.step_s < 0.02 && without.load.cores == 0 && without.load.loader == 0);
	assert_true(near(a.step_s, without.step_s) && near(a.load.load.gract, without.load.load.gract));
	assert_true(near(a.load.cores, 1 + 0.04 / a.step_s) && near(a.load.loader, 0.005 / a.step_s));
	assert_true(a.step_spread == without.step_spread && a.load.smact_sd == without.load.smact_sd);
}

/* Two that do not: a step is as long as they take for it, they are both busy all the time, and the GPU is less. */
static void those_that_do_not_hold_a_step_up(void **state)
{
	struct activity without = of(NULL, 0), a = of((struct capture_loader[]){ loader(2, 100, 2) }, 1);

	(void)state;
	assert_true(near(a.step_s, 0.05) && near(a.load.cores, 3) && a.load.loader == 1);
	assert_true(near(a.load.load.smact * a.step_s, without.load.load.smact * without.step_s));
	assert_true(near(a.load.load.gract * a.step_s, without.load.load.gract * without.step_s));
	assert_true(a.load.dram < without.load.dram && a.load.watts < without.load.watts && near(a.load.run_s, 100 * 0.05));
	assert_true(a.step_spread > without.step_spread);
}

/* Four batches a step take four times as long as one; one every other step half. */
static void batches_of_a_step_add_up(void **state)
{
	(void)state;
	assert_true(near(of((struct capture_loader[]){ loader(2, 100, 8) }, 1).step_s, 0.2));
	assert_true(near(of((struct capture_loader[]){ loader(2, 100, 1) }, 1).step_s, 0.025));
}

/* Each has its own workers: the slowest decides, and cores are those of all. */
static void several_work_beside_each_other(void **state)
{
	struct activity a = of((struct capture_loader[]){ loader(2, 100, 2), loader(4, 80, 2) }, 2);

	(void)state;
	assert_true(near(a.step_s, 0.05) && near(a.load.cores, 1 + (0.1 + 0.08) / 0.05));
}

/* Without workers the main thread loads, and launches behind that; it is one core all the same. */
static void what_the_main_thread_loads_is_the_hosts(void **state)
{
	struct activity without = of(NULL, 0), a = of((struct capture_loader[]){ loader(0, 30, 2) }, 1);

	(void)state;
	assert_true(near(a.host_s, without.host_s + 0.03) && a.step_s >= a.host_s && a.step_s < 1.01 * a.host_s);
	assert_true(a.load.cores == 1 && a.load.loader == 0 && a.load.load.gract < without.load.load.gract);
}

static void what_is_not_known_or_absurd_says_nothing(void **state)
{
	struct capture_loader wrong[] = { loader(2, 100, 2), loader(2, 100, 2), loader(2, 100, 0),
		loader(2, 1e3 * LOADING_MOST_S + 1, 2) };
	struct activity without = of(NULL, 0);

	(void)state;
	wrong[0].measured = LOADING_LEAST - 1;
	wrong[1].steps = 0;
	for (size_t i = 0; i < COUNT_OF(wrong); i++) {	/* nor beside one that is known */
		struct activity a = of((struct capture_loader[]){ loader(4, 80, 2), wrong[i] }, 2);

		assert_false(a.loading.known);
		assert_true(a.load.cores == 0 && a.load.loader == 0 && a.step_s == without.step_s);
	}
}

/* At a pace of two, what loaders hold up stays as long as the host does not take longer than they; and it tells of no pace. */
static void a_slow_host_may_hide_behind_loaders(void **state)
{
	struct activity held = of((struct capture_loader[]){ loader(2, 100, 2) }, 1);
	struct activity free = of((struct capture_loader[]){ loader(2, 24, 2) }, 1);
	struct load_belief g = held.load, f = free.load;

	(void)state;
	assert_true(hostpace_apply(&g, 2, H200) == 1 && near(g.cores, 3) && g.loader == 1);
	g = held.load;
	double longer = hostpace_apply(&g, 4, H200);
	assert_true(near(longer, activity_larger(4 * held.load.host, held.load.load.gract)) && longer > 1);
	assert_true(near(g.loader, 1 / longer) && near(g.cores, 1 + 2 / longer));
	assert_true(hostpace_told(&held.load, held.load.load.gract / 2) == 0);
	assert_true(hostpace_told(&free.load, free.load.load.gract / 2) > 1);
	/* On a fast one they are what is left. */
	longer = hostpace_apply(&f, 0.25, H200);
	assert_true(near(longer, free.load.loader) && near(f.loader, 1) && near(f.cores, 3));
}

/* Of a task: one main thread for each process of a job of several, and nothing where others of a feed load. */
static void whose_loaders_they_are(void **state)
{
	static const uint64_t host[10] = { 1000 }, kernels[1][8] = { { KERNEL_POINTWISE, 0, 0, 1000, 1000000, 8000000, 1000, 0 } };
	const struct capture_texts texts = { "", "", "" };
	const struct estimate_context context = { .gpu_name = H200 };
	struct activity a;

	(void)state;
	for (unsigned gpus = 1; gpus <= 2; gpus++) {
		struct capture_writer w;

		write_begin(&w, &texts, 0, 0, 1);
		write_end_loaders(&w, host, kernels, 1, (const uint64_t[][5]){ { 2, 100000, 2, 2, 2 } }, 1);
		struct spec s = { .capture = write_base64(&w.out), .gpus = gpus };
		assert_int_equal(estimate_activity(&s, &context, &a, NULL), 0);
		assert_true(near(a.load.cores, 3 * gpus));
		char feed[] = "data";
		s.feed = feed;
		assert_int_equal(estimate_activity(&s, &context, &a, NULL), 0);
		assert_true(a.load.cores == 0 && a.step_s < 0.02);
		free(s.capture);
		buf_free(&w.out);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(those_that_keep_up_only_take_cores),
		cmocka_unit_test(those_that_do_not_hold_a_step_up),
		cmocka_unit_test(batches_of_a_step_add_up),
		cmocka_unit_test(several_work_beside_each_other),
		cmocka_unit_test(what_the_main_thread_loads_is_the_hosts),
		cmocka_unit_test(what_is_not_known_or_absurd_says_nothing),
		cmocka_unit_test(a_slow_host_may_hide_behind_loaders),
		cmocka_unit_test(whose_loaders_they_are),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
