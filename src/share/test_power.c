/* SPDX-License-Identifier: MIT
 * Power: the ends of the curve, its direction, and what was measured.
 */
#include "share/power.h"

#include "base/scope.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

static const struct power_board board = { 55, 400, 0 }, held = { 55, 400, 275 }, h200 = { 75, 700, 0 };

static double power_alone(const struct power_board *b, double smact)
{
	return power_watts(b, &(struct share_task){ 1, smact }, &(double){ 1 }, 1, NULL);
}

static void ends_and_direction(void **state)
{
	(void)state;
	assert_true(power_watts(&board, NULL, NULL, 0, NULL) == 55);
	assert_true(power_alone(&board, 0) > 55);
	assert_true(fabs(power_alone(&board, 1) - 400) < 1e-9);
	assert_true(power_alone(&held, 1) == 275);
	assert_true(power_alone(&held, .3) == power_alone(&board, .3));
	for (int i = 0; i < 100; i++)
		assert_true(power_alone(&board, i / 100.) < power_alone(&board, (i + 1) / 100.));
	assert_true(power_alone(&board, 7) == power_alone(&board, 1));
	assert_true(power_alone(&board, -1) == power_alone(&board, 0));
	assert_true(power_alone(&board, NAN) == power_alone(&board, SHARE_UNKNOWN_LOAD));
}

/* Alone, at a part of its speed, beside others: each adds what it adds alone, as often as it runs; the board cuts the sum. */
static void tasks_add_up(void **state)
{
	(void)state;
	const struct share_task two[] = { { .9, .4 }, { .3, .1 } };
	const double full[] = { 1, 1 }, half[] = { .5, 1 }, alone[] = { 180, NAN }, wrong[] = { 20, 180 };
	const double occupied = power_alone(&board, 0), a = power_alone(&board, .4) - occupied, b = power_alone(&board, .1) - occupied;
	assert_true(fabs(power_watts(&board, two, full, 1, NULL) - occupied - a) < 1e-9);
	assert_true(fabs(power_watts(&board, two, full, 2, NULL) - occupied - a - b) < 1e-9);
	assert_true(fabs(power_watts(&board, two, half, 2, NULL) - occupied - a / 2 - b) < 1e-9);
	assert_true(fabs(power_watts(&board, two, half, 2, alone) - occupied - (180 - occupied) / 2. - b) < 1e-9);
	assert_true(fabs(power_watts(&board, two, full, 2, wrong) - 180) < 1e-9);	/* below idle: it adds nothing */
	const struct share_task light = { .1, NAN }, same = { .1, .1 };	/* no SM is busy while the GPU is not */
	assert_true(power_watts(&board, &light, full, 1, NULL) == power_watts(&board, &same, full, 1, NULL));
	const struct share_task heavy[] = { { 1, .9 }, { 1, .9 } };
	assert_true(power_watts(&held, heavy, full, 2, NULL) == 275);
	assert_true(power_watts(&board, heavy, full, 2, NULL) == 400);
}

static void parts_add_up(void **state)
{
	(void)state;
	const struct share_task tasks[] = { { .9, .4 }, { .3, .1 }, { NAN, NAN }, { .3, .1 } };
	const double speed[] = { .5, 1, 1, .25 };
	double part[4], watts = power_watts(&board, tasks, speed, 4, NULL);
	power_parts(tasks, speed, 4, part);
	assert_true(fabs(part[0] + part[1] + part[2] + part[3] - 1) < 1e-12);
	/* All pay the same for the clocks; the rest goes with what each does. */
	double occupied = power_alone(&board, 0), clocks = (occupied - 55) / 4 / (watts - 55);
	assert_true(fabs((part[1] - clocks) - 4 * (part[3] - clocks)) < 1e-12);
	assert_true(fabs((part[1] - clocks) * (watts - 55) - (power_alone(&board, .1) - occupied)) < 1e-9);
	power_parts(tasks, speed, 1, part);
	assert_true(part[0] == 1);
}

/* Of the 33 loads measured on an H200: mobilenetv3 and resnet18 on small images, EfficientNet-B0, MobileNetV2 (the worst),
 * ResNet50, VGG16. */
static void measured_alone(void **state)
{
	(void)state;
	static const struct { double smact, watts, within; } of[] = {
		{ 0.0360, 123.8, .05 }, { 0.1388, 161.8, .05 }, { 0.4845, 313.0, .06 }, { 0.5808, 335.4, .165 },
		{ 0.7632, 502.2, .06 }, { 0.8590, 598.7, .06 }, { 0.9613, 671.5, .03 },
	};
	for (size_t i = 0; i < COUNT_OF(of); i++)
		assert_true(fabs(power_alone(&h200, of[i].smact) / of[i].watts - 1) < of[i].within);
}

/* Crowds measured on an H200 under MPS; speeds and watts alone as they were then. The clocks are paid for once. */
static void measured_in_crowds(void **state)
{
	(void)state;
	static const struct { double watts, speed[6], alone[6]; size_t n; } of[] = {
		{ 262.2, { .97, .94 }, { 135.4, 253 }, 2 },
		{ 315.6, { .94, 1.07, .99 }, { 180, 180, 180 }, 3 },
		{ 593.6, { .68, .86, .69, .84 }, { 331.5, 379.9, 184.5, 162.8 }, 4 },
	};
	const struct share_task unknown[6] = { { 0, 0 } };
	for (size_t i = 0; i < COUNT_OF(of); i++) {
		double watts = power_watts(&h200, unknown, of[i].speed, of[i].n, of[i].alone);
		if (fabs(watts / of[i].watts - 1) > .05)
			fail_msg("mix %zu: %.0f W, measured %.0f W", i, watts, of[i].watts);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(ends_and_direction), cmocka_unit_test(tasks_add_up),
					     cmocka_unit_test(parts_add_up), cmocka_unit_test(measured_alone),
					     cmocka_unit_test(measured_in_crowds) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
