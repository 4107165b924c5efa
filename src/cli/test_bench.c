/* SPDX-License-Identifier: MIT
 * What rows of a bench come to, its results file, and what tasks print.
 */
#include "cli/bench_file.h"
#include "cli/bench_sum.h"
#include "cli/bench_task.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/json.h"
#include "base/proc.h"
#include "base/scope.h"
#include "cli/member.h"

#include <math.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define DEADLINE_MS 60000

/* Sums --------------------------------------------------------------------------------------------------------------------- */

static json_t *parse(const char *text)
{
	json_t *v = json_loads(text, 0, NULL);
	assert_non_null(v);
	return v;
}

static void near(double got, double want)
{
	assert_true(got > want - 1e-3 && got < want + 1e-3);
}

static void two_commands_are_compared_with_themselves_alone(void **state)
{
	(void)state;
	scoped_json *rows = parse("[{\"mode\":\"serial\",\"degree\":1,\"command\":0,\"repeat\":1,\"power_w\":100,"
		"\"tasks\":[{\"command\":0,\"name\":\"a\",\"steps_s\":10}]},"
		"{\"mode\":\"serial\",\"degree\":1,\"command\":1,\"repeat\":1,\"tasks\":[{\"command\":1,\"name\":\"b\",\"steps_s\":4}]},"
		"{\"mode\":\"mps\",\"degree\":2,\"repeat\":1,\"power_w\":200,\"smact\":0.5,"
		"\"tasks\":[{\"command\":0,\"name\":\"a\",\"steps_s\":4},{\"command\":1,\"name\":\"b\",\"steps_s\":3}]},"
		"{\"mode\":\"mps\",\"degree\":2,\"repeat\":2,\"power_w\":300,\"smact\":0.7,"
		"\"tasks\":[{\"command\":0,\"name\":\"a\",\"steps_s\":6},{\"command\":1,\"name\":\"b\",\"steps_s\":3}]}]");
	scoped_json *runs = bench_sum(rows);
	assert_int_equal(json_array_size(runs), 3);
	const json_t *mps = json_array_get(runs, 2), *tasks = json_object_get(mps, "tasks");
	near(member_number(json_array_get(tasks, 0), "steps_s"), 5);
	near(member_number(json_array_get(tasks, 0), "relative"), 0.5);
	near(member_number(json_array_get(tasks, 0), "slowdown"), 2);
	near(member_number(mps, "stp"), 0.5 + 0.75);
	near(member_number(mps, "delta"), (0.1 + 0.25) / (1.0 / 3));
	near(member_number(mps, "smact"), 0.6);
	near(member_number(mps, "energy_j"), 250 * 60 * 2 / 1.25);
	near(member_number(mps, "spread"), 0.2 / 1.25);
	assert_true(json_is_null(json_object_get(mps, "dram")));	/* unknown is not zero */
	assert_true(json_is_null(json_object_get(json_array_get(runs, 0), "spread")));
}

static void what_failed_is_a_run_until_it_is_measured(void **state)
{
	(void)state;
	scoped_json *rows = parse("[{\"mode\":\"serial\",\"degree\":1,\"command\":0,\"repeat\":1,"
		"\"tasks\":[{\"command\":0,\"name\":\"a\",\"steps_s\":10}]},{\"mode\":\"mig\",\"degree\":3,\"error\":\"two instances\"},"
		"{\"mode\":\"streams\",\"degree\":2,\"error\":\"once\"},{\"mode\":\"streams\",\"degree\":2,\"repeat\":1,\"tasks\":["
		"{\"command\":0,\"name\":\"a\",\"steps_s\":5},{\"command\":0,\"name\":\"a\",\"steps_s\":5}]}]");
	scoped_json *runs = bench_sum(rows);
	assert_int_equal(json_array_size(runs), 3);
	assert_string_equal(member_text(json_array_get(runs, 1), "error"), "");
	near(member_number(json_array_get(runs, 1), "stp"), 1);
	assert_string_equal(member_text(json_array_get(runs, 2), "error"), "two instances");
}

/* The file ----------------------------------------------------------------------------------------------------------------- */

static char path[64];

static int make_path(void **state)
{
	(void)state;
	strcpy(path, "/tmp/rad-test-bench.XXXXXX");
	int fd = mkstemp(path);
	return fd < 0 ? -1 : close(fd);
}

static int remove_path(void **state)
{
	(void)state;
	return unlink(path);
}

static void append(const char *text)
{
	FILE *f = fopen(path, "ae");
	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	fclose(f);
}

static void a_bench_goes_on_with_its_rows(void **state)
{
	(void)state;
	struct error err = ERROR_INIT;
	scoped_json *head = parse("{\"bench\":\"collocate\",\"seconds\":1}");
	scoped_json *other = parse("{\"bench\":\"collocate\",\"seconds\":2}");
	struct bench_file *f = bench_file_open(path, head, &err);
	assert_non_null(f);
	assert_int_equal(bench_file_add(f, parse("{\"mode\":\"serial\",\"degree\":1,\"command\":1,\"repeat\":1}"), &err), 0);
	assert_int_equal(bench_file_add(f, parse("{\"mode\":\"mps\",\"degree\":2,\"error\":\"no\"}"), &err), 0);
	bench_file_close(f);
	append("{\"mode\":\"mps\",\"degree\":2,\"error\":\"longer than what is written in its place\"");	/* cut off */
	assert_null(bench_file_open(path, other, &err));
	assert_int_equal(err.code, ERR_CONFLICT);
	f = bench_file_open(path, head, &err);
	assert_non_null(f);
	assert_null(bench_file_open(path, head, &err));	/* two do not write one file */
	assert_true(bench_file_has(f, BENCH_SERIAL, 1, 1, 1));
	assert_false(bench_file_has(f, BENCH_SERIAL, 1, 0, 1));
	assert_false(bench_file_has(f, BENCH_MPS, 2, -1, 1));	/* what failed is tried again */
	assert_int_equal(bench_file_add(f, parse("{\"mode\":\"mps\",\"degree\":2,\"repeat\":1}"), &err), 0);
	bench_file_close(f);
	f = bench_file_open(path, NULL, &err);
	assert_non_null(f);
	assert_int_equal(json_array_size(bench_file_rows(f)), 3);
	bench_file_close(f);
}

static void what_is_no_bench_is_left_alone(void **state)
{
	(void)state;
	struct error err = ERROR_INIT;
	scoped_json *head = parse("{\"bench\":\"collocate\"}");
	scoped_buf now = { 0 };
	append("my thesis");
	assert_null(bench_file_open(path, head, &err));
	assert_int_equal(err.code, ERR_CORRUPT);
	append("\n");
	assert_null(bench_file_open(path, head, &err));
	assert_int_equal(err.code, ERR_CORRUPT);
	assert_int_equal(io_read_file(path, 100, &now, &err), 0);
	assert_string_equal(buf_text(&now), "my thesis\n");
}

/* Tasks -------------------------------------------------------------------------------------------------------------------- */

static const struct bench_variable unchanged[] = { { NULL, NULL } };

static struct bench_task *start(const char *script, const struct bench_pattern *pattern)
{
	struct error err = ERROR_INIT;
	char *argv[] = { (char *)"sh", (char *)"-c", (char *)script, NULL };
	struct bench_task *t = bench_task_start(argv, unchanged, pattern, &err);
	assert_non_null(t);
	return t;
}

/* Starts it, and reads until its first report, of the time 1000. It goes on when the file has something in it. */
static struct bench_task *start_reported(const char *before, const char *after, const struct bench_pattern *pattern)
{
	scoped_free char *script = alloc_printf("%s; until [ -s %s ]; do sleep 0.01; done; %s", before, path, after);
	struct bench_task *t = start(script, pattern);
	for (int64_t until = clock_mono_ms() + DEADLINE_MS; !bench_task_reported(t) && clock_mono_ms() < until;) {
		struct pollfd p = { bench_task_fd(t), POLLIN, 0 };
		poll(&p, 1, 20);
		bench_task_read(t, 1000);
	}
	return t;
}

/* Lets it go on, and reads until its end, or the deadline: all of the time 1200. */
static void read_rest(struct bench_task *t, struct error *err)
{
	append("go");
	for (int64_t until = clock_mono_ms() + DEADLINE_MS; clock_mono_ms() < until && !bench_task_check(t, err);) {
		struct pollfd p = { bench_task_fd(t), POLLIN, 0 };
		poll(&p, 1, 20);
		bench_task_read(t, 1200);
	}
}

static void steps_are_counted_between_the_first_and_the_last_report(void **state)
{
	(void)state;
	struct error err = ERROR_INIT;
	struct bench_pattern *p = bench_pattern_create("^iter ([0-9]+)", &err);
	struct bench_task *t = start_reported("echo iter 5; echo hello", "echo iter 45; exit 3", p);
	read_rest(t, &err);
	assert_true(bench_task_reported(t) && bench_task_measurable(t));
	assert_true(fabs(bench_task_rate(t) - 200) < 1e-9);
	assert_non_null(strstr(err.text, "exit code 3: iter 45"));
	bench_task_mark(t);
	assert_false(bench_task_measurable(t));
	bench_task_end_all(&t, 1);
	bench_pattern_destroy(p);
}

static void lines_that_match_are_steps_where_the_pattern_has_no_group(void **state)
{
	(void)state;
	struct error err = ERROR_INIT;
	struct bench_pattern *p = bench_pattern_create("done", &err);
	struct bench_task *t = start_reported("printf 'a done\\rb\\377'", "printf ' done\\nc\\n'", p);
	read_rest(t, &err);
	assert_true(bench_task_measurable(t));
	assert_non_null(strstr(err.text, "before it was measured"));
	bench_task_end_all(&t, 1);
	bench_pattern_destroy(p);
	assert_null(bench_pattern_create("it ([0-9]", &err));
	assert_int_equal(err.code, ERR_INVALID);
}

static void nothing_is_left_of_a_task(void **state)
{
	(void)state;
	struct error err = ERROR_INIT;
	scoped_buf text = { 0 };
	scoped_free char *script = alloc_printf("setsid sleep 600 & echo $! >%s; echo begun; wait", path);
	struct bench_pattern *p = bench_pattern_create("begun", &err);
	struct bench_task *t = start(script, p);
	for (int64_t until = clock_mono_ms() + DEADLINE_MS; !bench_task_reported(t) && clock_mono_ms() < until;) {
		poll(NULL, 0, 10);
		bench_task_read(t, clock_mono_ms());
	}
	assert_int_equal(io_read_file(path, 100, &text, &err), 0);
	struct proc_id child = { .pid = (pid_t)strtol(buf_text(&text), NULL, 10) };
	assert_int_equal(proc_stat(child.pid, &child.start_ticks, NULL), 0);
	bench_task_end_all(&t, 1);
	assert_false(proc_alive(child));
	bench_pattern_destroy(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(two_commands_are_compared_with_themselves_alone),
		cmocka_unit_test(what_failed_is_a_run_until_it_is_measured),
		cmocka_unit_test_setup_teardown(a_bench_goes_on_with_its_rows, make_path, remove_path),
		cmocka_unit_test_setup_teardown(what_is_no_bench_is_left_alone, make_path, remove_path),
		cmocka_unit_test_setup_teardown(steps_are_counted_between_the_first_and_the_last_report, make_path, remove_path),
		cmocka_unit_test_setup_teardown(lines_that_match_are_steps_where_the_pattern_has_no_group, make_path, remove_path),
		cmocka_unit_test_setup_teardown(nothing_is_left_of_a_task, make_path, remove_path),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
