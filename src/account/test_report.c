/* SPDX-License-Identifier: MIT
 * Series keep exact means in bounded room; reports read what daemon and simulator write, and nothing of it can leave its place
 * in the page.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "account/report.h"
#include "base/json.h"
#include "base/scope.h"

static void add(struct series *s, int64_t from_ms, int64_t to_ms, double mem)
{
	double values[SERIES_VALUES];
	for (size_t v = 0; v < SERIES_VALUES; v++)
		values[v] = v == SERIES_MEM_MIB ? mem : v == SERIES_GRACT ? 0.5 : NAN;
	series_add(s, from_ms, to_ms, values);
}

static void means_are_exact_and_the_unknown_stays_so(void **state)
{
	struct series s = { 0 };
	(void)state;
	add(&s, 1000, 1250, 100);
	add(&s, 1250, 2000, 300);
	add(&s, 3000, 3500, 80);
	add(&s, 3500, 4000, NAN);
	assert_int_equal(s.n, 3);
	assert_float_equal(series_mean(&s, 0, SERIES_MEM_MIB), 250, 1e-9);
	assert_true(isnan(series_mean(&s, 1, SERIES_MEM_MIB)));	/* nobody said anything */
	assert_float_equal(series_mean(&s, 2, SERIES_MEM_MIB), 80, 1e-9);
	assert_true(isnan(series_mean(&s, 0, SERIES_SMACT)));
	assert_float_equal(series_mean(&s, 2, SERIES_GRACT), 0.5, 1e-9);
	assert_true(isnan(series_mean(&s, 3, SERIES_MEM_MIB)));
	series_clear(&s);
}

/* 58 bytes that kept the reader busy for seconds: each GPU up to the one that is named was looked for among all before it. */
static void many_gpus_are_read_at_once(void **state)
{
	struct error err = ERROR_INIT;
	clock_t begin = clock();
	(void)state;
	struct report *r = report_create("t", 1000);
	json_t *o = json_loads("{\"tasks\": [{\"id\": \"1\", \"attempts\": [{\"gpus\": [65535, \"#7\", \"other\"]}]}]}", 0, NULL);
	assert_int_equal(report_add_json(r, "run", o, &err), 0);
	json_decref(o);
	o = report_json(r);
	const json_t *run = json_array_get(json_object_get(o, "runs"), 0), *task = json_array_get(json_object_get(run, "tasks"), 0);
	const json_t *gpus = json_object_get(json_array_get(json_object_get(task, "attempts"), 0), "gpus");
	assert_int_equal(json_array_size(json_object_get(run, "gpus")), 65537);
	assert_int_equal(json_integer_value(json_array_get(gpus, 1)), 7);
	assert_int_equal(json_integer_value(json_array_get(gpus, 2)), 65536);
	assert_true((double)(clock() - begin) / CLOCKS_PER_SEC < 3);
	json_decref(o);
	report_destroy(r);
}

static void a_month_takes_the_room_of_a_minute(void **state)
{
	struct series s = { 0 };
	double sum = 0, ms = 0;
	const int64_t month = (int64_t)30 * 86400 * 1000;
	(void)state;
	add(&s, 0, 60000, 1);
	for (int64_t t = 60000; t < month; t += 3600000)
		add(&s, t, t + 3600000 < month ? t + 3600000 : month, (double)(t % 7));
	assert_true(s.n > SERIES_PARTS / 2 && s.n <= SERIES_PARTS);
	for (size_t i = 0; i < s.n; i++) {
		sum += s.parts[SERIES_MEM_MIB][i].sum;
		ms += s.parts[SERIES_MEM_MIB][i].ms;
	}
	assert_float_equal(ms, (double)month, 1);
	double expected = 60000;
	for (int64_t t = 60000; t < month; t += 3600000)
		expected += (double)(t % 7) * (double)((t + 3600000 < month ? t + 3600000 : month) - t);
	assert_float_equal(sum, expected, 1);
	add(&s, -5000, 1, 1);	/* before its beginning: left out */
	assert_true(s.n <= SERIES_PARTS);
	series_clear(&s);
}

static struct gpu_reading reading(unsigned gpu, uint64_t used, double power)
{
	struct gpu_reading g = { .index = gpu, .valid = GPU_MEM_TOTAL | GPU_MEM_USED | GPU_POWER | GPU_SMOCC | GPU_PCIE,
				 .mem_total_mib = 1000, .mem_used_mib = used, .power_w = power, .smocc = 0.25,
				 .pcie_rx_mib_s = 3, .pcie_tx_mib_s = 7 };
	snprintf(g.uuid, sizeof g.uuid, "SIM-%u", gpu);
	snprintf(g.name, sizeof g.name, "Sim");
	return g;
}

static json_t *at(const json_t *v, const char *path)
{
	scoped_free char *copy = strdup(path);
	json_t *found = (json_t *)v;
	char *key;
	for (char *rest = copy; (key = strsep(&rest, "."));)
		found = json_is_array(found) ? json_array_get(found, (size_t)atoi(key)) : json_object_get(found, key);
	assert_non_null(found);
	return found;
}

static double number(const json_t *v, const char *path)
{
	return json_number_value(at(v, path));
}

static const char simulated[] =
	"{\"trace_total_s\":30,\"lower_bound_s\":20,\"avg_wait_s\":1.5,\"oom\":1,\"tasks\":["
	"{\"id\":\"1\",\"workload\":\"net\",\"state\":\"COMPLETED\",\"submit_s\":0,\"wait_s\":1,\"exec_s\":25,\"jct_s\":26,"
	" \"attempts\":[{\"start_s\":1,\"end_s\":3,\"gpus\":[1],\"mode\":\"mps\",\"claim_mib\":700,\"verdict\":\"oom\"},"
	" {\"start_s\":4,\"end_s\":27,\"gpus\":[0,1],\"mode\":\"exclusive\",\"claim_mib\":900,\"verdict\":\"ok\","
	" \"peak_mib\":800}]}]}";

static void a_simulation_is_read(void **state)
{
	struct error err = ERROR_INIT;
	struct report *r = report_create("T", 0);
	scoped_json *file = json_loads(simulated, 0, NULL);
	(void)state;
	assert_int_equal(report_add_json(r, "magm", file, &err), 0);
	scoped_json *v = report_json(r);
	assert_string_equal(json_string_value(at(v, "runs.0.name")), "magm");
	assert_true(json_is_null(at(v, "runs.0.origin")));
	assert_int_equal(json_array_size(at(v, "runs.0.gpus")), 2);
	assert_string_equal(json_string_value(at(v, "runs.0.tasks.0.name")), "net");
	assert_float_equal(number(v, "runs.0.tasks.0.estimate.claim_mib"), 700, 0);	/* of the first attempt */
	assert_float_equal(number(v, "runs.0.tasks.0.attempts.1.end_s"), 27, 0);
	assert_float_equal(number(v, "runs.0.totals.lower_bound_s"), 20, 0);
	assert_float_equal(number(v, "runs.0.totals.avg_wait_s"), 1.5, 0);	/* as told */
	assert_float_equal(number(v, "runs.0.totals.avg_jct_s"), 26, 0);	/* from the tasks */
	assert_true(json_is_null(at(v, "runs.0.totals.energy_j")));
	report_destroy(r);
}

static const char recorded[] =
	"{\"schema\":1,\"tasks\":[{\"id\":\"7\",\"name\":\"a\",\"user\":\"anna\",\"state\":\"COMPLETED\","
	"\"submit_time\":\"2026-11-20T10:00:00.000Z\",\"wait_s\":5,\"run_s\":60,\"jct_s\":65,"
	"\"estimate\":{\"estimator\":\"declared\",\"claim_mib\":100},"
	"\"attempts\":[{\"start\":\"2026-11-20T10:00:05.000Z\",\"end\":\"2026-11-20T10:01:05.000Z\",\"gpus\":[\"GPU-x\"],"
	"\"share\":\"mps\",\"verdict\":\"ok\",\"peak_mib\":90,\"energy_j\":1000}]},"
	"{\"id\":\"8\",\"name\":\"b\",\"user\":\"bo\",\"state\":\"RUNNING\",\"submit_time\":\"2026-11-20T10:00:00.000Z\","
	"\"wait_s\":5,\"run_s\":10,\"jct_s\":15,\"attempts\":[{\"start\":\"2026-11-20T10:00:05.000Z\",\"end\":null,"
	"\"gpus\":[\"GPU-x\"],\"share\":\"mps\",\"verdict\":\"none\"}]}]}";

static void accounts_are_read(void **state)
{
	struct error err = ERROR_INIT;
	struct report *r = report_create("T", 0);
	scoped_json *file = json_loads(recorded, 0, NULL);
	(void)state;
	assert_int_equal(report_add_json(r, "server", file, &err), 0);
	scoped_json *v = report_json(r);
	assert_string_equal(json_string_value(at(v, "runs.0.origin")), "2026-11-20T10:00:00.000Z");
	assert_float_equal(number(v, "runs.0.tasks.0.attempts.0.start_s"), 5, 0);
	assert_string_equal(json_string_value(at(v, "runs.0.tasks.0.attempts.0.mode")), "mps");
	assert_true(json_is_null(at(v, "runs.0.tasks.1.attempts.0.end_s")));
	assert_float_equal(number(v, "runs.0.totals.trace_total_s"), 65, 0);
	assert_float_equal(number(v, "runs.0.totals.energy_j"), 1000, 0);
	report_destroy(r);
}

/* Its own JSON, read again, is the same; and readings stand until the next one. */
static void readings_come_back(void **state)
{
	struct error err = ERROR_INIT;
	struct report *r = report_create("T", 1000), *again = report_create("T", 9000);
	struct report_run *run = report_add_run(r, "one", 0, &err);
	struct gpu_reading g;
	(void)state;
	report_note(run, "first");
	report_note(run, "second");
	g = reading(0, 100, 50), report_add_reading(run, 0, &g);
	g = reading(1, 0, 10), report_add_reading(run, 0, &g);
	g = reading(0, 300, 150), report_add_reading(run, 2500, &g);
	report_end(run, 4000);
	scoped_json *v = report_json(r);
	assert_int_equal(json_array_size(at(v, "runs.0.series")), 2);
	assert_float_equal(number(v, "runs.0.series.0.mem_mib.0"), 100, 0);
	assert_float_equal(number(v, "runs.0.series.0.mem_mib.2"), 200, 0);
	assert_float_equal(number(v, "runs.0.series.0.power_w.3"), 150, 0);
	assert_true(json_is_null(at(v, "runs.0.series.0.smact.0")));
	assert_int_equal(json_array_size(at(v, "runs.0.series.1.mem_mib")), 4);
	assert_float_equal(number(v, "runs.0.series.0.smocc.3"), 0.25, 0);
	assert_float_equal(number(v, "runs.0.series.0.pcie_tx_mib_s.0"), 7, 0);
	assert_null(json_object_get(at(v, "runs.0.series.0"), "tensor"));	/* of which nothing is known: no list of nothing */
	assert_int_equal(report_add_json(again, "?", v, &err), 0);
	scoped_json *w = report_json(again);	/* but for when the whole was made */
	scoped_free char *before = json_to_text(at(v, "runs")), *after = json_to_text(at(w, "runs"));
	assert_string_equal(before, after);
	assert_string_equal(json_string_value(at(w, "runs.0.note")), "first; second");
	report_destroy(r);
	report_destroy(again);
}

static void wrong_files_are_refused(void **state)
{
	static const struct { const char *text, *says; } cases[] = {
		{ "{}", "neither a report's JSON" },
		{ "[1]", "neither a report's JSON" },
		{ "{\"tasks\":[3]}", "a task without an id" },
		{ "{\"tasks\":[{\"id\":\"5\",\"attempts\":[{\"gpus\":[-1]}]}]}", "task '5': 'gpus' must be" },
		{ "{\"tasks\":[{\"id\":\"5\",\"attempts\":[{\"gpus\":[70000]}]}]}", "'gpus' must be" },
		{ "{\"tasks\":[{\"id\":\"5\",\"attempts\":[{\"gpus\":[{}]}]}]}", "'gpus' must be" },
		{ "{\"tasks\":[{\"id\":\"5\",\"attempts\":[{\"gpus\":[\"#1\", 1]}]}]}", "has '#1' by its UUID" },	/* was read for ever */
		{ "{\"runs\":[{\"name\":\"a\",\"tasks\":{}}]}", "'tasks' must be a list" },
		{ "{\"runs\":[{\"origin\":\"soon\",\"tasks\":[]}]}", "'origin' must be" },
		{ "{\"runs\":[{\"tasks\":[],\"series\":[{\"gpu\":0}]}]}", "'series'" },
		{ "{\"runs\":[{\"gpus\":[{\"uuid\":\"a\"}],\"tasks\":[],"
		  "\"series\":[{\"gpu\":0,\"from_s\":0,\"step_s\":0,\"mem_mib\":[1]}]}]}", "'series'" },
	};
	(void)state;
	for (size_t i = 0; i < COUNT_OF(cases); i++) {
		struct error err = ERROR_INIT;
		struct report *r = report_create("T", 0);
		scoped_json *file = json_loads(cases[i].text, 0, NULL);
		assert_non_null(file);
		assert_int_equal(report_add_json(r, "x", file, &err), -1);
		if (!strstr(err.text, cases[i].says))
			fail_msg("%s: %s", cases[i].text, err.text);
		report_destroy(r);
	}
}

static void too_many_runs_are_refused(void **state)
{
	struct error err = ERROR_INIT;
	struct report *r = report_create("T", 0);
	(void)state;
	for (int i = 0; i < REPORT_MAX_RUNS; i++)
		assert_non_null(report_add_run(r, "x", 0, &err));
	assert_null(report_add_run(r, "x", 0, &err));
	assert_int_equal(err.code, ERR_INVALID);
	report_destroy(r);
}

#define EVIL "</script><script>alert(1)</script><img src=x onerror='alert(\"1\")'>&amp;"

static size_t times(const char *text, const char *word)
{
	size_t n = 0;
	for (const char *p = text; (p = strstr(p, word)); p += strlen(word))
		n++;
	return n;
}

/* Every text that comes from outside, at once: only the page's own elements are there. */
static void text_stays_text(void **state)
{
	struct error err = ERROR_INIT;
	struct report *r = report_create(EVIL, 1);
	struct report_run *run = report_add_run(r, EVIL, 0, &err);
	scoped_buf html = { 0 };
	(void)state;
	report_note(run, EVIL);
	report_name_gpu(run, report_add_gpu(run, EVIL, 0, EVIL, 1000), EVIL);
	scoped_json *tasks = json_pack("[{ss, ss, ss, ss, s{ss}, s[{sf, sf, s[i], ss, ss, ss}]}]", "id", EVIL, "name", EVIL,
		"user", EVIL, "state", EVIL, "estimate", "estimator", EVIL, "attempts", "start_s", 1.0, "end_s", 2.0, "gpus", 0,
		"mode", EVIL, "verdict", EVIL, "evidence", EVIL);
	assert_int_equal(report_add_tasks(run, tasks, &err), 0);
	report_html(r, &html);
	assert_int_equal(times(html.data, "<script"), 2);
	assert_int_equal(times(html.data, "</script"), 2);
	assert_int_equal(times(html.data, "<img"), 0);
	assert_int_equal(times(html.data, "onerror='"), times(html.data, "\\u003cimg src=x onerror='"));	/* JSON alone */
	assert_true(times(html.data, "&lt;img src=x onerror=&#39;alert(&quot;1&quot;)&#39;&gt;&amp;amp;") >= 12);
	/* The data is still JSON, and says the same. */
	const char *from = strchr(strstr(html.data, "application/json"), '>') + 1;
	scoped_json *v = json_loadb(from, (size_t)(strstr(from, "</script") - from), 0, NULL);
	assert_string_equal(json_string_value(at(v, "runs.0.tasks.0.name")), EVIL);
	assert_string_equal(json_string_value(at(v, "runs.0.gpus.0.number")), "0");	/* no number was told */
	report_destroy(r);
}

static void csv_is_quoted(void **state)
{
	struct error err = ERROR_INIT;
	struct report *r = report_create("T", 0);
	struct report_run *run = report_add_run(r, "a,b", 0, &err);
	scoped_buf csv = { 0 }, series = { 0 };
	(void)state;
	scoped_json *tasks = json_pack("[{ss, ss, sn, s[{sf, sf, s[i,i], ss, ss}]}, {ss, ss}]", "id", "1", "name", "=HYPERLINK(\"x\")",
		"wait_s", "attempts", "start_s", 1.5, "end_s", 2.0, "gpus", 0, 2, "mode", "mps", "verdict", "ok", "id", "2", "name", "-n");
	assert_int_equal(report_add_tasks(run, tasks, &err), 0);
	double values[SERIES_VALUES];
	for (size_t v = 0; v < SERIES_VALUES; v++)
		values[v] = v == SERIES_GRACT || v > SERIES_DRAM ? NAN : (double[]){ 5, 0.25, 0, 70, 0.125, 0.5 }[v];
	report_add_means(run, 0, 0, 1000, values);
	report_csv(r, &csv);
	assert_non_null(strstr(csv.data, "\"a,b\",1,\"'=HYPERLINK(\"\"x\"\")\",,,,,,,,,,1,1.5,2,0;2,mps,ok,,,\r\n"));
	assert_non_null(strstr(csv.data, "\"a,b\",2,\"'-n\",,,,,,,,,,,,,,,,,,\r\n"));
	assert_int_equal(times(csv.data, "\r\n"), 3);
	report_series_csv(r, &series);
	assert_string_equal(series.data, "run,gpu,uuid,from_s,to_s,mem_mib,smact,gract,power_w,smocc,dram,pcie_rx_mib_s,"
			    "pcie_tx_mib_s,tensor,fp16,fp32,fp64,nvlink_rx_mib_s,nvlink_tx_mib_s,sm_mhz\r\n"
			    "\"a,b\",0,#0,0,1,5,0.25,,70,0.125,0.5,,,,,,,,,\r\n");
	report_destroy(r);
}

static void the_page_has_the_figures_without_a_program(void **state)
{
	struct error err = ERROR_INIT;
	struct report *r = report_create("Week 47", 1);
	scoped_json *file = json_loads(recorded, 0, NULL);
	scoped_buf html = { 0 };
	(void)state;
	assert_int_equal(report_add_json(r, "server", file, &err), 0);
	report_html(r, &html);
	assert_non_null(strstr(html.data, "<title>Week 47</title>"));
	assert_non_null(strstr(html.data, "<td>server</td><td>anna</td><td class=n data-v=1>1</td>"));
	assert_non_null(strstr(html.data, "1 min 05 s"));
	assert_int_equal(times(html.data, "http"), times(html.data, "http-equiv") + times(html.data, "http://www.w3.org/2000/svg"));
	report_destroy(r);
}

/* What is in the page's data of a run of n tasks. */
static json_t *page_data(size_t n)
{
	struct report *r = report_create("T", 0);
	struct report_run *run = report_add_run(r, "x", 0, NULL);
	scoped_json *tasks = json_array();
	scoped_buf html = { 0 };
	for (size_t i = 0; i < n; i++)
		json_array_append_new(tasks, json_pack("{ss, ss}", "id", "1", "name", "n"));
	assert_int_equal(report_add_tasks(run, tasks, NULL), 0);
	report_html(r, &html);
	const char *from = strchr(strstr(html.data, "application/json"), '>') + 1;
	json_t *v = json_loadb(from, (size_t)(strstr(from, "</script") - from), 0, NULL);
	assert_non_null(v);
	report_destroy(r);
	return v;
}

static void the_page_says_that_tasks_are_left_out_only_where_some_are(void **state)
{
	(void)state;
	scoped_json *all = page_data(10000), *more = page_data(10001);
	assert_null(json_object_get(at(all, "runs.0"), "tasks_left_out"));
	assert_int_equal(json_integer_value(at(more, "runs.0.tasks_left_out")), 1);
	assert_int_equal(json_array_size(at(more, "runs.0.tasks")), 10000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(means_are_exact_and_the_unknown_stays_so),
		cmocka_unit_test(a_month_takes_the_room_of_a_minute),
		cmocka_unit_test(a_simulation_is_read),
		cmocka_unit_test(accounts_are_read),
		cmocka_unit_test(readings_come_back),
		cmocka_unit_test(wrong_files_are_refused),
		cmocka_unit_test(too_many_runs_are_refused),
		cmocka_unit_test(text_stays_text),
		cmocka_unit_test(the_page_says_that_tasks_are_left_out_only_where_some_are),
		cmocka_unit_test(csv_is_quoted),
		cmocka_unit_test(many_gpus_are_read_at_once),
		cmocka_unit_test(the_page_has_the_figures_without_a_program),
	};
	return cmocka_run_group_tests_name("report", tests, NULL, NULL);
}
