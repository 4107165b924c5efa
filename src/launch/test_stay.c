/* SPDX-License-Identifier: MIT
 * What CUDA_VISIBLE_DEVICES is to be in a task that sets it itself: a table of cases; and where the library that sees to it is.
 */
#include "launch/stay.h"
#include "launch/stay_rule.h"

#include "base/alloc.h"
#include "base/scope.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

/* NULL: it stays. */
static const struct { const char *given, *value, *expected; } cases[] = {
	/* One GPU: whatever number is said, it is that one. */
	{ "1", "0", "1" }, { "1", "7", "1" }, { "1", " 0", "1" }, { "1", "0 ", "1" }, { "12", "3", "12" }, { "0", "1", "0" },
	{ "1", "1", NULL }, { "0", "0", NULL },
	/* By UUID, as under MPS and for MIG instances. */
	{ "GPU-a", "0", "GPU-a" }, { "MIG-x", "2", "MIG-x" }, { "GPU-a,GPU-b", "1", "GPU-b" },
	{ "GPU-a,GPU-b", "1,0", "GPU-b,GPU-a" },
	{ "GPU-a,GPU-b", "GPU-b", NULL }, { "GPU-a,GPU-b", "GPU-b,GPU-a", NULL }, { "GPU-a", "GPU-b", NULL },
	{ "GPU-a", "gpu-a", NULL },
	/* Several: numbers below n count among them. */
	{ "2,3", "0", "2" }, { "2,3", "1", "3" }, { "2,3", "0,1", "2,3" }, { "2,3", "1,0", "3,2" }, { "2,3", "0, 1", "2,3" },
	{ "4,5,6,7", "0,1,2", "4,5,6" },
	/* Not all of them are below n: the first ones. */
	{ "2,3", "6", "2" }, { "2,3", "6,7", "2,3" }, { "2,3", "0,3", "2,3" }, { "4,5,6", "1,9", "4,5" },
	/* Of two readings, what was found wins. */
	{ "1,2", "1", NULL }, { "1,2", "2", NULL }, { "1,2", "2,1", NULL }, { "1,2", "2, 1", NULL },
	{ "1,2", "0", "1" }, { "1,2", "0,1", "1,2" },
	/* A comma at the end says nothing. */
	{ "1", "0,", "1" }, { "2,3", "0,1, ", "2,3" }, { "1", "1,", NULL },
	/* What CUDA passes over behind a number, and where its list ends. */
	{ "1", "0\r", "1" }, { "1", "0\n", "1" }, { "2,3", "0,1\r", "2,3" }, { "2,3", "0,-1", "2" }, { "2,3", "1,-1", "3" },
	{ "2,3", "0,,", "2" }, { "2,3", "0,,1", "2" }, { "1", "00", "1" }, { "1", "+0", "1" }, { "1", "0x0", "1" },
	{ "2,3", "0 1", "2" }, { "1", "\t0", "1" }, { "1", "0.0", "1" },
	{ "2,3", "0,GPU-a", "2" }, { "2,3", "0,none", "2" }, { "2,3", "0,99999999999,1", "2" },
	{ "GPU-a", "0\r", "GPU-a" }, { "1", "1\r", NULL }, { "1,2", "2,-1", NULL }, { "1", "01", NULL }, { "1", "1x", NULL },
	/* No GPU, others by UUID, more than were given, one twice. */
	{ "1", "", NULL }, { "1", " ", NULL }, { "1", "-1", NULL }, { "1", "none", NULL }, { "1", "\r", NULL },
	{ "1", "NoDevFiles", NULL }, { "1", "0,1", NULL },
	{ "2,3", "0,1,2", NULL }, { "2,3", "0,0", NULL }, { "2,3", "7,7", NULL }, { "2,3", "0,0\r", NULL },
	{ "2,3", "-1,0", NULL }, { "1", ",0", NULL }, { "1", ",", NULL }, { "1", "0,0,", NULL },
	{ "2,3", "GPU-a,0", NULL }, { "2,GPU-a", "0", "2" }, { "MIG-x", "MIG-y", NULL }, { "MIG-x", "MIG-GPU-a/1/0", NULL },
	{ "1", "cuda:0", NULL }, { "1", "99999999999999999999", NULL },
	/* No GPU was given, and what is no list. */
	{ "", "0", "" }, { "", "0,1", "" }, { "", "GPU-a", "" }, { "", "-1", "" }, { "", "", NULL },
	{ ",", "0", NULL }, { " ", "0", NULL },
};

static void test_cases(void **state)
{
	(void)state;
	char out[STAY_BYTES], again[STAY_BYTES];
	for (size_t i = 0; i < COUNT_OF(cases); i++) {
		bool other = stay_rule(cases[i].given, cases[i].value, out);
		if (other != !!cases[i].expected || (other && strcmp(out, cases[i].expected)))
			fail_msg("given \"%s\", set to \"%s\": %s", cases[i].given, cases[i].value, other ? out : "stays");
		if (other && stay_rule(cases[i].given, out, again))
			fail_msg("given \"%s\", \"%s\" becomes \"%s\" when it is looked at again", cases[i].given, out, again);
	}
}

static void test_long_lists(void **state)
{
	(void)state;
	char out[STAY_BYTES], given[2 * STAY_BYTES] = "", numbers[1024] = "";
	for (unsigned i = 0; i < 64; i++) {
		char *end = given + strlen(given);
		sprintf(end, "%sMIG-%08x-0000-0000-0000-0123456789ab", i ? "," : "", i);
		sprintf(numbers + strlen(numbers), "%s%u", i ? "," : "", i);
	}
	assert_true(stay_rule(given, numbers, out));
	assert_string_equal(out, given);
	strcat(given, ",MIG-of-one-more");
	assert_false(stay_rule(given, "0", out));
	memset(given, 'x', sizeof given - 1);
	assert_false(stay_rule(given, "0", out));
}

/* A library below a folder of the test's own; radd of root asks that others can read it. */
static void test_a_library_that_serves(void **state)
{
	(void)state;
	struct error err = ERROR_INIT;
	char folder[] = "/tmp/rad-stay.XXXXXX";
	assert_non_null(mkdtemp(folder));
	assert_int_equal(chmod(folder, 0755), 0);
	scoped_free char *file = alloc_printf("%s/libradstay.so", folder), *spaced = alloc_printf("%s/a b", folder);
	assert_int_equal(stay_check(file, true, &err), -1);
	assert_non_null(strstr(err.text, "No such file"));
	fclose(fopen(file, "w"));
	assert_int_equal(chmod(file, 0644), 0);
	assert_int_equal(stay_check(file, true, NULL), 0);
	assert_int_equal(chmod(file, 0640), 0);
	assert_int_equal(stay_check(file, true, &err), -1);
	assert_non_null(strstr(err.text, "not for all to read"));
	assert_int_equal(stay_check(file, false, NULL), 0);
	assert_int_equal(chmod(file, 0644), 0);
	assert_int_equal(chmod(folder, 0700), 0);
	assert_int_equal(stay_check(file, true, &err), -1);
	assert_non_null(strstr(err.text, folder));
	fclose(fopen(spaced, "w"));
	assert_int_equal(stay_check(spaced, false, &err), -1);
	assert_non_null(strstr(err.text, "LD_PRELOAD"));
	unlink(spaced);
	unlink(file);
	rmdir(folder);
}

static void assert_preload(const char *before, const char *library, const char *expected)
{
	scoped_free char *all = stay_preload(before, library);
	if (!expected)
		assert_null(all);
	else if (!all || strcmp(all, expected))
		fail_msg("LD_PRELOAD=%s with %s: %s", before ? before : "", library ? library : "none", all ? all : "none");
}

/* A task that submits another hands on what it loads, perhaps of another release. */
static void test_what_the_user_preloads_stays(void **state)
{
	(void)state;
	assert_preload(NULL, NULL, NULL);
	assert_preload(NULL, "/lib/libradstay.so", "/lib/libradstay.so");
	assert_preload("", "/lib/libradstay.so", "/lib/libradstay.so");
	assert_preload("libjemalloc.so", "/lib/libradstay.so", "libjemalloc.so:/lib/libradstay.so");
	assert_preload("a.so b.so", "/lib/libradstay.so", "a.so:b.so:/lib/libradstay.so");
	assert_preload("a.so:/old/libradstay.so:b.so", "/lib/libradstay.so", "a.so:b.so:/lib/libradstay.so");
	assert_preload("a.so:/old/libradstay.so", NULL, "a.so");
	assert_preload("/old/libradstay.so", NULL, NULL);
	assert_preload("a.so::", NULL, "a.so");
	assert_preload("/my/notlibradstay.so", NULL, "/my/notlibradstay.so");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cases),
		cmocka_unit_test(test_long_lists),
		cmocka_unit_test(test_a_library_that_serves),
		cmocka_unit_test(test_what_the_user_preloads_stays),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
