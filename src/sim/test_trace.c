/* SPDX-License-Identifier: MIT
 * CSV, workloads and traces: what is read, and the one line that bad input gets.
 */
#include "sim/csv.h"
#include "sim/trace.h"

#include "base/alloc.h"
#include "base/io.h"
#include "base/scope.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[] = "/tmp/rad-test-trace-XXXXXX";

static char *file(const char *name, const char *text)
{
	char *path = alloc_printf("%s/%s", folder, name);
	struct error err;
	if (io_replace_file(path, text, strlen(text), 0600, &err))
		fail_msg("%s", err.text);
	return path;
}

/* The records of a text as "a|b\n", or the error. */
static char *records(const char *text)
{
	struct csv c;
	struct error err;
	struct buf out = { 0 };
	int rc = csv_open_text(&c, "F", text, strlen(text), &err);
	while (!rc && (rc = csv_next(&c, &err)) > 0) {
		for (size_t i = 0; i < c.n; i++)
			buf_printf(&out, "%s%s", i ? "|" : "", c.fields[i]);
		buf_printf(&out, "@%zu\n", c.line);
		rc = 0;
	}
	if (rc < 0)
		buf_printf(&out, "%s", err.text);
	csv_clear(&c);
	return buf_steal(&out);
}

static void csv_is_read_strictly(void **state)
{
	(void)state;
	static const struct { const char *text, *want; } of[] = {
		{ "a,b\n1,2\n", "1|2@2\n" },
		{ "a,b\r\n1,2\r\n3,4", "1|2@2\n3|4@3\n" },
		{ "\xef\xbb\xbf""a\n1\n", "1@2\n" },
		{ "a,b\n,\n", "|@2\n" },
		{ "a,b\n1,", "1|@2\n" },
		{ "a,b\n\n\r\n1,2\n\n", "1|2@4\n" },
		{ "a,b\n\"1,\"\"x\"\"\",\"2\nand more\"\n3,4\n", "1,\"x\"|2\nand more@2\n3|4@4\n" },
		{ "\"a\",\"b\"\n\"\",\"\"", "|@2\n" },
		{ "a\n", "" },
		{ "a,b\n1\n", "F:2: has 1 field, the header has 2" },
		{ "a,b\n1,2,3\n", "F:2: has 3 fields, the header has 2" },
		{ "a,b\n1,\"2\n", "F:2: a quote is opened and not closed" },
		{ "a,b\n1,\"2\"x\n", "F:2: after a closing quote comes a comma or the end of the line" },
		{ "a,b\n1,2\"\n", "F:2: a quote inside a field: put the whole field in quotes and double it" },
		{ "a,b\n1\r,2\n", "F:2: a carriage return that ends no line" },
		{ "a,b\n1,2\r", "F:2: a carriage return that ends no line" },
		{ "", "F: is empty: its first line names the columns" },
		{ "\n\n", "F: is empty: its first line names the columns" },
		{ "a,,b\n", "F:1: a column without a name" },
		{ "a,b,a\n", "F:1: two columns are called 'a'" },
	};
	for (size_t i = 0; i < COUNT_OF(of); i++) {
		scoped_free char *got = records(of[i].text);
		assert_string_equal(got, of[i].want);
	}
	struct csv c;
	struct error err;
	assert_int_equal(csv_open_text(&c, "F", "a\n\0\n", 4, &err), -1);
	assert_string_equal(err.text, "F: is not text: it has zero bytes");
	csv_clear(&c);
}

#define HEADER "workload,gpus,solo_s,mem_mib,gract,smact\n"

/* Reads both; NULL or the error without the folder's name. */
static char *problem(const char *workloads, const char *map, const char *trace)
{
	scoped_free char *w_path = file("W.csv", workloads), *t_path = file("T.csv", trace);
	struct sim_workloads w;
	struct sim_trace t = { 0 };
	struct error err = ERROR_INIT;
	int rc = sim_workloads_read(&w, w_path, map, &err) || sim_trace_read(&t, t_path, &w, &err);
	sim_trace_clear(&t);
	sim_workloads_clear(&w);
	const char *text = err.text;
	char *out = alloc_string("");
	for (const char *at; rc && (at = strstr(text, folder)); text = at + strlen(folder) + 1) {
		char *more = alloc_printf("%s%.*s", out, (int)(at - text), text);
		free(out);
		out = more;
	}
	char *all = rc ? alloc_printf("%s%s", out, text) : NULL;
	free(out);
	return all;
}

static void bad_input_gets_one_clear_line(void **state)
{
	(void)state;
	static const char good[] = HEADER "a,1,100,5000,.5,.4\nresnet18,2,10.5,800.2,1,1\nhalf,1,,,,\n";
	static const char trace[] = "submit_s,workload\n0,a\n";
	static const struct { const char *workloads, *map, *trace, *want; } of[] = {
		{ good, NULL, trace, NULL },
		{ good, NULL, "x,workload,submit_s\n9,a,0\r\n9,a,7.5\r\n", NULL },
		{ good, NULL, "submit_s,workload\n5,a\n4,a\n", "T.csv:3: submit_s 4 is before that of line 2: a trace is in the order of "
		  "its times" },
		{ good, NULL, "submit_s,workload\n0,resnet1\n",
		  "T.csv:2: no workload is called 'resnet1' in W.csv; did you mean 'resnet18'?" },
		{ good, NULL, "submit_s,workload\n0,half\n", "T.csv:2: workload 'half' has no solo_s in W.csv:4" },
		{ good, NULL, "submit_s,workload\n-1,a\n", "T.csv:2: submit_s: '-1'" },
		{ good, NULL, "submit_s,workload\n1e99,a\n", "T.csv:2: submit_s: '1e99'" },
		{ good, NULL, "submit_s,workload\nnan,a\n", "T.csv:2: submit_s: 'nan'" },
		{ good, NULL, "submit_s\n0\n", "T.csv:1: has no column 'workload'; a trace has submit_s and workload" },
		{ good, NULL, "submit_s,workload\n", "T.csv: has a header and no task" },
		{ HEADER, NULL, trace, "W.csv: has a header and no workload" },
		{ "workload,gpus\na,1\n", NULL, trace, "W.csv:1: has no column 'solo_s'; --map solo_s=NAME reads it under another name" },
		{ HEADER "a,0,,,,\n", NULL, trace, "T.csv:2: workload 'a' has no solo_s" },
		{ HEADER "a,0,5,,,\n", NULL, trace, NULL },
		{ HEADER "a,-1,1,1,.5,.5\n", NULL, trace, "W.csv:2: gpus: '-1'" },
		{ HEADER "a,1,5,,.5,.5\n", NULL, trace, "T.csv:2: workload 'a' has no mem_mib" },
		{ HEADER "a,1.5,1,1,.5,.5\n", NULL, trace, "W.csv:2: gpus: '1.5' is not a whole number" },
		{ HEADER "a,65,1,1,.5,.5\n", NULL, trace, "W.csv:2: gpus: '65'" },
		{ "workload,gpus,solo_s,mem_mib,gract,smact,cpus\na,1,1,1,.5,.5,2.5\n", NULL, trace, "W.csv:2: cpus: '2.5' is not a whole" },
		{ HEADER "a,1,-3,1,.5,.5\n", NULL, trace, "W.csv:2: solo_s: '-3'" },
		{ HEADER "a,1,1e9,1,.5,.5\n", NULL, trace, "W.csv:2: solo_s: '1e9'" },
		{ HEADER "a,1,1,1e12,.5,.5\n", NULL, trace, "W.csv:2: mem_mib: '1e12'" },
		{ HEADER "a,1,1,1,1.5,.5\n", NULL, trace, "W.csv:2: gract: '1.5'" },
		{ "workload,gpus,solo_s,mem_mib,gract,smact,start_s\na,1,5,1,.5,.5,5\n", NULL, trace,
		  "W.csv:2: start_s: 5 is not below solo_s 5" },
		{ "workload,gpus,solo_s,mem_mib,gract,smact,need_mib\na,1,5,8,.5,.5,9\n", NULL, trace,
		  "W.csv:2: need_mib: 9 is above mem_mib 8" },
		{ HEADER "a,1,1,1,.5,busy\n", NULL, trace, "W.csv:2: smact: 'busy'" },
		{ HEADER "a,1,1,1,.5,.5\na,1,1,1,.5,.5\n", NULL, trace, "W.csv:3: workload 'a' is in line 2 already" },
		{ HEADER ",1,1,1,.5,.5\n", NULL, trace, "W.csv:2: a workload needs a name of at most 200 bytes" },
		{ "workload,gpus,t,mem_mib,gract,smact\na,1,9,9,.5,.5\n", "solo_s=t", trace, NULL },
		{ good, "solo_s=t", trace, "W.csv:1: has no column 't'" },
		{ good, "solo=t", trace, "--map: 'solo' is no column that is read" },
		{ good, "solo_s", trace, "--map: 'solo_s': write COLUMN=NAME" },
		{ good, "horus_mib=h", trace, "W.csv:1: has no column 'h'" },
	};
	for (size_t i = 0; i < COUNT_OF(of); i++) {
		scoped_free char *got = problem(of[i].workloads, of[i].map, of[i].trace);
		if (!of[i].want != !got || (got && strncmp(got, of[i].want, strlen(of[i].want))))
			fail_msg("row %zu: '%s' instead of '%s'", i, got ? got : "no error", of[i].want ? of[i].want : "none");
	}
}

static void figures_are_read(void **state)
{
	(void)state;
	scoped_free char *path = file("W.csv", "note,workload,gpus,solo_s,mem_mib,gract,smact,horus_mib,watts,"
						"start_s,declared_mib,kernels_s\nx,a,2,10.0005,800.2,1,.25,17456.9,312.5,2.5,700,4e4\n");
	struct sim_workloads w;
	struct error err;
	assert_int_equal(sim_workloads_read(&w, path, NULL, &err), 0);
	const struct sim_workload *a = sim_workload_find(&w, "a");
	assert_non_null(a);
	assert_null(sim_workload_find(&w, "b"));
	assert_true(a->gpus == 2 && a->solo_ms == 10001 && a->mem_mib == 801 && a->gract == 1 && a->smact == .25 && a->watts == 312.5);
	assert_true(a->start_ms == 2500 && a->declared_mib == 700 && a->kernels == 40000);
	assert_true(a->estimates_mib[0] == 17457 && !a->estimates_mib[1] && w.has_estimates[0] && !w.has_estimates[1]);
	sim_workloads_clear(&w);
}

static void a_million_lines_are_read(void **state)
{
	(void)state;
	struct buf text = { 0 };
	struct sim_workloads w;
	struct sim_trace t;
	struct error err;
	scoped_free char *w_path = file("W.csv", HEADER "a,1,100,5000,.5,.4\n");
	buf_add_text(&text, "submit_s,workload\n");
	for (int i = 0; i < 1000000; i++)
		buf_printf(&text, "%d,a\n", i / 10);
	scoped_free char *t_path = file("T.csv", buf_text(&text));
	buf_free(&text);
	assert_int_equal(sim_workloads_read(&w, w_path, NULL, &err), 0);
	assert_int_equal(sim_trace_read(&t, t_path, &w, &err), 0);
	assert_int_equal(t.n, 1000000);
	assert_int_equal(t.list[999999].submit_ms, 99999000);
	sim_trace_clear(&t);
	sim_workloads_clear(&w);
}

static int make_folder(void **state)
{
	(void)state;
	return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
	(void)state;
	scoped_free char *w = alloc_printf("%s/W.csv", folder), *t = alloc_printf("%s/T.csv", folder);
	unlink(w);
	unlink(t);
	return rmdir(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(csv_is_read_strictly),
		cmocka_unit_test(bad_input_gets_one_clear_line),
		cmocka_unit_test(figures_are_read),
		cmocka_unit_test(a_million_lines_are_read),
	};
	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
