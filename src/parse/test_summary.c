/* SPDX-License-Identifier: MIT
 * Model summaries: each form with its variants, what is no summary, and hostile text. Whole models are in test_features.c.
 */
#include "base/alloc.h"
#include "base/buf.h"
#include "base/scope.h"
#include "parse/summary.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define RULE "================================================================\n"
#define TORCHSUMMARY "        Layer (type)               Output Shape         Param #\n" RULE
#define TORCHINFO "Layer (type:depth-idx)                   Output Shape              Param #\n" RULE
#define KERAS2 \
	"Model: \"sequential\"\n_________________________________________________________________\n" \
	" Layer (type)                Output Shape              Param #   \n" RULE
#define BRANCH "\342\224\234\342\224\200"
#define LAST "\342\224\224\342\224\200"
#define BAR "\342\224\202"

struct expected { const char *type; uint64_t params, elements; unsigned nesting, times; bool parent; };

struct good_case {
	const char *what, *text;
	enum summary_format format;
	uint64_t total;
	struct expected layers[6];	/* ends with a NULL type */
};

static const struct good_case good[] = {
	{ "torchsummary", "----\n" TORCHSUMMARY "            Conv2d-1           [-1, 32, 26, 26]             320\n"
	  "AdaptiveAvgPool2d-32            [-1, 512, 7, 7]               0\n" RULE "Total params: 320\n",
	  SUMMARY_TORCHSUMMARY, 320, { { "Conv2d", 320, 21632, 0, 1 }, { "AdaptiveAvgPool2d", 0, 25088, 0, 1 } } },
	{ "torchsummary: several outputs, batch in the shape", TORCHSUMMARY
	  "              LSTM-1  [[4, 8, 16], [2, 4, 16]]           2,176\n" RULE "Total params: 2,176\n",
	  SUMMARY_TORCHSUMMARY, 2176, { { "LSTM", 2176, 4 * 8 * 16 + 2 * 4 * 16, 0, 1 } } },
	{ "torchsummary after a log, with Windows line ends", "Using cuda:0\r\nepoch(s): 3\r\n----\r\n"
	  "        Layer (type)               Output Shape         Param #\r\n====\r\n"
	  "            Linear-1                   [-1, 10]             110\r\n====\r\nTotal params: 110\r\n",
	  SUMMARY_TORCHSUMMARY, 110, { { "Linear", 110, 10, 0, 1 } } },
	{ "torchinfo", TORCHINFO "Net                                      [1, 10]                   --\n"
	  BRANCH "Sequential: 1-1                        [1, 4, 8, 8]              --\n"
	  BAR "    " LAST "Conv2d: 2-1                       [1, 4, 8, 8]              112\n"
	  BAR "    " LAST "Conv2d: 2-2                       [1, 4, 8, 8]              (recursive)\n"
	  BRANCH "Linear: 1-2                            [1, 10]                   2,570\n" RULE "Total params: 2,682\n",
	  SUMMARY_TORCHINFO, 2682, { { "Net", 0, 10, 0, 1, true }, { "Sequential", 0, 256, 1, 1, true }, { "Conv2d", 112, 256, 2, 1 },
		{ "Conv2d", 0, 256, 2, 1 }, { "Linear", 2570, 10, 1, 1 } } },
	{ "torch-summary, its predecessor: other branches, no root", TORCHINFO BRANCH "Sequential: 1-1        [-1, 4, 8, 8]       --\n"
	  "|    " LAST "Conv2d: 2-1            [-1, 4, 8, 8]       112\n" RULE "Total params: 112\n",
	  SUMMARY_TORCHINFO, 112, { { "Sequential", 0, 256, 1, 1, true }, { "Conv2d", 112, 256, 2, 1 } } },
	{ "torchinfo without shapes", "Layer (type:depth-idx)                   Param #\n" RULE "Net                       --\n"
	  BRANCH "Linear: 1-1             110\n" RULE "Total params: 110\n",
	  SUMMARY_TORCHINFO, 110, { { "Net", 0, 0, 0, 1, true }, { "Linear", 110, 0, 1, 1 } } },
	{ "torchinfo with the tensors of each layer", TORCHINFO "Linear                                   [2, "
	  "5]                    --\n"
	  BRANCH "weight                                                           " BRANCH "50\n" RULE "Total params: 50\n",
	  SUMMARY_TORCHINFO, 50, { { "Linear", 0, 10, 0, 1 } } },
	{ "a printed model", "Net(\n  (body): Sequential(\n    (0): Linear(in_features=4, out_features=2, bias=True)\n"
	  "    (1): ReLU(inplace=True)\n  )\n  (head): Linear(in_features=2, out_features=1, bias=False)\n)\n",
	  SUMMARY_MODULES, 0, { { "Net", 0, 0, 0, 1, true }, { "Sequential", 0, 0, 1, 1, true }, { "Linear", 0, 0, 2, 1 },
		{ "ReLU", 0, 0, 2, 1 }, { "Linear", 0, 0, 1, 1 } } },
	{ "printed with parameters, figures of parents included", "Net(\n  (fc): Linear(in_features=4, out_features=2, bias=True), "
	  "10 params\n"
	  "), 1,010 params\n=====\nTotal params: 1,010\n",
	  SUMMARY_MODULES, 1010, { { "Net", 1010, 0, 0, 1, true }, { "Linear", 10, 0, 1, 1 } } },
	{ "repeated blocks, one in another", "Net(\n  (0-2): 3 x Block(\n    (a): Tanh()\n    (0-3): 4 x Linear(in_features=1, "
	  "out_features=1, bias=True)\n  )\n)\n",
	  SUMMARY_MODULES, 0, { { "Net", 0, 0, 0, 1, true }, { "Block", 0, 0, 1, 3, true }, { "Tanh", 0, 0, 2, 3 }, { "Linear", 0,
	  	0, 2, 12 } } },
	{ "a parent with arguments of its own; parentheses in quotes", "Net(\n  dim=(3, 4), mode='a)('\n  (act): "
	  "GELU(approximate='none')\n)\n",
	  SUMMARY_MODULES, 0, { { "Net", 0, 0, 0, 1, true }, { "GELU", 0, 0, 1, 1 } } },
	{ "one module alone", "Linear(in_features=4, out_features=2, bias=True)\n", SUMMARY_MODULES, 0, { { "Linear", 0, 0, 0, 1 } } },
	{ "Keras 2: a name over two lines", KERAS2 " conv2d (Conv2D)             (None, 26, 26, 32)        320       \n"
	  "                                                                 \n"
	  " max_pooling2d_12 (MaxPooli  (None, 13, 13, 32)        0         \n "
	    "ng2D)                                                           \n"
	  RULE "Total params: 320 (1.25 KB)\n",
	  SUMMARY_KERAS, 320, { { "Conv2D", 320, 21632, 0, 1 }, { "MaxPooli", 0, 5408, 0, 1 } } },
	{ "older Keras: a name cut off, figures without commas", "Layer (type)                 Output Shape              Param #   "
	  "\n" RULE
	  "batch_normalization_10 (Batc (None, 32, 32, 64)        256       \n"
	  "_________________________________________________________________\n"
	  "dense (Dense)                (None, 10)                650       \n" RULE "Total params: 906\n",
	  SUMMARY_KERAS, 906, { { "Batc", 256, 65536, 0, 1 }, { "Dense", 650, 10, 0, 1 } } },
	{ "Keras: connections, several inputs", " Layer (type)                Output Shape          Param #    Connected to      "
	  "\n" RULE
	  " input_1 (InputLayer)        [(None, 8, 8, 3)]     0          []                \n"
	  " add (Add)                   (None, 8, 8, 3)       0          ['input_1[0][0]', \n"
	  "                                                               'input_1[0][0]'] \n" RULE "Total params: 0\n",
	  SUMMARY_KERAS, 0, { { "InputLayer", 0, 192, 0, 1 }, { "Add", 0, 192, 0, 1 } } },
	{ "Keras 2: a nested model, shown", KERAS2 " base (Functional)           (None, 8)                 90        \n"
	  "|\302\257\302\257\302\257\302\257|\n| dense (Dense)             (None, 8)                 90        "
	    "|\n\302\257\302\257\302\257\n"
	  " out (Dense)                 (None, 1)                 9         \n" RULE "Total params: 99\n",
	  SUMMARY_KERAS, 99, { { "Functional", 90, 8, 0, 1, true }, { "Dense", 90, 8, 1, 1 }, { "Dense", 9, 1, 0, 1 } } },
};

static void test_forms(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT_OF(good); i++) {
		const struct good_case *k = &good[i];
		struct summary s;
		struct error err = ERROR_INIT;
		size_t n = 0;
		print_message("%s\n", k->what);
		if (summary_parse("m", k->text, strlen(k->text), &s, &err))
			fail_msg("%s", err.text);
		assert_int_equal(s.format, k->format);
		assert_int_equal(s.total_params, k->total);
		for (; n < COUNT_OF(k->layers) && k->layers[n].type; n++) {
			const struct expected *e = &k->layers[n];
			const struct summary_layer *l = &s.layers[n];
			assert_true(n < s.n_layers);
			assert_true(summary_is(s.types[l->type].name, e->type));
			assert_int_equal(l->params, e->params);
			assert_int_equal(l->elements, e->elements);
			assert_int_equal(l->nesting, e->nesting);
			assert_int_equal(l->times, e->times);
			assert_int_equal(l->parent, e->parent);
		}
		assert_int_equal(s.n_layers, n);
		summary_clear(&s);
	}
}

struct bad_case { const char *what, *text, *error; };

static const struct bad_case bad[] = {
	{ "nothing", "", "m: is empty" },
	{ "blank lines", "\n  \n\t\n", "m: is empty" },
	{ "a program", "\nimport torch\nprint(1)\n", "m:2: 'import torch': begins no model summary" },
	{ "a call in a program", "model = Net(3, 4)\nNet(3)\nfoo(\n", "m:1: 'model = Net(3, 4)'" },
	{ "a CSV file", "a,b\n1,2\n", "m:1: 'a,b'" },
	{ "a log in another script", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\u5b66\u4e60\n",
	  "m:1: 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\u5b66': begins no" },
	{ "the same, cut elsewhere", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\u5b66\n",
	  "m:1: 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa': begins no" },
	{ "bytes that are no text", "log \xff\xfe of 1998\n", "m:1: 'log ?? of 1998': begins no" },
	{ "a table of something else", "Layer (typo)   Output Shape   Param #\n", "begins no model summary" },
	{ "a row that is none", TORCHSUMMARY "            Conv2d-1           [-1, 3, 2]             320\nKilled\n",
	  "m:4: 'Killed': expected a row of a torchsummary table" },
	{ "a shape cut off", TORCHSUMMARY "            Conv2d-1           [-1, 3,\n", "m:3: 'Conv2d-1 [-1, 3,': expected a shape" },
	{ "a word for a size", TORCHSUMMARY "            Conv2d-1           [-1, x]             320\n", "expected a shape" },
	{ "no parameters", TORCHSUMMARY "            Conv2d-1           [-1, 3]\n", "expected the number of parameters" },
	{ "text behind the parameters", TORCHSUMMARY "            Conv2d-1           [-1, 3]    5 apples\n", "expected the number "
	  "of parameters" },
	{ "more parameters than there are", TORCHSUMMARY "   Conv2d-1           [-1, 3]    99,999,999,999,999,999,999\n",
	  "expected the number" },
	{ "a table without rows", TORCHSUMMARY RULE "Total params: 0\n", "a summary without layers" },
	{ "torchinfo: a bad figure", TORCHINFO BRANCH "Conv2d: 1-1             [1, 4]        many\n", "m:3: '" BRANCH "Conv2d: 1-1 "
	  "[1, 4] many': expected a number of parameters" },
	{ "torchinfo: prose", TORCHINFO "1234\n", "expected a row of a torchinfo table" },
	{ "torchinfo: too deep", TORCHINFO BRANCH "Conv2d: 65-1             [1, 4]        1\n", "nested deeper" },
	{ "never closed", "Net(\n  (a): ReLU()\n", "m:2: 'Net(': the module printed from here on is never closed" },
	{ "no module inside", "Net(\n  (a): ReLU()\n  oops\n)\n", "m:3: 'oops': expected '(name): Type(...)' or ')'" },
	{ "a name without a module", "Net(\n  (a): \n)\n", "m:2: '(a):': expected a module" },
	{ "an end that is none", "Net(\n  (a): ReLU()\n), 12 apples\n", "m:3: '), 12 apples': expected nothing or ', N params'" },
	{ "repeated too often", "Net(\n  (0-1): 100001 x ReLU()\n)\n", "m:2: '(0-1): 100001 x ReLU()': repeated more often" },
	{ "repeated in repeated", "Net(\n  (0): 99999 x Block(\n    (0): 99999 x ReLU()\n  )\n)\n", "m:3: '(0): 99999 x ReLU()': "
	  "repeated more" },
	{ "repeated never", "Net(\n  (0-1): 0 x ReLU()\n)\n", "repeated more often" },
	{ "Keras: prose", KERAS2 "what is this\n" RULE, "m:5: 'what is this': expected a row of a Keras table" },
	{ "Keras: columns the other way round", " Layer (type)  Param #    Output Shape \n" RULE " conv2d (Conv2D)  320  (None, 26)\n",
	  "expected a row of a Keras table" },
	{ "Keras: no type", KERAS2 " conv2d                      (None, 26, 26, 32)        320       \n" RULE, "expected a row of "
	  "a Keras table" },
};

static void test_refusals_show_the_line(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT_OF(bad); i++) {
		struct summary s;
		struct error err = ERROR_INIT;
		print_message("%s\n", bad[i].what);
		memset(&s, 0xff, sizeof s);
		assert_int_equal(summary_parse("m", bad[i].text, strlen(bad[i].text), &s, &err), -1);
		assert_int_equal(err.code, ERR_INVALID);
		if (!strstr(err.text, bad[i].error))
			fail_msg("'%s' lacks '%s'", err.text, bad[i].error);
		assert_null(s.layers);
		assert_null(s.types);
	}
}

/* Every front of a good text is read or refused, and reads nothing behind its end (the copy has no room there). */
static void test_cut_anywhere(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT_OF(good); i++)
		for (size_t len = 0; len <= strlen(good[i].text); len++) {
			scoped_free char *copy = alloc_zero(len ? len : 1);
			struct summary s;
			memcpy(copy, good[i].text, len);
			if (!summary_parse("m", copy, len, &s, NULL))
				assert_true(s.n_layers > 0);
			summary_clear(&s);
		}
}

/* Text that would take a careless reader's time, memory or stack. */
static void refuse(const struct buf *text, const char *error)
{
	struct summary s;
	struct error err = ERROR_INIT;
	assert_int_equal(summary_parse("m", buf_text(text), text->len, &s, &err), -1);
	if (!strstr(err.text, error))
		fail_msg("'%s' lacks '%s'", err.text, error);
}

static void test_bounds(void **state)
{
	scoped_buf deep = { 0 }, many = { 0 }, types = { 0 }, large = { 0 }, wide = { 0 };
	struct summary s;
	(void)state;
	for (unsigned i = 0; i < 200; i++)
		buf_add_text(&deep, i ? "(a): Block(\n" : "Block(\n");
	refuse(&deep, "m:65: '(a): Block(': nested deeper than any model (64)");
	buf_add_text(&many, "Net(\n");
	for (unsigned i = 0; i < SUMMARY_MAX_LAYERS; i++)
		buf_add_text(&many, "(a):A()\n");
	refuse(&many, "expected a module");	/* "(a):A()" lacks the blank */
	many.len = 0;
	buf_add_text(&many, "Net(\n");
	for (unsigned i = 0; i < SUMMARY_MAX_LAYERS; i++)
		buf_add_text(&many, "(): A()\n");
	refuse(&many, "m:100001: '(): A()': more layers than any model has");
	buf_add_text(&types, "Net(\n");
	for (unsigned i = 0; i < SUMMARY_MAX_TYPES; i++)
		buf_printf(&types, "(a): T%u()\n", i);
	refuse(&types, "m:501: '(a): T499()': more kinds of layers");
	for (unsigned i = 0; i <= SUMMARY_MAX_BYTES / 8; i++)
		buf_add_text(&large, "Net(\n    ");
	refuse(&large, "is larger than 1 MiB");
	buf_add_text(&wide, TORCHSUMMARY "Conv2d-1 [-1");
	for (unsigned i = 0; i < 10000; i++)
		buf_add_text(&wide, ", 4000000000");
	buf_add_text(&wide, "] 5\n" RULE "Total params: 5\n");
	assert_int_equal(summary_parse("m", buf_text(&wide), wide.len, &s, NULL), 0);
	assert_int_equal(s.layers[0].elements, SUMMARY_MAX_COUNT);
	summary_clear(&s);
}

/* Each layer inside looks at the names around it: with names as long as the text that took minutes. */
static void test_names_are_bounded(void **state)
{
	char name[SUMMARY_MAX_NAME + 2];
	struct summary s;
	(void)state;
	memset(name, 'A', sizeof name - 1);
	name[sizeof name - 1] = 0;
	scoped_free char *class = alloc_printf("Net(\n  (a): %s(\n    (b): ReLU()\n  )\n)\n", name);
	scoped_free char *module = alloc_printf("Net(\n  (%s): Block(\n    (b): ReLU()\n  )\n)\n", name);
	scoped_free char *row = alloc_printf(TORCHSUMMARY "%s-1 [-1, 2] 5\n" RULE "Total params: 5\n", name);
	refuse(&(struct buf){ .data = class, .len = strlen(class) }, "a longer name than any class has (500)");
	refuse(&(struct buf){ .data = module, .len = strlen(module) }, "m:2: '(AAA");
	refuse(&(struct buf){ .data = row, .len = strlen(row) }, "a longer name than any class has (500)");
	scoped_free char *most = alloc_printf("Net(\n  (%s): %s(\n    (b): ReLU()\n  )\n)\n", name + 1, name + 1);
	assert_int_equal(summary_parse("m", most, strlen(most), &s, NULL), 0);
	summary_clear(&s);
}

static void test_second_summary_is_told_of(void **state)
{
	static const char one[] = "Net(\n  (a): ReLU()\n)\n";
	scoped_free char *two = alloc_printf("%sdone\n%s", one, one);
	struct summary s;
	(void)state;
	assert_int_equal(summary_parse("m", one, strlen(one), &s, NULL), 0);
	assert_false(s.more);
	summary_clear(&s);
	assert_int_equal(summary_parse("m", two, strlen(two), &s, NULL), 0);
	assert_true(s.more);
	assert_int_equal(s.n_layers, 2);
	summary_clear(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_forms),
		cmocka_unit_test(test_refusals_show_the_line),
		cmocka_unit_test(test_cut_anywhere),
		cmocka_unit_test(test_bounds),
		cmocka_unit_test(test_names_are_bounded),
		cmocka_unit_test(test_second_summary_is_told_of),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
