/* SPDX-License-Identifier: MIT
 * Questions that wait for captures: what comes, what fails, what never comes, a clock that was set, and an end in the middle.
 */
#include "daemon/capturing.h"

#include "base/alloc.h"
#include "base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct heard {
	uv_loop_t loop;
	struct capturing *c;
	struct spec *spec;
	unsigned asked, declined;
	int64_t last;
	char note[200], gpu_name[64];
};

static void on_ask(void *ctx, int64_t question, const struct estimator *row, struct spec *spec, uint64_t declared_mib,
		   const struct estimate_context *c)
{
	struct heard *h = ctx;
	assert_string_equal(row->name, "replay");
	assert_string_equal(spec->capture, "abcd");
	assert_int_equal(declared_mib, 7);
	snprintf(h->gpu_name, sizeof h->gpu_name, "%s", c->gpu_name);
	h->asked++;
	h->last = question;
}

static void on_done(void *ctx, int64_t question, bool spoke, const struct estimate_result *said)
{
	struct heard *h = ctx;
	assert_false(spoke);
	snprintf(h->note, sizeof h->note, "%s", said->note);
	h->declined++;
	h->last = question;
}

static int setup(void **state)
{
	struct heard *h = alloc_zero(sizeof *h);
	uv_loop_init(&h->loop);
	h->c = capturing_create(&h->loop, on_ask, on_done, h);
	h->spec = spec_create();
	*state = h;
	return 0;
}

static int teardown(void **state)
{
	struct heard *h = *state;
	capturing_destroy(h->c);
	uv_run(&h->loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&h->loop), 0);
	spec_unref(h->spec);
	free(h);
	return 0;
}

/* From a text that is gone after the call, as the core's is. */
static void wait_for(struct heard *h, int64_t question, int64_t seconds)
{
	char gpu_name[] = "NVIDIA H200";
	const struct estimate_context context = { .gpu_name = gpu_name, .gpu_total_mib = 1000, .margin = 0.1 };
	h->spec->capture_until_s = clock_wall_ms() / 1000 + seconds;
	assert_true(capturing_may_come(h->spec));
	capturing_wait(h->c, question, estimate_find("replay", NULL), h->spec, 7, &context);
	memset(gpu_name, 'x', sizeof gpu_name - 1);
}

static void what_came_is_asked_about(void **state)
{
	struct heard *h = *state;
	struct spec *other = spec_create();
	wait_for(h, 1, 60);
	wait_for(h, 2, 60);
	assert_true(capturing_awaits(h->c, h->spec));
	assert_false(capturing_awaits(h->c, other));
	capturing_came(h->c, other, NULL, "of another");
	assert_int_equal(h->asked + h->declined, 0);
	capturing_came(h->c, h->spec, alloc_string("abcd"), "");
	assert_int_equal(h->asked, 2);
	assert_string_equal(h->gpu_name, "NVIDIA H200");
	assert_false(capturing_awaits(h->c, h->spec) || capturing_may_come(h->spec));
	assert_int_equal(h->spec->capture_until_s, 0);
	spec_unref(other);
}

static void what_failed_is_told(void **state)
{
	struct heard *h = *state;
	wait_for(h, 1, 60);
	capturing_came(h->c, h->spec, NULL, "ModuleNotFoundError");
	assert_int_equal(h->declined, 1);
	assert_string_equal(h->note, "replay: no capture: ModuleNotFoundError");
	assert_false(capturing_may_come(h->spec));
}

static void what_never_comes_is_given_up(void **state)
{
	struct heard *h = *state;
	wait_for(h, 3, 1);
	while (!h->declined)
		uv_run(&h->loop, UV_RUN_ONCE);
	assert_int_equal(h->last, 3);
	assert_non_null(strstr(h->note, "not there in time"));
	assert_false(capturing_awaits(h->c, h->spec));
	h->spec->capture_until_s = 1;	/* long ago */
	assert_false(capturing_may_come(h->spec));
}

/* Behind others of its user: as long as it is heard of, but not for ever; its own time counts from when it begins. */
static void who_waits_for_its_turn_is_waited_for(void **state)
{
	struct heard *h = *state;
	wait_for(h, 1, 1);
	int64_t now_s = clock_wall_ms() / 1000;
	h->spec->capture_turn_s = now_s + 50;
	capturing_goes_on(h->c, h->spec, 20000, false, false);
	assert_in_range(h->spec->capture_until_s, now_s + 20, now_s + 22);
	capturing_goes_on(h->c, h->spec, 60000, false, false);
	assert_int_equal(h->spec->capture_until_s, now_s + 50);
	capturing_goes_on(h->c, h->spec, 60000, true, false);
	assert_in_range(h->spec->capture_until_s, now_s + 60, now_s + 62);
	assert_int_equal(h->spec->capture_turn_s, 0);
	struct spec *waiting = h->spec, *other = spec_create();
	h->spec = other;
	wait_for(h, 2, 1);
	h->spec = waiting;
	while (!h->declined)
		uv_run(&h->loop, UV_RUN_ONCE);
	assert_int_equal(h->last, 2);
	assert_true(capturing_awaits(h->c, waiting));
	spec_unref(other);
}

static void a_turn_that_does_not_come_is_told(void **state)
{
	struct heard *h = *state;
	h->spec->capture_turn_s = clock_wall_ms() / 1000 + 1;
	wait_for(h, 3, 1);
	while (!h->declined)
		uv_run(&h->loop, UV_RUN_ONCE);
	assert_non_null(strstr(h->note, "its turn did not come in time"));
}

/* The end, by teardown, with questions that are open. A time far ahead (a clock that was set back) is no overflow. */
static void an_end_with_open_questions(void **state)
{
	struct heard *h = *state;
	wait_for(h, 1, 60);
	wait_for(h, 2, INT32_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(what_came_is_asked_about, setup, teardown),
		cmocka_unit_test_setup_teardown(what_failed_is_told, setup, teardown),
		cmocka_unit_test_setup_teardown(what_never_comes_is_given_up, setup, teardown),
		cmocka_unit_test_setup_teardown(who_waits_for_its_turn_is_waited_for, setup, teardown),
		cmocka_unit_test_setup_teardown(a_turn_that_does_not_come_is_told, setup, teardown),
		cmocka_unit_test_setup_teardown(an_end_with_open_questions, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
