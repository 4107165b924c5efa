/* SPDX-License-Identifier: MIT
 * Epilogs that wait: how many of one user, and whom that holds up. What is amiss is told.
 */
#include "daemon/hooks.h"

#include "daemon/test_world.h"

#define MANY 64

static void note_end(struct hooks *h, uid_t uid)
{
	struct spec spec = { .uid = uid };
	struct attempt attempt = { .n_gpus = 0 };
	const struct task task = { .id = TASK_ID(7, -1), .spec = &spec, .attempts = &attempt, .n_attempts = 1 };
	hooks_note_end(h, &(struct event){ .kind = EV_ENDED, .task = task.id }, &task);
}

static void many_of_one_user_hold_up_his_starts_alone(void **state)
{
	struct world w;
	const struct settings config = { .prolog = "off", .epilog = "/bin/true", .hook_wait_ms = 60000 };
	(void)state;
	world_open(&w);
	struct hooks *h = hooks_create(&w.loop, &config, w.store);
	for (int i = 0; i < MANY; i++) {
		assert_null(hooks_hold_back(h, 1000));
		note_end(h, 1000);
		note_end(h, 2000 + (uid_t)i);
	}
	assert_non_null(hooks_hold_back(h, 1000));
	assert_null(hooks_hold_back(h, 2000));
	do	/* as many as run at once, and those that follow them */
		hooks_work(h);
	while (uv_run(&w.loop, UV_RUN_ONCE) && hooks_hold_back(h, 1000));
	assert_null(hooks_hold_back(h, 1000));
	hooks_destroy(h);
	world_close(&w);
}

static int count_one(void *ctx, const char *key, const char *value)
{
	(void)key, (void)value;
	++*(int *)ctx;
	return 0;
}

static int kept(const struct world *w)
{
	int n = 0;
	assert_int_equal(store_each_meta(w->store, "epilog:", count_one, &n, NULL), 0);
	return n;
}

static bool failed(const struct hooks *h, const char *part)
{
	scoped_json *troubles = json_array();
	hooks_tell(h, troubles);
	return json_array_size(troubles) && strstr(json_member_text(json_array_get(troubles, 0), "text"), part);
}

/* radd ended before it began, and again while it ran. */
static void one_that_was_not_over_is_run_again(void **state)
{
	struct world w;
	struct settings config = { .prolog = "off", .epilog = "/bin/false", .hook_wait_ms = 60000 };
	(void)state;
	world_open(&w);
	for (int ends = 0; ends < 2; ends++) {
		struct hooks *h = hooks_create(&w.loop, &config, w.store);
		if (ends)
			hooks_work(h);
		else
			note_end(h, 1000);
		hooks_destroy(h);
		world_commit(&w);
		assert_int_equal(kept(&w), 1);
	}
	struct hooks *h = hooks_create(&w.loop, &config, w.store);
	for (hooks_work(h); !failed(h, "task 7: epilog /bin/false"); hooks_work(h))
		uv_run(&w.loop, UV_RUN_ONCE);
	assert_int_equal(kept(&w), 0);
	/* The setting was taken away meanwhile: it is not run, and not kept for ever. */
	note_end(h, 1000);
	hooks_destroy(h);
	assert_int_equal(kept(&w), 1);
	config.epilog = "off";
	h = hooks_create(&w.loop, &config, w.store);
	hooks_work(h);
	assert_int_equal(kept(&w), 0);
	assert_false(failed(h, ""));
	hooks_destroy(h);
	world_close(&w);
}

static void a_path_that_is_not_utf8_is_told(void **state)
{
	struct world w;
	const struct settings config = { .prolog = "/nowhere/caf\xe9", .epilog = "off" };
	scoped_json *troubles = json_array();
	(void)state;
	world_open(&w);
	struct hooks *h = hooks_create(&w.loop, &config, w.store);
	hooks_tell(h, troubles);
	assert_int_equal(json_array_size(troubles), 1);
	assert_non_null(strstr(json_member_text(json_array_get(troubles, 0), "text"), "/nowhere/caf?: No such file"));
	hooks_destroy(h);
	world_close(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(many_of_one_user_hold_up_his_starts_alone),
		cmocka_unit_test(one_that_was_not_over_is_run_again),
		cmocka_unit_test(a_path_that_is_not_utf8_is_told),
	};
	signal(SIGPIPE, SIG_IGN);	/* as radd does */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
