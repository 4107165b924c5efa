/* SPDX-License-Identifier: MIT
 * The table of kinds: every row is whole, settings find their row, and what people are told of a snapshot.
 */
#include "device/device.h"

#include "base/alloc.h"
#include "base/scope.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void test_rows_are_whole(void **state)
{
	(void)state;
	for (const struct device_kind *const *k = device_kinds; *k; k++) {
		bool names_gpus = false;
		assert_true((*k)->open && (*k)->sample && (*k)->close);
		assert_non_null(strstr((*k)->example, (*k)->name));
		for (const struct device_variable *v = (*k)->variables; v->name; v++) {
			assert_in_range(v - (*k)->variables, 0, COUNT_OF((*k)->variables) - 2);
			names_gpus = names_gpus || v->says == DEVICE_SAYS_GPUS;
			assert_true(v->says != DEVICE_SAYS_FILE || (*k)->file);
		}
		assert_true(names_gpus);
		/* Whoever shares by servers knows one in a process list; whoever shares by the file has one. */
		assert_int_equal((*k)->mps == DEVICE_MPS_SERVER, !!(*k)->mps_process);
		assert_true((*k)->mps != DEVICE_MPS_FILE || (*k)->file);
		for (const struct device_kind *const *other = device_kinds; other < k; other++)
			assert_string_not_equal((*other)->name, (*k)->name);
	}
}

static void test_settings_find_their_kind(void **state)
{
	(void)state;
	static const struct { const char *setting, *kind, *file; } rows[] = {
		{ "nvml", "nvml", NULL }, { "nvml:0,2", "nvml", NULL }, { "sim:4xa100-40g", "sim", "/var/lib/rad/sim-devices" },
		{ "sim", "sim", "/var/lib/rad/sim-devices" },
	};
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct device *d = device_create(rows[i].setting, "/var/lib/rad", NULL);
		assert_string_equal(device_kind(d)->name, rows[i].kind);
		assert_string_equal(device_setting(d), rows[i].setting);
		assert_string_equal(device_folder(d), "/var/lib/rad");
		if (rows[i].file)
			assert_string_equal(device_file(d), rows[i].file);
		else
			assert_null(device_file(d));
		device_destroy(d);
	}
	assert_int_equal(device_check("nvml", NULL) | device_check("nvml:0,2", NULL) | device_check("sim:4xa100-40g", NULL), 0);
	static const struct { const char *setting, *says; } refused[] = {
		{ "0,2", "names no kind of device" }, { "sim", "which devices?" }, { "sim:4xb300", "no simulated device is called 'b300'" },
	};
	for (size_t i = 0; i < COUNT_OF(refused); i++) {
		struct error err = ERROR_INIT;
		assert_int_equal(device_check(refused[i].setting, &err), -1);
		assert_non_null(strstr(err.text, refused[i].says));
	}
	static const char *const wrong[] = { "", "nv", "nvmll", "NVML", " nvml", ":0", "4xa100-40g" };
	for (size_t i = 0; i < COUNT_OF(wrong); i++) {
		struct error err = ERROR_INIT;
		scoped_free char *quoted = alloc_printf("\"%s\"", wrong[i]);
		assert_null(device_create(wrong[i], NULL, &err));
		assert_int_equal(err.code, ERR_INVALID);
		assert_non_null(strstr(err.text, quoted));
		assert_non_null(strstr(err.text, "nvml:0,2"));
		assert_non_null(strstr(err.text, "sim:4xa100-40g"));
	}
}

static void test_place(void **state)
{
	(void)state;
	assert_int_equal(device_place("GPU-a,GPU-b,MIG-1", "GPU-a"), 0);
	assert_int_equal(device_place("GPU-a,GPU-b,MIG-1", "MIG-1"), 2);
	assert_int_equal(device_place("GPU-a,GPU-b", "GPU-"), -1);
	assert_int_equal(device_place("GPU-ab", "GPU-a"), -1);
	assert_int_equal(device_place("", "GPU-a"), -1);
}

static void assert_described(const uint32_t *indices, uint32_t n, uint32_t others, const char *expected)
{
	struct snapshot s = { .n_others = others };
	for (uint32_t i = 0; i < n; i++)
		snapshot_add_gpu(&s)->index = indices[i];
	scoped_free char *text = snapshot_describe(&s);
	assert_string_equal(text, expected);
	snapshot_clear(&s);
}

static void test_description(void **state)
{
	(void)state;
	static const uint32_t indices[] = { 0, 2, 2, 5 };
	assert_described(indices, 0, 0, "0 GPUs");
	assert_described(indices, 1, 0, "1 GPU");
	assert_described(indices, 4, 0, "3 GPUs");	/* two of them are instances of one */
	assert_described(indices, 4, 5, "GPUs 0, 2, 5 of 8");
	assert_described(indices, 1, 3, "GPU 0 of 4");
	assert_described(indices, 0, 2, "none of 2 GPUs");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rows_are_whole), cmocka_unit_test(test_settings_find_their_kind),
		cmocka_unit_test(test_place), cmocka_unit_test(test_description),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
