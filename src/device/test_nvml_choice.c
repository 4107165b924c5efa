/* SPDX-License-Identifier: MIT
 * Which GPUs a list means: in a setting, and in CUDA_VISIBLE_DEVICES as CUDA reads it.
 */
#include "device/nvml_choice.h"

#include "base/scope.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

/* GPU 2 is divided; GPU 3 is of another model. */
static const struct nvml_name names[] = {
	{ .uuid = "GPU-1f452d3e-7fa0", .model = "NVIDIA H200", .index = 0 },
	{ .uuid = "GPU-63611104-0ffd", .model = "NVIDIA H200", .index = 1 },
	{ .uuid = "GPU-636b0000-1111", .model = "NVIDIA H200", .index = 2 },
	{ .uuid = "MIG-aaaa0000-2222", .model = "NVIDIA H200 MIG 1g.18gb", .index = 2, .parent = "GPU-636b0000-1111" },
	{ .uuid = "MIG-aaab0000-3333", .model = "NVIDIA H200 MIG 1g.18gb", .index = 2, .parent = "GPU-636b0000-1111" },
	{ .uuid = "GPU-c0c0c0c0-4444", .model = "NVIDIA T4", .index = 3 },
};
static const struct nvml_machine mixed = { names, COUNT_OF(names), false }, alike = { names, 5, false },
				 unsure = { names, 5, true };

#define A "GPU-1f452d3e-7fa0"
#define B "GPU-63611104-0ffd"
#define C "GPU-636b0000-1111"
#define M "MIG-aaaa0000-2222"
#define N "MIG-aaab0000-3333"
#define D "GPU-c0c0c0c0-4444"

static void assert_chosen(const char *list, int rc, const char *wanted, const struct buf *chosen, const struct error *err)
{
	if (rc)
		fail_msg("'%s': %s", list, err->text);
	if (strcmp(buf_text(chosen), wanted))
		fail_msg("'%s' chose %s, not %s", list, buf_text(chosen), wanted);
}

static void test_setting(void **state)
{
	(void)state;
	static const struct { const char *list, *chosen; } rows[] = {
		{ "0", A }, { "0,2", A "," C }, { "2,0", C "," A }, { " 0 , 3 ", A "," D }, { "01", B }, { A, A }, { "GPU-1", A },
		{ "gpu-1", NULL }, { "GPU-63611104-0FFD,0", B "," A }, { "GPU-636", NULL }, { "GPU-6361,GPU-636b", B "," C },
		{ "MIG-aaaa,MIG-aaab", M "," N }, { M ",0", M "," A }, { "GPU-", NULL }, { "", NULL }, { "0,", NULL }, { ",0", NULL },
		{ "0,,1", NULL }, { "4", NULL }, { "-1", NULL }, { "99999999999999999999", NULL }, { "0,0", NULL }, { "0," A, NULL },
		{ "2," M, NULL }, { M "," C, NULL }, { "0;1", NULL }, { "0 1", NULL }, { "all", NULL }, { "1x", NULL }, { "0-2", NULL },
		{ "GPU-1f452d3e-7fa0-more", NULL },
	};
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct error err = ERROR_INIT;
		scoped_buf chosen = { 0 };
		int rc = nvml_choice_setting(&mixed, rows[i].list, &chosen, &err);
		if (rows[i].chosen)
			assert_chosen(rows[i].list, rc, rows[i].chosen, &chosen, &err);
		else if (!rc)
			fail_msg("'%s' chose %s", rows[i].list, buf_text(&chosen));
	}
}

/* One line: the word, what is wrong with it, and what there is. */
static void test_setting_says_what_is_wrong(void **state)
{
	(void)state;
	static const struct { const char *list, *says; } rows[] = {
		{ "0,7,1", "7 names no GPU here" }, { "GPU-dead", "GPU-dead names no GPU here" }, { "0,0", "0 is in its list already" },
		{ "1,GPU-6361", "GPU-6361 is in its list already" }, { "2,MIG-aaaa", "MIG-aaaa is in its list already" },
		{ "GPU-636", "GPU-636 begins more than one UUID" }, { "0,,1", "a word of its list is empty" },
		{ "", "a word of its list is empty" },
	};
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct error err = ERROR_INIT;
		scoped_buf chosen = { 0 };
		assert_int_equal(nvml_choice_setting(&mixed, rows[i].list, &chosen, &err), -1);
		assert_int_equal(err.code, ERR_INVALID);
		assert_null(strchr(err.text, '\n'));
		if (!strstr(err.text, rows[i].says))
			fail_msg("'%s': %s", rows[i].list, err.text);
		assert_non_null(strstr(err.text, "there are 0 (GPU-1f452d3e), 1 (GPU-63611104), 2 (GPU-636b0000), " M ", " N
				       ", 3 (GPU-c0c0c0c0)"));
	}
}

/* With one GPU silent, the number of another may be its neighbour's. UUIDs are certain. */
static void test_numbers_beside_a_silent_gpu(void **state)
{
	(void)state;
	struct error err = ERROR_INIT;
	scoped_buf chosen = { 0 };
	const char *ended;
	assert_int_equal(nvml_choice_setting(&unsure, "0", &chosen, &err), -1);
	assert_non_null(strstr(err.text, "name GPUs by UUID"));
	assert_int_equal(nvml_choice_cuda(&unsure, "0", false, &chosen, &ended, &err), -1);
	assert_non_null(strstr(err.text, "name them by UUID"));
	assert_int_equal(nvml_choice_setting(&unsure, B, &chosen, &err), 0);
	chosen.len = 0;
	assert_int_equal(nvml_choice_cuda(&unsure, B, false, &chosen, &ended, &err), 0);
}

/* As it came out of CUDA itself (see nvml_choice.c). `ended`: where the list ended early. */
static void test_cuda(void **state)
{
	(void)state;
	static const struct { const char *list, *chosen, *ended; } rows[] = {
		{ "0", A, NULL }, { "1,0", B "," A, NULL }, { "0, 1", A "," B, NULL }, { " 1", B, NULL }, { "0 ,1", A "," B, NULL },
		{ "1x", B, NULL }, { "0x1", A, NULL }, { "+1", B, NULL }, { "1.0", B, NULL }, { "0,", A, NULL },
		{ "0,9,1", A, "9,1" }, { "0,-1,1", A, "-1,1" }, { "0,,1", A, ",1" }, { "0," B, A, B }, { B ",0", B, "0" },
		{ B "," A, B "," A, NULL }, { "GPU-6361", B, NULL }, { "GPU-6361,", B, NULL }, { "GPU-63611104-0FFD", B, NULL },
		{ B ",GPU-ffff," A, B, "GPU-ffff," A }, { A ", " B, A, " " B }, { M, M, NULL }, { M "," N, M "," N, NULL },
		{ M ",0", M, "0" }, { "2", C, NULL }, { C "," M, C, M },
		{ "", NULL, NULL }, { "9,0", NULL, NULL }, { "-1", NULL, NULL }, { "NoDevFiles", NULL, NULL }, { ",0", NULL, NULL },
		{ "GPU-", NULL, NULL }, { "GPU-636", NULL, NULL }, { " " B, NULL, NULL }, { "63611104-0ffd", NULL, NULL },
		{ "all", NULL, NULL }, { "99999999999999999999", NULL, NULL }, { "0,0", NULL, NULL }, { "0,1,1", NULL, NULL },
		{ A "," A, NULL, NULL },
	};
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct error err = ERROR_INIT;
		scoped_buf chosen = { 0 };
		const char *ended = NULL;
		int rc = nvml_choice_cuda(&mixed, rows[i].list, false, &chosen, &ended, &err);
		if (!rows[i].chosen) {
			if (!rc)
				fail_msg("'%s' chose %s", rows[i].list, buf_text(&chosen));
			assert_non_null(strstr(err.text, "CUDA_VISIBLE_DEVICES="));
			assert_non_null(strstr(err.text, "there are 0 (GPU-1f452d3e), "));
			continue;
		}
		assert_chosen(rows[i].list, rc, rows[i].chosen, &chosen, &err);
		assert_int_equal(!ended, !rows[i].ended);
		if (ended)
			assert_string_equal(ended, rows[i].ended);
	}
}

static void test_cuda_counting_by_speed(void **state)
{
	(void)state;
	struct error err = ERROR_INIT;
	scoped_buf chosen = { 0 };
	const char *ended;
	/* Equal GPUs are equally fast: then the order is that of PCI. */
	assert_int_equal(nvml_choice_cuda(&alike, "1", true, &chosen, &ended, &err), 0);
	assert_string_equal(buf_text(&chosen), B);
	assert_int_equal(nvml_choice_cuda(&mixed, "1", true, &chosen, &ended, &err), -1);
	assert_non_null(strstr(err.text, "CUDA_DEVICE_ORDER"));
	chosen.len = 0;
	assert_int_equal(nvml_choice_cuda(&mixed, D, true, &chosen, &ended, &err), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_setting), cmocka_unit_test(test_setting_says_what_is_wrong),
		cmocka_unit_test(test_numbers_beside_a_silent_gpu), cmocka_unit_test(test_cuda),
		cmocka_unit_test(test_cuda_counting_by_speed),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
