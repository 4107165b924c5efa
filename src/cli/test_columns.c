/* SPDX-License-Identifier: MIT
 * Lists in forms of one's own: squeue's letters, sacct's names, widths, what is cut, what is unknown, and the order.
 */
#include "cli/columns.h"

#include "base/scope.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char tasks_text[] =
	"[{\"id\":\"8_4\",\"name\":\"größer als acht\",\"user\":\"ada\",\"state\":\"RUNNING\",\"run_s\":3725.4,\"time_limit_s\":7200,"
	"\"priority\":-3,\"gpus_requested\":2,\"cpus\":4,\"host_mem_mib\":512,\"reason\":null,"
	"\"start_time\":\"2026-11-22T10:00:00.000Z\",\"end_time\":null,\"exit_code\":null,\"signal\":null,"
	"\"attempts\":[{\"gpus\":[\"GPU-a\"],\"peak_mib\":2048,\"host_peak_mib\":100,"
	"\"energy_j\":10.4,\"mean_smact\":0.5},{\"gpus\":[\"GPU-a\"],\"peak_mib\":1024,\"host_peak_mib\":null,\"energy_j\":1,"
	"\"mean_smact\":0.25}]},"
	"{\"id\":\"7\",\"name\":\"b\",\"user\":\"bob\",\"state\":\"PENDING\",\"run_s\":0,\"time_limit_s\":null,\"priority\":5,"
	"\"gpus_requested\":1,\"cpus\":null,\"host_mem_mib\":null,\"reason\":\"Resources\",\"attempts\":[],\"exit_code\":null,"
	"\"signal\":null}]";

static char *printed_of(const char *list, const char *format, enum column_form form, const char *delimiter, bool titles)
{
	struct error err = ERROR_INIT;
	struct column_set *c = columns_parse(format, form, &err);
	if (!c)
		fail_msg("%s: %s", format, err.text);
	if (delimiter)
		columns_delimit(c, delimiter, false);
	json_t *tasks = json_loads(list, 0, NULL), *gpus = json_loads("[{\"index\":3,\"uuid\":\"GPU-a\"}]", 0, NULL);
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	columns_print(c, titles, tasks, gpus, out);
	fclose(out);
	json_decref(tasks);
	json_decref(gpus);
	columns_destroy(c);
	return text;
}

static char *printed(const char *format, enum column_form form, const char *delimiter, bool titles)
{
	return printed_of(tasks_text, format, form, delimiter, titles);
}

static void expect(const char *format, enum column_form form, const char *delimiter, bool titles, const char *wanted)
{
	scoped_free char *got = printed(format, form, delimiter, titles);
	assert_string_equal(got, wanted);
}

static void letters(void **state)
{
	(void)state;
	expect("%.5i|%4j|%t|%M|%l|%b|%R|%%", COLUMN_SQUEUE, NULL, true,
	       "JOBID|NAME|ST|TIME|TIME_LIMIT|TRES_PER_NODE|GPU(REASON)|%\n"
	       "  8_4|größ|R|1:02:05|2:00:00|gpu:2|3|%\n"
	       "    7|b   |PD|0:00|UNLIMITED|gpu:1|(Resources)|%\n");
	expect("%F-%K %P %q %D %C %k %e", COLUMN_SQUEUE, NULL, false, "8-4 N/A N/A 1 4 (null) N/A\n7-N/A N/A N/A 1 1 (null) N/A\n");
	expect("%i %j", COLUMN_SQUEUE, "|", false, "8_4|größer als acht\n7|b\n");
}

static void names(void **state)
{
	(void)state;
	expect("JobID,JobName,State%4,Elapsed", COLUMN_SACCT, NULL, true,
	       "       JobID    JobName Stat    Elapsed \n"
	       "------------ ---------- ---- ---------- \n"
	       "         8_4 größer al+ RUN+   01:02:05 \n"
	       "           7          b PEN+   00:00:00 \n");
	expect("jobid%-5,ncpus%3", COLUMN_SACCT, NULL, false, "8_4     4 \n7       1 \n");
	expect("JobID,ElapsedRaw,Timelimit,TimelimitRaw,MaxRSS,ReqMem,ExitCode,ConsumedEnergy,ReqTRES,Partition,End",
	       COLUMN_SACCT, "|", true,
	       "JobID|ElapsedRaw|Timelimit|TimelimitRaw|MaxRSS|ReqMem|ExitCode|ConsumedEnergy|ReqTRES|Partition|End\n"
	       "8_4|3725|02:00:00|120|102400K|512M||11|cpu=4,mem=512M,gres/gpu=2||Unknown\n"
	       "7|0|UNLIMITED|UNLIMITED|||||cpu=1,gres/gpu=1||Unknown\n");
	expect("jobid:5,state:.9", COLUMN_SQUEUE, NULL, true, "JOBID    STATE\n8_4    RUNNING\n7      PENDING\n");
	expect("GPUs,MaxGPUMem,SMACT,Attempts", COLUMN_SACCT, ",", false, "3,2.0G,25%,2\n,-,-,0\n");
}

/* Which begins no sooner; sacct's list is of what was. */
static void starts(void **state)
{
	(void)state;
	static const char list[] = "[{\"id\":\"1\",\"state\":\"PENDING\",\"start_time\":null,"
		"\"begin_time\":\"2026-11-22T10:00:00.000Z\"},"
		"{\"id\":\"2\",\"state\":\"RUNNING\",\"start_time\":\"2026-11-23T10:00:00.000Z\","
		"\"begin_time\":\"2026-11-22T10:00:00.000Z\"},"
		"{\"id\":\"3\",\"state\":\"PENDING\",\"start_time\":null}]";
	scoped_free char *queue = printed_of(list, "%i %S", COLUMN_SQUEUE, NULL, false);
	scoped_free char *acct = printed_of(list, "JobID,Start", COLUMN_SACCT, "|", false);
	assert_string_equal(queue, "1 2026-11-22T10:00:00\n2 2026-11-23T10:00:00\n3 N/A\n");
	assert_string_equal(acct, "1|Unknown\n2|2026-11-23T10:00:00\n3|Unknown\n");
}

/* An end that nobody saw, and none yet, must not read as success. */
static void exit_codes(void **state)
{
	(void)state;
	static const char list[] = "[{\"id\":\"1\",\"state\":\"COMPLETED\",\"exit_code\":0,\"signal\":null},"
		"{\"id\":\"2\",\"state\":\"CANCELLED\",\"exit_code\":null,\"signal\":15},"
		"{\"id\":\"3\",\"state\":\"LOST\",\"exit_code\":null,\"signal\":null}]";
	scoped_free char *acct = printed_of(list, "JobID,State,ExitCode", COLUMN_SACCT, "|", false);
	scoped_free char *queue = printed_of(list, "jobid,exit_code", COLUMN_SQUEUE, "|", false);
	scoped_free char *heads = printed_of(list, "ID,ST,TIME", COLUMN_SQUEUE, "|", false);
	scoped_free char *names = printed_of(list, "JobID,StateCompact,Elapsed", COLUMN_SQUEUE, "|", false);
	assert_string_equal(heads, names);	/* the titles of our own lists */
	assert_string_equal(acct, "1|COMPLETED|0:0\n2|CANCELLED|0:15\n3|LOST|\n");
	assert_string_equal(queue, "1|0:0\n2|0:15\n3|N/A\n");
}

static void refused(void **state)
{
	(void)state;
	static const struct { const char *format, *says; } bad[] = {
		{ "%y", "'%y': stands for nothing" }, { "%.999999i", "stands for nothing" }, { "%5", "stands for nothing" },
		{ "%", "stands for" },
		{ "Elasped", "did you mean 'Elapsed'? There are: JobID" },
		{ "JobID,Nonsense", "there is no field 'Nonsense'. There are: JobID" },
		{ "State%0", "expected a width" }, { "State:9999", "expected a width" },
	};
	for (size_t i = 0; i < COUNT_OF(bad); i++) {
		struct error err = ERROR_INIT;
		if (columns_parse(bad[i].format, COLUMN_SQUEUE, &err))
			fail_msg("%s was taken", bad[i].format);
		if (!strstr(err.text, bad[i].says))
			fail_msg("%s: %s", bad[i].format, err.text);
	}
}

static void order(void **state)
{
	(void)state;
	static const struct { const char *keys, *first; } rows[] = {
		{ "i", "7" }, { "-i", "8_4" }, { "JobID", "7" }, { "-Priority", "7" }, { "p,i", "8_4" }, { "-M", "8_4" },
		{ "-UserName", "7" },
		{ "P", "8_4" }, { "P,t", "7" }, { "-MaxRSS", "8_4" }, { "MaxRSS", "8_4" },
	};
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct error err = ERROR_INIT;
		json_t *tasks = json_loads(tasks_text, 0, NULL);
		assert_int_equal(columns_sort_check(rows[i].keys, &err), 0);
		columns_sort(tasks, rows[i].keys, NULL);
		assert_int_equal(json_array_size(tasks), 2);
		const char *first = json_string_value(json_object_get(json_array_get(tasks, 0), "id"));
		if (strcmp(first, rows[i].first))
			fail_msg("%s: %s comes first", rows[i].keys, first);
		json_decref(tasks);
	}
	json_t *last = json_loads("[{\"id\":\"4294967295_1048574\"},{\"id\":\"4294967295_1048573\"}]", 0, NULL);
	columns_sort(last, "i", NULL);	/* the highest ids there are: none is rounded to its neighbour */
	assert_string_equal(json_string_value(json_object_get(json_array_get(last, 0), "id")), "4294967295_1048573");
	json_decref(last);
	assert_int_equal(columns_sort_check("i,nonsense", NULL), -1);
	assert_int_equal(columns_sort_check("i,,j", NULL), -1);
	assert_int_equal(columns_sort_check("", NULL), -1);
}

static void what_is_asked_for(void **state)
{
	(void)state;
	const char *members[COLUMNS_MEMBERS];
	struct column_set *c = columns_parse("%i %M %R %N %L", COLUMN_SQUEUE, NULL);
	size_t n = columns_members(c, members);
	assert_int_equal(n, 4);
	assert_string_equal(members[0], "run_s");
	assert_int_equal(columns_sort_members("-p,M", members, n), 5);
	assert_string_equal(members[4], "priority");
	columns_destroy(c);
	/* every field at once is not too many */
	n = 0;
	for (const struct column_field *f = column_fields_next(NULL); f; f = column_fields_next(f))
		n = columns_sort_members(f->name, members, n);
	assert_true(n < COLUMNS_MEMBERS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(letters), cmocka_unit_test(names), cmocka_unit_test(starts),
		cmocka_unit_test(exit_codes), cmocka_unit_test(refused),
		cmocka_unit_test(order), cmocka_unit_test(what_is_asked_for),
	};
	setenv("TZ", "UTC", 1);
	setlocale(LC_CTYPE, "C.UTF-8");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
