/* SPDX-License-Identifier: MIT
 * Capture files: what is read from a good one, and each way in which one is refused.
 */
#include "base/io.h"
#include "base/scope.h"
#include "estimate/capture.h"
#include "tests/capture_write.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const struct capture_texts texts = { "2.11.0+cu130", "expandable_segments:True", "GPT2LMHeadModel" };

/* The records of doc/capture-format.md. */
static const unsigned char example[] = { 0x81, 0x80, 0x02, 0x0c, 0x14, 0x81, 0x20, 0x0d, 0x00, 0x01, 0x1c, 0x81, 0x80, 0x02,
	0x0d, 0x01, 0x00, 0x0a, 0x48 };

static void write_example(struct capture_writer *w)
{
	write_begin(w, &texts, CAPTURE_DATA_DEPENDENT | CAPTURE_CUT_SHORT, 77, 2);
	write_alloc(w, 4096);
	write_record(w, WRITE_MARK, 1);
	write_record(w, WRITE_MARK, 2);
	write_alloc(w, 512);
	write_gemm(w, 0, 1);
	write_record(w, WRITE_MARK, 3);
	write_alloc(w, 4096);
	write_gemm(w, 1, 0);
	write_free(w, 1);
	write_end(w);
}

static void test_example(void **state)
{
	static const uint8_t kinds[] = { CAPTURE_ALLOC, CAPTURE_MARK, CAPTURE_MARK, CAPTURE_ALLOC, CAPTURE_GEMM, CAPTURE_MARK,
		CAPTURE_ALLOC, CAPTURE_GEMM, CAPTURE_FREE };
	struct capture_writer w;
	scoped_capture c = { 0 };

	(void)state;
	write_example(&w);
	assert_true(w.out.len > sizeof example + 4);
	assert_memory_equal(w.out.data + w.out.len - 4 - sizeof example, example, sizeof example);
	assert_int_equal(capture_read(w.out.data, w.out.len, &c, NULL), 0);
	assert_string_equal(c.torch, "2.11.0+cu130");
	assert_string_equal(c.alloc_conf, "expandable_segments:True");
	assert_string_equal(c.model, "GPT2LMHeadModel");
	assert_string_equal(c.optimizer, "adamw");
	assert_string_equal(c.precision, "fp32");
	assert_string_equal(c.key, "00ff");
	assert_true(c.params == 1000000 && c.batch == 8 && c.seq_len == 128 && c.growth == 77);
	assert_int_equal(c.flags, CAPTURE_DATA_DEPENDENT | CAPTURE_CUT_SHORT);
	assert_int_equal(c.communicators, 2);
	assert_int_equal(c.iterations, 1);
	assert_int_equal(c.n_allocs, 3);
	assert_int_equal(c.peak_live, 4096 + 512 + 4096);
	assert_int_equal(c.n_records, COUNT_OF(kinds));
	for (size_t i = 0; i < COUNT_OF(kinds); i++)
		assert_int_equal(c.records[i].kind, kinds[i]);
	assert_int_equal(c.records[6].id, 2);
	assert_int_equal(c.records[6].bytes, 4096);
	assert_true(c.records[4].lt && c.records[4].what == 0);
	assert_true(!c.records[7].lt && c.records[7].what == 1);
	assert_int_equal(c.records[8].id, 1);
	buf_free(&w.out);
}

static void test_operators(void **state)
{
	static const uint64_t conv[] = { 2, 1000, 2000, 300, 9, 4, 1 };
	struct capture_writer w;
	scoped_capture c = { 0 };

	(void)state;
	write_begin(&w, &texts, 0, 0, 0);
	write_record(&w, WRITE_STREAM, 7);
	write_alloc(&w, 1);
	write_conv(&w, conv);
	write_record(&w, WRITE_OP, WRITE_ATTENTION);
	write_varint(&w.out, 3);
	write_record(&w, WRITE_OP, WRITE_SCRATCH);
	write_varint(&w.out, 12345);
	write_record(&w, WRITE_EMPTY, 0);
	write_end(&w);
	assert_int_equal(capture_read(w.out.data, w.out.len, &c, NULL), 0);
	assert_int_equal(c.n_records, 5);
	assert_int_equal(c.records[0].what, 7);
	assert_int_equal(c.records[1].kind, CAPTURE_CONV);
	assert_int_equal(c.n_convs, 1);
	assert_true(c.convs[0].direction == CAPTURE_CONV_WEIGHTS && c.convs[0].channels_last);
	assert_true(c.convs[0].in == 1000 && c.convs[0].out == 2000 && c.convs[0].weight == 300);
	assert_true(c.convs[0].taps == 9 && c.convs[0].groups == 4);
	assert_int_equal(c.records[2].what, 3);
	assert_int_equal(c.records[3].bytes, 12345);
	assert_int_equal(c.records[4].kind, CAPTURE_EMPTY);
	buf_free(&w.out);
}

/* Each puts something wrong into a file that is otherwise whole, checksum included. */
static void alloc_zero_bytes(struct capture_writer *w) { write_alloc(w, 0); }
static void alloc_too_large(struct capture_writer *w) { write_alloc(w, CAPTURE_MAX_REQUEST + 1); }
static void free_nothing(struct capture_writer *w) { write_record(w, WRITE_FREE, 0); }
static void unknown_kind(struct capture_writer *w) { write_record(w, 7, 0); }
static void unknown_phase(struct capture_writer *w) { write_record(w, WRITE_MARK, 7); }
static void unknown_class(struct capture_writer *w) { write_record(w, WRITE_OP, 5); }
static void stream_too_high(struct capture_writer *w) { write_record(w, WRITE_STREAM, 256); }
static void empty_with_argument(struct capture_writer *w) { write_record(w, WRITE_EMPTY, 1); }
static void gemm_of_third_thread(struct capture_writer *w) { write_gemm(w, 2, 0); }
static void wrong_count(struct capture_writer *w) { w->records++; }
static void number_too_long(struct capture_writer *w) { buf_add(&w->out, "\x81\x80\x80\x80\x80\x80\x80\x80\x80\x02", 10); }
static void number_not_shortest(struct capture_writer *w) { buf_add(&w->out, "\x84\x00", 2); }

static void free_twice(struct capture_writer *w)
{
	uint64_t n = write_alloc(w, 1);

	write_free(w, n);
	write_free(w, n);
}

static void too_much_live(struct capture_writer *w)
{
	for (int i = 0; i < 17; i++)
		write_alloc(w, CAPTURE_MAX_REQUEST);
}

static void conv_without_taps(struct capture_writer *w)
{
	write_conv(w, (const uint64_t[]){ 0, 1, 1, 1, 0, 1, 0 });
}

static void scratch_of_nothing(struct capture_writer *w)
{
	write_record(w, WRITE_OP, WRITE_SCRATCH);
	write_varint(&w->out, 0);
}

static void ends_early(struct capture_writer *w)
{
	write_record(w, WRITE_END, w->records);
}

static const struct { void (*spoil)(struct capture_writer *w); const char *error; } refused[] = {
	{ alloc_zero_bytes, "a request of 0" }, { alloc_too_large, "more than 2^46" }, { free_nothing, "never requested" },
	{ free_twice, "free already" }, { unknown_kind, "unknown kind" }, { unknown_phase, "unknown phase" },
	{ unknown_class, "unknown class" }, { stream_too_high, "stream above 255" }, { empty_with_argument, "EMPTY" },
	{ gemm_of_third_thread, "thread of a GEMM is 2" }, { wrong_count, "another number of records" },
	{ number_too_long, "above 2^64" }, { number_not_shortest, "shortest form" }, { too_much_live, "2^50 bytes are live" },
	{ conv_without_taps, "taps of a convolution is 0" }, { scratch_of_nothing, "scratch memory is 0" },
	{ ends_early, "follows its end" },
};

static void expect_refused(const struct buf *b, const char *text)
{
	struct error err = ERROR_INIT;
	struct capture c;

	memset(&c, 0xff, sizeof c);
	assert_int_equal(capture_read(b->data, b->len, &c, &err), -1);
	assert_int_equal(err.code, ERR_INVALID);
	print_message("%s\n", err.text);
	assert_non_null(strstr(err.text, text));
	assert_null(strchr(err.text, '\n'));
	assert_null(c.records);
	assert_null(c.convs);
}

static const uint64_t host[10] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 };
static const uint64_t product[8] = { KERNEL_PRODUCT, UNIT_TF32, 0, 12, 3000000000, 400, 500, 6144 };

static void test_load(void **state)
{
	const uint64_t kernels[2][8] = { { KERNEL_RECURRENT, UNIT_HALF, 3, 1, 0, 0, 1, 0 }, { product[0], product[1], product[2],
		product[3], product[4], product[5], product[6], product[7] } };
	struct capture_writer w;
	scoped_capture c = { 0 };

	(void)state;
	write_begin(&w, &texts, 0, 0, 0);
	write_alloc(&w, 4096);
	write_end_load(&w, host, kernels, 2);
	assert_int_equal(capture_read(w.out.data, w.out.len, &c, NULL), 0);
	assert_int_equal(c.n_records, 1);
	assert_int_equal(c.n_kernels, 2);
	assert_true(c.host.forward == 1 && c.host.modules == 5 && c.host.waits == 8 && c.host.transferred == 10);
	assert_true(c.kernels[0].class == KERNEL_RECURRENT && c.kernels[0].unit == UNIT_HALF && c.kernels[0].layout == 3);
	assert_true(c.kernels[1].count == 12 && c.kernels[1].flops == 3000000000 && c.kernels[1].bytes == 400 &&
		    c.kernels[1].blocks == 500 && c.kernels[1].depth == 6144);
	buf_free(&w.out);
}

/* Each figure of a kernel out of its bounds, and more kernels than there may be. */
static void test_load_refused(void **state)
{
	static const struct { unsigned figure; uint64_t value; const char *error; } wrong[] = {
		{ 0, KERNEL_CLASSES, "class of a kernel is 19" }, { 1, UNIT_COUNT, "unit of a kernel is 5" },
		{ 2, CAPTURE_LAYOUTS, "layout of a kernel is 4" }, { 3, 0, "count of a kernel is 0" },
		{ 3, CAPTURE_MAX_WORK + 1, "count of a kernel" }, { 4, UINT64_MAX, "flops of a kernel" },
		{ 5, CAPTURE_MAX_WORK + 1, "bytes of a kernel" }, { 6, UINT64_MAX, "blocks of a kernel" },
		{ 7, UINT64_MAX, "depth of a kernel" },
	};
	uint64_t (*many)[8] = alloc_zero((CAPTURE_MAX_KERNELS + 1) * sizeof *many);
	struct capture_writer w;

	(void)state;
	for (size_t i = 0; i < COUNT_OF(wrong); i++) {
		memcpy(many[0], product, sizeof product);
		many[0][wrong[i].figure] = wrong[i].value;
		write_begin(&w, &texts, 0, 0, 0);
		write_end_load(&w, host, (const uint64_t (*)[8])many, 1);
		expect_refused(&w.out, wrong[i].error);
		buf_free(&w.out);
	}
	for (size_t i = 0; i <= CAPTURE_MAX_KERNELS; i++)
		memcpy(many[i], product, sizeof product);
	write_begin(&w, &texts, 0, 0, 0);
	write_end_load(&w, host, (const uint64_t (*)[8])many, CAPTURE_MAX_KERNELS + 1);
	expect_refused(&w.out, "number of kernels is 4097");
	buf_free(&w.out);
	free(many);
}

static void test_refused(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT_OF(refused); i++) {
		struct capture_writer w;

		write_begin(&w, &texts, 0, 0, 0);
		refused[i].spoil(&w);
		write_end(&w);
		expect_refused(&w.out, refused[i].error);
		buf_free(&w.out);
	}
}

static void test_header_refused(void **state)
{
	static const struct { struct capture_texts texts; uint64_t flags, communicators; const char *error; } headers[] = {
		{ { "2.11.0+cu130 and so on and on and on and on", "", "" }, 0, 0, "torch is 43" },
		{ { "2.11\n", "", "" }, 0, 0, "printable" },
		{ { "", "", "caf\xc3\xa9" }, 0, 0, "printable" },
		{ { "", "", "" }, 2048, 0, "flags is 2048" },
		{ { "", "", "" }, 0, 65, "communicators is 65" },
	};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(headers); i++) {
		struct capture_writer w;

		write_begin(&w, &headers[i].texts, headers[i].flags, 0, headers[i].communicators);
		write_end(&w);
		expect_refused(&w.out, headers[i].error);
		buf_free(&w.out);
	}
}

static void test_other_files_refused(void **state)
{
	scoped_buf b = { 0 };

	(void)state;
	expect_refused(&b, "not a capture file");
	buf_add_text(&b, "Layer (type)   Output Shape");
	expect_refused(&b, "not a capture file");
	b.len = 0;
	buf_add(&b, "RADCAP\r\n\7", 9);
	expect_refused(&b, "version 7: this rad reads versions 1 to 6");
	b.data[8] = 0;
	expect_refused(&b, "version 0: this rad reads versions 1 to 6");
	b.len = 8;
	expect_refused(&b, "ends inside a number");
	buf_add(&b, "\1abc", 4);
	expect_refused(&b, "ends before its checksum");
	b.len = 8;
	while (b.len <= CAPTURE_MAX_BYTES)
		buf_add_text(&b, "................................................................");
	expect_refused(&b, "at most 6291456");
}

/* A whole file with one byte changed, and one that ends anywhere. */
static void refuse_damage(struct capture_writer *file)
{
	struct capture_writer w = *file;
	struct capture c;

	for (size_t i = 0; i < w.out.len; i++) {
		w.out.data[i] ^= 0x10;
		assert_int_equal(capture_read(w.out.data, w.out.len, &c, NULL), -1);
		w.out.data[i] ^= 0x10;
		assert_int_equal(capture_read(w.out.data, i, &c, NULL), -1);
	}
	/* cut, with the checksum of what is left: it ends inside something, and never reads on */
	for (size_t i = 9; i < w.out.len - 4; i++) {
		scoped_buf cut = { 0 };

		buf_add(&cut, w.out.data, i);
		write_checksum(&cut);
		assert_int_equal(capture_read(cut.data, cut.len, &c, NULL), -1);
	}
	assert_int_equal(capture_read(w.out.data, w.out.len, &c, NULL), 0);
	capture_clear(&c);
	buf_free(&w.out);
}

static void test_damage_refused(void **state)
{
	const uint64_t kernels[1][8] = { { KERNEL_POINTWISE, 0, 0, 7, 7000, 28000, 7, 0 } };
	struct capture_writer w;

	(void)state;
	write_example(&w);
	refuse_damage(&w);
	write_begin(&w, &texts, 0, 0, 0);
	write_end_load(&w, host, kernels, 1);
	refuse_damage(&w);
	write_begin(&w, &texts, 0, 0, 0);
	write_end_steps(&w, host, kernels, 1, 702000);
	refuse_damage(&w);
	write_begin(&w, &texts, 0, 0, 0);
	write_end_beside(&w, host, kernels, 1, 702000, 30000);
	refuse_damage(&w);
	write_begin(&w, &texts, 0, 0, 0);
	write_end_loaders(&w, host, kernels, 1, (const uint64_t[][5]){ { 4, 20000, 3, 2, 2 } }, 1);
	refuse_damage(&w);
}

static void test_loaders(void **state)
{
	static const struct { int figure; uint64_t value; const char *error; } wrong[] = {
		{ 0, CAPTURE_MAX_WORKERS + 1, "workers of a loader is 4097" }, { 1, CAPTURE_MAX_COUNT + UINT64_C(1), "time of a loader" },
		{ 2, UINT64_MAX, "measured batches of a loader" }, { 3, UINT64_MAX, "batches of a loader" },
		{ 4, UINT64_MAX, "steps of a loader" },
	};
	uint64_t loaders[CAPTURE_MAX_LOADERS + 1][5] = { { 4, 20000, 3, 2, 2 }, { 0, 150, 9, 8, 2 } };
	const uint64_t (*const given)[5] = (const uint64_t (*)[5])loaders;
	struct capture_writer w;
	struct capture c;

	(void)state;
	write_begin(&w, &texts, 0, 0, 0);
	write_end_loaders(&w, host, &product, 1, given, 2);
	assert_int_equal(capture_read(w.out.data, w.out.len, &c, NULL), 0);
	assert_true(c.n_loaders == 2 && c.loaders[0].workers == 4 && c.loaders[0].cpu_us == 20000 && c.loaders[0].measured == 3 &&
		    c.loaders[1].cpu_us == 150 && c.loaders[1].batches == 8 && c.loaders[1].steps == 2 && c.steps == 7);
	capture_clear(&c);
	buf_free(&w.out);
	for (size_t i = 0; i < COUNT_OF(wrong); i++) {
		uint64_t was = loaders[1][wrong[i].figure];

		loaders[1][wrong[i].figure] = wrong[i].value;
		write_begin(&w, &texts, 0, 0, 0);
		write_end_loaders(&w, host, &product, 1, given, 2);
		expect_refused(&w.out, wrong[i].error);
		buf_free(&w.out);
		loaders[1][wrong[i].figure] = was;
	}
	write_begin(&w, &texts, 0, 0, 0);
	write_end_loaders(&w, host, &product, 1, given, CAPTURE_MAX_LOADERS + 1);
	expect_refused(&w.out, "number of loaders is 17");
	buf_free(&w.out);
}

static void test_limit(void **state)
{
	const uint64_t kernels[1][8] = { { KERNEL_POINTWISE, 0, 0, 7, 7000, 28000, 7, 0 } };
	struct capture_writer w;
	struct capture c;

	(void)state;
	write_begin(&w, &texts, 0, 0, 0);
	write_end_limit(&w, host, kernels, 1, 0, 14400000);
	assert_int_equal(capture_read(w.out.data, w.out.len, &c, NULL), 0);
	assert_true(c.steps == 0 && c.limit_ms == 14400000);
	capture_clear(&c);
	buf_free(&w.out);
	write_begin(&w, &texts, 0, 0, 0);
	write_end_limit(&w, host, kernels, 1, 7, ((uint64_t)CAPTURE_MAX_COUNT) + 1);
	expect_refused(&w.out, "limit");
	buf_free(&w.out);
}

/* Those of the whole run, and what evaluations take: what files before versions 3 and 4 do not have, and what is no number. */
static void test_steps(void **state)
{
	const uint64_t kernels[1][8] = { { KERNEL_POINTWISE, 0, 0, 7, 7000, 28000, 7, 0 } };
	struct capture_writer w;
	struct capture c;

	(void)state;
	write_begin(&w, &texts, 0, 0, 0);
	write_end_steps(&w, host, kernels, 1, 702000);
	assert_int_equal(capture_read(w.out.data, w.out.len, &c, NULL), 0);
	assert_true(c.steps == 702000 && c.beside == 0 && c.n_kernels == 1);
	capture_clear(&c);
	buf_free(&w.out);
	write_begin(&w, &texts, 0, 0, 0);
	write_end_beside(&w, host, kernels, 1, 702000, 30000);
	assert_int_equal(capture_read(w.out.data, w.out.len, &c, NULL), 0);
	assert_true(c.steps == 702000 && c.beside == 30000 && c.n_kernels == 1);
	capture_clear(&c);
	buf_free(&w.out);
	write_begin(&w, &texts, 0, 0, 0);
	write_end_load(&w, host, kernels, 1);
	assert_int_equal(capture_read(w.out.data, w.out.len, &c, NULL), 0);
	assert_true(c.steps == 0 && c.n_kernels == 1);
	capture_clear(&c);
	buf_free(&w.out);
	write_begin(&w, &texts, 0, 0, 0);
	write_end_steps(&w, host, kernels, 1, ((uint64_t)CAPTURE_MAX_COUNT) + 1);
	expect_refused(&w.out, "steps");
	buf_free(&w.out);
	write_begin(&w, &texts, 0, 0, 0);
	write_end_beside(&w, host, kernels, 1, 7, ((uint64_t)CAPTURE_MAX_COUNT) + 1);
	expect_refused(&w.out, "beside");
	buf_free(&w.out);
}

static void test_too_many(void **state)
{
	struct capture_writer w;

	(void)state;
	write_begin(&w, &texts, 0, 0, 0);
	for (unsigned i = 0; i <= CAPTURE_MAX_ALLOCS; i++) {
		write_alloc(&w, 1);
		write_free(&w, i);
	}
	write_end(&w);
	expect_refused(&w.out, "more than 1000000 requests");
	buf_free(&w.out);
	write_begin(&w, &texts, 0, 0, 0);
	for (unsigned i = 0; i <= CAPTURE_MAX_RECORDS; i++)
		write_record(&w, WRITE_MARK, 0);
	write_end(&w);
	expect_refused(&w.out, "more than 3000000 records");
	buf_free(&w.out);
}

/* The reader's limits are those of the writer, line by line. */
static void test_limits_are_the_writers(void **state)
{
#define LIMIT(name) { #name, CAPTURE_##name }
	static const struct { const char *name; uint64_t value; } limits[] = {
		LIMIT(VERSION), LIMIT(MAX_BYTES), LIMIT(MAX_ALLOCS), LIMIT(MAX_RECORDS), LIMIT(MAX_REQUEST), LIMIT(MAX_LIVE),
		LIMIT(MAX_STREAM), LIMIT(MAX_FACTOR), LIMIT(MAX_COUNT), LIMIT(MAX_COMMUNICATORS),
		LIMIT(MAX_KERNELS), LIMIT(MAX_WORK), LIMIT(MAX_LOADERS), LIMIT(MAX_WORKERS), LIMIT(CLOCK), LIMIT(MAX_TORCH),
		LIMIT(MAX_ALLOC_CONF),
		LIMIT(MAX_MODEL), LIMIT(MAX_OPTIMIZER),
		LIMIT(MAX_PRECISION), LIMIT(MAX_KEY),
	};
	scoped_buf path = { 0 }, text = { 0 };
	size_t seen = 0;

	(void)state;
	buf_printf(&path, "%s/python/radrm/capture/limits.py", getenv("RAD_SOURCE_ROOT"));
	assert_int_equal(io_read_file(path.data, 1 << 20, &text, NULL), 0);
	for (char *line = strtok(text.data, "\n"); line; line = strtok(NULL, "\n")) {
		char *end = strstr(line, " = ");

		if (!end || line + strspn(line, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_") != end)
			continue;
		assert_true(seen < COUNT_OF(limits));
		*end = '\0';
		assert_string_equal(line, limits[seen].name);
		uint64_t value = 0;
		for (end += 3; (*end >= '0' && *end <= '9') || *end == '_'; end++)
			value = *end == '_' ? value : value * 10 + (uint64_t)(*end - '0');
		if (!strncmp(end, " << ", 4))
			value <<= atoi(end + 4);
		assert_true(value == limits[seen++].value);
	}
	assert_int_equal(seen, COUNT_OF(limits));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_example),
		cmocka_unit_test(test_operators),
		cmocka_unit_test(test_load),
		cmocka_unit_test(test_load_refused),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_header_refused),
		cmocka_unit_test(test_other_files_refused),
		cmocka_unit_test(test_damage_refused), cmocka_unit_test(test_steps), cmocka_unit_test(test_limit),
		cmocka_unit_test(test_loaders),
		cmocka_unit_test(test_too_many),
		cmocka_unit_test(test_limits_are_the_writers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
