/* SPDX-License-Identifier: MIT
 * Shares of the daemon's time, and replies that fit.
 */
#include "daemon/listing.h"
#include "daemon/usage.h"

#include "submit/wire.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

static void test_burst_is_free(void **state)
{
	struct usages *u = usages_create();
	(void)state;
	usages_spend(u, 1000, USAGE_BURST_US, 7000000);
	assert_int_equal(usages_rest_us(u, 1000, 7000000), USAGE_PAUSE_US);
	assert_int_equal(usages_rest_us(u, 1000, 7000000 + USAGE_PAUSE_US), 0);
	usages_spend(u, 1000, USAGE_PAUSE_US, 7000000);
	assert_int_equal(usages_rest_us(u, 1000, 7000000), USAGE_PAUSE_US * USAGE_DIVISOR);
	assert_int_equal(usages_rest_us(u, 1001, 7000000), 0);
	usages_destroy(u);
}

/* In small pieces: half of the time is others' already while the burst lasts. */
static void test_a_burst_has_pauses(void **state)
{
	struct usages *u = usages_create();
	int64_t now = 7000000, worked = 0;
	(void)state;
	for (; !usages_rest_us(u, 0, now); worked += 100)
		usages_spend(u, 0, 100, now += 100);
	assert_in_range(worked, USAGE_GO_US, 2 * USAGE_GO_US + 100);
	for (worked = 0; worked < USAGE_BURST_US / 2; worked += 100) {
		now += usages_rest_us(u, 0, now);
		usages_spend(u, 0, 100, now += 100);
	}
	assert_in_range(now - 7000000, USAGE_BURST_US, USAGE_BURST_US * 6 / 5);
	usages_destroy(u);
}

/* Somebody who asks as soon as he may gets his part of the time, no more and no less. */
static void test_long_run_share(void **state)
{
	struct usages *u = usages_create();
	int64_t now = 0, worked = 0;
	(void)state;
	while (now < 100000000) {
		now += usages_rest_us(u, 0, now);
		usages_spend(u, 0, 20000, now += 20000);
		worked += 20000;
	}
	assert_in_range(worked, now / USAGE_DIVISOR - 100000, now / USAGE_DIVISOR + 2 * USAGE_BURST_US);
	/* What was not used is not saved up for later beyond one burst. */
	now += 1000000000;
	usages_spend(u, 0, USAGE_BURST_US + 1, now);
	assert_true(usages_rest_us(u, 0, now) > 0);
	usages_destroy(u);
}

static json_t *task_of(size_t command_bytes, char fill)
{
	char *command = test_malloc(command_bytes + 1);
	memset(command, fill, command_bytes);
	command[command_bytes] = 0;
	json_t *task = json_pack("{ss, ss, s[]}", "id", "1", "command", command, "attempts");
	test_free(command);
	return task;
}

static json_t *finished(struct listing *l)
{
	struct buf text = listing_finish(l, json_pack("{si}", "more", 7)), message = { 0 };
	json_t *reply;
	assert_int_equal(wire_encode_text(text.data, text.len, &message, NULL), 0);
	assert_int_equal(wire_decode(&message, &reply, NULL), 1);
	assert_int_equal(wire_check(reply, NULL), 0);
	assert_int_equal(json_integer_value(json_object_get(reply, "more")), 7);
	buf_free(&text);
	buf_free(&message);
	return reply;
}

static void check_fits(size_t command_bytes, char fill)
{
	struct listing l = { 0 };
	size_t n = 0;
	for (; !l.truncated; n++)
		listing_add(&l, task_of(command_bytes, fill));
	listing_add(&l, task_of(1, fill));	/* none is left out between others */
	json_t *reply = finished(&l);
	assert_int_equal(json_array_size(json_object_get(reply, "tasks")), n - 1);
	assert_true(n > 1 && json_is_true(json_object_get(reply, "truncated")));
	json_decref(reply);
}

static void test_replies_fit(void **state)
{
	(void)state;
	check_fits(1 << 20, 'x');
	check_fits(1 << 20, '\x1b');
	check_fits(1 << 20, '"');
	struct listing none = { 0 };
	json_t *empty = finished(&none);
	assert_true(json_is_array(json_object_get(empty, "tasks")) && json_is_false(json_object_get(empty, "truncated")));
	json_decref(empty);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_burst_is_free), cmocka_unit_test(test_a_burst_has_pauses),
		cmocka_unit_test(test_long_run_share),
		cmocka_unit_test(test_replies_fit),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
