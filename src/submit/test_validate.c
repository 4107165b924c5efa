/* SPDX-License-Identifier: MIT
 * What the daemon refuses of a spec whose members are each in range.
 */
#include "submit/validate.h"

#include "base/alloc.h"
#include "base/scope.h"
#include "submit/signature.h"
#include "task/task.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static struct spec *good(void)
{
	struct spec *s = spec_create();
	s->uid = 1000;
	s->name = alloc_string("t");
	s->script = alloc_string("echo\n");
	s->cwd = alloc_string("/tmp");
	s->output = alloc_string("/tmp/rad-%j.out");
	s->signature = signature_make(s, NULL, 0);
	return s;
}

static void replace(char **text, const char *by)
{
	free(*text);
	*text = alloc_string_or_null(by);
}

static void no_script(struct spec *s) { replace(&s->script, NULL); }
static void empty_script(struct spec *s) { replace(&s->script, ""); }
static void relative_cwd(struct spec *s) { replace(&s->cwd, "tmp"); }
static void no_cwd(struct spec *s) { replace(&s->cwd, NULL); }
static void relative_output(struct spec *s) { replace(&s->output, "x.out"); }
static void relative_error(struct spec *s) { replace(&s->error, "x.err"); }
static void no_name(struct spec *s) { replace(&s->name, NULL); }
static void bad_name(struct spec *s) { replace(&s->name, "a\x1b[2J"); }
static void name_beyond_ascii(struct spec *s) { replace(&s->name, "a\xc2\x9b" "2J"); }
static void foreign_signature(struct spec *s) { s->uid = 1001; }
static void nan_slowdown(struct spec *s) { s->max_slowdown = NAN; }
static void small_slowdown(struct spec *s) { s->max_slowdown = 0.5; }
static void signal_without_time(struct spec *s) { s->signal = 10; }
static void mig_of_two(struct spec *s) { s->share = SHARE_MIG, s->gpus = 2; }

static void no_gpu_and_memory(struct spec *s) { s->gpus = 0, s->gpu_mem_mib = 4096; }
static void no_gpu_alone(struct spec *s) { s->gpus = 0, s->share = SHARE_NEVER, s->exclusive = true; }
static void no_gpu_shared(struct spec *s) { s->gpus = 0, s->share = SHARE_MPS; }
static void no_gpu_of_a_model(struct spec *s) { s->gpus = 0, replace(&s->gpu_model, "a100"); }
static void no_gpu_of_a_kind(struct spec *s) { s->gpus = 0, replace(&s->constraint, "mem>=40G"); }
static void no_gpu_slowed(struct spec *s) { s->gpus = 0, s->max_slowdown = 2; }
static void no_gpu_captured(struct spec *s) { s->gpus = 0, s->capture_until_s = 1; }
static void no_gpu_and_summary(struct spec *s) { s->gpus = 0, replace(&s->model, "Linear"); }
static void many_gpus(struct spec *s) { s->gpus = 65; }

static void bad_variable(struct spec *s)
{
	spec_set_environ(s, (char *[]){ (char *)"novalue", NULL });
}

static void long_word(struct spec *s)
{
	scoped_free char *word = alloc_zero(200001);
	memset(word, 'x', 200000);
	spec_set_argv(s, (char *[]){ word, NULL });
}

static void long_variable(struct spec *s)
{
	scoped_free char *word = alloc_zero(200001);
	memset(word, 'x', 200000);
	memcpy(word, "LONG=", 5);
	spec_set_environ(s, (char *[]){ word, NULL });
}

/* So many strings of 100 KiB each. */
static void set_words(struct spec *s, void (*set)(struct spec *, char *const *), size_t n)
{
	scoped_free char **words = alloc_zero((n + 1) * sizeof *words), *word = alloc_zero(100 << 10);
	memset(word, 'x', (100 << 10) - 1);
	word[1] = '=';
	for (size_t i = 0; i < n; i++)
		words[i] = word;
	set(s, words);
}

static void stack_of(struct spec *s, int64_t soft)
{
	free(s->rlimits);
	s->rlimits = alloc_zero(sizeof *s->rlimits);
	s->rlimits[0] = (struct spec_rlimit){ .resource = RLIMIT_STACK, .soft = soft, .hard = -1 };
	s->n_rlimits = 1;
}

/* 1.2 MiB each: too much together, though neither is. */
static void long_together(struct spec *s)
{
	stack_of(s, 8 << 20);
	set_words(s, spec_set_argv, 12);
	assert_int_equal(submit_validate(s, NULL), 0);
	set_words(s, spec_set_environ, 12);
}

static void many_short_ones(struct spec *s)
{
	enum { N = 240000 };	/* "a" and its end are 480 KB, but there is a pointer to each */
	scoped_free char **words = alloc_zero((N + 1) * sizeof *words);
	stack_of(s, 8 << 20);
	for (size_t i = 0; i < N; i++)
		words[i] = (char *)"a";
	spec_set_argv(s, words);
}

static void bad_limit(struct spec *s)
{
	s->rlimits = alloc_zero(sizeof *s->rlimits);
	s->rlimits[0] = (struct spec_rlimit){ .resource = 7, .soft = -1, .hard = 100 };
	s->n_rlimits = 1;
}

static void bad_resource(struct spec *s)
{
	bad_limit(s);
	s->rlimits[0] = (struct spec_rlimit){ .resource = 1000 };
}

static void twice_in_array(struct spec *s)
{
	s->array = alloc_zero(2 * sizeof *s->array);
	s->n_array = 2;
}

static void nobody_dependency(struct spec *s)
{
	s->deps = alloc_zero(sizeof *s->deps);
	s->n_deps = 1;
}

static void too_many_pairs(struct spec *s)
{
	s->n_array = 5000;
	s->array = alloc_zero(s->n_array * sizeof *s->array);
	for (uint32_t i = 0; i < s->n_array; i++)
		s->array[i] = i;
	s->n_deps = 11;
	s->deps = alloc_zero(s->n_deps * sizeof *s->deps);
	for (size_t i = 0; i < s->n_deps; i++)
		s->deps[i] = (struct dependency){ i < 10 ? DEP_AFTEROK : DEP_AFTERCORR, TASK_ID(1 + i, -1) };
}

static void retried_and_not(struct spec *s) { s->retries = 1, s->requeue = false; }
static void retried_at_a_terminal(struct spec *s) { s->retries = 1; replace(&s->terminal, "/run/t"); }

static void begins_never(struct spec *s) { s->begin_s = 253402300800; }

/* An adopted one runs already. */
static void adopted(struct spec *s)
{
	replace(&s->script, NULL);
	spec_set_argv(s, (char *[]){ (char *)"python", NULL });
	s->process_pid = 4711;
	s->process_ticks = 1;
}

static void adopted_later(struct spec *s) { adopted(s), s->begin_s = 2000000000; }
static void adopted_after_others(struct spec *s) { adopted(s), s->singleton = true; }
static void adopted_held(struct spec *s) { adopted(s), s->hold = true; }

static void lease_of_none(struct spec *s) { adopted(s), s->lease = true, s->gpus = 0; }

static void test_refused(void **state)
{
	(void)state;
	static const struct { void (*spoil)(struct spec *s); const char *message; } rows[] = {
		{ no_script, "'script' or a command" }, { empty_script, "'script' is empty" }, { relative_cwd, "'cwd' must be an absolute" },
		{ no_cwd, "'cwd'" }, { relative_output, "'output'" }, { relative_error, "'error'" }, { no_name, "'name' is missing" },
		{ bad_name, "control character" }, { name_beyond_ascii, "control character" },
		{ foreign_signature, "not one of user 1001" }, { nan_slowdown, "'max_slowdown'" },
		{ small_slowdown, "'max_slowdown'" }, { signal_without_time, "needs a time limit" }, { mig_of_two, "ask for 1 GPU" },
		{ bad_variable, "'novalue' is not NAME=value" }, { long_word, "'argv': 'xxxx" },
		{ long_variable, "'environ': 'LONG=xxx" },
		{ long_together, "'argv' has 1201 KiB and 'environ' 1201, and a program is started with 2016 KiB" },
		{ many_short_ones, "'argv' has 2344 KiB" }, { bad_limit, "'rlimits'" },
		{ bad_resource, "'rlimits'" }, { twice_in_array, "'array'" }, { nobody_dependency, "'deps'" },
		{ too_many_pairs, "their product may be 50000" },
		{ retried_and_not, "'retries' and --no-requeue" }, { retried_at_a_terminal, "is run once" },
		{ begins_never, "after the year 9999" },
		{ adopted_later, "'begin'" }, { adopted_after_others, "'dependency'" }, { adopted_held, "'hold'" },
		{ no_gpu_and_memory, "'gpus' is 0 and 'gpu_mem' is of GPUs" }, { no_gpu_alone, "'exclusive'" }, { no_gpu_shared, "'share'" },
		{ no_gpu_of_a_model, "'gpu_model'" }, { no_gpu_of_a_kind, "'constraint'" }, { no_gpu_slowed, "'max_slowdown'" },
		{ no_gpu_captured, "'capture'" }, { no_gpu_and_summary, "'model'" }, { lease_of_none, "'lease'" },
		{ many_gpus, "from 0 to 64" },
	};
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct spec *s = good();
		struct error err = ERROR_INIT;
		assert_int_equal(submit_validate(s, &err), 0);
		rows[i].spoil(s);
		assert_int_equal(submit_validate(s, &err), -1);
		if (!strstr(err.text, rows[i].message))
			fail_msg("row %zu: '%s' does not hold '%s'", i, err.text, rows[i].message);
		spec_unref(s);
	}
}

/* There are job 7, an array of 0 to 2, and job 9, which is none. */
static int has(void *ctx, task_id id, bool *there, struct error *err)
{
	(void)err;
	++*(int *)ctx;
	*there = TASK_JOB(id) == 7 ? TASK_INDEX(id) < 3 : TASK_JOB(id) == 9 && TASK_INDEX(id) < 0;
	return 0;
}

static void test_dependencies(void **state)
{
	static const struct { uint32_t elements; struct dependency on; const char *says; int asked; } rows[] = {
		{ 0, { DEP_AFTEROK, TASK_ID(7, -1) }, "", 1 }, { 0, { DEP_AFTEROK, TASK_ID(7, 2) }, "", 1 },
		{ 0, { DEP_AFTEROK, TASK_ID(7, 3) }, "afterok:7_3: there is no such task", 1 },
		{ 3, { DEP_AFTERANY, TASK_ID(8, -1) }, "afterany:8: there is no such task", 1 },
		{ 3, { DEP_AFTERCORR, TASK_ID(8, -1) }, "aftercorr:8: there is no such task", 1 },
		{ 3, { DEP_AFTERCORR, TASK_ID(7, -1) }, "", 3 }, { 1, { DEP_AFTERCORR, TASK_ID(7, -1) }, "", 2 },
		{ 3, { DEP_AFTERCORR, TASK_ID(7, 1) }, "", 1 }, { 0, { DEP_AFTERCORR, TASK_ID(7, -1) }, "this is none: use afterok", 1 },
		{ 4, { DEP_AFTERCORR, TASK_ID(7, -1) }, "no array with the indices of this one", 3 },
		{ 2, { DEP_AFTERCORR, TASK_ID(9, -1) }, "no array with the indices of this one", 2 },
	};
	(void)state;
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct error err = ERROR_INIT;
		int asked = 0;
		struct spec s = { .n_array = rows[i].elements, .array = (uint32_t[]){ 0, 1, 2, 3 } };
		assert_int_equal(submit_check_dependency(&s, &rows[i].on, has, &asked, &err), *rows[i].says ? -1 : 0);
		if (!strstr(err.text, rows[i].says))
			fail_msg("row %zu: '%s' does not hold '%s'", i, err.text, rows[i].says);
		assert_int_equal(asked, rows[i].asked);
	}
}

/* What is accepted is started, and what is refused would not be: by execve, with as much beside it as a task may get. */
static void test_what_execve_takes(void **state)
{
	static const int64_t stacks[] = { 256 << 10, 8 << 20, 16 << 20, -1 };
	struct rlimit own;
	(void)state;
	assert_int_equal(getrlimit(RLIMIT_STACK, &own), 0);
	for (size_t i = 0; i < COUNT_OF(stacks); i++) {
		struct spec *s = good();
		struct rlimit limit = own;
		size_t n = 1;
		stack_of(s, stacks[i]);
		for (set_words(s, spec_set_environ, n); !submit_validate(s, NULL); set_words(s, spec_set_environ, n))
			n++;
		spec_limit_apply(&s->rlimits[0], &limit);
		if (setrlimit(RLIMIT_STACK, &limit))
			skip();
		set_words(s, spec_set_environ, n - 1);
		for (int more = 0; more < 2; more++) {
			pid_t pid = fork();
			int status;
			if (!pid) {
				execve("/bin/true", (char *[]){ (char *)"true", NULL }, s->environ);
				_exit(errno == E2BIG ? 7 : 8);
			}
			assert_int_equal(waitpid(pid, &status, 0), pid);
			assert_int_equal(WEXITSTATUS(status), more ? 7 : 0);
			set_words(s, spec_set_environ, n + 1);	/* what is refused may just fit into what is left for us */
		}
		assert_int_equal(setrlimit(RLIMIT_STACK, &own), 0);
		spec_unref(s);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_refused), cmocka_unit_test(test_dependencies),
					    cmocka_unit_test(test_what_execve_takes) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
