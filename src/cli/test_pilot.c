/* SPDX-License-Identifier: MIT
 * What a pilot makes of Slurm's answers, and of attempts that were cut off.
 */
#include "base/alloc.h"
#include "base/scope.h"
#include "cli/pilot_after.h"
#include "cli/pilot_gate.h"
#include "cli/pilot_outcome.h"
#include "cli/pilot_slurm.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>
#include <cmocka.h>

static void what_is_left(void **state)
{
	(void)state;
	static const struct { const char *text; int64_t ms; } rows[] = {
		{ "1:30:00\n", 5400000 }, { "59:59", 3599000 }, { "2-00:00:01\n", 172801000 }, { "0:07", 7000 }, { "0:00\n", 0 },
		{ "UNLIMITED\n", INT64_MAX }, { "NOT_SET\n", -1 }, { "INVALID", -1 }, { "", -1 }, { "-1:00", -1 },
		{ "slurm_load_jobs error: Invalid job id specified", -1 },
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		if (pilot_slurm_parse_left_ms(rows[i].text) != rows[i].ms)
			fail_msg("'%s': %lld", rows[i].text, (long long)pilot_slurm_parse_left_ms(rows[i].text));
}

/* Only a word that says that nothing runs any more is an end; what is not understood is none. */
static void what_became_of_a_job(void **state)
{
	(void)state;
	const struct pilot_who who = { .job = "42", .restarts = 1 };
	static const struct { const char *text; bool succeeded; enum pilot_slurm_fate fate; } rows[] = {
		{ "JobId=42 JobName=x JobState=RUNNING Reason=None Restarts=1 ", true, PILOT_SLURM_LIVES },
		{ "JobId=42 JobName=x JobState=COMPLETING Reason=None Restarts=2 ", true, PILOT_SLURM_LIVES },
		{ "JobId=42 JobName=x JobState=SUSPENDED Restarts=1 ", true, PILOT_SLURM_LIVES },
		{ "JobId=42 JobName=x JobState=NEW_WORD Restarts=1 ", true, PILOT_SLURM_LIVES },
		{ "JobId=42 JobName=x JobState=PENDING Reason=BeginTime Restarts=2 ", true, PILOT_SLURM_GONE },
		{ "JobId=42 JobName=x JobState=RUNNING Restarts=2 ", true, PILOT_SLURM_GONE },
		{ "JobId=42 JobName=x JobState=NODE_FAIL Restarts=1 ", true, PILOT_SLURM_GONE },
		{ "JobId=42 JobName=x JobState=TIMEOUT Restarts=1 ", true, PILOT_SLURM_GONE },
		{ "JobId=42 JobName=JobState=COMPLETED JobState=RUNNING Restarts=1 ", true, PILOT_SLURM_LIVES },
		{ "JobId=421 JobName=x JobState=COMPLETED Restarts=1 ", true, PILOT_SLURM_UNKNOWN },
		{ "JobId=44 ArrayJobId=42 JobState=FAILED\nJobId=42 ArrayJobId=42 JobState=RUNNING Restarts=1\n", true, PILOT_SLURM_LIVES },
		{ "JobId=44 ArrayJobId=42 JobState=RUNNING\nJobId=42 JobState=FAILED\n", true, PILOT_SLURM_GONE },
		{ "JobId=42 JobName=x\nJobId=43 JobState=COMPLETED\n", true, PILOT_SLURM_LIVES },
		{ "", true, PILOT_SLURM_UNKNOWN },
		{ "slurm_load_jobs error: Invalid job id specified\n", false, PILOT_SLURM_GONE },
		{ "slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n", false, PILOT_SLURM_UNKNOWN },
		{ "JobId=42 JobState=COMPLETED", false, PILOT_SLURM_UNKNOWN },
	};
	char word[40];
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		if (pilot_slurm_fate_of(rows[i].text, rows[i].succeeded, &who, word) != rows[i].fate)
			fail_msg("%s: %s", rows[i].text, word);
}

/* Whoever does not know that he asks that pilot's own Slurm does not ask: it would say that there is no such job. */
static void of_another_cluster_nothing_is_known(void **state)
{
	(void)state;
	const struct pilot_who who = { .job = "42", .cluster = "north" };
	char word[40];
	assert_int_equal(pilot_slurm_fate(&who, "south", word), PILOT_SLURM_UNKNOWN);
	assert_int_equal(pilot_slurm_fate(&who, "", word), PILOT_SLURM_UNKNOWN);
}

static void on_alarm(int sig)
{
	(void)sig;
}

static void a_signal_ends_the_wait(void **state)
{
	(void)state;
	scoped_buf out = { 0 };
	char *slow[] = { "sleep", "600", NULL };
	struct sigaction action = { .sa_handler = on_alarm }, before;
	const struct itimerval often = { { 0, 200000 }, { 0, 200000 } }, never = { { 0, 0 }, { 0, 0 } };	/* one may be too soon */
	sigaction(SIGALRM, &action, &before);
	setitimer(ITIMER_REAL, &often, NULL);
	assert_int_equal(pilot_slurm_run(slow, NULL, 500, &out), -1);
	setitimer(ITIMER_REAL, &never, NULL);
	sigaction(SIGALRM, &before, NULL);
}

static void a_command_has_a_deadline(void **state)
{
	(void)state;
	scoped_buf out = { 0 };
	char *slow[] = { "sleep", "600", NULL }, *none[] = { "/no/such/program", NULL }, *cat[] = { "sh", "-c", "cat; exit 3", NULL };
	assert_int_equal(pilot_slurm_run(slow, NULL, 1, &out), -1);
	assert_int_equal(pilot_slurm_run(none, NULL, 20, &out), -1);
	assert_int_equal(pilot_slurm_run(cat, "in\n", 20, &out), 3);
	assert_string_equal(buf_text(&out), "in\n");
}

/* sbatch does, of an option that it does not know or an account that there is none of. */
static void who_refuses_before_it_has_read_says_why(void **state)
{
	(void)state;
	scoped_buf out = { 0 };
	scoped_free char *more = alloc_zero(1000001);	/* than a pipe holds */
	char *refuses[] = { "sh", "-c", "echo no such account; exit 1", NULL }, *takes_it[] = { "true", NULL };
	memset(more, '#', 1000000);
	signal(SIGPIPE, SIG_IGN);
	assert_int_equal(pilot_slurm_run(refuses, more, 20, &out), 1);
	assert_string_equal(buf_text(&out), "no such account\n");
	assert_int_equal(pilot_slurm_run(takes_it, more, 20, &out), -1);
}

static void who_was_cut_off(void **state)
{
	(void)state;
	struct spec *s = spec_create();
	struct spool_record r = { .state = SPOOL_CLAIMED, .claim = 1, .version = 2, .started = true }, next;
	next = pilot_outcome_cut_off(&r, s, "me", "why");
	assert_int_equal(next.state, SPOOL_PENDING);
	assert_int_equal(next.cuts, 1);
	assert_false(next.started);
	r.cuts = 2;
	next = pilot_outcome_cut_off(&r, s, "me", "why");
	assert_int_equal(next.state, SPOOL_HELD);
	assert_non_null(strstr(next.text, "3 times in a row"));
	r.wish = SPOOL_WISH_CANCEL;
	next = pilot_outcome_cut_off(&r, s, "me", "why");
	assert_int_equal(next.end, TASK_CANCELLED);
	r.wish = SPOOL_WISH_NONE;
	s->requeue = false;
	next = pilot_outcome_cut_off(&r, s, "me", "why");
	assert_int_equal(next.state, SPOOL_ENDED);
	assert_int_equal(next.end, TASK_LOST);
	spec_unref(s);
}

/* A queue with one array of four, of which one may run. */
static struct spool *limited_queue(char dir[64])
{
	uint32_t job = 0;
	strcpy(dir, "/tmp/rad-pilot.XXXXXX");
	assert_non_null(mkdtemp(dir));
	struct spool *q = spool_open(dir, true, NULL);
	json_t *spec = json_pack("{s[iiii], si}", "array", 0, 1, 2, 3, "array_limit", 1), *env = json_array();
	assert_non_null(q);
	assert_int_equal(spool_submit(q, SPOOL_FORMAT_WAITS, spec, env, &job, NULL), 0);
	json_decref(spec);
	json_decref(env);
	return q;
}

/* Who took a place and was killed before the claim: others may make that claim, and if none wants to, the place is free. */
static void a_place_that_nobody_uses(void **state)
{
	(void)state;
	char dir[64], command[100];
	struct spool *q = limited_queue(dir);
	struct spool_place place = { 2, 1 };
	struct spool_gate g = { .places = &place, .n = 1 };
	assert_int_equal(spool_gate_change(q, 1, &g, NULL), 0);
	struct pilot_known *k = pilot_after_open(q, NULL);
	struct pilot_known_task *one = pilot_known_find(k, TASK_ID(1, 0)), *its = pilot_known_find(k, TASK_ID(1, 2));
	assert_int_equal(pilot_after(k, one, NULL), PILOT_READY);
	assert_int_equal(pilot_gate_take(k, q, one, NULL), 1);
	assert_true(pilot_gate_is_shut(one->job));
	assert_int_equal(pilot_gate_take(k, q, its, NULL), 0);		/* it is of this claim, whoever makes it */
	one->job->gate_ms -= 20000;
	assert_int_equal(pilot_gate_take(k, q, one, NULL), 1);		/* passed over */
	assert_int_equal(its->record.version, 1);
	assert_int_equal(its->record.state, SPOOL_PENDING);
	assert_int_equal(pilot_gate_take(k, q, one, NULL), 0);
	assert_int_equal(pilot_gate_take(k, q, its, NULL), 1);
	/* What is claimed holds its place, until it is put back. */
	struct spool_record next = spool_record_next(&one->record, "claimed", "me");
	next.state = SPOOL_CLAIMED;
	next.claim = 1;
	strcpy(next.pilot, "me");
	assert_int_equal(spool_change(q, one->id, &next, NULL), 0);
	assert_int_equal(pilot_gate_take(k, q, its, NULL), 1);
	assert_int_equal(pilot_after(k, its, NULL), PILOT_ARRAY_LIMIT);
	next.state = SPOOL_PENDING;
	assert_int_equal(spool_change(q, one->id, &next, NULL), 0);
	assert_int_equal(pilot_gate_take(k, q, its, NULL), 0);
	pilot_known_destroy(k);
	spool_close(q);
	snprintf(command, sizeof command, "rm -rf %s", dir);
	assert_int_equal(system(command), 0);
}

/* Places of claims that nobody can make keep an array waiting for some minutes, and not for ever; a queue that cannot be
 * written to keeps no other array waiting. */
static void places_changed_by_hand(void **state)
{
	(void)state;
	char dir[64], command[200];
	struct spool *q = limited_queue(dir);
	struct spool_place places[] = { { 2, 50 }, { 77, 1 } };
	struct spool_gate g = { .places = places, .n = 2 };
	assert_int_equal(spool_gate_change(q, 1, &g, NULL), 0);
	struct pilot_known *k = pilot_after_open(q, NULL);
	struct pilot_known_task *one = pilot_known_find(k, TASK_ID(1, 0)), *other = pilot_known_find(k, TASK_ID(1, 1));
	assert_int_equal(pilot_gate_take(k, q, one, NULL), 1);
	one->job->gate_ms -= 20000;
	assert_int_equal(pilot_gate_take(k, q, one, NULL), 1);
	one->job->gate_ms -= 200000;
	assert_int_equal(pilot_gate_take(k, q, one, NULL), 0);
	/* A claim that was not seen yet has its place though the file of places was lost. */
	struct spool_record next = spool_record_next(&one->record, "claimed", "me");
	next.state = SPOOL_CLAIMED;
	next.claim = 1;
	strcpy(next.pilot, "me");
	assert_int_equal(spool_change(q, one->id, &next, NULL), 0);
	snprintf(command, sizeof command, "echo x >%s/jobs/1/g.2", dir);
	assert_int_equal(system(command), 0);
	assert_int_equal(one->record.version, 0);
	assert_int_equal(pilot_gate_take(k, q, other, NULL), 1);
	one->job->shut_ms = 0;
	snprintf(command, sizeof command, "mv %s/jobs/1 %s/gone", dir, dir);
	assert_int_equal(system(command), 0);
	one->job->gate = 0;
	assert_int_equal(pilot_gate_take(k, q, other, NULL), -1);
	assert_true(pilot_gate_is_shut(one->job));
	pilot_known_destroy(k);
	spool_close(q);
	snprintf(command, sizeof command, "rm -rf %s", dir);
	assert_int_equal(system(command), 0);
}

static void submit_after(struct spool *q, uint32_t one, uint32_t other)
{
	uint32_t job = 0;
	char a[16], b[16];
	snprintf(a, sizeof a, "%u", one);
	snprintf(b, sizeof b, "%u", other);
	json_t *spec = one ? json_pack("{s[[ss],[ss]]}", "deps", "afterok", a, "afterok", b) : json_object(), *env = json_array();
	assert_int_equal(spool_submit(q, one ? SPOOL_FORMAT_WAITS : SPOOL_FORMAT, spec, env, &job, NULL), 0);
	json_decref(spec);
	json_decref(env);
}

/* Two tasks a stage, each of which waits for both of the stage before: there are 2^60 ways from the last one to the first. */
static void stages_that_wait_for_each_other(void **state)
{
	(void)state;
	enum { STAGES = 60 };
	char dir[64] = "/tmp/rad-pilot.XXXXXX", command[100], why[SPOOL_TEXT];
	assert_non_null(mkdtemp(dir));
	struct spool *q = spool_open(dir, true, NULL);
	assert_non_null(q);
	for (uint32_t i = 0; i < STAGES; i++)
		for (int n = 0; n < 2; n++)
			submit_after(q, i ? 2 * i - 1 : 0, 2 * i);
	struct pilot_known *k = pilot_after_open(q, NULL);
	struct pilot_known_task *first = pilot_known_find(k, TASK_ID(1, -1)), *last = pilot_known_find(k, TASK_ID(2 * STAGES, -1));
	alarm(60);
	assert_int_equal(pilot_after(k, first, NULL), PILOT_READY);
	assert_int_equal(pilot_after(k, last, why), PILOT_DEPENDENCY);
	struct spool_record next = spool_record_next(&first->record, "cancel", NULL);
	next.state = SPOOL_ENDED;
	next.end = TASK_CANCELLED;
	assert_int_equal(spool_change(q, first->id, &next, NULL), 0);
	assert_int_equal(pilot_known_look(k, q, NULL), 0);
	assert_int_equal(pilot_after(k, last, why), PILOT_DEPENDENCY_NEVER);
	/* It runs again after all. */
	next.state = SPOOL_PENDING;
	assert_int_equal(spool_revive(q, TASK_ID(1, -1), &next, NULL), 0);
	pilot_known_doubt(k);
	assert_int_equal(pilot_known_look(k, q, NULL), 0);
	assert_int_equal(pilot_after(k, last, why), PILOT_DEPENDENCY);
	alarm(0);
	pilot_known_destroy(k);
	spool_close(q);
	snprintf(command, sizeof command, "rm -rf %s", dir);
	assert_int_equal(system(command), 0);
}

/* Nobody leaves the list of pilots for one who could not read all: it may have tasks of these. What is damaged, or was never
 * finished, is none of them. */
static void what_cannot_be_read(void **state)
{
	(void)state;
	char dir[64] = "/tmp/rad-pilot.XXXXXX", command[300];
	assert_non_null(mkdtemp(dir));
	struct spool *q = spool_open(dir, true, NULL);
	assert_non_null(q);
	for (int i = 0; i < 3; i++)
		submit_after(q, 0, 0);
	snprintf(command, sizeof command, "cd %s; echo '{' >jobs/2/job; : >live/9; "
		 "sed 's/\"format\":1/\"format\":9/' jobs/3/job >new", dir);
	assert_int_equal(system(command), 0);
	struct pilot_known *k = pilot_after_open(q, NULL);
	assert_int_equal(pilot_known_unread(k), 0);
	pilot_known_destroy(k);
	snprintf(command, sizeof command, "cd %s; mv new jobs/3/job", dir);
	assert_int_equal(system(command), 0);
	k = pilot_after_open(q, NULL);
	assert_int_equal(pilot_known_unread(k), 1);
	assert_non_null(pilot_known_find(k, TASK_ID(1, -1)));
	assert_null(pilot_known_find(k, TASK_ID(3, -1)));
	pilot_known_destroy(k);
	spool_close(q);
	snprintf(command, sizeof command, "rm -rf %s", dir);
	assert_int_equal(system(command), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_left), cmocka_unit_test(what_became_of_a_job), cmocka_unit_test(a_command_has_a_deadline),
		cmocka_unit_test(who_refuses_before_it_has_read_says_why), cmocka_unit_test(who_was_cut_off),
		cmocka_unit_test(of_another_cluster_nothing_is_known),
		cmocka_unit_test(a_signal_ends_the_wait), cmocka_unit_test(a_place_that_nobody_uses),
		cmocka_unit_test(places_changed_by_hand), cmocka_unit_test(what_cannot_be_read),
		cmocka_unit_test(stages_that_wait_for_each_other),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
