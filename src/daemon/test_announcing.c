/* SPDX-License-Identifier: MIT
 * Jobs of another manager, which an administrator announces and whose ends are told.
 */
#include "daemon/test_asking.h"

/* The child stands for slurmstepd. */
static char *announcement(const struct asking *s, const char *job, uid_t uid, const char *spec, const char *more)
{
	uint64_t ticks = 0;
	proc_stat(s->child, &ticks, NULL);
	return alloc_printf("\"job\":\"%s\",\"uid\":%u,\"gid\":%u,\"spec\":{\"name\":\"train\","
			    "\"argv\":[\"slurm job 7\"],\"cwd\":\"/\",\"output\":\"/dev/null\",\"process_pid\":%d,"
			    "\"process_ticks\":%llu%s}%s", job, (unsigned)uid, (unsigned)uid, (int)s->child,
			    (unsigned long long)ticks, spec, more);
}

static void jobs_of_others_are_announced_by_the_administrator(void **state)
{
	struct asking *s = *state;
	const uid_t user = geteuid() == 70001 ? 70003 : 70001;
	struct reply reply;
	struct error err;
	scoped_free char *at = announcement(s, "slurm:7", user, ",\"gpu_mem_mib\":2000", ",\"at\":[\"1\"]");
	scoped_free char *twice = announcement(s, "slurm:8", user, "", ",\"at\":[\"1\",\"GPU-1\"]");
	scoped_free char *nowhere = announcement(s, "slurm:8", user, "", ",\"at\":[\"7\"]");
	scoped_free char *empty = announcement(s, "slurm:8", user, "", ",\"at\":[]");
	scoped_free char *nobody = announcement(s, "slurm:8", NOBODY, "", ",\"at\":[\"1\"]");
	scoped_free char *nameless = announcement(s, "", user, "", ",\"at\":[\"1\"]");
	if (geteuid() == STRANGER)
		skip();
	refused(s, STRANGER, "announce", at, ERR_DENIED, "announcing jobs is for the administrator");
	refused(s, geteuid(), "announce", nameless, ERR_INVALID, "'job' must be a text");
	refused(s, geteuid(), "announce", empty, ERR_INVALID, "'at' must be a list");
	assert_int_equal(ask(s, geteuid(), "announce", at, &reply, &err), 0);
	assert_int_equal(reply.kind, REPLY_AGAIN);	/* who that is */
	assert_int_equal(ask(s, geteuid(), "announce", nobody, &reply, &err), 0);
	while (!allowing_is_known(s->allowing, user) || !allowing_is_known(s->allowing, NOBODY))
		uv_run(&s->w.loop, UV_RUN_ONCE);
	refused(s, geteuid(), "announce", nobody, ERR_DENIED, "has no account");
	refused(s, geteuid(), "announce", twice, ERR_INVALID, "twice");
	refused(s, geteuid(), "announce", nowhere, ERR_NOT_FOUND, "7");
	scoped_json *accepted = good(s, geteuid(), "announce", at);
	const struct task *t = core_task(s->w.core, TASK_ID(number_of(accepted, "tasks") ? 1 : 0, -1));
	assert_non_null(t);
	assert_int_equal(t->state, TASK_RUNNING);
	assert_int_equal(t->spec->uid, user);
	assert_string_equal(t->spec->user, "user70001");
	assert_string_equal(t->spec->announced, "slurm:7");
	assert_string_equal(task_attempt(t)->gpus[0], "GPU-1");
	assert_int_equal(task_attempt(t)->claim_mib, 2000);
	/* A second step of the job, and an answer that was lost. */
	scoped_json *again = good(s, geteuid(), "announce", at);
	assert_string_equal(text_of(again, "id"), text_of(accepted, "id"));
	assert_true(json_is_true(json_object_get(again, "joined")));
	/* Another user's of that name is another; but its process is taken. */
	scoped_free char *other = announcement(s, "slurm:7", geteuid(), "", ",\"at\":[\"1\"]");
	learn_name(s, geteuid());
	refused(s, geteuid(), "announce", other, ERR_CONFLICT, "belongs to task 1");
	core_check(s->w.core, &err);
}

static void an_announced_job_without_gpus_waits_for_a_place(void **state)
{
	struct asking *s = *state;
	scoped_free char *small = announcement(s, "slurm:9", geteuid(), ",\"gpu_mem_mib\":2000", "");
	scoped_free char *huge = announcement(s, "slurm:10", geteuid(), ",\"gpu_mem_mib\":200000", "");
	learn_name(s, geteuid());
	refused(s, geteuid(), "announce", huge, ERR_INVALID, "");
	json_decref(good(s, geteuid(), "announce", small));
	const struct task *t = core_task(s->w.core, TASK_ID(1, -1));
	assert_true(t->spec->lease);
	assert_int_equal(t->state, TASK_PENDING);
	core_turn(s->w.core, now_read());
	assert_int_equal(t->state, TASK_RUNNING);
	assert_int_equal(task_attempt(t)->n_gpus, 1);
}

/* Nobody makes radd believe that of himself. */
static void a_submission_announces_nothing(void **state)
{
	struct asking *s = *state;
	scoped_free char *text = submission(s, "{\"announced\":\"slurm:1\"}");
	learn_name(s, geteuid());
	json_decref(good(s, geteuid(), "submit", text));
	assert_null(core_task(s->w.core, TASK_ID(1, -1))->spec->announced);
}

static void an_announced_job_ends_as_it_is_told(void **state)
{
	struct asking *s = *state;
	const char *told = "\"id\":\"1\",\"record\":{\"v\":1,\"began\":true,\"exit_code\":3,"
			   "\"signal\":0,\"kind\":1,\"line\":\"out of memory\"}";
	scoped_free char *at = announcement(s, "slurm:7", geteuid(), "", ",\"at\":[\"0\"]");
	if (geteuid() == STRANGER)
		skip();
	learn_name(s, geteuid());
	refused(s, geteuid(), "depart", told, ERR_CONFLICT, "no announced job");
	json_decref(good(s, geteuid(), "announce", at));
	refused(s, STRANGER, "depart", told, ERR_DENIED, "administrator");
	refused(s, geteuid(), "depart", "\"id\":\"1\"", ERR_INVALID, "exit record");
	refused(s, geteuid(), "depart", "\"id\":\"1\",\"record\":{\"exit_code\":700}", ERR_INVALID, "exit record");
	json_decref(good(s, geteuid(), "depart", told));
	assert_int_equal(s->departed, TASK_ID(1, -1));
	assert_true(s->report.have_record && !s->report.never_began);
	assert_int_equal(s->report.exit_code, 3);
	assert_int_equal(s->report.output.kind, SCAN_GPU_OOM);
	assert_string_equal(s->report.output.line, "out of memory");
	refused(s, geteuid(), "depart", told, ERR_CONFLICT, "known already");
	assert_int_equal(core_task(s->w.core, TASK_ID(1, -1))->stopping, STOP_NONE);
}

static void an_announced_job_that_was_ended_is_cancelled(void **state)
{
	struct asking *s = *state;
	scoped_free char *at = announcement(s, "slurm:7", geteuid(), "", ",\"at\":[\"0\"]");
	learn_name(s, geteuid());
	json_decref(good(s, geteuid(), "announce", at));
	json_decref(good(s, geteuid(), "depart", "\"id\":\"1\",\"record\":{\"v\":1,\"began\":true,\"signal\":15}"));
	assert_int_equal(core_task(s->w.core, TASK_ID(1, -1))->stopping, STOP_CANCEL);
	assert_int_equal(s->report.signal, SIGTERM);
}

int main(int argc, char **argv)
{
	ASKING_MAIN(argc, argv);
	const struct CMUnitTest tests[] = {
		T(jobs_of_others_are_announced_by_the_administrator), T(an_announced_job_without_gpus_waits_for_a_place),
		T(a_submission_announces_nothing), T(an_announced_job_ends_as_it_is_told),
		T(an_announced_job_that_was_ended_is_cancelled),
	};
	return cmocka_run_group_tests_name("announced jobs", tests, NULL, NULL);
}
