/* SPDX-License-Identifier: MIT
 * Features of model summaries: whole models against what is true of them (tests/summaries, made by its make.py), and the
 * situations that are counted wrong easily. With RAD_SUMMARIES_DIR, all files of that folder must be read, and are listed.
 */
#include "base/alloc.h"
#include "base/buf.h"
#include "base/io.h"
#include "base/json.h"
#include "base/scope.h"
#include "parse/features.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct features read_text(const char *name, const char *text, size_t len, const struct features_given *given)
{
	struct summary s;
	struct features f;
	struct error err = ERROR_INIT;
	if (summary_parse(name, text, len, &s, &err))
		fail_msg("%s", err.text);
	features_from_summary(&s, given, &f);
	summary_clear(&s);
	return f;
}

static bool has_note(const struct features *f, const char *part)
{
	for (unsigned i = 0; i < f->n_notes; i++)
		if (strstr(f->notes[i], part))
			return true;
	return false;
}

/* ---- whole models ---- */

static void check_model(const char *folder, const char *file)
{
	scoped_free char *stem = alloc_printf("%s/%.*s", folder, (int)(strlen(file) - strlen(".json")), file);
	scoped_free char *json = alloc_printf("%s.json", stem), *path = alloc_printf("%s.txt", stem);
	scoped_buf text = { 0 };
	scoped_json *truth = json_load_file(json, 0, NULL);
	struct features_given given = { .seq_len = json_integer_value(json_object_get(truth, "seq_len")) };
	const json_t *input = json_object_get(truth, "input"), *activations = json_object_get(truth, "activations");
	assert_non_null(truth);
	for (size_t i = 0; i < json_array_size(input); i++)
		given.input[i] = json_integer_value(json_array_get(input, i));
	assert_int_equal(io_read_file(path, SUMMARY_MAX_BYTES, &text, NULL), 0);
	struct features f = read_text(file, buf_text(&text), text.len, &given);
	double want = (double)json_integer_value(activations), off = want > 0 ? (double)f.activations / want - 1 : 0;
	print_message("%-36s %" PRIu64 " parameters, activations %+.2f %%\n", file, f.params, 100 * off);
	assert_string_equal(summary_format_name(f.format), json_string_value(json_object_get(truth, "format")));
	assert_int_equal(f.params, json_integer_value(json_object_get(truth, "params")));
	assert_int_equal(f.batch_size, json_integer_value(json_object_get(truth, "batch")));
	assert_int_equal(f.activations_known, activations != NULL);
	double tolerance = json_number_value(json_object_get(truth, "tolerance"));
	assert_true(off <= tolerance && off >= -tolerance);
	features_clear(&f);
}

static void test_models(void **state)
{
	scoped_free char *folder = alloc_printf("%s/tests/summaries", getenv("RAD_SOURCE_ROOT"));
	scoped_dir DIR *dir = opendir(folder);
	unsigned models = 0;
	(void)state;
	assert_non_null(dir);
	for (struct dirent *e = readdir(dir); e; e = readdir(dir)) {
		size_t len = strlen(e->d_name);
		if (len > 5 && !strcmp(e->d_name + len - 5, ".json")) {
			check_model(folder, e->d_name);
			models++;
		}
	}
	assert_true(models >= 40);
}

static void test_folder_of_the_environment(void **state)
{
	const char *folder = getenv("RAD_SUMMARIES_DIR");
	scoped_dir DIR *dir = folder ? opendir(folder) : NULL;
	const struct features_given given = { 0 };
	(void)state;
	if (!folder)
		skip();
	assert_non_null(dir);
	for (struct dirent *e = readdir(dir); e; e = readdir(dir)) {
		scoped_free char *path = alloc_printf("%s/%s", folder, e->d_name);
		scoped_buf text = { 0 };
		if (e->d_name[0] == '.')
			continue;
		assert_int_equal(io_read_file(path, SUMMARY_MAX_BYTES, &text, NULL), 0);
		struct features f = read_text(e->d_name, buf_text(&text), text.len, &given);
		print_message("%-28s %-12s %-11s %4" PRIu64 " layers %12" PRIu64 " parameters %12" PRIu64 " activations\n", e->d_name,
			      summary_format_name(f.format), features_family_name(f.family), f.layers, f.params, f.activations);
		assert_true(f.params > 0 && f.activations > 0);
		features_clear(&f);
	}
}

/* ---- situations ---- */

#define LINEAR(in, out) "Linear(in_features=" #in ", out_features=" #out ", bias=True)"
#define TABLE "        Layer (type)               Output Shape         Param #\n====\n"

/* Images are 3x8x8 and sequences have 5 tokens. */
struct situation { const char *what, *text; uint64_t params, activations; const char *note; };

static const struct situation situations[] = {
	{ "one linear layer", LINEAR(4, 2) "\n", 10, 2, NULL },
	{ "an MLP", "Sequential(\n  (0): " LINEAR(4, 3) "\n  (1): ReLU()\n  (2): " LINEAR(3, 2) "\n)\n", 15 + 8, 3 + 3 + 2, NULL },
	{ "an activation function printed once, called twice", "Net(\n  (fc1): " LINEAR(4, 3) "\n  (fc2): " LINEAR(3, 5) "\n  (fc3): "
	  LINEAR(5, 2) "\n  (act): ReLU()\n)\n", 15 + 20 + 12, 3 + 5 + 2 + 8, NULL },
	{ "repeated blocks", "Net(\n  (0-2): 3 x " LINEAR(4, 4) "\n)\n", 60, 12, NULL },
	{ "repeated in repeated", "Net(\n  (a): ModuleList(\n    (0-1): 2 x Block(\n      (0-2): 3 x " LINEAR(4, 4) "\n    )\n  "
	  ")\n)\n",
	  120, 24, NULL },
	{ "the same with figures; the model owns five more", "Net(\n  (a): ModuleList(\n    (0-1): 2 x Block(\n      (0-2): 3 x "
	  "" LINEAR(4, 4)
	  ", 20 params\n    ), 60 params\n  ), 120 params\n), 125 params\n", 125, 24 + 4, NULL },
	{ "depthwise convolution without bias, pooled to one", "Sequential(\n  (0): Conv2d(3, 6, kernel_size=(3, 3), stride=(1, 1), "
	  "padding=(1, 1), groups=3, bias=False)\n  (1): BatchNorm2d(6, eps=1e-05, momentum=0.1, affine=True)\n"
	  "  (2): AdaptiveAvgPool2d(output_size=1)\n  (3): Flatten(start_dim=1, end_dim=-1)\n  (4): " LINEAR(6, 2) "\n)\n",
	  6 * 9 + 12 + 14, 2 * 6 * 64 + 6 + 2, NULL },
	{ "stride, dilation, padding same, rounding up", "Sequential(\n  (0): Conv2d(3, 2, kernel_size=(3, 3), stride=(2, 2), "
	  "dilation=(2, 2))\n"
	  "  (1): Conv2d(2, 2, kernel_size=(3, 3), stride=(1, 1), padding=same)\n"
	  "  (2): MaxPool2d(kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=True)\n)\n",
	  54 + 2 + 36 + 2, 2 * 4 + 2 * 4 + 2, NULL },	/* 8 -> (8 - 4 - 1) / 2 + 1 = 2 */
	{ "pooling that rounds up, but not beyond the end", "Sequential(\n  (0): Conv2d(3, 1, kernel_size=(1, 1), stride=(1, 1), "
	  "bias=False)\n"
	  "  (1): MaxPool2d(kernel_size=3, stride=2, padding=0, dilation=1, ceil_mode=True)\n"
	  "  (2): MaxPool2d(kernel_size=1, stride=2, padding=0, dilation=1, ceil_mode=True)\n)\n", 3, 64 + 16 + 4, NULL },
	{ "transposed convolution", "Sequential(\n  (0): ConvTranspose2d(3, 2, kernel_size=(4, 4), stride=(2, 2), padding=(1, "
	  "1))\n)\n",
	  3 * 2 * 16 + 2, 2 * 256, NULL },
	{ "a residual branch starts where its block does", "Net(\n  (block): Block(\n    (conv): Conv2d(3, 4, kernel_size=(1, 1), "
	  "stride=(2, 2), "
	  "bias=False)\n    (downsample): Sequential(\n      (0): Conv2d(3, 4, kernel_size=(1, 1), stride=(2, 2), bias=False)\n    "
	    ")\n  )\n"
	  "  (next): Conv2d(4, 1, kernel_size=(1, 1), stride=(1, 1), bias=False)\n)\n", 12 + 12 + 4, 64 + 64 + 16, NULL },
	{ "also when its channels fit what stands before it", "Net(\n  (stem): Conv2d(3, 4, kernel_size=(1, 1), stride=(1, 1), "
	  "bias=False)\n"
	  "  (block): Block(\n    (conv): Conv2d(4, 4, kernel_size=(1, 1), stride=(2, 2), bias=False)\n    (shortcut): Sequential(\n"
	  "      (0): Conv2d(4, 4, kernel_size=(1, 1), stride=(2, 2), bias=False)\n    )\n  )\n)\n", 12 + 16 + 16, 256 + 64 + 64,
	    NULL },
	{ "joined branches have the channels that the next layer wants", "Net(\n  (a): Conv2d(3, 4, kernel_size=(1, 1), stride=(1, "
	  "1), bias=False)\n"
	  "  (norm): BatchNorm2d(7, eps=1e-05, momentum=0.1, affine=True)\n)\n", 12 + 14, 256 + 448, NULL },
	{ "the size of the image follows from the first linear layer", "Net(\n  (conv): Conv2d(1, 2, kernel_size=(3, 3), "
	  "stride=(1, 1))\n  (fc): "
	  LINEAR(1800, 3) "\n)\n", 20 + 5403, 1800 + 3, "1x32x32, from the first linear layer" },
	{ "a language model shares its embedding", "GPT(\n  (wte): Embedding(2000, 4)\n  (ln): LayerNorm((4,), eps=1e-05, "
	  "elementwise_affine=True)\n  (lm_head): Linear(in_features=4, out_features=2000, bias=False)\n)\n",
	  8000 + 8, 20 + 20 + 10000, "line 4: taken as sharing its weights with the embedding in line 2" },
	{ "LLaMA does not", "LlamaForCausalLM(\n  (embed): Embedding(2000, 4)\n  (norm): LlamaRMSNorm((4,), eps=1e-06)\n"
	  "  (lm_head): Linear(in_features=4, out_features=2000, bias=False)\n)\n", 16000 + 4, 20 + 20 + 10000, "taken as apart "
	    "from" },
	{ "multi-head attention holds three projections itself", "Net(\n  (embed): Embedding(10, 4)\n  (attn): "
	  "MultiheadAttention(\n    (out_proj): "
	  "NonDynamicallyQuantizableLinear(in_features=4, out_features=4, bias=True)\n  )\n)\n", 40 + 60 + 20, 20 + 20, NULL },
	{ "LSTM", "Net(\n  (embed): Embedding(10, 4)\n  (lstm): LSTM(4, 6, num_layers=2, batch_first=True, bidirectional=True)\n)\n",
	  40 + 2 * 4 * 6 * (4 + 6 + 2) + 2 * 4 * 6 * (12 + 6 + 2), 20 + 60, NULL },
	{ "embedding bags give one vector", "Net(\n  (e): EmbeddingBag(100, 4, mode='sum')\n)\n", 400, 4, NULL },
	{ "torchsummary: containers repeat what they hold", TABLE "            Conv2d-1             [-1, 2, 4, 4]              10\n"
	  "       BasicConv2d-2             [-1, 2, 4, 4]               0\n             Block-3             [-1, 2, 4, "
	    "4]               0\n"
	  "            Linear-4                   [-1, 5]              12\n====\nTotal params: 22\n", 22, 37, NULL },
	{ "torchsummary: the batch is no part of a sample", TABLE "            Conv2d-1              [8, 2, 4, 4]              10\n"
	  "            Linear-2                    [8, 5]              12\n====\nTotal params: 22\n", 22, 37, NULL },
	{ "named branches start together, whatever their channels", "Net(\n  (stem): Conv2d(3, 4, kernel_size=(1, 1), stride=(1, "
	  "1), bias=False)\n"
	  "  (unit): Unit(\n    (branch1): Sequential(\n      (0): Conv2d(4, 4, kernel_size=(1, 1), stride=(2, 2), "
	    "bias=False)\n    )\n"
	  "    (branch2): Sequential(\n      (0): Conv2d(4, 4, kernel_size=(1, 1), stride=(1, 1), bias=False)\n    )\n  )\n)\n",
	  12 + 16 + 16, 256 + 64 + 256, NULL },
	{ "what is enlarged joins a skip connection", "Net(\n  (stem): Conv2d(3, 4, kernel_size=(1, 1), stride=(1, 1), "
	  "bias=False)\n  (up): Up(\n"
	  "    (up): ConvTranspose2d(4, 2, kernel_size=(2, 2), stride=(2, 2), bias=False)\n"
	  "    (conv): Conv2d(4, 1, kernel_size=(1, 1), stride=(1, 1), bias=False)\n  )\n)\n", 12 + 32 + 4, 256 + 512 + 256, NULL },
	{ "a gate looks at one value a channel, and hands on the image", "Net(\n  (stem): Conv2d(3, 4, kernel_size=(1, 1), "
	  "stride=(1, 1), bias=False)\n"
	  "  (se): SqueezeExcite(\n    (conv_reduce): Conv2d(4, 1, kernel_size=(1, 1), stride=(1, 1), bias=False)\n    (gate): "
	    "Sigmoid()\n"
	  "    (conv_expand): Conv2d(1, 4, kernel_size=(1, 1), stride=(1, 1), bias=False)\n  )\n  (act): ReLU()\n  (more): "
	    "Softmax(dim=1)\n)\n",
	  12 + 4 + 4, 256 + 1 + 1 + 4 + 256 + 256, NULL },
	{ "an auxiliary classifier is a side branch", "Net(\n  (stem): Conv2d(3, 4, kernel_size=(1, 1), stride=(1, 1), "
	  "bias=False)\n  (AuxLogits): "
	  "Head(\n    (fc): Linear(in_features=256, out_features=4, bias=False)\n  )\n  (act): ReLU()\n  (out): Softmax(dim=1)\n)\n",
	  12 + 1024, 256 + 4 + 256 + 256, NULL },
	{ "a prediction head that holds its output layer's bias once more", "Lm(\n  (words): Embedding(2000, 4), 8,000 params\n  "
	  "(head): Head(\n"
	  "    (decoder): Linear(in_features=4, out_features=2000, bias=True), 10,000 params\n  ), 12,000 params\n), 20,000 params\n",
	  8000 + 2000, 20 + 10000, "taken as sharing its weights" },
	{ "Keras: sequences of any length", " Layer (type)                Output Shape              Param #   \n====\n"
	  " embedding (Embedding)       (None, None, 64)          640       \n====\nTotal params: 640\n", 640, 5 * 64, "open "
	    "dimensions taken as "
	  "the sequence length" },
	{ "torchsummary: attention whose weights it does not see", TABLE "MultiheadAttention-1  [[-1, 5, 8], [-1, 5, "
	  "5]]               0\n"
	  "====\nTotal params: 0\n", 4 * 64 + 4 * 8, 40 + 25, NULL },
	{ "figures that do not add up", TABLE "            Linear-1                   [-1, 5]              12\n====\nTotal params: "
	  "13\n",
	  12, 5, "the file says 13 parameters in total, its layers come to 12" },
};

static void test_situations(void **state)
{
	const struct features_given given = { .seq_len = 5, .input = { 3, 8, 8 } }, sizes_not_given = { .seq_len = 5 };
	(void)state;
	for (size_t i = 0; i < COUNT_OF(situations); i++) {
		const struct situation *k = &situations[i];
		bool guess = k->note && strstr(k->note, "from the first");
		print_message("%s\n", k->what);
		struct features f = read_text("m", k->text, strlen(k->text), guess ? &sizes_not_given : &given);
		assert_int_equal(f.params, k->params);
		assert_int_equal(f.activations, k->activations);
		assert_true(!k->note || has_note(&f, k->note));
		assert_true(k->note || !f.n_notes);
		features_clear(&f);
	}
}

static const char transformer[] =
	"Net(\n  (embed): Embedding(50, 4)\n  (attention): SelfAttention(\n    (query): " LINEAR(4, 4) "\n  )\n  (norm): "
	  "LayerNorm((4,))\n"
	"  (up): " LINEAR(4, 8) "\n  (act): NewGELUActivation()\n  (down): " LINEAR(8, 4) "\n  (drop): Dropout(p=0.1)\n)\n";
static const char cnn[] =
	TABLE "            Conv2d-1             [-1, 2, 4, 4]              10\n       BatchNorm2d-2             [-1, 2, 4, "
		"4]               4\n"
	"             ReLU6-3             [-1, 2, 4, 4]               0\n           Sigmoid-4             [-1, 2, 4, "
	  "4]               0\n"
	"           Sigmoid-5             [-1, 2, 4, 4]               0\n            Linear-6                   [-1, "
	  "5]              12\n"
	"====\nTotal params: 26\nTrainable params: 20\nNon-trainable params: 6\n";

static uint64_t layers_of(const struct features *f, const struct summary *s, const char *type)
{
	for (size_t i = 0; i < s->n_types; i++)
		if (summary_is(s->types[i].name, type))
			return f->types[i].layers;
	return 0;
}

static void test_what_estimators_ask(void **state)
{
	const struct features_given given = { .batch_size = 32, .seq_len = 5, .optimizer = "adamw", .precision = "bf16" };
	struct summary s;
	struct features f;
	(void)state;
	assert_int_equal(summary_parse("m", transformer, strlen(transformer), &s, NULL), 0);
	features_from_summary(&s, &given, &f);
	assert_int_equal(f.family, FEATURES_TRANSFORMER);
	assert_int_equal(f.batch_size, 32);
	assert_int_equal(f.seq_len, 5);
	assert_string_equal(f.activation, "GELU");
	assert_string_equal(f.optimizer, "adamw");
	assert_string_equal(f.precision, "bf16");
	assert_int_equal(f.kinds[SUMMARY_LINEAR].layers, 3);
	assert_int_equal(f.kinds[SUMMARY_LINEAR].params, 20 + 40 + 36);
	assert_int_equal(f.kinds[SUMMARY_LINEAR].activations, 5 * (4 + 8 + 4));
	assert_int_equal(layers_of(&f, &s, "LayerNorm"), 1);
	assert_int_equal(layers_of(&f, &s, "BatchNorm2d"), 0);
	assert_int_equal(f.depth, 4);
	assert_int_equal(f.layers, 7);
	features_clear(&f);
	summary_clear(&s);
	f = read_text("m", cnn, strlen(cnn), &(struct features_given){ 0 });
	assert_int_equal(f.family, FEATURES_CNN);
	assert_string_equal(f.activation, "ReLU");
	assert_int_equal(f.params, 26);
	assert_int_equal(f.trainable_params, 20);
	assert_int_equal(f.batch_size, 0);
	features_clear(&f);
}

/* Layers in the order of the text, equal neighbours together: what a sequence model is fed. */
static void test_list_of_layers(void **state)
{
	static const struct features_layer want[] = {
		{ SUMMARY_CONV, 0, 1, 10, 32 }, { SUMMARY_NORM, 1, 1, 4, 32 }, { SUMMARY_ACTIVATION, 2, 1, 0, 32 },
		{ SUMMARY_ACTIVATION, 3, 2, 0, 32 }, { SUMMARY_LINEAR, 4, 1, 12, 5 },
	};
	struct features f = read_text("m", cnn, strlen(cnn), &(struct features_given){ 0 });
	uint64_t activations = 0;
	(void)state;
	assert_int_equal(f.n_list, COUNT_OF(want));
	for (size_t i = 0; i < f.n_list; i++) {
		assert_int_equal(f.list[i].kind, want[i].kind);
		assert_int_equal(f.list[i].type, want[i].type);
		assert_int_equal(f.list[i].times, want[i].times);
		assert_int_equal(f.list[i].params, want[i].params);
		assert_int_equal(f.list[i].activations, want[i].activations);
		activations += f.list[i].activations * f.list[i].times;
	}
	assert_int_equal(activations, f.activations);
	features_clear(&f);
}

/* Sizes that no model has: sums stay within their bound, and shapes that grow without end are stopped. */
static void test_absurd_sizes(void **state)
{
	scoped_buf text = { 0 };
	(void)state;
	buf_add_text(&text, "Net(\n");
	for (unsigned i = 0; i < 200; i++)
		buf_add_text(&text, "  (u): Upsample(scale_factor=60.0)\n  (c): ConvTranspose2d(999999999999, 999999999999, "
			"kernel_size=(99999, "
			     "99999), stride=(99999, 99999), output_padding=(-5, 3))\n  (l): Linear(in_features=999999999999, "
			     "out_features=999999999999, bias=True)\n  (0-9999): 10000 x Embedding(999999999999, -1)\n"
			     "  (f): Flatten()\n  (n): LayerNorm((999999999, 999999999, 99999999))\n");
	buf_add_text(&text, ")\n");
	struct features f = read_text("m", buf_text(&text), text.len, &(struct features_given){ .seq_len = INT64_MAX });
	assert_int_equal(f.params, SUMMARY_MAX_COUNT);
	assert_int_equal(f.activations, SUMMARY_MAX_COUNT);
	features_clear(&f);
}

/* Channels whose product with a picture of 224 x 224, beyond 64 bits, would be what the next layer wants. */
static void test_channels_beyond_all_sizes(void **state)
{
	static const char net[] = "Net(\n  (c): Conv2d(3, 8, kernel_size=(1, 1))\n  (n): BatchNorm2d(367640785907796)\n"
		"  (l): Linear(in_features=20480, out_features=2)\n)\n";
	struct features f = read_text("m", net, strlen(net), &(struct features_given){ 0 });
	(void)state;
	assert_int_equal(f.list[2].activations, 2 * 224 * 224);
	features_clear(&f);
}

/* More layers alike than the list can count in one row. */
static void test_many_alike(void **state)
{
	scoped_buf text = { 0 };
	uint64_t listed = 0;
	(void)state;
	buf_add_text(&text, "Net(\n");
	for (unsigned i = 0; i < 50000; i++)
		buf_add_text(&text, "(): 100000 x GLU()\n");
	buf_add_text(&text, ")\n");
	struct features f = read_text("m", buf_text(&text), text.len, &(struct features_given){ 0 });
	for (size_t i = 0; i < f.n_list; i++)
		listed += f.list[i].times;
	assert_int_equal(f.layers, UINT64_C(5000000000));
	assert_int_equal(listed, f.layers);
	features_clear(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_models),
		cmocka_unit_test(test_folder_of_the_environment),
		cmocka_unit_test(test_situations),
		cmocka_unit_test(test_what_estimators_ask),
		cmocka_unit_test(test_list_of_layers),
		cmocka_unit_test(test_absurd_sizes),
		cmocka_unit_test(test_channels_beyond_all_sizes),
		cmocka_unit_test(test_many_alike),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
