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

static void ends_and_direction(void **state)
{
	(void)state;
	assert_true(power_watts(55, 400, 0, false, 0) == 55);
	assert_true(power_watts(55, 400, 0, true, 0) > 55);
	assert_true(fabs(power_watts(55, 400, 0, true, 1) - 400) < 1e-9);
	assert_true(power_watts(55, 400, 275, true, 1) == 275);
	assert_true(power_watts(55, 400, 275, true, .3) == power_watts(55, 400, 0, true, .3));
	for (int i = 0; i < 100; i++)
		assert_true(power_watts(55, 400, 0, true, i / 100.) < power_watts(55, 400, 0, true, (i + 1) / 100.));
	assert_true(power_watts(55, 400, 0, true, 7) == power_watts(55, 400, 0, true, 1));
	assert_true(power_watts(55, 400, 0, true, -1) == power_watts(55, 400, 0, true, 0));
	assert_true(power_watts(55, 400, 0, true, NAN) == power_watts(55, 400, 0, true, 0));
}

/* Of the 33 loads measured on an H200: mobilenetv3 and resnet18 on small images, EfficientNet-B0, MobileNetV2 (the worst),
 * ResNet50, VGG16. */
static void measured(void **state)
{
	(void)state;
	static const struct { double smact, watts, within; } of[] = {
		{ 0.0360, 123.8, .05 }, { 0.1388, 161.8, .05 }, { 0.4845, 313.0, .06 }, { 0.5808, 335.4, .165 },
		{ 0.7632, 502.2, .06 }, { 0.8590, 598.7, .06 }, { 0.9613, 671.5, .03 },
	};
	for (size_t i = 0; i < COUNT_OF(of); i++)
		assert_true(fabs(power_watts(75, 700, 0, true, of[i].smact) / of[i].watts - 1) < of[i].within);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(ends_and_direction), cmocka_unit_test(measured) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
