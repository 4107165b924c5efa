/* SPDX-License-Identifier: MIT
 * A feed has so many readers and no more: who has a seat, who gets one that is free, and whose it is when the writer changes.
 */
#include "base/clock.h"
#include "feed/test_one.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static struct feed_reader *joined(struct feed_writer *w, const char *name)
{
	struct error err = ERROR_INIT;
	struct feed_item item;
	uint32_t before = feed_writer_readers(w);
	struct feed_reader *r = reader_of(name, FEED_JOIN_NOW);
	assert_int_equal(next(r, &item, &err), ERR_UNAVAILABLE);
	feed_peers_serve(w, 0);
	assert_int_equal(feed_writer_readers(w), before + 1);
	return r;
}

static void a_place_is_free_again_once_its_reader_was_dropped_and_left(void **state)
{
	(void)state;
	struct error err = ERROR_INIT;
	struct feed_item item;
	void *data;
	struct feed_writer *w = feed_writer_claim("places", "data", 7, NULL);
	assert_int_equal(feed_writer_open(w, SLOTS, SLOT_BYTES, 1, &err), 0);
	struct feed_reader *steady = joined(w, "places");
	for (int i = 0; i <= FEED_READERS_MAX; i++) {
		struct feed_reader *slow = joined(w, "places");
		for (uint64_t n = 0; n < SLOTS; n++) {
			write_item(w, FEED_BATCH, i);
			expect_item(steady, 0, (uint64_t)i * SLOTS + n, i);
		}
		assert_int_equal(feed_writer_reserve(w, 0, &data, &err), 0);
		assert_int_equal(feed_writer_readers(w), 1);
		struct feed_reader *other = joined(w, "places");
		assert_int_equal(next(slow, &item, &err), ERR_DENIED);	/* its number is not the other's */
		feed_reader_close(slow);
		feed_reader_close(other);
		feed_peers_serve(w, 0);
	}
	feed_reader_close(steady);
	feed_writer_close(w);
}

static void who_finds_no_place_does_not_ask_again_at_once(void **state)
{
	(void)state;
	enum { WAIT_MS = 50 };
	struct error err = ERROR_INIT;
	struct feed_item item;
	struct feed_reader *all[FEED_READERS_MAX];
	struct feed_writer *w = writer_of("full");
	for (int i = 0; i < FEED_READERS_MAX; i++)
		all[i] = joined(w, "full");
	struct feed_reader *r = reader_of("full", FEED_JOIN_NOW);
	assert_int_equal(next(r, &item, &err), ERR_UNAVAILABLE);
	feed_peers_serve(w, 0);
	int64_t from = clock_mono_ms();
	assert_int_equal(feed_reader_next(r, WAIT_MS, &item, &err), -1);
	assert_non_null(strstr(err.text, "as many readers as it can"));
	assert_int_equal(err.no, EBUSY);
	assert_true(clock_mono_ms() - from >= WAIT_MS);
	for (int i = 0; i < FEED_READERS_MAX; i++)
		feed_reader_close(all[i]);
	feed_reader_close(r);
	feed_writer_close(w);
}

static size_t readers_look(struct feed_writer *w, struct feed_reader *const *all, size_t n)
{
	struct feed_item item;
	struct error err = ERROR_INIT;
	for (size_t i = 0; i < n; i++) {
		assert_int_equal(next(all[i], &item, &err), ERR_UNAVAILABLE);
		if (w)
			feed_peers_serve(w, 0);
	}
	return w ? feed_writer_readers(w) : 0;
}

/* As many as a feed has, and their writer dies. As many others are there before them at the next one: they take nobody's seat,
 * whom the next writer but one would then know nothing of. */
static void new_readers_take_no_seats_of_members(void **state)
{
	(void)state;
	struct feed_reader *members[FEED_READERS_MAX], *others[FEED_READERS_MAX];
	struct error err = ERROR_INIT;
	struct feed_writer *w = writer_of("seats");
	for (size_t i = 0; i < FEED_READERS_MAX; i++) {
		members[i] = joined(w, "seats");
		others[i] = reader_of("seats", FEED_JOIN_NOW);
	}
	write_item(w, FEED_BATCH, 5);
	for (size_t i = 0; i < FEED_READERS_MAX; i++)
		expect_item(members[i], 0, 0, 5);
	feed_writer_close(w);
	readers_look(NULL, others, FEED_READERS_MAX);
	w = feed_writer_claim("seats", "data", 8, &err);
	assert_int_equal(feed_writer_open(w, SLOTS, SLOT_BYTES, 0, &err), 0);
	assert_int_equal(readers_look(w, others, FEED_READERS_MAX / 2), 0);
	assert_int_equal(readers_look(w, members, FEED_READERS_MAX), FEED_READERS_MAX);
	write_item(w, FEED_BATCH, 6);
	for (size_t i = 0; i < FEED_READERS_MAX; i++)
		expect_item(members[i], 0, 1, 6);
	/* One leaves, and another has its seat. */
	feed_reader_close(members[0]);
	feed_peers_serve(w, 0);
	readers_look(w, others, 1);	/* hears that there was none */
	assert_int_equal(readers_look(w, others, 1), FEED_READERS_MAX);
	for (size_t i = 0; i < FEED_READERS_MAX; i++) {
		feed_reader_close(others[i]);
		if (i)
			feed_reader_close(members[i]);
	}
	feed_writer_close(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_place_is_free_again_once_its_reader_was_dropped_and_left),
		cmocka_unit_test(who_finds_no_place_does_not_ask_again_at_once),
		cmocka_unit_test(new_readers_take_no_seats_of_members),
	};
	char dir[] = "/tmp/radfeed-test-XXXXXX";
	if (!mkdtemp(dir) || setenv("RADFEED_DIR", dir, 1))
		return 1;
	int failed = cmocka_run_group_tests(tests, NULL, NULL);
	if (!failed && rmdir(dir)) {
		printf("something is left in %s\n", dir);
		return 1;
	}
	return failed;
}
