/* SPDX-License-Identifier: MIT
 * `gpumemnet`: the weights that are shipped give what PyTorch gave (tests/gpumemnet/expected.json, written by the training);
 * its inputs; what it needs to speak; and that figures of a claim hold together.
 */
#include "base/alloc.h"
#include "base/io.h"
#include "base/json.h"
#include "base/scope.h"
#include "estimate/estimate.h"
#include "estimate/gpumemnet.h"
#include "estimate/replay.h"
#include "tests/net_write.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define CLOSE 1e-4

static void read_text(const char *name, struct buf *out)
{
	scoped_free char *path = alloc_printf("%s/tests/%s", getenv("RAD_SOURCE_ROOT"), name);
	struct error err = ERROR_INIT;
	if (io_read_file(path, 1 << 22, out, &err))
		fail_msg("%s", err.text);
}

static size_t weights_size(void)
{
	return (size_t)(gpumemnet_weights_end - gpumemnet_weights);
}

static void test_weights_are_whole(void **state)
{
	struct error err = ERROR_INIT;
	(void)state;
	if (net_verify(gpumemnet_weights, weights_size(), &err))
		fail_msg("%s", err.text);
	for (enum features_family f = FEATURES_MLP; f <= FEATURES_TRANSFORMER; f++) {
		struct net net;
		assert_int_equal(net_read(gpumemnet_weights, weights_size(), f, &net, &err), 0);
		assert_true(net.n_members > 1 && net.encoder.n > 0 && strlen(net.card) > 3 && strlen(net.stack) > 3);
	}
}

static void compare(const json_t *expected, const float *p, uint32_t bins)
{
	assert_int_equal(json_array_size(expected), bins);
	for (uint32_t k = 0; k < bins; k++)
		assert_float_equal(p[k], (float)json_real_value(json_array_get(expected, k)), CLOSE);
}

static void compare_case(const json_t *of)
{
	scoped_free char *name = alloc_printf("summaries/%s", json_string_value(json_object_get(of, "summary")));
	const struct features_given given = {
		.batch_size = json_integer_value(json_object_get(of, "batch_size")),
		.seq_len = json_integer_value(json_object_get(of, "seq_len")),
		.optimizer = json_string_value(json_object_get(of, "optimizer")),
		.precision = json_string_value(json_object_get(of, "precision")),
	};
	scoped_buf text = { 0 };
	struct summary summary;
	struct features features;
	struct gpumemnet_vector v;
	struct net net;
	float p[NET_MAX_BINS];
	print_message("%s\n", name);
	read_text(name, &text);
	assert_int_equal(summary_parse("summary", buf_text(&text), text.len, &summary, NULL), 0);
	features_from_summary(&summary, &given, &features);
	gpumemnet_vector(&features, &v);
	assert_float_equal((float)(v.reference_mib / json_real_value(json_object_get(of, "reference_mib"))), 1, 1e-6);
	assert_int_equal(net_read(gpumemnet_weights, weights_size(), features.family, &net, NULL), 0);
	net_ensemble(&net, &v, p);
	compare(json_object_get(of, "ensemble"), p, net.bins);
	net_encode(&net, &v, p);
	compare(json_object_get(of, "encoder"), p, net.bins);
	features_clear(&features);
	summary_clear(&summary);
}

static void test_as_pytorch(void **state)
{
	scoped_buf text = { 0 };
	size_t i;
	json_t *of;
	(void)state;
	read_text("gpumemnet/expected.json", &text);
	scoped_json *all = json_loads(buf_text(&text), 0, NULL);
	assert_true(json_array_size(all) >= 6);
	json_array_foreach(all, i, of)
		compare_case(of);
}

/* Bins of an eighth of a doubling each. The edges are reached just below, or just not. */
static void test_quantiles(void **state)
{
	static const struct net_sizes sizes = { .family = FEATURES_MLP, .bins = 5, .layers = 1, .outs = { 5 } };
	static const float p[] = { 0.04f, 0.30f, 0.26f, 0.36f, 0.04f };
	struct gpumemnet_vector v = { .reference_mib = 1000 };
	struct gpumemnet_figures f;
	scoped_buf b = { 0 };
	struct net net;
	(void)state;
	net_begin(&b, 1);
	net_put_section(&b, &sizes, 0, 0);
	net_end(&b);
	for (size_t k = 0; k < COUNT_OF(p); k++) {
		float logit = logf(p[k]);
		memcpy(b.data + b.len - 4 - (8 - k) * sizeof logit, &logit, sizeof logit);	/* the biases stand last, 8 of them */
	}
	assert_int_equal(net_read(b.data, b.len, FEATURES_MLP, &net, NULL), 0);
	assert_int_equal(gpumemnet_figures(&net, &v, &f, NULL), 0);
	assert_float_equal((float)f.low, 1000 * exp2f(1 / 8.0f), 0.01);
	assert_float_equal((float)f.middle, 1000 * exp2f(3 / 8.0f), 0.01);
	assert_float_equal((float)f.claim, 1000 * exp2f(4 / 8.0f), 0.01);
}

static void test_no_distribution(void **state)
{
	static const struct net_sizes sizes = { .family = FEATURES_MLP, .bins = 2, .layers = 2, .outs = { 3, 2 } };
	struct gpumemnet_vector v = { .inputs = { 8 }, .reference_mib = 1000 };
	struct gpumemnet_figures f;
	struct error err = ERROR_INIT;
	scoped_buf b = { 0 };
	struct net net;
	(void)state;
	net_begin(&b, 1);
	net_put_section(&b, &sizes, 1e38f, 0);	/* products beyond what a float holds */
	net_end(&b);
	assert_int_equal(net_read(b.data, b.len, FEATURES_MLP, &net, NULL), 0);
	assert_int_equal(gpumemnet_figures(&net, &v, &f, &err), -1);
	assert_non_null(strstr(err.text, "no probabilities"));
}

/* ---- the row ---- */

#define TABLE "        Layer (type)               Output Shape         Param #\n====\n"
#define LAYERS TABLE "            Linear-1                  [-1, 512]         401,920\n" \
	"              ReLU-2                  [-1, 512]               0\n" \
	"            Linear-3                   [-1, 10]           5,130\n====\n"
#define MLP LAYERS "Total params: 407,050\n"
#define MISCOUNTED LAYERS "Total params: 1,407,050\n"
#define LSTM TABLE "              LSTM-1             [-1, 20, 512]       2,000,000\n" \
	"            Linear-2                   [-1, 10]           5,130\n====\nTotal params: 2,005,130\n"
#define SHAPELESS "Layer (type:depth-idx)       Param #\n====\nNet                          --\n" \
	"├─Linear: 1-1                 401,920\n====\nTotal params: 401,920\n"

struct row { const char *what, *model, *optimizer, *precision; int64_t batch; bool spoke; const char *note; };

static const struct row rows[] = {
	{ "an MLP", MLP, "adamw", "fp32", 64, true, "mlp, batch 64, trained on NVIDIA H200" },
	{ "no optimizer", MLP, NULL, "bf16", 64, true, "; taken as Adam" },
	{ "an optimizer nobody knows", MLP, "mine", "fp32", 64, true, "; taken as Adam" },
	{ "no precision", MLP, "sgd", NULL, 64, true, "; taken as fp32" },
	{ "neither", MLP, NULL, NULL, 64, true, "; taken as Adam, fp32" },
	{ "a batch twice as large as any it learnt from", MLP, "adam", "fp32", 1 << 18, true, "H200, at its edge" },
	{ "a total that is another's", MISCOUNTED, "adam", "fp32", 64, true,
	  "; the file says 1407050 parameters in total, its layers come to 407050" },
	{ "beyond the training set", MLP, "adam", "fp32", 1 << 30, false, "outside what it learnt: batch size 1.07G (4 to 131k)" },
	{ "no summary", NULL, NULL, NULL, 64, false, "no model summary (model: FILE, --model FILE)" },
	{ "no batch size", MLP, NULL, NULL, 0, false, "no batch size" },
	{ "no summary at all", "hello\n", NULL, NULL, 64, false, "net.model:1: 'hello': begins no model summary" },
	{ "another family", LSTM, NULL, NULL, 64, false, "not an MLP, a CNN or a transformer" },
	{ "no shapes", SHAPELESS, NULL, NULL, 64, false, "no output shapes" },
	{ "beyond any machine", MLP, NULL, NULL, INT64_MAX, false, "more memory than there is anywhere" },
};

static bool ask_row(const char *estimator, const struct row *k, const struct estimate_context *c, struct estimate_result *r)
{
	struct spec *s = spec_create();
	s->model = alloc_string_or_null(k->model);
	s->model_name = alloc_string("net.model");
	s->optimizer = alloc_string_or_null(k->optimizer);
	s->precision = alloc_string_or_null(k->precision);
	s->batch_size = k->batch;
	bool spoke = estimate_ask(estimate_find(estimator, NULL), s, 0, c, r);
	spec_unref(s);
	return spoke;
}

static bool ask(const struct row *k, const struct estimate_context *c, struct estimate_result *r)
{
	return ask_row("gpumemnet", k, c, r);
}

static void test_row(void **state)
{
	const struct estimate_context c = { 0 };
	(void)state;
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct estimate_result r;
		print_message("%s\n", rows[i].what);
		assert_int_equal(ask(&rows[i], &c, &r), rows[i].spoke);
		if (!strstr(r.note, rows[i].note))
			fail_msg("'%s' lacks '%s'", r.note, rows[i].note);
		if (!rows[i].spoke)
			continue;
		assert_true(r.value.need_mib > 0 && r.value.need_mib <= r.value.comfort_mib && r.value.comfort_mib <= r.value.claim_mib);
		assert_true(r.low_mib <= r.value.comfort_mib && r.high_mib >= r.value.comfort_mib);
		assert_false(r.value.fenced);	/* nothing enforces what was only guessed from a summary */
	}
}

/* Less than a GiB for a small MLP, on top of what a process takes; more where a batch is a thousand times larger. */
static void test_figures_are_sane(void **state)
{
	const struct estimate_context c = { 0 };
	struct row large = rows[0];
	struct estimate_result small, more;
	(void)state;
	large.batch = 64 << 10;
	assert_true(ask(&rows[0], &c, &small) && ask(&large, &c, &more));
	assert_in_range(small.value.comfort_mib, 500, 1500);
	assert_true(more.value.comfort_mib > small.value.comfort_mib);
}

static void test_learnt_margin(void **state)
{
	const struct estimate_context c = { .margin = 0.5 }, none = { 0 };
	struct estimate_result with, without;
	(void)state;
	assert_true(ask(&rows[0], &c, &with) && ask(&rows[0], &none, &without));
	assert_int_equal(with.value.comfort_mib, without.value.comfort_mib);
	assert_true(with.value.claim_mib >= with.value.comfort_mib * 3 / 2);
	assert_true(with.value.claim_mib >= without.value.claim_mib);
}

/* An A100's context is smaller than an H200's by what models/overheads.h says. */
static void test_another_card(void **state)
{
	const struct estimate_context h200 = { .gpu_name = "NVIDIA H200" }, a100 = { .gpu_name = "NVIDIA A100-SXM4-40GB" };
	struct estimate_result here, there;
	(void)state;
	assert_true(ask(&rows[0], &h200, &here) && ask(&rows[0], &a100, &there));
	assert_int_equal(here.value.comfort_mib - there.value.comfort_mib,
			 replay_overheads(h200.gpu_name)->context_mib - replay_overheads(a100.gpu_name)->context_mib);
	assert_true(here.value.comfort_mib > there.value.comfort_mib);
}

static void test_auto_asks_it(void **state)
{
	const struct estimate_context c = { 0 };
	struct spec *s = spec_create();
	struct estimate_result r;
	(void)state;
	s->model = alloc_string(MLP);
	s->model_name = alloc_string("net.model");
	s->batch_size = 32;
	assert_null(estimate_auto(estimators, SLOW_ASK, s, 0, &c, &r));
	assert_string_equal(r.value.estimator, "gpumemnet");
	assert_string_equal(estimate_auto(estimators, SLOW_STOP, s, 0, &c, &r)->name, "gpumemnet");
	estimate_auto(estimators, SLOW_ASK, s, 4096, &c, &r);
	assert_string_equal(r.value.estimator, "declared");
	spec_unref(s);
}

/* ---- inside and outside ---- */

/* What `auto` says of a summary of tests/gpumemnet. */
static void ask_file(const char *name, int64_t batch, const char *estimator, struct estimate_result *r)
{
	const struct estimate_context c = { .gpu_name = "NVIDIA H200" };
	scoped_free char *path = alloc_printf("gpumemnet/%s", name);
	scoped_buf text = { 0 };
	struct row k = { .optimizer = "adam", .precision = "fp32", .batch = batch };
	read_text(path, &text);
	k.model = buf_text(&text);
	ask_row(estimator, &k, &c, r);
}

/* Once 525 GiB and 81 GiB: a classifier between two convolutions, and a class token before the one that cuts the image, were
 * taken for images as wide as they have features. */
static void test_what_misled(void **state)
{
	struct estimate_result r;
	(void)state;
	ask_file("googlenet.txt", 32, "gpumemnet", &r);
	assert_string_equal(r.note, "outside what it learnt: no activation function shown, share of activations in activation layers "
				    "0 % (19 to 50)");
	ask_file("googlenet.txt", 32, "arithmetic", &r);
	assert_in_range(r.value.comfort_mib, 2 << 10, 5 << 10);
	assert_in_range(r.value.claim_mib, 2 << 10, 6 << 10);
	ask_file("vit_b_16.txt", 64, "gpumemnet", &r);
	assert_non_null(strstr(r.note, "outside what it learnt: sequence length not shown (64 to 2.05k)"));
	ask_file("vit_b_16.txt", 64, "arithmetic", &r);
	assert_in_range(r.value.claim_mib, 7 << 10, 16 << 10);
}

/* 53 convolutions, where no measured model had more than 35: not so far outside that nothing is known of it. */
static void test_resnet50_is_inside(void **state)
{
	struct estimate_result r;
	(void)state;
	ask_file("resnet50.txt", 64, "gpumemnet", &r);
	assert_string_equal(r.note, "cnn, batch 64, trained on NVIDIA H200, at its edge");
	assert_in_range(r.value.comfort_mib, 6 << 10, 10 << 10);
}

/* Where nets decline, `auto` adds up; what they would have said can be asked for. */
static void test_outside_is_added_up(void **state)
{
	const struct estimate_context c = { 0 };
	struct row far = { .model = MLP, .optimizer = "adam", .precision = "fp32", .batch = 1 << 22 };
	struct spec *s = spec_create();
	struct estimate_result r;
	(void)state;
	s->model = alloc_string(MLP);
	s->model_name = alloc_string("net.model");
	s->batch_size = far.batch;
	assert_null(estimate_auto(estimators, SLOW_ASK, s, 0, &c, &r));
	assert_string_equal(r.value.estimator, "arithmetic");
	assert_true(r.value.need_mib > 0 && r.value.comfort_mib * 13 / 10 <= r.value.claim_mib && !r.value.fenced);
	assert_false(ask(&far, &c, &r));
	assert_true(ask_row("gpumemnet-raw", &far, &c, &r));
	assert_true(r.value.claim_mib > 0);
	spec_unref(s);
}

/* ---- any summary ---- */

static uint64_t next_random(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return *state >> 33;
}

/* A table of layers in any order, of any sizes, after a convolution that reads an image of `side`. */
static void write_any(uint64_t *random, unsigned side, struct buf *out)
{
	static const char *const types[] = { "Conv2d", "BatchNorm2d", "ReLU", "Linear", "Dropout", "MaxPool2d", "GELU", "LayerNorm",
					     "Embedding", "Softmax", "Linear", "Conv2d" };
	unsigned n = 1 + (unsigned)(next_random(random) % 60), channels = 16u << next_random(random) % 4;
	bool plausible = next_random(random) % 2;
	buf_printf(out, TABLE "            Conv2d-1   [-1, 16, %u, %u]   448\n", side, side);
	for (unsigned i = 2; i < n + 2; i++) {
		if (plausible) {	/* so that the nets are asked too */
			unsigned params = i % 3 == 2 ? channels * channels * 9 : i % 3 == 0 ? 2 * channels : 0;
			buf_printf(out, "    %s-%u   [-1, %u, %u, %u]   %u\n", types[(i + 1) % 3], i, channels, side, side, params);
			continue;
		}
		channels = 1u << next_random(random) % 13;
		unsigned width = 1u << next_random(random) % 9;
		uint64_t params = next_random(random) % 3 ? next_random(random) % (1u << next_random(random) % 27) : 0;
		const char *type = types[next_random(random) % COUNT_OF(types)];
		if (next_random(random) % 2)
			buf_printf(out, "    %s-%u   [-1, %u, %u, %u]   %llu\n", type, i, channels, width, width, (unsigned long long)params);
		else
			buf_printf(out, "    %s-%u   [-1, %u]   %llu\n", type, i, channels, (unsigned long long)params);
	}
	if (plausible)
		buf_printf(out, "    Linear-%u   [-1, 10]   %u\n", n + 2, (channels * side * side + 1) * 10);
	buf_printf(out, "====\n");
}

/* Bytes that no arithmetic may exceed: all that a training keeps of each parameter and of each activation, 20 and 40 at most,
 * and for each layer, once, an input that is all that was made before it. */
static double most_of(const struct features *f, unsigned side)
{
	double made = (double)f->activations + 4.0 * side * side;
	return 20.0 * (double)f->params + (double)f->batch_size * (40.0 * made + 8.0 * (double)f->layers * made);
}

static void check_any(const char *text, int64_t batch, unsigned side, const char *precision, unsigned *spoke)
{
	const struct features_given given = { .batch_size = batch, .optimizer = "adam", .precision = precision };
	const struct row k = { .model = text, .optimizer = "adam", .precision = precision, .batch = batch };
	const struct estimate_context c = { .gpu_name = "NVIDIA H200" };
	struct gpumemnet_vector v;
	struct summary summary;
	struct features f;
	struct estimate_result r;
	assert_int_equal(summary_parse("net", text, strlen(text), &summary, NULL), 0);
	features_from_summary(&summary, &given, &f);
	gpumemnet_vector(&f, &v);
	if (v.reference_mib > 800 + most_of(&f, side) / 1048576)
		fail_msg("%.0f MiB, of %.0f at most: %s", v.reference_mib, most_of(&f, side) / 1048576, text);
	for (unsigned i = 0; i < 2; i++)
		if (ask_row(i ? "arithmetic" : "gpumemnet", &k, &c, &r)) {
			assert_true(r.value.need_mib <= r.value.comfort_mib && r.value.comfort_mib <= r.value.claim_mib);
			assert_true((double)r.value.claim_mib <= 3.5 * 1.3 * v.reference_mib + 2);
			assert_true((double)r.value.claim_mib >= 0.6 * v.reference_mib - 1);
			spoke[i]++;
		}
	features_clear(&f);
	summary_clear(&summary);
}

/* No answer, of whatever summary, is more than a few times what can be added up, and that is no more than there is to add. */
static void test_any_summary(void **state)
{
	static const char *const precisions[] = { "fp32", "ieee-fp32", "bf16", "amp-fp16", NULL };
	unsigned spoke[2] = { 0 };
	uint64_t random = 11;
	(void)state;
	for (unsigned i = 0; i < 1500; i++) {
		unsigned side = 8u << next_random(&random) % 6;
		int64_t batch = (int64_t)1 << next_random(&random) % 14;
		scoped_buf text = { 0 };
		write_any(&random, side, &text);
		check_any(buf_text(&text), batch, side, precisions[next_random(&random) % COUNT_OF(precisions)], spoke);
	}
	print_message("%u inside, %u added up\n", spoke[0], spoke[1]);
	assert_true(spoke[0] > 20 && spoke[1] > 500);
}

/* ---- inputs ---- */

static float input_of(const char *model, int64_t batch, const char *optimizer, const char *precision, unsigned input)
{
	const struct features_given given = { .batch_size = batch, .optimizer = optimizer, .precision = precision };
	struct summary summary;
	struct features features;
	struct gpumemnet_vector v;
	assert_int_equal(summary_parse("net", model, strlen(model), &summary, NULL), 0);
	features_from_summary(&summary, &given, &features);
	gpumemnet_vector(&features, &v);
	features_clear(&features);
	summary_clear(&summary);
	return v.inputs[input];
}

static void test_words(void **state)
{
	static const struct { const char *optimizer, *precision; float states, weight, value; } words[] = {
		{ "AdamW", "fp32", 2, 4, 4 }, { "sgd", "tf32", 0, 4, 4 }, { "SGD momentum=0.9", "bf16", 1, 2, 2 },
		{ "momentum", "amp-bf16", 1, 4, 2 }, { "RMSprop", "autocast fp16", 1, 4, 2 }, { "adafactor", "float16", 0, 2, 2 },
		{ NULL, NULL, 2, 4, 4 },
	};
	(void)state;
	for (size_t i = 0; i < COUNT_OF(words); i++) {
		const char *o = words[i].optimizer, *p = words[i].precision;
		assert_float_equal(input_of(MLP, 8, o, p, GPUMEMNET_STATES), words[i].states, 0);
		assert_float_equal(input_of(MLP, 8, o, p, GPUMEMNET_WEIGHT_BYTES), words[i].weight, 0);
		assert_float_equal(input_of(MLP, 8, o, p, GPUMEMNET_VALUE_BYTES), words[i].value, 0);
		assert_float_equal(input_of(MLP, 8, o, p, GPUMEMNET_OPTIMIZER_UNKNOWN), !o, 0);
		assert_float_equal(input_of(MLP, 8, o, p, GPUMEMNET_PRECISION_UNKNOWN), !p, 0);
	}
}

#define CNN TABLE "            Conv2d-1         [-1, 16, 32, 32]             432\n" \
	"            Linear-2                   [-1, 10]             170\n====\nTotal params: 602\n"

/* Convolutions use TF32 where nobody says otherwise, matrix products do not. What a table says its weights take is no
 * precision. */
static void test_tf32(void **state)
{
	(void)state;
	assert_float_equal(input_of(CNN, 8, "sgd", "fp32", GPUMEMNET_TF32), 1, 0);
	assert_float_equal(input_of(CNN, 8, "sgd", "ieee-fp32", GPUMEMNET_TF32), 0, 0);
	assert_float_equal(input_of(MLP, 8, "sgd", "fp32", GPUMEMNET_TF32), 0, 0);
	assert_float_equal(input_of(MLP, 8, "sgd", "tf32", GPUMEMNET_TF32), 1, 0);
	assert_float_equal(input_of(CNN, 8, "sgd", "32-bit", GPUMEMNET_TF32), 0, 0);
	assert_float_equal(input_of(CNN, 8, "sgd", "32-bit", GPUMEMNET_PRECISION_UNKNOWN), 1, 0);
	assert_float_equal(input_of(CNN, 8, "sgd", "fp32", GPUMEMNET_KERNEL), 3, 0);	/* 432 = 16 x 3 x 3 x 3 */
}

static void test_sizes(void **state)
{
	char name[64];
	(void)state;
	assert_float_equal(input_of(MLP, 7, NULL, NULL, GPUMEMNET_BATCH), 3, 0);
	assert_float_equal(input_of(MLP, 7, NULL, NULL, GPUMEMNET_ACTIVATIONS), log2f(1 + 1034), 1e-5);
	assert_float_equal(input_of(MLP, 7, NULL, NULL, GPUMEMNET_LARGEST_PARAMS), 401920.0f / 407050, 1e-6);
	assert_float_equal(input_of(MLP, 7, NULL, NULL, GPUMEMNET_KEEPS_OUTPUT), 1, 0);
	assert_string_equal(gpumemnet_input_name(GPUMEMNET_BATCH, name), "batch size");
	assert_string_equal(gpumemnet_input_name(GPUMEMNET_SCALAR_COUNT + 3 * SUMMARY_NORM + 2, name),
			    "share of activations in norm layers");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_weights_are_whole),
		cmocka_unit_test(test_as_pytorch),
		cmocka_unit_test(test_quantiles),
		cmocka_unit_test(test_no_distribution),
		cmocka_unit_test(test_row),
		cmocka_unit_test(test_figures_are_sane),
		cmocka_unit_test(test_learnt_margin),
		cmocka_unit_test(test_another_card),
		cmocka_unit_test(test_auto_asks_it),
		cmocka_unit_test(test_what_misled),
		cmocka_unit_test(test_resnet50_is_inside),
		cmocka_unit_test(test_outside_is_added_up),
		cmocka_unit_test(test_any_summary),
		cmocka_unit_test(test_words),
		cmocka_unit_test(test_tf32),
		cmocka_unit_test(test_sizes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
