/* SPDX-License-Identifier: MIT
 * Steps made up from model summaries: a small net whose kernels are worked out by hand, what is assumed and what is refused.
 */
#include "estimate/activity.h"

#include "models/activity_summary.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define H200 "NVIDIA H200"

static const char small_net[] =
	"==========================================================================================\n"
	"Layer (type:depth-idx)                   Output Shape              Param #\n"
	"==========================================================================================\n"
	"Net                                      [2, 16]                   --\n"
	"├─Linear: 1-1                            [2, 128]                  100,480\n"
	"├─ReLU: 1-2                              [2, 128]                  --\n"
	"├─Linear: 1-3                            [2, 16]                   2,064\n"
	"==========================================================================================\n"
	"Total params: 102,544\n"
	"==========================================================================================\n";

static const struct features_given plain = { .batch_size = 64, .optimizer = "sgd", .precision = "tf32" };

static int ask(const char *text, const struct features_given *given, const char *gpu, struct activity *a, struct error *err)
{
	struct summary s;
	struct features f;
	int rc;

	assert_int_equal(summary_parse("net", text, strlen(text), &s, err), 0);
	features_from_summary(&s, given, &f);
	rc = activity_from_summary(&s, &f, gpu, a, err);
	features_clear(&f);
	summary_clear(&s);
	return rc;
}

static struct activity of(const char *text, const struct features_given *given)
{
	struct activity a;

	assert_int_equal(ask(text, given, H200, &a, NULL), 0);
	return a;
}

static struct capture_kernel product(uint64_t m, uint64_t n, uint64_t k)
{
	return (struct capture_kernel){ .count = 1, .flops = 2 * m * n * k, .bytes = 4 * (m * k + k * n + m * n),
		.blocks = (m + 127) / 128 * ((n + 63) / 64), .depth = k, .class = KERNEL_PRODUCT, .unit = UNIT_TF32 };
}

/* A layer of 784 to 128, one of 128 to 16, 64 samples: three products each, sums for the biases, the activation forward and
 * backward, the loss, the update. As a capture with these kernels it comes to the same. */
static void test_by_hand(void **state)
{
	const struct capture_kernel kernels[] = {
		product(64, 128, 784), product(64, 784, 128), product(128, 784, 64),
		{ .count = 1, .bytes = 4 * 64 * 128, .blocks = 8, .class = KERNEL_REDUCE },
		{ .count = 2, .bytes = 2 * 5 * 4 * 64 * 128 / 2, .blocks = 2 * 8, .class = KERNEL_POINTWISE },
		product(64, 16, 128), product(64, 128, 16), product(16, 128, 64),
		{ .count = 1, .bytes = 4 * 64 * 16, .blocks = 1, .class = KERNEL_REDUCE },
		{ .count = 4, .bytes = 4 * 2 * 4 * 64 * 16, .blocks = 4 * 64, .class = KERNEL_SOFTMAX },
		{ .count = 1, .bytes = 13 * 102544, .blocks = 4, .class = KERNEL_MANY },
	};
	const enum activity_role roles[] = { ROLE_LINEAR, ROLE_ACTIVATION, ROLE_LINEAR, ROLE_STEP };
	double host[3] = { 0 };
	struct capture c = { .kernels = (struct capture_kernel *)kernels, .n_kernels = sizeof kernels / sizeof *kernels };
	struct activity expected, a = of(small_net, &plain);

	(void)state;
	for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
		for (unsigned k = 0; k < 3; k++)
			host[k] += activity_roles[roles[i]].operators[k];
	c.host = (struct capture_host){ .forward = (uint64_t)host[0], .backward = (uint64_t)host[1], .views = (uint64_t)host[2],
		.modules = 4, .updates = 1, .listed = 4, .parameters = 4 };
	assert_int_equal(activity_from_capture(&c, H200, &expected, NULL), 0);
	assert_true(a.kernels == expected.kernels && a.flops == expected.flops);
	assert_true(fabs(a.busy_s / expected.busy_s - 1) < 1e-3 && fabs(a.host_s / expected.host_s - 1) < 1e-9);
	assert_true(fabs(a.load.load.smact / expected.load.load.smact - 1) < 1e-3);
	assert_string_equal(a.source, "summary");
	assert_string_equal(a.assumed, "");
	assert_int_equal(a.load.source, LOAD_GUESSED);
}

/* Of a fit; with the text's layers, and none where it tells no load. */
static void test_roles_are_counted(void **state)
{
	double times[ACTIVITY_ROLES_MOST] = { 0 };
	struct summary s;
	struct features f;

	(void)state;
	assert_int_equal(summary_parse("net", small_net, strlen(small_net), &s, NULL), 0);
	features_from_summary(&s, &plain, &f);
	assert_int_equal(activity_summary_roles(&s, &f, times), ROLES);
	for (size_t i = 0; i < ROLES; i++)
		assert_true(times[i] == (i == ROLE_LINEAR ? 2 : i == ROLE_ACTIVATION || i == ROLE_STEP ? 1 : 0));
	f.batch_size = 0;
	assert_int_equal(activity_summary_roles(&s, &f, times), 0);
	features_clear(&f);
	summary_clear(&s);
}

static void test_wider_than_a_capture(void **state)
{
	const struct capture_kernel k = product(4096, 4096, 4096);
	const struct capture c = { .kernels = (struct capture_kernel *)&k, .n_kernels = 1 };
	struct activity a = of(small_net, &plain), captured;

	(void)state;
	assert_int_equal(activity_from_capture(&c, H200, &captured, NULL), 0);
	assert_string_equal(captured.source, "capture");
	assert_true(a.step_spread > captured.step_spread && a.load.gract_sd > captured.load.gract_sd &&
		    a.load.smact_sd > captured.load.smact_sd && a.load.dram_sd > captured.load.dram_sd);
}

static void test_what_is_not_said_is_told_and_widens(void **state)
{
	static const struct { const char *optimizer, *precision, *assumed; } rows[] = {
		{ NULL, NULL, "taken as Adam, fp32" }, { "sgd", NULL, "taken as fp32" }, { NULL, "tf32", "taken as Adam" },
		{ "unheard-of", "tf32", "taken as Adam" },
	};
	struct activity sure = of(small_net, &plain), a;

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		a = of(small_net, &(struct features_given){ .batch_size = 64, .optimizer = rows[i].optimizer,
							    .precision = rows[i].precision });
		assert_string_equal(a.assumed, rows[i].assumed);
		assert_true(a.step_spread > sure.step_spread && a.load.smact_sd > sure.load.smact_sd);
	}
	a = of("Net(\n  (0): Linear(in_features=784, out_features=128, bias=True)\n  (1): ReLU()\n"
	       "  (2): Linear(in_features=128, out_features=16, bias=True)\n)\n", &plain);
	assert_string_equal(a.assumed, "sizes worked out");
	assert_true(fabs(a.busy_s / sure.busy_s - 1) < 1e-3 && a.step_spread > sure.step_spread);
}

static const char image_net[] =
	"==========================================================================================\n"
	"Layer (type:depth-idx)                   Output Shape              Param #\n"
	"==========================================================================================\n"
	"Net                                      [2, 10]                   --\n"
	"├─Conv2d: 1-1                            [2, 64, 112, 112]         9,408\n"
	"├─BatchNorm2d: 1-2                       [2, 64, 112, 112]         128\n"
	"├─Conv2d: 1-3                            [2, 128, 112, 112]        73,728\n"
	"├─BatchNorm2d: 1-4                       [2, 128, 112, 112]        256\n"
	"├─Conv2d: 1-5                            [2, 128, 112, 112]        1,152\n"
	"├─AdaptiveAvgPool2d: 1-6                 [2, 128, 1, 1]            --\n"
	"├─Linear: 1-7                            [2, 10]                   1,290\n"
	"==========================================================================================\n";

/* Operations of a convolution are what its positions, channels and taps come to: forward and twice backward, but nothing flows
 * back into images. One that looks at each channel by itself is bound by memory and not counted among products. */
static void test_convolutions(void **state)
{
	const double positions = 8 * 112. * 112, first = 2 * positions * 64 * 147, second = 2 * positions * 128 * 576;
	const double last = 2 * 8. * 10 * 128;
	struct activity a = of(image_net, &(struct features_given){ .batch_size = 8, .optimizer = "sgd", .precision = "fp32" });

	(void)state;
	assert_true(fabs(a.flops / (2 * first + 3 * second + 3 * last) - 1) < 1e-9);
}

static void test_precision_decides_the_unit(void **state)
{
	static const char *const order[] = { "bf16", "fp32", "ieee-fp32" };	/* of a net of convolutions, from the quickest */
	double before = 0;

	(void)state;
	for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
		struct activity a = of(image_net, &(struct features_given){ .batch_size = 256, .optimizer = "sgd", .precision = order[i] });

		assert_true(a.busy_s > before);
		before = a.busy_s;
	}
}

static const char keras_net[] =
	"Model: \"sequential\"\n"
	"_________________________________________________________________\n"
	" Layer (type)                Output Shape              Param #   \n"
	"=================================================================\n"
	" dense (Dense)               (None, 128)               100480    \n"
	" dense_1 (Dense)             (None, 16)                2064      \n"
	"=================================================================\n"
	"Total params: 102544\n";

static void test_refusals(void **state)
{
	struct error err = ERROR_INIT;
	struct activity a;

	(void)state;
	assert_int_equal(ask("Net(\n  (0): Thing()\n)\n", &plain, H200, &a, &err), -1);
	assert_non_null(strstr(err.text, "no output shapes"));
	assert_int_equal(ask("Net(\n  (0): Linear(in_features=8, out_features=8, bias=True)\n)\n",
			     &(struct features_given){ .batch_size = 0 }, H200, &a, &err), -1);
	assert_non_null(strstr(err.text, "--batch-size"));
	assert_int_equal(ask("Layer (type:depth-idx)                   Output Shape              Param #\n"
			     "Net                                      [2, 16]                   --\n"
			     "├─Encoder: 1-1                           [2, 128]                  100,480\n"
			     "├─Linear: 1-2                            [2, 16]                   2,064\n", &plain, H200, &a, &err), -1);
	assert_non_null(strstr(err.text, "hides inner layers"));
	assert_int_equal(ask(keras_net, &plain, H200, &a, &err), -1);
	assert_non_null(strstr(err.text, "of Keras"));
	assert_int_equal(ask(small_net, &plain, NULL, &a, &err), -1);
	assert_non_null(strstr(err.text, "--gpu-model"));
	assert_int_equal(ask(small_net, &plain, "Voodoo 2", &a, &err), -1);
	assert_true(a.step_s == 0 && a.load.source == LOAD_UNKNOWN);
}

/* Figures that no model has: unknown, or finite and in their bounds. */
static void test_absurd_figures(void **state)
{
	const uint64_t most = SUMMARY_MAX_COUNT;
	struct features_layer layer = { .times = UINT32_MAX, .params = most, .activations = most };
	struct summary_type types[] = { { { "Conv3d", 6 }, SUMMARY_CONV }, { { "LSTM", 4 }, SUMMARY_RECURRENT },
		{ { "BatchNorm2d", 11 }, SUMMARY_NORM }, { { "ShiftedWindowAttention", 22 }, SUMMARY_ATTENTION } };
	struct summary s = { .types = types, .n_types = 4 };
	struct features f = { .list = &layer, .n_list = 1, .activations_known = true, .batch_size = INT64_MAX, .params = most,
		.trainable_params = most };
	struct error err = ERROR_INIT;
	struct activity a;

	(void)state;
	assert_int_equal(activity_from_summary(&s, &f, H200, &a, &err), -1);
	assert_non_null(strstr(err.text, "not those of a training step"));
	srand(1);
	for (unsigned n = 0; n < 20000; n++) {
		layer = (struct features_layer){ .kind = (enum summary_kind)(rand() % SUMMARY_CONTAINER), .type = (uint16_t)(rand() % 4),
			.times = (uint32_t)(1 + rand() % 3) << rand() % 30, .params = (uint64_t)rand() >> rand() % 31 << rand() % 20,
			.activations = (uint64_t)rand() >> rand() % 31 << rand() % 20, .side = (uint32_t)rand() >> rand() % 31 };
		f.batch_size = 1 + (rand() >> rand() % 31);
		f.trainable_params = layer.params;
		if (activity_from_summary(&s, &f, H200, &a, NULL)) {
			assert_true(a.step_s == 0 && a.load.source == LOAD_UNKNOWN);
			continue;
		}
		assert_true(isfinite(a.step_s) && a.step_s > 0 && a.load.load.gract >= 0 && a.load.load.gract <= 1);
		assert_true(a.load.load.smact >= 0 && a.load.load.smact <= a.load.load.gract && a.load.watts <= 700);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_by_hand), cmocka_unit_test(test_roles_are_counted),
		cmocka_unit_test(test_wider_than_a_capture),
		cmocka_unit_test(test_what_is_not_said_is_told_and_widens), cmocka_unit_test(test_convolutions),
		cmocka_unit_test(test_precision_decides_the_unit), cmocka_unit_test(test_refusals), cmocka_unit_test(test_absurd_figures),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
