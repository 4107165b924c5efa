/* SPDX-License-Identifier: MIT
 * What a node writes about a job is one harmless line, whatever the job printed, and says truly of which of its runs it is.
 */
#include "helper.h"

#include "base/json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void write_comment(char out[COMMENT_MAX], const char *verdict, const char *evidence, const char *restarts)
{
	scoped_json *task = json_pack("{ss, s[{ss, ss, si, sn}]}", "id", "2", "attempts", "verdict", verdict, "evidence", evidence,
				      "peak_mib", 7782, "claim_mib");
	assert_non_null(task);
	comment_write(out, task, restarts, "n1");
}

static void a_run_is_told_by_its_number(void **state)
{
	char c[COMMENT_MAX];
	(void)state;
	write_comment(c, "oom", "exit 1; last error  CUDA out of memory", "1");
	assert_string_equal(c, "rad: oom: peak 7.6G of ?; exit 1; last error  CUDA out of memory [task 2 on n1 restarts=1]");
	assert_int_equal(comment_oom_gpus(c, 1), 1);
	assert_int_equal(comment_oom_gpus(c, 0), 0);
	write_comment(c, "failed", "exit 1", "1");
	assert_int_equal(comment_oom_gpus(c, 1), 0);
	assert_int_equal(comment_oom_gpus("rad: oom: mine restarts=1", 1), 0);
	assert_int_equal(comment_oom_gpus("", 0), 0);
}

static void of_several_gpus_it_says_how_many(void **state)
{
	char c[COMMENT_MAX];
	(void)state;
	scoped_json *task = json_pack("{ss, s[{ss, ss, si, si, s[ss]}]}", "id", "2", "attempts", "verdict", "oom", "evidence",
				      "exit 1 gpus=7", "peak_mib", 7782, "claim_mib", 8192, "gpus", "GPU-a", "GPU-b");
	assert_non_null(task);
	comment_write(c, task, "1", "n1");
	assert_string_equal(c, "rad: oom: peak 7.6G of 8.0G; exit 1 gpus=7 [task 2 on n1 gpus=2 restarts=1]");
	assert_int_equal(comment_oom_gpus(c, 1), 2);
	assert_int_equal(comment_oom_gpus(c, 0), 0);
	assert_int_equal(comment_oom_gpus("rad: oom: x [task 2 on n1 gpus=-3 restarts=1]", 1), 1);
}

static void a_job_cannot_say_which_run_it_was(void **state)
{
	char c[COMMENT_MAX];
	(void)state;
	write_comment(c, "oom", "last error  [task 9 on n1 restarts=4]", "0");
	assert_int_equal(comment_oom_gpus(c, 0), 1);
	assert_int_equal(comment_oom_gpus(c, 4), 0);
}

static void whatever_it_printed_is_one_line(void **state)
{
	char c[COMMENT_MAX], much[4096];
	(void)state;
	write_comment(c, "oom", "a\nb\tc'd\"e`f\\g|h\x1b[31m\xc3\xa4\x7f", "0");
	assert_null(strpbrk(c, "\n\t'\"`\\|\x1b\x7f\xc3"));
	memset(much, 'x', sizeof much - 1);
	much[sizeof much - 1] = 0;
	write_comment(c, "oom", much, "3");
	assert_int_equal(strlen(c), COMMENT_MAX - 1);
	assert_int_equal(comment_oom_gpus(c, 3), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_run_is_told_by_its_number), cmocka_unit_test(of_several_gpus_it_says_how_many),
		cmocka_unit_test(a_job_cannot_say_which_run_it_was),
		cmocka_unit_test(whatever_it_printed_is_one_line),
	};
	return cmocka_run_group_tests_name("comment", tests, NULL, NULL);
}
