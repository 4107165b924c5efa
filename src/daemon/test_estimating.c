/* SPDX-License-Identifier: MIT
 * Slow estimators in workers: the test is its own worker, with estimators that answer, keep silent, hang, crash and lie.
 */
#include "daemon/estimating.h"

#include "base/alloc.h"
#include "base/io.h"
#include "base/proc.h"
#include "base/proc_tree.h"
#include "base/scope.h"
#include "daemon/estimating_wire.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define LONG_MS 30000		/* for workers that answer, however busy the machine is */
#define SHORT_MS 500

/* The worker ----------------------------------------------------------------------------------------------------------- */

#define ROW(name) \
	static bool name(const struct spec *s, uint64_t declared_mib, const struct estimate_context *c, struct estimate_result *out)

/* Says back what it was asked. */
ROW(echo)
{
	out->value.need_mib = declared_mib;
	out->value.comfort_mib = declared_mib + (uint64_t)s->batch_size;
	out->value.claim_mib = (uint64_t)((double)out->value.comfort_mib * (1 + c->margin));
	out->value.fenced = true;
	out->low_mib = 3;
	out->high_mib = c->gpu_total_mib;
	snprintf(out->note, sizeof out->note, "%s %s %zu", c->gpu_name, s->environ[0], strlen(s->model));
	return true;
}

ROW(silent)
{
	(void)s, (void)declared_mib, (void)c;
	snprintf(out->note, sizeof out->note, "nothing to go by");
	return false;
}

ROW(who)
{
	(void)s, (void)declared_mib, (void)c;
	snprintf(out->note, sizeof out->note, "%lu", (unsigned long)getuid());
	return true;
}

ROW(stuck)
{
	(void)s, (void)declared_mib, (void)c, (void)out;
	for (;;)
		pause();
	return false;
}

/* Ends, and leaves its output open in another process. */
ROW(heir)
{
	(void)s, (void)declared_mib, (void)c, (void)out;
	if (!fork()) {
		alarm(LONG_MS / 1000);
		pause();
	}
	_exit(0);
}

ROW(crash)
{
	(void)s, (void)declared_mib, (void)c, (void)out;
	raise(SIGKILL);
	return false;
}

ROW(give_up)
{
	(void)s, (void)declared_mib, (void)c, (void)out;
	_exit(7);
}

ROW(babble)
{
	(void)s, (void)declared_mib, (void)c, (void)out;
	io_write_full(STDOUT_FILENO, "what?\n", 6);
	_exit(0);
}

ROW(flood)
{
	static char much[1 << 20];
	(void)s, (void)declared_mib, (void)c, (void)out;
	memset(much, ' ', sizeof much);
	for (;;)
		io_write_full(STDOUT_FILENO, much, sizeof much);
	return false;
}

ROW(disorder)
{
	(void)s, (void)declared_mib, (void)c;
	out->value.need_mib = 9;
	out->value.comfort_mib = 8;
	return true;
}

static const struct estimator table[] = {
	{ "echo", NULL, echo }, { "silent", NULL, silent }, { "who", NULL, who }, { "stuck", NULL, stuck },
	{ "crash", NULL, crash }, { "give_up", NULL, give_up }, { "babble", NULL, babble },
	{ "flood", NULL, flood }, { "disorder", NULL, disorder }, { "heir", NULL, heir },
	{ NULL },
};

/* radd's side ---------------------------------------------------------------------------------------------------------- */

#define MAX_ANSWERS 16

struct asked {
	uv_loop_t *loop;
	struct estimating *e;
	uv_timer_t patience;
	struct { int64_t question; bool spoke; struct estimate_result said; } answers[MAX_ANSWERS];
	size_t n, expected, most_workers;
	int64_t next;
};

static void close_any(uv_handle_t *h, void *ctx)
{
	(void)ctx;
	if (!uv_is_closing(h))
		uv_close(h, NULL);
}

static void on_done(void *ctx, int64_t question, bool spoke, const struct estimate_result *said)
{
	struct asked *a = ctx;
	assert_true(a->n < MAX_ANSWERS);
	a->answers[a->n].question = question;
	a->answers[a->n].spoke = spoke;
	a->answers[a->n++].said = *said;
	if (a->n == a->expected)
		uv_stop(a->loop);
}

static void out_of_patience(uv_timer_t *t)
{
	(void)t;
	fail_msg("no answer in a minute");
}

static int setup(void **state)
{
	struct asked *a = *state = alloc_zero(sizeof *a);
	signal(SIGPIPE, SIG_IGN);
	a->loop = alloc_zero(sizeof *a->loop);
	uv_loop_init(a->loop);
	uv_timer_init(a->loop, &a->patience);
	uv_timer_start(&a->patience, out_of_patience, 2 * LONG_MS, 0);
	a->e = estimating_create(a->loop, "/proc/self/exe", LONG_MS, on_done, a);
	return 0;
}

/* As radd ends: whatever runs is killed, and nothing is left. */
static int teardown(void **state)
{
	struct asked *a = *state;
	estimating_destroy(a->e);
	uv_run(a->loop, UV_RUN_NOWAIT);
	uv_walk(a->loop, close_any, NULL);
	while (uv_run(a->loop, UV_RUN_NOWAIT))
		;
	assert_int_equal(uv_loop_close(a->loop), 0);
	free(a->loop);
	free(a);
	return 0;
}

static void ask(struct asked *a, const char *row, struct spec *s)
{
	const struct estimator named = { .name = row };
	const struct estimate_context c = { .gpu_name = "NVIDIA H200", .gpu_total_mib = 143771, .margin = 0.5 };
	size_t before = a->n;
	estimating_ask(a->e, ++a->next, &named, s, 1000, &c);
	assert_int_equal(a->n, before);		/* never from within */
}

static void wait_for_answers(struct asked *a, size_t n)
{
	a->expected = n;
	if (a->n < n)
		uv_run(a->loop, UV_RUN_DEFAULT);
	assert_int_equal(a->n, n);
}

static struct spec *spec_with_model(size_t bytes)
{
	struct spec *s = spec_create();
	s->uid = geteuid();
	s->gid = getegid();
	s->batch_size = 24;
	spec_set_environ(s, (char *[]){ (char *)"A=b", NULL });
	s->model = alloc_zero(bytes + 1);
	memset(s->model, 'x', bytes);
	return s;
}

static void a_worker_is_told_and_tells_everything(void **state)
{
	struct asked *a = *state;
	struct spec *s = spec_with_model(1000000);	/* more than a pipe holds */
	ask(a, "echo", s);
	spec_unref(s);
	wait_for_answers(a, 1);
	const struct estimate_result *r = &a->answers[0].said;
	assert_true(a->answers[0].spoke);
	assert_string_equal(r->value.estimator, "echo");
	assert_string_equal(r->note, "NVIDIA H200 A=b 1000000");
	assert_int_equal(r->value.need_mib, 1000);
	assert_int_equal(r->value.comfort_mib, 1024);
	assert_int_equal(r->value.claim_mib, 1536);
	assert_int_equal(r->high_mib, 143771);
	assert_true(r->value.fenced && !r->value.enforced_for_life && r->low_mib == 3);
}

static const struct { const char *row, *note; } failures[] = {
	{ "silent", "silent: nothing to go by" },
	{ "crash", "crash: it ended by signal 9" },
	{ "give_up", "give_up: it ended with exit code 7" },
	{ "babble", "babble: its answer is not JSON" },
	{ "flood", "flood: its answer is longer than 16384 bytes" },
	{ "disorder", "disorder: its figures are not in order" },
	{ "nobody", "nobody: it ended with exit code 2" },
};

static void whatever_goes_wrong_is_said(void **state)
{
	struct asked *a = *state;
	struct spec *s = spec_with_model(100000);
	for (size_t i = 0; i < COUNT_OF(failures); i++)
		ask(a, failures[i].row, s);
	spec_unref(s);
	wait_for_answers(a, COUNT_OF(failures));
	for (size_t i = 0; i < a->n; i++) {
		assert_false(a->answers[i].spoke);
		assert_string_equal(a->answers[i].said.note, failures[a->answers[i].question - 1].note);
	}
}

static void who_does_not_answer_in_time_is_ended(void **state)
{
	struct asked *a = *state;
	struct spec *s = spec_with_model(1000000);
	struct estimating *patient = a->e;
	a->e = estimating_create(a->loop, "/proc/self/exe", SHORT_MS, on_done, a);
	for (unsigned i = 0; i < ESTIMATING_AT_ONCE + 1; i++)
		ask(a, "stuck", s);
	spec_unref(s);
	wait_for_answers(a, ESTIMATING_AT_ONCE + 1);
	for (size_t i = 0; i < a->n; i++) {
		assert_false(a->answers[i].spoke);
		assert_string_equal(a->answers[i].said.note, "stuck: no answer within 0.5 s");
	}
	estimating_destroy(a->e);
	a->e = patient;
}

static void an_output_that_stays_open_is_not_waited_for(void **state)
{
	struct asked *a = *state;
	struct spec *s = spec_with_model(1);
	struct estimating *patient = a->e;
	a->e = estimating_create(a->loop, "/proc/self/exe", SHORT_MS, on_done, a);
	ask(a, "heir", s);
	spec_unref(s);
	wait_for_answers(a, 1);
	assert_string_equal(a->answers[0].said.note, "heir: no answer within 0.5 s");
	estimating_destroy(a->e);
	a->e = patient;
}

static void nobody_waits_behind_all_of_anothers(void **state)
{
	struct asked *a = *state;
	struct spec *many = spec_with_model(1), *one = spec_with_model(1);
	if (geteuid())
		skip();		/* workers of several users are root's only */
	one->uid = one->gid = 65534;
	for (unsigned i = 0; i < 5; i++)
		ask(a, "stuck", many);
	ask(a, "echo", one);
	spec_unref(many);
	spec_unref(one);
	wait_for_answers(a, 1);
	assert_int_equal(a->answers[0].question, 6);
}

/* Two who ask for much have both places. */
static void who_comes_behind_two_who_ask_for_much_waits_for_one_of_each(void **state)
{
	struct asked *a = *state;
	struct spec *specs[] = { spec_with_model(1), spec_with_model(1), spec_with_model(1) };
	if (geteuid())
		skip();		/* workers of several users are root's only */
	for (unsigned i = 1; i < 3; i++)
		specs[i]->uid = specs[i]->gid = 65534 - i;
	ask(a, "stuck", specs[0]);
	for (unsigned i = 0; i < 5; i++)
		ask(a, "echo", specs[1]);
	ask(a, "echo", specs[2]);
	for (unsigned i = 0; i < 3; i++)
		spec_unref(specs[i]);
	wait_for_answers(a, 3);
	assert_int_equal(a->answers[0].question, 2);
	assert_int_equal(a->answers[1].question, 7);
	assert_int_equal(a->answers[2].question, 3);
}

/* It reads what that user wrote: root's radd does not do that as root. */
static void a_worker_is_the_tasks_user(void **state)
{
	struct asked *a = *state;
	struct spec *s = spec_with_model(1);
	char uid[20];
	if (!geteuid())
		s->uid = s->gid = 65534;
	snprintf(uid, sizeof uid, "%lu", (unsigned long)s->uid);
	ask(a, "who", s);
	spec_unref(s);
	wait_for_answers(a, 1);
	assert_string_equal(a->answers[0].said.note, uid);
}

/* Children only: a sanitizer has helpers of its own. */
static void count_workers(uv_check_t *h)
{
	struct asked *a = h->data;
	scoped_free pid_t *pids = NULL;
	size_t n = proc_descendants(getpid(), &pids), workers = 0;
	for (size_t i = 0; i < n; i++) {
		uint64_t start;
		pid_t parent;
		workers += !proc_stat(pids[i], &start, &parent) && parent == getpid();
	}
	if (workers > a->most_workers)
		a->most_workers = workers;
}

static void a_few_at_a_time(void **state)
{
	struct asked *a = *state;
	struct spec *s = spec_with_model(1);
	uv_check_t check;
	uv_check_init(a->loop, &check);
	check.data = a;
	uv_check_start(&check, count_workers);
	for (unsigned i = 0; i < 6; i++)
		ask(a, i == 1 ? "stuck" : "echo", s);
	spec_unref(s);
	wait_for_answers(a, 5);
	uv_close((uv_handle_t *)&check, NULL);
	uv_run(a->loop, UV_RUN_NOWAIT);
	assert_true(a->most_workers >= 1 && a->most_workers <= ESTIMATING_AT_ONCE);
	for (size_t i = 0; i < a->n; i++)	/* the others did not wait for that one */
		assert_int_not_equal(a->answers[i].question, 2);
}

static void a_program_that_is_not_there(void **state)
{
	struct asked *a = *state;
	struct asked other = { .loop = a->loop };
	struct spec *s = spec_with_model(1);
	other.e = estimating_create(a->loop, "/nonexistent/radd", LONG_MS, on_done, &other);
	ask(&other, "echo", s);
	ask(&other, "echo", s);
	ask(&other, "echo", s);
	spec_unref(s);
	wait_for_answers(&other, 3);
	assert_non_null(strstr(other.answers[2].said.note, "could not be started"));
	estimating_destroy(other.e);
}

static void an_end_in_the_middle(void **state)
{
	struct asked *a = *state;
	struct spec *s = spec_with_model(1);
	for (unsigned i = 0; i < 4; i++)
		ask(a, "stuck", s);
	spec_unref(s);
	uv_run(a->loop, UV_RUN_NOWAIT);
	uv_run(a->loop, UV_RUN_NOWAIT);	/* and the teardown ends them */
	assert_int_equal(a->n, 0);
}

static void answers_that_break_the_contract(void **state)
{
	static const char *const bad[] = { "", "[]", "{", "{\"spoke\":1}", "{\"spoke\":true,\"need_mib\":-1}",
		"{\"spoke\":true,\"need_mib\":2,\"comfort_mib\":1,\"claim_mib\":3}", "{\"claim_mib\":1e30}",
		"{\"claim_mib\":9223372036854775807}", "{\"note\":7}" };
	(void)state;
	for (size_t i = 0; i < COUNT_OF(bad); i++) {
		struct estimate_result r;
		bool spoke;
		struct error err = ERROR_INIT;
		print_message("%s\n", bad[i]);
		assert_int_equal(estimating_read_answer(bad[i], &spoke, &r, &err), -1);
		assert_true(err.text[0]);
		assert_false(spoke);
	}
}

int main(int argc, char **argv)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(a_worker_is_told_and_tells_everything), T(whatever_goes_wrong_is_said),
		T(who_does_not_answer_in_time_is_ended), T(a_worker_is_the_tasks_user), T(a_few_at_a_time),
		T(an_output_that_stays_open_is_not_waited_for), T(nobody_waits_behind_all_of_anothers),
		T(who_comes_behind_two_who_ask_for_much_waits_for_one_of_each),
		T(a_program_that_is_not_there), T(an_end_in_the_middle), cmocka_unit_test(answers_that_break_the_contract),
	};
	if (argc == 2 && !strcmp(argv[1], "--estimate"))
		return estimating_worker(table);
	return cmocka_run_group_tests_name("estimating", tests, NULL, NULL);
}
