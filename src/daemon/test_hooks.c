/* SPDX-License-Identifier: MIT
 * Epilogs that wait: how many of one user, and whom that holds up. What is amiss is told.
 */
#include "daemon/hooks.h"

#include "base/json.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <string.h>

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
	uv_loop_t loop;
	const struct settings config = { .prolog = "off", .epilog = "/bin/true", .hook_wait_ms = 60000 };
	(void)state;
	uv_loop_init(&loop);
	struct hooks *h = hooks_create(&loop, &config);
	for (int i = 0; i < MANY; i++) {
		assert_null(hooks_hold_back(h, 1000));
		note_end(h, 1000);
		note_end(h, 2000 + (uid_t)i);
	}
	assert_non_null(hooks_hold_back(h, 1000));
	assert_null(hooks_hold_back(h, 2000));
	do	/* as many as run at once, and those that follow them */
		hooks_work(h);
	while (uv_run(&loop, UV_RUN_ONCE) && hooks_hold_back(h, 1000));
	assert_null(hooks_hold_back(h, 1000));
	hooks_destroy(h);
	uv_run(&loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&loop), 0);
}

static void a_path_that_is_not_utf8_is_told(void **state)
{
	uv_loop_t loop;
	const struct settings config = { .prolog = "/nowhere/caf\xe9", .epilog = "off" };
	scoped_json *troubles = json_array();
	(void)state;
	uv_loop_init(&loop);
	struct hooks *h = hooks_create(&loop, &config);
	hooks_tell(h, troubles);
	assert_int_equal(json_array_size(troubles), 1);
	assert_non_null(strstr(json_member_text(json_array_get(troubles, 0), "text"), "/nowhere/caf?: No such file"));
	hooks_destroy(h);
	assert_int_equal(uv_loop_close(&loop), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(many_of_one_user_hold_up_his_starts_alone),
		cmocka_unit_test(a_path_that_is_not_utf8_is_told),
	};
	signal(SIGPIPE, SIG_IGN);	/* as radd does */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
