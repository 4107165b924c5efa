/* SPDX-License-Identifier: MIT
 * The option table: values taken and refused for each row, the small languages, nearest words, help and completions.
 */
#include "submit/options.h"

#include "base/alloc.h"
#include "base/io.h"
#include "base/scope.h"
#include "base/words.h"
#include "task/task.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static int set(struct spec *s, struct submit_pending *p, const char *name, const char *value, struct error *err)
{
	const struct submit_option *o = options_find(name);
	assert_non_null(o);
	return options_set(s, p, o, value, "t.rad:4", err);
}

static void test_taken(void **state)
{
	(void)state;
	struct spec *s = spec_create();
	struct submit_pending p = { 0 };
	static const char *const rows[][2] = {
		{ "gpus", "64" }, { "gpu-mem", "1.5G" }, { "batch-size", "128" }, { "seq-len", "512" },
		{ "input-size", "3x224x160" }, { "optimizer", "adam" },
		{ "precision", "bf16" }, { "share", "mps" }, { "max-slowdown", "1.3" }, { "priority", "-7" }, { "nice", "" },
		{ "time", "1-02" }, { "signal", "USR1@90" }, { "name", "a name" }, { "array", "1,3-5%2" }, { "dependency", "afterok:12" },
		{ "hold", NULL }, { "output", "x-%A_%a-%x-%u-%%.log" }, { "error", "e-%j" }, { "env", "tf" }, { "requeue", "no" },
		{ "retries", "100" }, { "model", "m.txt" }, { "capture", "c.json" }, { "chdir", "/tmp" },
	};
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct error err = ERROR_INIT;
		if (set(s, &p, rows[i][0], rows[i][1], &err))
			fail_msg("%s", err.text);
	}
	assert_int_equal(s->gpus, 64);
	assert_int_equal(s->gpu_mem_mib, 1536);
	assert_int_equal(s->batch_size, 128);
	assert_int_equal(s->seq_len, 512);
	assert_int_equal(s->input_channels, 3);
	assert_int_equal(s->input_height, 224);
	assert_int_equal(s->input_width, 160);
	assert_string_equal(s->optimizer, "adam");
	assert_string_equal(s->precision, "bf16");
	assert_int_equal(s->share, SHARE_MPS);
	assert_true(s->max_slowdown > 1.29 && s->max_slowdown < 1.31);
	assert_int_equal(s->priority, -7);
	assert_int_equal(p.nice, 100);
	assert_int_equal(s->time_limit_s, 26 * 3600);
	assert_int_equal(s->signal, 10);
	assert_int_equal(s->signal_before_s, 90);
	assert_string_equal(s->name, "a name");
	assert_int_equal(s->n_array, 4);
	assert_int_equal(s->array_limit, 2);
	assert_int_equal(s->n_deps, 1);
	assert_true(s->hold);
	assert_string_equal(s->output, "x-%A_%a-%x-%u-%%.log");
	assert_string_equal(s->error, "e-%j");
	assert_string_equal(s->conda_env, "tf");
	assert_false(s->requeue);
	assert_int_equal(s->retries, 100);
	assert_string_equal(p.model, "m.txt");
	assert_string_equal(p.capture, "c.json");
	assert_string_equal(p.chdir, "/tmp");
	assert_int_equal(set(s, &p, "gres", "gpu:3", NULL), 0);
	assert_int_equal(s->gpus, 3);
	assert_int_equal(set(s, &p, "time", "unlimited", NULL), 0);
	assert_int_equal(s->time_limit_s, 0);
	assert_int_equal(set(s, &p, "no-requeue", "no", NULL), 0);
	assert_true(s->requeue);
	options_pending_clear(&p);
	spec_unref(s);
}

static void test_sharing_agrees(void **state)
{
	(void)state;
	struct spec *s = spec_create();
	struct submit_pending p = { 0 };
	static const struct { const char *name, *value; bool exclusive; enum share_mode share; } steps[] = {
		{ "policy", "exclusive", true, SHARE_NEVER }, { "share", "mps", false, SHARE_MPS },
		{ "policy", "collocation", false, SHARE_MPS }, { "exclusive", NULL, true, SHARE_NEVER },
		{ "policy", "collocation", false, SHARE_AUTO }, { "share", "never", true, SHARE_NEVER },
	};
	for (size_t i = 0; i < COUNT_OF(steps); i++) {
		assert_int_equal(set(s, &p, steps[i].name, steps[i].value, NULL), 0);
		assert_int_equal(s->exclusive, steps[i].exclusive);
		assert_int_equal(s->share, steps[i].share);
	}
	spec_unref(s);
}

static void test_gres_names_models(void **state)
{
	(void)state;
	static const struct { const char *value; unsigned gpus; const char *model; } rows[] = {
		{ "gpu", 1, NULL }, { "gpu:2", 2, NULL }, { "gpu:a100", 1, "a100" }, { "gpu:a100:3", 3, "a100" },
		{ "gpu:h100-80gb:1", 1, "h100-80gb" }, { "gpu:rtx_3090:2", 2, "rtx_3090" },
		{ "none", 0, NULL }, { "gpu:0", 0, NULL }, { "gpu:a100:0", 0, NULL },
	};
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct spec *s = spec_create();
		struct submit_pending p = { 0 };
		struct error err = ERROR_INIT;
		if (set(s, &p, "gres", rows[i].value, &err))
			fail_msg("%s", err.text);
		assert_int_equal(s->gpus, rows[i].gpus);
		assert_true(rows[i].model ? s->gpu_model && !strcmp(s->gpu_model, rows[i].model) : !s->gpu_model);
		spec_unref(s);
	}
}

/* Slurm's spelling of what has a name of ours. */
static void test_slurms_spelling(void **state)
{
	(void)state;
	static const char *const rows[][3] = {
		{ "mail-type", "ALL", "begin,end" }, { "mail-type", "END,FAIL", "end,fail" }, { "mail-type", "fail,TIME_LIMIT", "fail" },
		{ "mail-type", "NONE", "none" }, { "mail-type", "REQUEUE", "none" },
	};
	struct submit_pending p = { 0 };
	struct error err = ERROR_INIT;
	struct spec *s = spec_create();
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		assert_int_equal(set(s, &p, rows[i][0], rows[i][1], &err), 0);
		assert_string_equal(s->notify, rows[i][2]);
	}
	assert_int_equal(set(s, &p, "mail-user", "ada@example.org", &err), 0);
	assert_string_equal(s->notify_to, "mail:ada@example.org");
	assert_int_equal(set(s, &p, "gpus", "a100:2", &err), 0);
	assert_string_equal(s->gpu_model, "a100");
	assert_int_equal(set(s, &p, "gpus-per-node", "h100:4", &err), 0);
	static const struct { const char *name, *value; int rc; } counts[] = {
		{ "nodes", "1", 0 }, { "nodes", "1-1", 0 }, { "nodes", "2", -1 }, { "nodes", "0", -1 }, { "nodes", "", -1 },
		{ "nodes", "1-2", -1 }, { "ntasks", "1", 0 }, { "ntasks", "4", -1 }, { "ntasks", "one", -1 },
	};
	for (size_t i = 0; i < COUNT_OF(counts); i++)
		assert_int_equal(set(s, &p, counts[i].name, counts[i].value, &err), counts[i].rc);
	assert_non_null(strstr(err.text, "started once"));
	assert_string_equal(s->gpu_model, "h100");
	assert_int_equal(s->gpus, 4);
	assert_int_equal(set(s, &p, "gpus", "2", &err), 0);	/* on the command line, after a script's h100:4 */
	assert_null(s->gpu_model);
	assert_int_equal(set(s, &p, "gres", "gpu:a100", &err) | set(s, &p, "gpus", "2", &err), 0);
	assert_string_equal(s->gpu_model, "a100");
	assert_int_equal(s->gpus, 2);
	assert_int_equal(set(s, &p, "gpus", "0", &err), 0);	/* after a script's model, too */
	assert_null(s->gpu_model);
	assert_int_equal(s->gpus, 0);
	assert_int_equal(set(s, &p, "gres", "gpu:3", &err), 0);
	assert_null(s->gpu_model);
	assert_int_equal(set(s, &p, "output", "%x-%03a-%N-%4j.out", &err), 0);
	static const struct { const char *text; int64_t s; } times[] = {
		{ "10", 600 }, { "10:30", 630 }, { "1:00:00", 3600 }, { "2-12", 216000 }, { "1-02:30", 95400 }, { "1-02:30:15", 95415 },
		{ "0", 0 }, { "UNLIMITED", 0 }, { "INFINITE", 0 },
	};
	for (size_t i = 0; i < COUNT_OF(times); i++) {
		assert_int_equal(set(s, &p, "time", times[i].text, &err), 0);
		assert_int_equal(s->time_limit_s, times[i].s);
	}
	spec_unref(s);
}

static void test_refused(void **state)
{
	(void)state;
	static const char *const rows[][3] = {
		{ "gpus", "-1", "0 to 64" }, { "gpus", "65", "0 to 64" },
		{ "gpus", "two", "'two'" }, { "gpus", "", "whole number" },
		{ "gpus", "a100", "whole number" }, { "gpus", ":2", "a word is missing" },
		{ "gres", "shard:1", "only gpu:N" }, { "gres", "gpu:", "only gpu:N" },
		{ "gres", "gpu:a100:x", "whole number" }, { "gres", "gpu:a100:-1", "0 to 64" },
		{ "gres", "gpu:a;b:1", "stands for nothing" },
		{ "gres", "gpu::2", "a word is missing" }, { "constraint", "", "a word is missing" },
		{ "constraint", "mem>", "write mem>=40G" },
		{ "mem", "much", "is not a size" }, { "cpus-per-task", "0", "1 to 65536" }, { "slot", "1s", "write 5s to 3660d" },
		{ "slot", "soon", "not a duration" }, { "slot", "4000d", "out of range" }, { "requeue-code", "0", "1 to 255" },
		{ "gpu-mem", "0", "declares no memory" }, { "gpu-mem", "-1", "is not a size" }, { "gpu-mem", "12Q", "is not a size" },
		{ "batch-size", "0", "1 to" }, { "batch-size", "1e3", "whole number" }, { "seq-len", "-2", "1 to" },
		{ "input-size", "224", "3x224x224" }, { "input-size", "3x224x224x1", "3x224x224" }, { "input-size", "0x224x224", "1 to" },
		{ "input-size", "3x224x99999999999999999999", "1 to" }, { "input-size", "3x-2x4", "3x224x224" },
		{ "optimizer", "", "expected a value" }, { "share", "maybe", "no way of sharing" }, 
		{ "policy", "exclusive/ collocation", "expected exclusive or collocation" },
		{ "max-slowdown", "0.5", "from 1" }, { "max-slowdown", "nan", "number" }, { "priority", "high", "whole number" },
		{ "time", "soon", "not a duration" }, { "time", "99999999999d", "out of range: write 0s to 3660d" },
		{ "signal", "BANG", "names no signal" },
		{ "signal", "USR1@-1", "0 to 65535" }, { "signal", "", "names no signal" }, { "signal", "99", "names no signal" },
		{ "name", "a\nb", "control character" }, { "output", "x-%q", "'%q' stands for nothing" }, 
		{ "output", "x%", "stands for nothing" }, { "output", "x%3", "stands for nothing" },
		{ "mail-type", "SOMETIMES", "expected BEGIN" }, 
		{ "dependency", "after:12+5", "use --begin" },
		{ "dependency", "afterok:1?afterok:2", "write commas" }, { "mail-user", "a b", "blank" },
		{ "error", "", "expected a value" }, { "env", "-n", "no name of a conda" }, { "requeue", "maybe", "not yes or no" },
		{ "retries", "101", "from 0 to 100" }, { "retries", "-1", "from 0 to 100" },
		{ "array", "x", "expected an index" }, { "dependency", "later:1", "no kind of dependency" },
		{ "dependency", "afterok:1,2", "afterok:12:13" },
	};
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct spec *s = spec_create();
		struct submit_pending p = { 0 };
		struct error err = ERROR_INIT;
		if (!set(s, &p, rows[i][0], rows[i][1], &err))
			fail_msg("--%s=%s was taken", rows[i][0], rows[i][1]);
		if (!strstr(err.text, rows[i][2]) || strncmp(err.text, "t.rad:4: ", 9))
			fail_msg("--%s=%s: '%s' does not hold '%s'", rows[i][0], rows[i][1], err.text, rows[i][2]);
		options_pending_clear(&p);
		spec_unref(s);
	}
	scoped_free char *longest = alloc_zero(200);
	memset(longest, 'n', 199);
	struct spec *s = spec_create();
	struct error err = ERROR_INIT;
	assert_int_equal(set(s, NULL, "name", longest, &err), -1);
	assert_non_null(strstr(err.text, "199 bytes long; 100"));
	spec_unref(s);
}

static void test_arrays(void **state)
{
	(void)state;
	static const struct { const char *text, *indices; uint32_t limit; } good[] = {
		{ "0-9%4", "0 1 2 3 4 5 6 7 8 9 ", 4 }, { "1,3,5-7:2", "1 3 5 7 ", 0 }, { "7", "7 ", 0 }, { "9,1", "9 1 ", 0 },
		{ "0-10:5", "0 5 10 ", 0 }, { "999999", "999999 ", 0 }, { "3-3", "3 ", 0 },
	};
	for (size_t i = 0; i < COUNT_OF(good); i++) {
		uint32_t *indices, limit;
		size_t n;
		struct error err = ERROR_INIT;
		if (options_parse_array(good[i].text, &indices, &n, &limit, &err))
			fail_msg("%s", err.text);
		char got[100] = "";
		for (size_t k = 0; k < n; k++)
			snprintf(got + strlen(got), sizeof got - strlen(got), "%u ", indices[k]);
		assert_string_equal(got, good[i].indices);
		assert_int_equal(limit, good[i].limit);
		free(indices);
	}
	static const char *const bad[][2] = {
		{ "", "expected an index" }, { "1,", "expected an index" }, { "-1", "expected an index" }, { "1-", "after '-'" },
		{ "5-1", "upwards" }, { "1-9:0", "step above 0" }, { "1,1", "index 1 stands there twice" }, { "0-5,3", "index 3" },
		{ "1000000", "from 0 to 999999" }, { "0-99999999999999999999", "from 0 to 999999" }, { "0-100000", "more than 10000" },
		{ "1%0", "1 to 10000 behind" }, { "1%", "1 to 10000 behind" }, { "1%99999999999", "1 to 10000 behind" },
		{ "1 2", "to its end" }, { "0-999999:1%2", "more than 10000" },
	};
	for (size_t i = 0; i < COUNT_OF(bad); i++) {
		uint32_t *indices, limit;
		size_t n;
		struct error err = ERROR_INIT;
		assert_int_equal(options_parse_array(bad[i][0], &indices, &n, &limit, &err), -1);
		if (!strstr(err.text, bad[i][1]))
			fail_msg("%s: '%s' does not hold '%s'", bad[i][0], err.text, bad[i][1]);
	}
}

static void test_dependencies(void **state)
{
	(void)state;
	struct dependency *deps;
	size_t n;
	bool singleton;
	struct error err = ERROR_INIT;
	assert_int_equal(options_parse_dependencies("afterok:12:13_4,afterany:14,afternotok:15", &deps, &n, &singleton, &err), 0);
	assert_int_equal(n, 4);
	assert_int_equal(deps[1].kind, DEP_AFTEROK);
	assert_true(deps[0].task == TASK_ID(12, -1));
	assert_true(deps[1].task == TASK_ID(13, 4));
	assert_int_equal(deps[2].kind, DEP_AFTERANY);
	assert_int_equal(deps[3].kind, DEP_AFTERNOTOK);
	assert_false(singleton);
	free(deps);
	assert_int_equal(options_parse_dependencies("after:3,singleton,aftercorr:4", &deps, &n, &singleton, &err), 0);
	assert_int_equal(n, 2);
	assert_int_equal(deps[0].kind, DEP_AFTER);
	assert_int_equal(deps[1].kind, DEP_AFTERCORR);
	assert_true(singleton);
	free(deps);
	assert_int_equal(options_parse_dependencies("singleton", &deps, &n, &singleton, &err), 0);
	assert_int_equal(n, 0);
	assert_true(singleton);
	free(deps);
	static const char *const bad[] = { "", "afterok", "afterok:", "afterok:x", "afterok:1,", "12", "singleton:1", "afterok:1::2",
		"singleton,", "single", "after:1+10", "afterok:1?afterok:2",
		"afterok:111111111111111111111111111111" };
	for (size_t i = 0; i < COUNT_OF(bad); i++)
		if (!options_parse_dependencies(bad[i], &deps, &n, &singleton, &err))
			fail_msg("'%s' was taken", bad[i]);
}

static void test_signals(void **state)
{
	(void)state;
	static const struct { const char *text; int signal; int64_t before; } good[] = {
		{ "USR1@60", 10, 60 }, { "R:USR1@120", 10, 120 }, { "B:TERM@30", 15, 30 }, { "10", 10, 60 },
		{ "sigint", 2, 60 }, { "HUP@0", 1, 0 },
	};
	for (size_t i = 0; i < COUNT_OF(good); i++) {
		int number;
		int64_t before;
		assert_int_equal(options_parse_signal(good[i].text, &number, &before, NULL), 0);
		assert_int_equal(number, good[i].signal);
		assert_int_equal(before, good[i].before);
	}
}

static void test_keys(void **state)
{
	(void)state;
	/* The keys of a task file, by name and no others. */
	static const char *const keys[] = {
		"name", "model", "batch_size", "seq_len", "input_size", "optimizer", "precision", "gpus", "gpu_mem", "policy", "share",
		"priority", "time",
		"dependency", "env", "capture", "output", "error", "requeue", "retries", "kill_on_invalid_dep", "notify", "notify_to",
		"slot", "feed", "feed_cpus", "feed_mem",
	};
	size_t n = 0;
	for (const struct submit_option *o = submit_options; o->name; o++)
		n += o->key != NULL;
	assert_int_equal(n, COUNT_OF(keys));
	for (size_t i = 0; i < COUNT_OF(keys); i++)
		assert_non_null(options_find_key(keys[i]));
	assert_ptr_equal(options_find_key("gpu-mem"), options_find_key("gpu_mem"));
	assert_null(options_find_key("gpu"));
	assert_null(options_find_key("gpusx"));
	assert_null(options_find_key("array"));
	assert_null(options_find_key(""));
}

static void test_nearest(void **state)
{
	(void)state;
	static const char *const words[] = { "batch_size", "gpus", "gpu_mem", "time", NULL };
	assert_string_equal(words_nearest("batchsize", words), "batch_size");
	assert_string_equal(words_nearest("Batch-Size", words), "batch_size");
	assert_string_equal(words_nearest("bathc_size", words), "batch_size");
	assert_string_equal(words_nearest("gpu", words), "gpus");
	assert_string_equal(words_nearest("gpumem", words), "gpu_mem");
	assert_null(words_nearest("learning_rate", words));
	assert_null(words_nearest("", words));
	assert_null(words_nearest("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", words));
	assert_string_equal(options_near("--gpumem=3")->name, "gpu-mem");
	assert_null(options_near("--frobnicate"));
}

/* Every option stands in its manual page, every key in rad(5); scdoc escapes '_' where it is no emphasis. */
static void test_manual(void **state)
{
	(void)state;
	const char *root = getenv("RAD_SOURCE_ROOT");
	struct error err = ERROR_INIT;
	scoped_buf submit_page = { 0 }, file_page = { 0 };
	if (!root)
		skip();
	scoped_free char *submit_path = alloc_printf("%s/man/rad-submit.1.scd", root);
	scoped_free char *file_path = alloc_printf("%s/man/rad.5.scd", root);
	if (io_read_file(submit_path, 1 << 20, &submit_page, &err) || io_read_file(file_path, 1 << 20, &file_page, &err))
		fail_msg("%s", err.text);
	for (const struct submit_option *o = submit_options; o->name; o++) {
		scoped_free char *bold = alloc_printf("*--%s*", o->name), *letter = alloc_printf("*-%c*", o->letter);
		if (!strstr(buf_text(&submit_page), bold) || (o->letter && !strstr(buf_text(&submit_page), letter)))
			fail_msg("rad-submit(1) does not have --%s", o->name);
		scoped_free char *key = alloc_printf("*%s*", o->key ? o->key : "name");
		scoped_free char *alias = alloc_printf("*%s*", o->alias ? o->alias : "name");
		if (!strstr(buf_text(&file_page), key) || !strstr(buf_text(&file_page), alias))
			fail_msg("rad(5) does not have the key of --%s", o->name);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_taken), cmocka_unit_test(test_sharing_agrees), cmocka_unit_test(test_gres_names_models),
		cmocka_unit_test(test_slurms_spelling), cmocka_unit_test(test_refused), cmocka_unit_test(test_arrays),
		cmocka_unit_test(test_dependencies), cmocka_unit_test(test_signals),
		cmocka_unit_test(test_keys), cmocka_unit_test(test_nearest), cmocka_unit_test(test_manual),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
