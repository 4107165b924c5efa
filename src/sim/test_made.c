/* SPDX-License-Identifier: MIT
 * Traces that are made and imported: shares, times between tasks, windows, and that all of it repeats.
 */
#include "sim/generate.h"
#include "sim/import.h"

#include "base/alloc.h"
#include "base/io.h"
#include "base/json.h"
#include "base/scope.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <math.h>

static void read_catalogue(struct sim_workloads *w)
{
	const char *root = getenv("RAD_SOURCE_ROOT");
	scoped_free char *path = alloc_printf("%s/models/workloads.csv", root ? root : ".");
	struct error err;
	if (sim_workloads_read(w, path, NULL, &err))
		fail_msg("%s", err.text);
}

static void count_classes(const struct sim_trace *t, const struct sim_workloads *w, unsigned count[SIM_CLASSES])
{
	memset(count, 0, SIM_CLASSES * sizeof *count);
	for (size_t i = 0; i < t->n; i++)
		count[w->list[t->list[i].workload].class]++;
}

static void shares_are_kept(void **state)
{
	(void)state;
	static const struct { size_t n; const char *mix; unsigned want[SIM_CLASSES]; } of[] = {
		{ 90, "light=65,medium=27,heavy=8", { 59, 24, 7 } }, { 60, "medium=83,heavy=17", { 0, 50, 10 } },
		{ 1, "heavy=1,light=3", { 1, 0, 0 } }, { 7, "light=1,medium=1,heavy=1", { 3, 2, 2 } },
	};
	struct sim_workloads w;
	struct error err;
	read_catalogue(&w);
	for (size_t i = 0; i < COUNT_OF(of); i++) {
		struct generate_options o = { .n = of[i].n, .interval_ms = 140000, .seed = i };
		struct sim_trace t;
		unsigned count[SIM_CLASSES];
		assert_int_equal(generate_parse_mix(of[i].mix, o.share, &err), 0);
		assert_int_equal(generate_trace(&o, &w, &t, &err), 0);
		count_classes(&t, &w, count);
		assert_memory_equal(count, of[i].want, sizeof count);
		assert_int_equal(t.list[0].submit_ms, 0);
		sim_trace_clear(&t);
	}
	sim_workloads_clear(&w);
}

/* Independent arrivals: the standard deviation of the gaps is their mean. */
static void gaps_are_exponential(void **state)
{
	(void)state;
	struct generate_options o = { .n = 50000, .interval_ms = 140000, .share = { 1, 0, 0 }, .seed = 9 };
	struct sim_workloads w;
	struct sim_trace t, again;
	struct error err;
	double sum = 0, squares = 0;
	size_t long_ones = 0;
	read_catalogue(&w);
	assert_int_equal(generate_trace(&o, &w, &t, &err), 0);
	assert_int_equal(generate_trace(&o, &w, &again, &err), 0);
	assert_memory_equal(t.list, again.list, t.n * sizeof *t.list);
	for (size_t i = 1; i < t.n; i++) {
		double gap = (double)(t.list[i].submit_ms - t.list[i - 1].submit_ms) / 1000;
		sum += gap;
		squares += gap * gap;
		long_ones += gap > 3 * 140;
	}
	double n = (double)(t.n - 1), mean = sum / n;
	assert_true(fabs(mean / 140 - 1) < .02);
	assert_true(fabs(sqrt(squares / n - mean * mean) / 140 - 1) < .03);
	assert_true(fabs((double)long_ones / n / exp(-3) - 1) < .06);
	sim_trace_clear(&t);
	o.seed = 10;
	assert_int_equal(generate_trace(&o, &w, &t, &err), 0);
	assert_memory_not_equal(t.list, again.list, t.n * sizeof *t.list);
	sim_trace_clear(&t);
	sim_trace_clear(&again);
	sim_workloads_clear(&w);
}

static void mixes_are_checked(void **state)
{
	(void)state;
	static const char *const bad[] = { "", "light", "light=x", "small=1", "light=-1", "light=0,heavy=0", "lightest=1", "l=1" };
	unsigned share[SIM_CLASSES];
	struct error err;
	for (size_t i = 0; i < COUNT_OF(bad); i++)
		assert_int_equal(generate_parse_mix(bad[i], share, &err), -1);
}

static void a_written_trace_reads_the_same(void **state)
{
	(void)state;
	char path[] = "/tmp/rad-test-made-XXXXXX";
	struct sim_workload rows[] = { { .name = "plain" }, { .name = "with, \"quotes\"" } };
	struct sim_arrival list[] = { { 0, 1, 2, 0, 0 }, { 1500, 0, 3, 0, 0 }, { 2000, 1, 4, 0, 0 } };
	struct sim_workloads w = { .path = "W", .list = rows, .n = 2 };
	struct sim_trace t = { .list = list, .n = 3 }, again;
	struct error err;
	scoped_buf text = { 0 };
	close(mkstemp(path));
	sim_trace_write(&t, &w, &text);
	assert_int_equal(io_replace_file(path, text.data, text.len, 0600, &err), 0);
	scoped_free char *body = alloc_printf("workload,gpus,solo_s,mem_mib,gract,smact\nplain,1,1,1,1,1\n"
					      "\"with, \"\"quotes\"\"\",1,1,1,1,1\n");
	char w_path[] = "/tmp/rad-test-made-XXXXXX";
	close(mkstemp(w_path));
	assert_int_equal(io_replace_file(w_path, body, strlen(body), 0600, &err), 0);
	struct sim_workloads read;
	assert_int_equal(sim_workloads_read(&read, w_path, NULL, &err), 0);
	if (sim_trace_read(&again, path, &read, &err))
		fail_msg("%s", err.text);
	assert_int_equal(again.n, 3);
	for (size_t i = 0; i < 3; i++)
		assert_true(again.list[i].submit_ms == list[i].submit_ms && again.list[i].workload == list[i].workload);
	sim_trace_clear(&again);
	sim_workloads_clear(&read);
	unlink(path);
	unlink(w_path);
}

/* A task with GPUs of its own, whose workload says nothing of what is declared, says nothing of it either. */
static void a_trace_of_variants_reads_the_same(void **state)
{
	(void)state;
	static const char works[] = "workload,gpus,solo_s,mem_mib,gract,smact\nplain,1,1,1,1,1\n";
	static const char text[] = "submit_s,workload,gpus,solo_s,declared_mib,limit_s\n0,plain,2,,,\n";
	char path[] = "/tmp/rad-test-made-XXXXXX";
	struct sim_workloads w;
	struct sim_trace t;
	struct error err;
	scoped_buf again = { 0 };
	close(mkstemp(path));
	assert_int_equal(io_replace_file(path, works, sizeof works - 1, 0600, &err), 0);
	assert_int_equal(sim_workloads_read(&w, path, NULL, &err), 0);
	assert_int_equal(io_replace_file(path, text, sizeof text - 1, 0600, &err), 0);
	assert_int_equal(sim_trace_read(&t, path, &w, &err), 0);
	sim_trace_write(&t, &w, &again);
	assert_string_equal(buf_text(&again), text);
	sim_trace_clear(&t);
	sim_workloads_clear(&w);
	unlink(path);
}

static int import(struct import_log *log, const char *text, const char *map, struct error *err)
{
	char path[] = "/tmp/rad-test-made-XXXXXX";
	close(mkstemp(path));
	assert_int_equal(io_replace_file(path, text, strlen(text), 0600, err), 0);
	int rc = import_read(log, path, map, err);
	unlink(path);
	return rc;
}

#define JOB(submitted, from, to, gpus) "{\"status\":\"Pass\",\"jobid\":\"a\",\"user\":\"u\",\"submitted_time\":" submitted \
	",\"attempts\":[{\"start_time\":" from ",\"end_time\":" to ",\"detail\":[{\"ip\":\"m1\",\"gpus\":[" gpus "]}]}]}"

static void philly_is_read(void **state)
{
	(void)state;
	struct import_log log;
	struct error err = ERROR_INIT;
	static const char text[] = " [" JOB("\"2017-10-09 07:01:55\"", "\"2017-10-09 07:02:00\"", "\"2017-10-09 07:12:00\"",
		"\"gpu0\",\"gpu1\"") ","
		JOB("\"2017-10-09 07:00:55\"", "\"2017-10-09 07:02:00\"", "\"2017-10-09 07:02:30\"", "\"gpu0\"") ","
		JOB("\"2017-10-09 07:05:00\"", "null", "null", "") "," JOB("null", "null", "null", "") ","
		JOB("\"yesterday\"", "\"2017-10-09 07:02:00\"", "\"2017-10-09 07:02:30\"", "\"gpu0\"") ", 7, {}]";
	if (import(&log, text, NULL, &err))
		fail_msg("%s", err.text);
	assert_int_equal(log.n, 2);
	assert_int_equal(log.left_out, 5);
	assert_true(log.jobs[0].submit_ms == 0 && log.jobs[0].ran_ms == 30000 && log.jobs[0].gpus == 1);
	assert_true(log.jobs[1].submit_ms == 60000 && log.jobs[1].ran_ms == 600000 && log.jobs[1].gpus == 2);
	scoped_json *s = import_statistics(&log);
	scoped_free char *said = json_to_text(s);
	assert_string_equal(said, "{\"schema\":1,\"jobs\":2,\"left_out\":5,\"span_s\":60,\"jobs_per_hour\":120,"
			    "\"gpus\":{\"1\":1,\"2\":1},"
			    "\"ran_s\":{\"p10\":30,\"p50\":30,\"p90\":600,\"p99\":600,\"mean\":315},\"gpu_hours\":0.342}");
	import_clear(&log);
	static const char *const bad[] = { "[", "[{]", "[7]", "[]" };
	for (size_t i = 0; i < COUNT_OF(bad); i++) {
		assert_int_equal(import(&log, bad[i], NULL, &err), -1);
		import_clear(&log);
	}
}

static void lists_are_read(void **state)
{
	(void)state;
	struct import_log log;
	struct error err = ERROR_INIT;
	assert_int_equal(import(&log, "Submit,Elapsed,gpus\n2020-01-01T00:01:00,30.5,1\r\n2020-01-01 00:00:00,10,4\n2020-01-02,0,1\n",
				"submit=Submit,duration_s=Elapsed", &err), 0);
	assert_true(log.n == 2 && log.left_out == 1 && log.jobs[1].submit_ms == 60000 && log.jobs[1].ran_ms == 30500);
	import_clear(&log);
	static const struct { const char *text, *map, *want; } bad[] = {
		{ "submit,duration_s\n", NULL, "has no column 'gpus'; --map gpus=NAME" },
		{ "submit,duration_s,gpus\nsoon,1,1\n", NULL, ":2: submit: 'soon' is neither" },
		{ "submit,duration_s,gpus\n1,-1,1\n", NULL, ":2: duration_s:" },
		{ "submit,duration_s,gpus\n1,1,many\n", NULL, ":2: gpus:" },
		{ "submit,duration_s,gpus\n", NULL, "holds no job" },
		{ "submit,duration_s,gpus\n1,1,1\n", "when=submit", "--map: 'when'" },
	};
	for (size_t i = 0; i < COUNT_OF(bad); i++) {
		assert_int_equal(import(&log, bad[i].text, bad[i].map, &err), -1);
		if (!strstr(err.text, bad[i].want))
			fail_msg("row %zu: %s", i, err.text);
		import_clear(&log);
	}
}

static void windows_are_cut_and_thinned(void **state)
{
	(void)state;
	struct import_job jobs[100];
	struct sim_workload rows[] = { { .name = "a", .gpus = 1, .solo_ms = 1000 }, { .name = "b", .gpus = 1, .solo_ms = 60000 },
				       { .name = "c", .gpus = 2, .solo_ms = 1000 } };
	struct sim_workloads w = { .path = "W", .list = rows, .n = 3 };
	struct import_log log = { .jobs = jobs, .n = 100 };
	struct sim_trace t;
	struct error err;
	/* One a minute, but one a second from the 50th to the 59th, all of which want 1 GPU; each 7th of the others 8. */
	for (int i = 0; i < 100; i++) {
		int64_t s = i < 50 ? i * 60 : i < 60 ? 3000 + i - 50 : 3000 + (i - 59) * 60;
		jobs[i] = (struct import_job){ s * 1000, 900, i % 7 || (i >= 50 && i < 60) ? 1 : 8 };
	}
	struct import_window busy = { .start_ms = -1, .length_ms = 10000, .seed = 1 };
	assert_int_equal(import_trace(&log, &busy, &w, &t, &err), 0);
	assert_true(t.n == 10 && t.list[0].submit_ms == 0 && t.list[9].submit_ms == 9000);
	sim_trace_clear(&t);

	struct import_window thin = { .start_ms = 0, .length_ms = 2100000, .tasks = 10, .gpus = 4, .seed = 1 };
	assert_int_equal(import_trace(&log, &thin, &w, &t, &err), 0);
	assert_int_equal(t.n, 10);	/* of the first 35 jobs, less the 5 that want 8 GPUs, each third */
	for (size_t i = 0; i < t.n; i++)
		assert_true(t.list[i].workload != 2 && (!i || t.list[i].submit_ms > t.list[i - 1].submit_ms));
	sim_trace_clear(&t);

	struct import_window wide = { .start_ms = 0, .length_ms = 60000, .seed = 1 };
	assert_int_equal(import_trace(&log, &wide, &w, &t, &err), 0);
	assert_true(t.n == 1 && t.list[0].workload == 2);	/* 8 GPUs: the widest there is */
	sim_trace_clear(&t);

	thin.tasks = 31;
	assert_int_equal(import_trace(&log, &thin, &w, &t, &err), -1);
	sim_trace_clear(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(shares_are_kept),
		cmocka_unit_test(gaps_are_exponential),
		cmocka_unit_test(mixes_are_checked),
		cmocka_unit_test(a_written_trace_reads_the_same),
		cmocka_unit_test(a_trace_of_variants_reads_the_same),
		cmocka_unit_test(philly_is_read),
		cmocka_unit_test(lists_are_read),
		cmocka_unit_test(windows_are_cut_and_thinned),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
