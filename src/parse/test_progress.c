/* SPDX-License-Identifier: MIT
 * What programs print of how far they are: lines as they stand in real logs, and what they come to over time.
 */
#include "parse/progress.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

/* Lines ---------------------------------------------------------------------------------------------------------------- */

struct line_case {
	const char *text;
	enum progress_source source;	/* PROGRESS_NONE: says nothing */
	int64_t done, total, epoch, epochs;
	double per_s;
	const char *unit;
	bool aside, counts_epochs, over;
};

#define T PROGRESS_TQDM
#define K PROGRESS_KERAS
#define L PROGRESS_LINES
#define BLOCKS "\xe2\x96\x88\xe2\x96\x88\xe2\x96\x8e       "
#define HEAVY "\xe2\x94\x81\xe2\x94\x81\xe2\x94\x81\xe2\x94\x81\xe2\x95\xb8"

static const struct line_case lines[] = {
	/* tqdm, and what is made of it */
	{ " 12%|###   | 120/1000 [00:38<04:40, 3.10it/s]", T, 120, 1000, -1, 0, 3.10, "it" },
	{ " 12%|" BLOCKS "| 120/1000 [00:38<04:40,  3.10it/s]", T, 120, 1000, -1, 0, 3.10, "it" },
	{ "  0%|          | 0/100 [00:00<?, ?it/s]", T, 0, 100, -1, 0, 0, "" },
	{ " 30%|###       | 3/10 [03:12<07:28, 64.10s/it]", T, 3, 10, -1, 0, 1 / 64.1, "it" },
	{ "100%|##########| 50/50 [00:00<00:00, 312.7it/s, loss=0.31, acc=91%]", T, 50, 50, -1, 0, 312.7, "it" },
	{ "x|y:  27%|##7       | 10.0/37.0 [00:00<00:00, 48.7img/s]", T, 10, 37, -1, 0, 48.7, "img" },
	{ " 10%|##6   | 120k/1.20M [00:00<00:00, 3.97Mtok/s, loss=0]", T, 120000, 1200000, -1, 0, 3970000, "tok" },
	{ " 12% 120/1000 [00:38<04:40,  3.10it/s]", T, 120, 1000, -1, 0, 3.10, "it" },
	{ "Epoch 3:  40%|####      | 400/1000 [00:38<00:57, 10.40it/s, v_num=0, loss=0.31]", T, 400, 1000, 3, 0, 10.4, "it" },
	{ "Epoch 0:  50% 1/2 [00:00<00:00,  6.54it/s, loss=2.29, v_num=0]", T, 1, 2, 0, 0, 6.54, "it" },
	{ "Epoch 3/10:  40%|####      | 400/1000 [00:38<00:57, 10.40it/s]", T, 400, 1000, 3, 10, 10.4, "it" },
	{ "Epoch [3/10]:  40%|####      | 400/1000 [00:38<00:57, 10.40it/s]", T, 400, 1000, 3, 10, 10.4, "it" },
	{ "epoch 003:  40%|####      | 400/1000 [00:38<00:57, 10.40it/s]", T, 400, 1000, 3, 0, 10.4, "it" },
	{ "Epochs:  30%|###       | 3/10 [03:12<07:28, 64.10s/it]", T, 3, 10, -1, 0, 1 / 64.1, "it", .counts_epochs = true },
	{ " 30%|###       | 3/10 [03:12<07:28, 64.10s/epoch]", T, 3, 10, -1, 0, 1 / 64.1, "epoch", .counts_epochs = true },
	{ "      3/100      2.5G      1.204     0.9     640:  40%|####      | 40/100 [00:12<00:18,  3.2it/s]",
	  T, 40, 100, 3, 100, 3.2, "it" },
	{ "2021/08/16 14:12:10 | Epoch 0:  7%|##3 | 5/74 [00:00<00:10, 6.76it/s]", T, 5, 74, 0, 0, 6.76, "it" },
	{ "Steps:   1%|1         | 5/500 [00:21<30:00,  3.64s/it, lr=0.0001, step_loss=0.12]", T, 5, 500, -1, 0, 1 / 3.64, "it" },
	{ "Sanity Checking DataLoader 0: 100%|##########| 2/2 [00:00<00:00,  2.76it/s]", T, 2, 2, -1, 0, 2.76, "it", .aside = true },
	{ "Validation DataLoader 0:  50%|#####     | 10/20 [00:00<00:00, 40.1it/s]", T, 10, 20, -1, 0, 40.1, "it", .aside = true },
	{ "model.safetensors:  40%|####      | 160M/400M [00:04<00:06, 38.1MB/s]", T, 160000000, 400000000, -1, 0, 38.1e6, "b" },
	{ "Map:  30%|###       | 3000/10000 [00:01<00:02, 2812.3 examples/s]", T, 3000, 10000, -1, 0, 0, "", .aside = true },
	{ "Loading checkpoint shards: 100%|##########| 2/2 [00:03<00:00,  1.6s/it]", T, 2, 2, -1, 0, 1 / 1.6, "it", .aside = true },
	{ "120it [00:38, 3.10it/s]", PROGRESS_NONE },
	{ " 90%|######### | 120/1000 [00:38<04:40, 3.10it/s]", PROGRESS_NONE },	/* it is 12 % */
	{ " 12%|###   | 120/1000 [00:38<04:40, 3.1", PROGRESS_NONE },		/* cut */
	{ "500%|##########| 5000/1000 [00:38<04:40, 3.10it/s]", PROGRESS_NONE },
	/* Keras */
	{ "120/1000 [=====>........................] - ETA: 12s - loss: 0.31 - accuracy: 0.9", K, 120, 1000, -1, 0, 0, "step" },
	{ "120/1000 [=====>........................] - ETA: 12s - 10ms/step - loss: 0.31", K, 120, 1000, -1, 0, 100, "step" },
	{ "1000/1000 [==============================] - 12s 10ms/step - loss: 0.31", K, 1000, 1000, -1, 0, 100, "step" },
	{ "  12/1000 [..............................] - ETA: 1:12", K, 12, 1000, -1, 0, 0, "step" },
	{ "120/1000 " HEAVY " 12s 500us/step - accuracy: 0.91", K, 120, 1000, -1, 0, 2000, "step" },
	{ "120/1000 " HEAVY " 12s 2s/step", K, 120, 1000, -1, 0, 0.5, "step" },
	{ "Epoch 3/10", L, 0, 0, 3, 10, 0, "" },
	/* rich, as Lightning uses it: the second number is that of the last epoch, counted from 0 */
	{ "Epoch 3/9  " HEAVY " 400/1000 0:00:38 \xe2\x80\xa2 0:00:57 10.40it/s", PROGRESS_RICH, 400, 1000, 3, 10, 0, "" },
	{ "      3/10      2.5G      1.204     0.9       12        640: 40% " HEAVY "\xe2\x94\x80 40/100 3.2it/s 12.5s<18.1s",
	  T, 40, 100, 3, 10, 0, "" },
	/* lines */
	{ "step 120/1000", L, 120, 1000, -1, 0, 0, "step" },
	{ "Step: 120 / 1000", L, 120, 1000, -1, 0, 0, "step" },
	{ "step 120/1000  loss 0.31  10.0 steps/s  1020 MiB", L, 120, 1000, -1, 0, 0, "step" },
	{ "[120/1000]", L, 120, 1000, -1, 0, 0, "step" },
	{ "iter 120 of 1000", L, 120, 1000, -1, 0, 0, "iter" },
	{ "Iteration 120/1000, loss: 0.31", L, 120, 1000, -1, 0, 0, "iteration" },
	{ "global_step=120/1000 lr=0.1", L, 120, 1000, -1, 0, 0, "step" },
	{ "2026-11-22 05:10:00,123 INFO train: batch 120 out of 1000", L, 120, 1000, -1, 0, 0, "batch" },
	{ " iteration      122/  250000 | consumed samples:  124928 | lm loss: 2.504E+00 |", L, 122, 250000, -1, 0, 0, "iteration" },
	{ "2023/01/01 00:00:00 - mmengine - INFO - Iter(train) [  120/1000]  lr: 1.0e-03", L, 120, 1000, -1, 0, 0, "iter" },
	{ "2023/01/01 00:00:00 - mmengine - INFO - Epoch(train)  [3][120/1000]  lr: 1.0e-03  eta: 0:12:33",
	  L, 120, 1000, 3, 0, 0, "step" },
	{ "2023/01/01 00:00:00 - mmengine - INFO - Epoch(val)  [3][20/40]  eta: 0:00:03", L, 20, 40, 3, 0, 0, "step", .aside = true },
	{ "Epoch [3/10], Step [120/1000], Loss: 0.3100", L, 120, 1000, 3, 10, 0, "step" },
	{ "Epoch: [3][ 120/1000]\tTime  0.123 ( 0.130)\tLoss 3.1e+00", L, 120, 1000, 3, 0, 0, "step" },
	{ "Train Epoch: 3 [12000/60000 (20%)]\tLoss: 0.310000", L, 12000, 60000, 3, 0, 0, "step" },
	{ "| epoch 003:    400 / 1000 loss=2.1, ppl=4.3", L, 400, 1000, 3, 0, 0, "step" },
	{ "Epoch 3/10 - loss: 0.3100 - val_loss: 0.2900", L, 0, 0, 3, 10, 0, "", .over = true },
	{ "Epoch [3/10] loss=0.31", L, 0, 0, 3, 10, 0, "", .over = true },
	{ "epoch 3 of 10 took 12.5s", L, 0, 0, 3, 10, 0, "", .over = true },
	{ "Epoch 3/10:", L, 0, 0, 3, 10, 0, "" },
	{ "[3/25][120/782] Loss_D: 0.3100 Loss_G: 2.1000 D(x): 0.5", L, 120, 782, 3, 25, 0, "step" },
	{ "INFO Train: [3/300][120/1251]\teta 0:10:00 lr 0.000001\tloss 6.9 (6.9)", L, 120, 1251, 3, 300, 0, "step" },
	{ "Train: 3 [ 120/1250 ( 10%)]  Loss: 6.93 (6.93)  Time: 0.2s", L, 120, 1250, 3, 0, 0, "step" },
	{ "Train: [3][120/196]\tBT 0.2 (0.2)\tloss 5.1 (5.1)", L, 120, 196, 3, 0, 0, "step" },
	{ "Train: [120/196] loss 5.1" },
	{ "val step 12/40", L, 12, 40, -1, 0, 0, "step", .aside = true },
	{ "[12/345] Building CXX object a.o", L, 12, 345, -1, 0, 0, "step", .aside = true },
	{ "[1/3] /usr/local/cuda/bin/nvcc -DTORCH -c a.cu", L, 1, 3, -1, 0, 0, "step", .aside = true },
	/* near, and none */
	{ "Test set: Average loss: 0.0512, Accuracy: 9123/10000 (91%)" },
	{ "2026/11/22 05:10:00 starting" }, { "saved to runs/3/10" }, { "Epoch 12/10" }, { "Epoch 1.5/3" }, { "step 5000/1000" },
	{ "version 1.2/3.4.5" }, { "epochs: 100" }, { "batch size 32, steps 1000" }, { "step 120/1000-rc1" }, { "step 3/10/2026" },
	{ "{'loss': 2.31, 'learning_rate': 5e-05, 'epoch': 1.2}", L, 0, 0, -1, 0, 0, "" },
	{ "{'config': 'epoch 3/10'}" }, { "" }, { "   " }, { "%|" }, { "/" }, { "999999999999999999999/9999999999999999999999" },
	{ "step 120/99999999999999" },
};

static void test_lines(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
		const struct line_case *want = &lines[i];
		struct progress_mark m;
		bool says = progress_line(want->text, strlen(want->text), true, &m);
		if (says != (want->source != PROGRESS_NONE))
			fail_msg("%s: %s", want->text, says ? "says something" : "says nothing");
		if (!says)
			continue;
		int64_t epoch = want->total || want->epochs ? want->epoch : -1;
		if (m.source != want->source || m.done != want->done || m.total != want->total || m.epoch != epoch ||
		    m.epochs != want->epochs || m.aside != want->aside || m.counts_epochs != want->counts_epochs ||
		    m.epoch_over != want->over)
			fail_msg("%s: %s %lld/%lld, epoch %lld/%lld%s%s%s", want->text, progress_source_name(m.source), (long long)m.done,
				 (long long)m.total, (long long)m.epoch, (long long)m.epochs, m.aside ? " aside" : "",
				 m.counts_epochs ? " counts epochs" : "", m.epoch_over ? " over" : "");
		if (fabs(m.per_s - want->per_s) > 1e-6 * (1 + want->per_s) || strcmp(m.unit, want->unit ? want->unit : ""))
			fail_msg("%s: %g %s/s", want->text, m.per_s, m.unit);
	}
}

/* Of a line that may go on, no number is believed that its end could still change. */
static void test_lines_that_are_cut(void **state)
{
	struct progress_mark m;
	(void)state;
	assert_false(progress_line("step 120/10", 11, false, &m));
	assert_true(progress_line("step 120/1000 ", 14, false, &m));
	assert_false(progress_line("Epoch 3/1", 9, false, &m));
	assert_true(progress_line(" 12%|# | 120/1000 [00:38<04:40, 3.1it/s]", 41, false, &m));
	for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
		for (size_t n = 0; lines[i].source == T && n < strlen(lines[i].text); n++)
			if (progress_line(lines[i].text, n, false, &m) && m.total)
				assert_int_equal(m.total, lines[i].total);
}

static void test_words_of_a_command(void **state)
{
	static const struct { const char *words[6]; int64_t epochs; } cases[] = {
		{ { "train.py", "--epochs", "10" }, 10 }, { { "--epochs=10" }, 10 }, { { "--num_train_epochs", "3" }, 3 },
		{ { "trainer.max_epochs=5" }, 5 }, { { "--max-epochs", "3", "--epochs", "3" }, 3 },
		{ { "--warmup-epochs", "2", "--epochs", "10" }, -1 }, { { "--epochs" }, 0 }, { { "--epochs", "ten" }, 0 },
		{ { "--epochs", "0" }, 0 }, { { "epochs", "10" }, 0 }, { { "--lr", "10" }, 0 },
		{ { "--epochs=1.5" }, 0 }, { { "--stepochs=3" }, 0 },
	};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		bool named = false;
		int64_t epochs = 0;
		for (size_t k = 0; k < 6 && cases[i].words[k]; k++)
			progress_epochs_word(cases[i].words[k], strlen(cases[i].words[k]), &named, &epochs);
		assert_int_equal(epochs, cases[i].epochs);
	}
}

/* Over time ------------------------------------------------------------------------------------------------------------ */

static struct progress *p;
static struct progress_report r;
static int64_t now_ms;

static int begin(void **state)
{
	(void)state;
	p = progress_create(0);
	now_ms = 1000000;
	return 0;
}

static int end(void **state)
{
	(void)state;
	progress_destroy(p);
	return 0;
}

static void hint(int64_t epochs)
{
	progress_destroy(p);
	p = progress_create(epochs);
}

/* Prints so many seconds after what came before. */
static void say(double after_s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void say(double after_s, const char *fmt, ...)
{
	char text[512];
	va_list ap;
	va_start(ap, fmt);
	int n = vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	now_ms += (int64_t)(after_s * 1000);
	progress_feed(p, text, (size_t)n, now_ms);
	progress_read(p, &r);
}

static void bar(double after_s, const char *title, int done, int total)
{
	say(after_s, "\r%s%3d%%|####   | %d/%d [00:38<04:40,  3.10it/s]", title, 100 * done / total, done, total);
}

static void expect_fraction(double f)
{
	if (fabs(r.fraction - f) > 1e-9)
		fail_msg("fraction %g, not %g", r.fraction, f);
}

static void expect_unknown(void)
{
	expect_fraction(-1);
	assert_true(r.left_s < 0);
}

static void expect_left(double s, double tolerance)
{
	if (fabs(r.left_s - s) > tolerance)
		fail_msg("left %g s, not %g", r.left_s, s);
	assert_true(r.spread_s >= 0 && r.stands_ms > 0);
}

static void test_one_bar(void **state)
{
	(void)state;
	expect_fraction(0);	/* the zeroed report: nothing was read yet */
	for (int i = 0; i <= 200; i++)
		bar(1, "", i, 1000);
	expect_fraction(0.2);
	expect_left(800, 1);
	assert_true(r.spread_s < 1);
	assert_true(fabs(r.per_s - 1) < 0.01);
	assert_int_equal(r.done, 200);
	assert_int_equal(r.total, 1000);
	assert_string_equal(r.unit, "it");
	assert_int_equal(r.source, PROGRESS_TQDM);
	assert_true(r.advanced == 200 && r.whole_units == 1000);
	for (int i = 201; i <= 1000; i++)
		bar(1, "", i, 1000);
	expect_fraction(1);
	assert_true(r.left_s < 0);
}

static void test_nothing_is_known_at_first(void **state)
{
	(void)state;
	progress_read(p, &r);
	assert_int_equal(r.source, PROGRESS_NONE);
	expect_unknown();
	say(1, "Loading the data\nModel has 120 layers\n");
	expect_unknown();
	assert_int_equal(r.source, PROGRESS_NONE);
	bar(1, "", 0, 1000);
	expect_fraction(0);
	bar(60, "", 1, 1000);
	bar(1, "", 2, 1000);
	assert_true(r.left_s < 0);	/* of a rate, not yet */
}

/* Two minutes of compilation before a step that takes 0.1 s from then on. */
static void test_slow_start(void **state)
{
	(void)state;
	bar(1, "", 0, 5000);
	bar(120, "", 1, 5000);
	for (int i = 10; i <= 100; i += 10) {
		bar(1, "", i, 5000);
		if (r.left_s >= 0)
			expect_left((5000 - i) * 0.1, 30);	/* of 500 */
	}
	assert_true(r.left_s >= 0);
	assert_true(r.spread_s < 20);
}

static void test_goes_on_from_a_checkpoint(void **state)
{
	(void)state;
	for (int i = 400; i <= 450; i++)
		bar(2, "", i, 1000);
	expect_fraction(0.45);
	expect_left(1100, 2);
}

/* "0/9" to "9/9" are ten epochs, as their number in the command shows. */
static void test_last_epoch_is_named(void **state)
{
	(void)state;
	hint(10);
	for (int epoch = 0; epoch < 5; epoch++)
		for (int i = 0; i <= 100; i += 10)
			say(1, "\r      %d/9      0.9G     0.11        320: %3d%%|####  | %d/100 [00:10<00:10,  3.2it/s]", epoch, i, i);
	expect_fraction(0.5);
}

/* The first epoch is 1, and there are as many as are said, unlike those of Lightning's bars of the same line. */
static void test_bars_of_ultralytics(void **state)
{
	(void)state;
	for (int epoch = 1; epoch <= 3; epoch++)
		for (int i = 0; i <= 100; i += 10)
			say(1, "\r\x1b[K      %d/10      2.1G      1.2        320: %d%% " HEAVY " %d/100 12.1it/s 3.2s<4.1s", epoch, i, i);
	expect_fraction(0.3);
}

static void test_epochs_in_brackets(void **state)
{
	(void)state;
	for (int epoch = 0; epoch < 3; epoch++)
		for (int i = 0; i < 100; i += 10)
			say(1, "[%d/25][%d/100]\tLoss_D: 0.31 Loss_G: 2.1\n", epoch, i);
	expect_fraction(2.9 / 25);
}

static void test_rate_that_changes(void **state)
{
	(void)state;
	for (int i = 0; i <= 100; i++)
		bar(1, "", i, 1000);
	double before = r.spread_s;
	for (int i = 101; i <= 110; i++)
		bar(3, "", i, 1000);
	assert_true(r.spread_s > 20 * (before + 1));
	for (int i = 111; i <= 400; i++)
		bar(3, "", i, 1000);
	expect_left(1800, 5);
}

static void test_long_run_keeps_few_points(void **state)
{
	(void)state;
	for (int i = 0; i <= 100000; i++)
		bar(0.5, "", i, 200000);
	expect_left(50000, 200);
}

/* A loader's bar for each epoch, and nobody says how many: the second one takes back what the first one seemed to say. */
static void test_second_bar(void **state)
{
	(void)state;
	for (int i = 0; i <= 100; i++)
		bar(1, "", i, 100);
	bar(1, "", 0, 100);
	expect_unknown();
	for (int i = 1; i <= 100; i++)
		bar(1, "", i, 100);
	expect_unknown();
	assert_true(r.advanced == 200);	/* its rate is worth something all the same */
	assert_int_equal(r.series, 1);
}

static void test_bar_after_another(void **state)
{
	(void)state;
	for (int i = 0; i <= 5; i++)
		bar(1, "Getting ready: ", i, 5);
	bar(1, "", 0, 1000);
	expect_unknown();	/* whether the second is the run nobody knows yet */
	for (int i = 1; i <= 60; i++)
		bar(1, "", i, 1000);
	expect_fraction(0.06);
	expect_left(940, 5);
}

static void test_validation_between(void **state)
{
	(void)state;
	for (int i = 0; i <= 300; i++) {
		bar(1, "", i, 1000);
		for (int k = 0; i && i % 100 == 0 && k <= 20; k++) {
			bar(0.2, "", k, 20);
			expect_fraction(i / 1000.);
		}
	}
	expect_fraction(0.3);
	expect_left(700 * 1.03, 30);
}

static void test_sanity_check_and_validation_of_lightning(void **state)
{
	char title[32];
	(void)state;
	hint(4);
	bar(1, "Sanity Checking DataLoader 0: ", 2, 2);
	for (int e = 0; e < 3; e++) {
		snprintf(title, sizeof title, "Epoch %d: ", e);
		for (int i = 0; i <= 50; i++) {
			bar(1, title, i, 50);
			expect_fraction((e + i / 50.) / 4);
		}
		for (int i = 0; i <= 10; i++)
			bar(0.1, "Validation DataLoader 0: ", i, 10);
		expect_fraction((e + 1) / 4.);
	}
	expect_left(50, 3);
	assert_int_equal(r.epochs, 4);
	assert_true(r.advanced == 150 && r.whole_units == 200);
}

static void test_lightning_without_a_number_of_epochs(void **state)
{
	(void)state;
	for (int i = 0; i <= 50; i++)
		bar(1, "Epoch 0: ", i, 50);
	expect_unknown();
	assert_int_equal(r.done, 50);
	assert_true(r.per_s > 3);	/* as printed */
}

static void test_nested_bars(void **state)
{
	(void)state;
	for (int e = 0; e < 3; e++) {
		bar(0, "Epochs: ", e, 3);
		for (int i = 0; i <= 50; i++) {
			say(1, "\n\rtrain: %3d%%|####   | %d/50 [00:00<00:00, 3.1it/s]\033[A", 2 * i, i);
			expect_fraction((e + i / 50.) / 3);
		}
	}
	bar(0, "Epochs: ", 3, 3);
	expect_fraction(1);
}

/* Neither is named: while the inner one has not begun again, which of them is the run is open. */
static void test_nested_bars_without_names(void **state)
{
	(void)state;
	for (int e = 0; e < 6; e++) {
		bar(0, "", e, 6);
		for (int i = 0; i <= 50; i++)
			bar(1, "", i, 50);
		expect_fraction(e ? e / 6. : -1);
	}
}

static void test_keras(void **state)
{
	(void)state;
	for (int e = 1; e <= 4; e++) {
		say(0, "Epoch %d/4\n", e);
		for (int i = 1; i <= 100; i++) {
			say(0.5, "\r%3d/100 [====>.....] - ETA: 12s - loss: 0.31%s", i, "\b\b\b\b\b\b");
			expect_fraction((e - 1 + i / 100.) / 4);
		}
		say(0, "\n");
	}
	expect_fraction(1);
	assert_int_equal(r.source, PROGRESS_KERAS);
}

static void test_keras_in_colours(void **state)
{
	(void)state;
	say(0, "Epoch 1/2\n");
	say(1, "\r\033[1m 20/100\033[0m \033[32m" HEAVY "\033[0m\033[37m" HEAVY "\033[0m \033[1m12s\033[0m 10ms/step - loss: 0.3");
	expect_fraction(0.1);
	assert_true(r.per_s == 100);
}

static void test_epochs_alone(void **state)
{
	(void)state;
	for (int e = 1; e <= 6; e++)
		say(10, "Epoch %d/10 - loss: 0.31 - val_loss: 0.30\n", e);
	expect_fraction(0.6);
	expect_left(40, 0.5);
	assert_string_equal(r.unit, "epoch");
}

/* Figures of an epoch may come several times in it; it is over when the next one begins. */
static void test_epochs_with_several_lines(void **state)
{
	(void)state;
	for (int e = 1; e <= 6; e++)
		for (int i = 0; i < 5; i++)
			say(2, "Epoch %d/10 loss=0.3%d\n", e, i);
	expect_fraction(0.5);
}

static void test_epochs_from_zero(void **state)
{
	(void)state;
	for (int e = 0; e < 3; e++)
		for (int i = 0; i < 20; i++)
			say(1, "Epoch [%d/10], Step [%d/20], Loss: 0.31\n", e, i);
	expect_fraction((2 + 19 / 20.) / 10);
	say(1, "Epoch [10/10], Step [1/20], Loss: 0.31\n");	/* the last of eleven, then: the number was not that of epochs */
	expect_unknown();
}

static void test_bars_of_epochs_that_the_command_names(void **state)
{
	(void)state;
	hint(3);
	for (int i = 0; i <= 50; i++)
		bar(1, "", i, 50);
	expect_unknown();	/* one of three, or all of them? */
	for (int i = 0; i <= 25; i++)
		bar(1, "", i, 50);
	expect_fraction(0.5);
}

static void test_hf_trainer(void **state)
{
	(void)state;
	hint(3);
	for (int i = 0; i <= 50; i++)
		bar(1, "", i, 300);
	expect_unknown();
	say(0, "\n{'loss': 2.31, 'learning_rate': 5e-05, 'epoch': 0.5}\n");
	for (int i = 51; i <= 54; i++)
		bar(1, "", i, 300);
	expect_fraction(0.18);	/* its bar counts the steps of all epochs */
	expect_left(246, 3);
}

static void test_lines_of_steps(void **state)
{
	(void)state;
	for (int i = 0; i <= 300; i += 10)
		say(5, "step %d/1000  loss 0.31  2.0 steps/s\n", i);
	expect_fraction(0.3);
	expect_left(350, 1);
	assert_int_equal(r.source, PROGRESS_LINES);
}

/* Several processes print the same loop, a step apart. */
static void test_lines_of_ranks(void **state)
{
	(void)state;
	for (int i = 1; i <= 300; i++) {
		say(0.5, "[rank0]: step %d/1000\n", i);
		say(0, "[rank1]: step %d/1000\n", i - 1);
	}
	expect_fraction(0.3);
	expect_left(350, 1);
}

static void test_counts_backwards(void **state)
{
	(void)state;
	for (int i = 1000; i > 900; i -= 10)
		say(1, "step %d/1000\n", i);
	say(1, "step 100/1000\n");
	expect_unknown();
}

static void test_jumps_to_and_fro(void **state)
{
	static const int steps[] = { 100, 900, 300, 800, 10, 999 };
	(void)state;
	for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
		say(1, "step %d/1000\n", steps[i]);
	expect_unknown();
}

static void test_epochs_that_begin_again(void **state)
{
	(void)state;
	for (int fold = 0; fold < 2; fold++)	/* of a cross-validation */
		for (int e = 1; e <= 5; e++)
			say(3, "Epoch %d/5\n", e);
	expect_unknown();
	say(3, "Epoch 5/5\n");
	expect_unknown();
}

static void test_another_number_of_epochs(void **state)
{
	(void)state;
	say(1, "Epoch 1/5\n");
	say(1, "Epoch 2/5\n");
	expect_fraction(0.2);
	say(1, "Epoch 3/20\n");
	expect_unknown();
}

static void test_loop_that_was_broken_off(void **state)
{
	(void)state;
	for (int i = 0; i <= 5; i++)
		bar(1, "A quick look: ", i, 3000);
	for (int i = 0; i <= 100; i++)
		bar(1, "", i, 1000);
	expect_fraction(r.fraction > 0 ? 0.1 : -1);
	assert_true(fabs(r.fraction - 5. / 3000) > 1e-6);
}

static void test_cut_anywhere(void **state)
{
	static const char text[] = "Epoch 1/2\n\033[1m 20/100\033[0m [==>...] - ETA: 1s\r 40/100 [===>..] - ETA: 1s\nstep x\n";
	(void)state;
	for (size_t cut = 0; cut < sizeof text; cut++) {
		hint(0);
		progress_feed(p, text, cut, 1);
		progress_feed(p, text + cut, sizeof text - 1 - cut, 2);
		progress_read(p, &r);
		expect_fraction(0.2);
	}
}

static void test_what_was_left_out(void **state)
{
	(void)state;
	say(1, "step 10");
	progress_skip(p);
	say(1, "/200\nstep 50/100\n");
	assert_int_equal(r.total, 100);
	assert_int_equal(r.done, 50);
}

static void test_long_lines(void **state)
{
	(void)state;
	for (int i = 0; i < 1000; i++)
		say(0, "%0200d", i);
	say(0, " step 1/2\nstep 3/8\n");
	assert_int_equal(r.total, 8);
}

/* Of a line of blanks each was gone through from each: a tenth of a second for two kilobytes, in the shim. */
static void test_blanks_take_no_time(void **state)
{
	static const char *const begins[] = { "1%1%1%1%", "x\xe2\x94\x81" };
	char line[2000];
	clock_t began = clock();
	(void)state;
	for (int i = 0; i < 400; i++) {
		memset(line, ' ', sizeof line);
		memcpy(line, begins[i % 2], strlen(begins[i % 2]));
		memcpy(line + sizeof line - 3, "/x\n", 3);
		progress_feed(p, line, sizeof line, 1);
	}
	assert_true((double)(clock() - began) / CLOCKS_PER_SEC < 3);
	say(1, " 12%%|#%300s| %100s 120/1000 [00:38<04:40, 3.10it/s]\n", "", "");
	assert_int_equal(r.total, 1000);
	say(1, " 12%%|#| 1 | 2 120/1000 [00:38<04:40, 3.10it/s]\n");
	assert_int_equal(r.total, 1000);
}

#define over_time(f) cmocka_unit_test_setup_teardown(f, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lines), cmocka_unit_test(test_lines_that_are_cut), cmocka_unit_test(test_words_of_a_command),
		over_time(test_one_bar), over_time(test_nothing_is_known_at_first), over_time(test_slow_start),
		over_time(test_goes_on_from_a_checkpoint), over_time(test_last_epoch_is_named), over_time(test_bars_of_ultralytics),
		over_time(test_epochs_in_brackets), over_time(test_rate_that_changes), over_time(test_long_run_keeps_few_points),
		over_time(test_second_bar), over_time(test_bar_after_another), over_time(test_validation_between),
		over_time(test_sanity_check_and_validation_of_lightning), over_time(test_lightning_without_a_number_of_epochs),
		over_time(test_nested_bars), over_time(test_nested_bars_without_names), over_time(test_keras),
		over_time(test_keras_in_colours), over_time(test_epochs_alone), over_time(test_epochs_with_several_lines),
		over_time(test_epochs_from_zero), over_time(test_bars_of_epochs_that_the_command_names), over_time(test_hf_trainer),
		over_time(test_lines_of_steps), over_time(test_lines_of_ranks), over_time(test_counts_backwards),
		over_time(test_jumps_to_and_fro), over_time(test_epochs_that_begin_again), over_time(test_another_number_of_epochs),
		over_time(test_loop_that_was_broken_off), over_time(test_cut_anywhere), over_time(test_what_was_left_out),
		over_time(test_long_lines), over_time(test_blanks_take_no_time),
	};
	return cmocka_run_group_tests_name("parse/progress", tests, NULL, NULL);
}
