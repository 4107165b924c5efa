/* SPDX-License-Identifier: MIT
 * How much one may ask for: changes of a task, bytes of what is unfinished and of what is kept, and the limits of users.
 */
#include "daemon/remembering.h"
#include "daemon/test_asking.h"

/* Each change is an event that is kept for ever and read again. */
static void a_task_is_changed_so_often_and_not_more(void **state)
{
	struct asking *s = *state;
	json_decref(submit(s, STRANGER, "{\"hold\":true}"));
	for (int i = 0; i < 1000; i++) {
		scoped_free char *fields = alloc_printf("\"id\":\"1\",\"name\":\"name %d\"", i);
		json_decref(good(s, STRANGER, "update", fields));
	}
	refused(s, STRANGER, "update", "\"id\":\"1\",\"name\":\"x\"", ERR_UNAVAILABLE, "was changed 1000 times");
	json_decref(good(s, STRANGER, "release", "\"id\":\"1\""));
	refused(s, STRANGER, "hold", "\"id\":\"1\"", ERR_UNAVAILABLE, "was changed 1001 times");
	struct reply reply;
	struct error err;
	assert_int_equal(ask(s, STRANGER, "events", "\"id\":\"1\"", &reply, &err), 0);
	assert_int_equal(reply.kind, REPLY_LOOKUP);	/* too long for the loop */
	free(reply.lookup);
	json_decref(good(s, STRANGER, "cancel", "\"id\":\"1\""));
}

static void a_change_that_changes_nothing_is_no_event(void **state)
{
	struct asking *s = *state;
	json_decref(submit(s, STRANGER, "{\"hold\":true,\"priority\":-3}"));
	size_t before = s->w.n_events;
	for (int i = 0; i < 10; i++)
		json_decref(good(s, STRANGER, "update", "\"id\":\"1\",\"priority\":-3,\"name\":\"task\""));
	assert_int_equal(s->w.n_events, before);
}

static void the_size_of_what_is_unfinished_is_bounded(void **state)
{
	struct asking *s = *state;
	char script[400001];
	memset(script, '#', sizeof script - 1);
	script[sizeof script - 1] = 0;
	scoped_free char *large = alloc_printf("{\"hold\":true,\"script\":\"%s\"}", script);
	s->w.config.user_size_mib = 1;
	json_decref(submit(s, STRANGER, large));
	json_decref(submit(s, STRANGER, large));
	submit_refused(s, STRANGER, large, ERR_UNAVAILABLE, "user_size");
	json_decref(submit(s, getuid(), large));		/* not the administrator's */
	json_decref(good(s, STRANGER, "cancel", "\"id\":\"1\""));
	json_decref(submit(s, STRANGER, large));
}

/* Its spec has a question that waits for it until then. */
static void capture_comes(struct asking *s, task_id id, const char *capture)
{
	const struct estimate_context context = { 0 };
	char text[TASK_ID_TEXT];
	scoped_free char *fields = alloc_printf("\"id\":\"%s\",\"capture\":\"%s\"", task_id_text(id, text), capture);
	capturing_wait(s->capturing, id, estimate_find("replay", NULL), core_task(s->w.core, id)->spec, 0, &context);
	json_decref(good(s, STRANGER, "captured", fields));
}

/* A capture that comes later counts as one that was submitted. */
static void captures_that_come_later_are_bounded(void **state)
{
	struct asking *s = *state;
	struct reply reply;
	struct error err;
	char capture[400001];
	memset(capture, 'A', sizeof capture - 1);
	capture[sizeof capture - 1] = 0;
	s->w.config.user_tasks = 0;
	s->w.config.user_size_mib = 1;
	s->w.config.user_store_mib = 2;
	for (uint32_t job = 1; job <= 3; job++) {
		json_decref(submit(s, STRANGER, job == 1 ? "{\"hold\":true,\"array\":[0,1]}" : "{\"hold\":true}"));
		capture_comes(s, TASK_ID(job, job == 1 ? 0 : -1), capture);
		assert_int_equal(s->captures, job < 3 ? job : 2);
	}
	assert_int_equal(s->captures_declined, 1);
	assert_non_null(strstr(s->declined, "0.4 MiB more"));
	assert_in_range(core_user_bytes(s->w.core, STRANGER), 800000, 810000);
	json_decref(good(s, STRANGER, "cancel", "\"id\":\"1_0\""));
	assert_in_range(core_user_bytes(s->w.core, STRANGER), 600000, 610000);
	json_decref(good(s, STRANGER, "cancel", "\"ids\":[\"1\",\"2\",\"3\"]"));
	assert_int_equal(core_user_bytes(s->w.core, STRANGER), 0);
	scoped_free char *what = submission(s, "{\"hold\":true}");
	uint32_t job = 4;
	for (; job < 20 && !ask(s, STRANGER, "submit", what, &reply, &err); job++) {
		json_decref(reply.json);
		capture_comes(s, TASK_ID(job, -1), capture);
		scoped_free char *one = alloc_printf("\"id\":\"%u\"", job);
		json_decref(good(s, STRANGER, "cancel", one));
	}
	assert_in_range(job, 6, 8);	/* 2 MiB of captures, in all */
	assert_non_null(strstr(err.text, "user_store"));
}

/* Each time that a capture is said to wait, or to begin, its spec is written. */
static void words_of_a_capture_are_bounded(void **state)
{
	struct asking *s = *state;
	const struct estimate_context context = { 0 };
	struct reply reply;
	struct error err;
	unsigned said = 0;
	s->w.config.user_store_mib = 1;
	json_decref(submit(s, STRANGER, "{\"hold\":true}"));
	struct spec *spec = core_task(s->w.core, TASK_ID(1, -1))->spec;
	capturing_wait(s->capturing, TASK_ID(1, -1), estimate_find("replay", NULL), spec, 0, &context);
	for (; said < 100000 && !ask(s, STRANGER, "capturing", "\"id\":\"1\"", &reply, &err); said++)
		json_decref(reply.json);
	assert_in_range(said, 1, 1048576 / spec->bytes + 1);
	assert_non_null(strstr(err.text, "user_store"));
}

/* By the capture alone, and for good: radd may be started anew meanwhile. */
static void a_capture_says_that_it_is_laid_aside(void **state)
{
	struct asking *s = *state;
	const struct estimate_context context = { 0 };
	json_decref(submit(s, STRANGER, "{\"hold\":true,\"capture_aside\":true}"));
	struct spec *spec = core_task(s->w.core, TASK_ID(1, -1))->spec;
	assert_false(spec->capture_aside);
	capturing_wait(s->capturing, TASK_ID(1, -1), estimate_find("replay", NULL), spec, 0, &context);
	json_decref(good(s, STRANGER, "capturing", "\"id\":\"1\",\"aside\":true"));
	assert_true(spec->capture_aside);
	json_decref(good(s, STRANGER, "capturing", "\"id\":\"1\",\"begun\":true"));
	assert_true(spec->capture_aside);
}

static void what_a_user_adds_to_the_store_in_a_day_is_bounded(void **state)
{
	struct asking *s = *state;
	int done = 0;
	struct reply reply;
	struct error err;
	s->w.config.user_store_mib = 1;
	s->w.config.user_tasks = 0;
	learn_name(s, STRANGER);
	scoped_free char *what = submission(s, "{\"hold\":true}");
	while (done < 1000 && !ask(s, STRANGER, "submit", what, &reply, &err)) {
		json_decref(reply.json);
		done++;
	}
	assert_in_range(done, 100, 500);
	assert_non_null(strstr(err.text, "user_store"));
	refused(s, STRANGER, "hold", "\"id\":\"1\"", ERR_UNAVAILABLE, "user_store");
	json_decref(good(s, STRANGER, "cancel", "\"id\":\"1\""));	/* frees something */
	json_decref(submit(s, getuid(), "{\"hold\":true}"));
}

/* The turn is lost then, and the daemon ends (doc/decisions/0003). */
static void a_store_that_fails_refuses(void **state)
{
	struct asking *s = *state;
	struct error err;
	struct reply reply;
	world_doom(&s->w);
	scoped_free char *what = submission(s, "{}");
	learn_name(s, getuid());
	assert_int_equal(ask(s, getuid(), "submit", what, &reply, &err), -1);
	assert_int_equal(ask(s, getuid(), "drain", "\"gpu\":\"0\"", &reply, &err), -1);
	assert_int_equal(s->w.n_events, 0);
	assert_int_equal(store_commit(s->w.store, &err), -1);
}

static void limits_are_said_and_kept_to(void **state)
{
	struct asking *s = *state;
	const uid_t odd = 70001, even = 70002;
	struct error err;
	struct reply reply;
	s->w.config.user_tasks = 0;
	if (geteuid() == odd || geteuid() == even)
		skip();
	const struct settings_source from = { 0 };
	assert_int_equal(settings_set_named(&s->w.config, "group:students", "max_queued=1 max_gpus=1", from, &err), 0);
	allowing_forget(s->allowing);
	/* Who he is, and in which groups, is asked first. */
	scoped_free char *one = submission(s, "{}"), *wide = submission(s, "{\"gpus\":2}");
	assert_int_equal(ask(s, odd, "submit", one, &reply, &err), 0);
	assert_int_equal(reply.kind, REPLY_AGAIN);
	while (!allowing_is_known(s->allowing, odd) || !allowing_is_known(s->allowing, even))
		uv_run(&s->w.loop, UV_RUN_ONCE);
	assert_int_equal(ask(s, odd, "submit", wide, &reply, &err), -1);
	assert_non_null(strstr(err.text, "asks for 2 GPUs, and you may have 1 at a time (max_gpus: group:students"));
	json_decref(good(s, odd, "submit", one));
	assert_int_equal(ask(s, odd, "submit", one, &reply, &err), -1);
	assert_non_null(strstr(err.text, "1 more task: you have 1 unfinished ones, and may have 1 (max_queued: group:students"));
	/* It is no limit of others, and none of the administrator's. */
	json_decref(good(s, even, "submit", one));
	json_decref(good(s, even, "submit", one));
	/* His own word cannot raise it, the administrator's can. */
	json_decref(good(s, odd, "limit", "\"limits\":\"max_queued=100\""));
	assert_int_equal(allowing_of(s->allowing, odd).most[ALLOWANCE_QUEUED], 1);
	scoped_free char *of_odd = alloc_printf("\"limits\":\"max_queued=3\",\"uid\":%u", (unsigned)odd);
	assert_int_equal(ask(s, even, "limit", of_odd, &reply, &err), -1);
	assert_non_null(strstr(err.text, "administrator"));
	json_decref(good(s, geteuid(), "limit", of_odd));
	json_decref(good(s, odd, "submit", one));
	json_decref(good(s, odd, "limit", "\"limits\":\"max_queued=2\""));
	assert_int_equal(ask(s, odd, "submit", one, &reply, &err), -1);
	assert_non_null(strstr(err.text, "may have 2 (max_queued: the user's own, by rad limit)"));
	assert_int_equal(ask(s, odd, "limit", "\"limits\":\"max_quued=2\"", &reply, &err), -1);
	assert_int_equal(ask(s, odd, "limit", "\"limits\":7", &reply, &err), -1);
	/* Anybody may ask what somebody may have. */
	scoped_free char *whose = alloc_printf("\"uid\":%u", (unsigned)odd);
	scoped_json *asked = good(s, even, "limit", whose);
	assert_int_equal(json_integer_value(json_object_get(json_object_get(asked, "limits"), "max_queued")), 2);
	/* A restart reads them again. */
	struct allowing *again = allowing_create(s->w.store, s->names, s->groups, &s->w.config);
	assert_int_equal(allowing_restore(again, &err), 0);
	assert_int_equal(allowing_of(again, odd).most[ALLOWANCE_QUEUED], 2);
	allowing_destroy(again);
	json_decref(good(s, odd, "limit", "\"limits\":\"max_queued=default\""));
	assert_int_equal(allowing_of(s->allowing, odd).most[ALLOWANCE_QUEUED], 3);
	json_t *users = good(s, odd, "users", "");
	scoped_free char *text = json_dumps(users, 0);
	json_decref(users);
	assert_non_null(strstr(text, "\"user\": \"user70001\""));
	assert_non_null(strstr(text, "\"max_queued\": 3"));
	assert_non_null(strstr(text, "an administrator's, by rad limit"));
}

/* Of whom something was said stays; of others there may be any number. */
static void who_asked_once_is_forgotten(void **state)
{
	struct asking *s = *state;
	struct error err;
	const uid_t first = 70001, said = first + 7;
	assert_int_equal(allowing_say(s->allowing, said, false, "max_queued=3", &err), 0);
	for (uid_t uid = first; uid < first + 2000; uid++)
		allowing_of(s->allowing, uid);		/* whose names nobody has told yet */
	assert_true(allowing_rows(s->allowing) < 300);
	assert_int_equal(allowing_of(s->allowing, said).most[ALLOWANCE_QUEUED], 3);
	assert_int_equal(allowing_of(s->allowing, first).most[ALLOWANCE_QUEUED], 0);
}

static double used_of(struct core *c, uid_t uid)
{
	struct core_user *users;
	size_t n = core_users(c, &users);
	double used_s = -1;
	for (size_t i = 0; i < n; i++)
		if (users[i].standing.uid == uid)
			used_s = users[i].standing.used_s;
	free(users);
	return used_s;
}

static void gpu_time_is_remembered(void **state)
{
	struct asking *s = *state;
	struct error err;
	struct now now = now_read();
	core_remember_used(s->w.core, 70001, 5000, now.wall_ms, now);
	struct remembering *r = remembering_create(s->w.store, s->w.core);
	remembering_note(r, now, true);
	remembering_destroy(r);
	remembering_destroy(NULL);
	core_remember_used(s->w.core, 70001, 0, now.wall_ms, now);
	store_set_meta(s->w.store, "used:70003", "nonsense", NULL);
	r = remembering_create(s->w.store, s->w.core);
	assert_int_equal(remembering_restore(r, now, &err), 0);
	assert_true(used_of(s->w.core, 70001) > 4999 && used_of(s->w.core, 70001) <= 5000);
	assert_true(used_of(s->w.core, 70003) < 0);
	remembering_note(r, now, false);	/* not a minute yet */
	now.wall_ms += 7 * INT64_C(86400000);	/* radd was away for a week */
	assert_int_equal(remembering_restore(r, now, &err), 0);
	core_turn(s->w.core, now);
	assert_true(used_of(s->w.core, 70001) > 2499 && used_of(s->w.core, 70001) <= 2501);
	remembering_destroy(r);
}

static struct fair_standing standing_of(struct core *c, uid_t uid)
{
	struct core_user *users;
	struct fair_standing found = { .started_ago_ms = -2 };
	for (size_t i = 0, n = core_users(c, &users); i < n; i++)
		if (users[i].standing.uid == uid)
			found = users[i].standing;
	free(users);
	return found;
}

/* One that has begun anew. */
static struct core *another_core(const struct core *c)
{
	const struct core_ops ops = { .event = world_event, .state_of = world_state_of, .trouble = world_trouble };
	return core_create(core_get_config(c), &ops);
}

/* Else every restart owes a start to whoever runs nothing just then, and he goes before those who have waited. */
static void whose_start_is_owed_is_remembered(void **state)
{
	struct asking *s = *state;
	struct error err;
	struct now now = now_read();
	core_remember_used(s->w.core, 70001, 5000, now.wall_ms, now);
	core_remember_start(s->w.core, 70001, now.wall_ms - 30000, now);
	core_remember_used(s->w.core, 70002, 5000, now.wall_ms, now);
	struct remembering *r = remembering_create(s->w.store, s->w.core);
	remembering_note(r, now, true);
	remembering_destroy(r);
	struct core *again = another_core(s->w.core);
	store_set_meta(s->w.store, "used:70003", "5000.000 1", NULL);	/* of an earlier release */
	r = remembering_create(s->w.store, again);
	now.mono_ms += 20000, now.wall_ms += 20000;
	assert_int_equal(remembering_restore(r, now, &err), 0);
	assert_false(standing_of(again, 70001).owed);
	assert_int_equal(standing_of(again, 70001).started_ago_ms, 50000);
	assert_true(standing_of(again, 70002).owed && standing_of(again, 70003).owed);
	/* A task so short that more decayed than it added is noted, too. */
	remembering_note(r, now, true);
	core_remember_start(again, 70002, now.wall_ms, now);
	now.mono_ms += 60000, now.wall_ms += 60000;
	remembering_note(r, now, false);
	core_destroy(again);
	remembering_destroy(r);
	again = another_core(s->w.core);
	r = remembering_create(s->w.store, again);
	assert_int_equal(remembering_restore(r, now, &err), 0);
	assert_false(standing_of(again, 70002).owed);
	core_destroy(again);
	remembering_destroy(r);
}

int main(int argc, char **argv)
{
	ASKING_MAIN(argc, argv);
	const struct CMUnitTest tests[] = {
		T(a_task_is_changed_so_often_and_not_more), T(a_change_that_changes_nothing_is_no_event),
		T(the_size_of_what_is_unfinished_is_bounded), T(captures_that_come_later_are_bounded), T(words_of_a_capture_are_bounded),
		T(a_capture_says_that_it_is_laid_aside), T(what_a_user_adds_to_the_store_in_a_day_is_bounded),
		T(a_store_that_fails_refuses), T(limits_are_said_and_kept_to), T(who_asked_once_is_forgotten),
		T(gpu_time_is_remembered),
		T(whose_start_is_owed_is_remembered),
	};
	return cmocka_run_group_tests_name("bounds of requests", tests, NULL, NULL);
}
