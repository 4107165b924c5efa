/* SPDX-License-Identifier: MIT
 * A feed in one process, for tests: its writer, its readers, and one item after the other.
 */
#ifndef RAD_FEED_TEST_ONE_H
#define RAD_FEED_TEST_ONE_H

#include "feed/feed.h"
#include "feed/writer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { SLOTS = 4, SLOT_BYTES = 4096 };

static inline struct feed_writer *writer_of(const char *name)
{
	struct error err = ERROR_INIT;
	struct feed_writer *w = feed_writer_claim(name, "data", 7, &err);
	assert_non_null(w);
	assert_int_equal(feed_writer_open(w, SLOTS, SLOT_BYTES, 0, &err), 0);
	return w;
}

static inline void write_item(struct feed_writer *w, enum feed_kind kind, int value)
{
	struct error err = ERROR_INIT;
	void *data;
	if (feed_writer_reserve(w, kind == FEED_END ? 0 : sizeof value, &data, &err))
		fail_msg("%s", err.text);
	if (kind == FEED_BATCH)
		memcpy(data, &value, sizeof value);
	feed_writer_publish(w, kind, kind == FEED_END ? 0 : sizeof value);
}

/* The code of what the reader is told; 0 with an item. */
static inline enum error_code next(struct feed_reader *r, struct feed_item *item, struct error *err)
{
	return feed_reader_next(r, 0, item, err) ? err->code : ERR_NONE;
}

static inline struct feed_reader *reader_of(const char *name, enum feed_join how)
{
	struct feed_reader *r = feed_reader_open(name, "data", how, NULL);
	assert_non_null(r);
	return r;
}

static inline void expect_item(struct feed_reader *r, uint64_t epoch, uint64_t index, int value)
{
	struct error err = ERROR_INIT;
	struct feed_item item;
	if (next(r, &item, &err))
		fail_msg("%s", err.text);
	assert_int_equal(item.epoch, epoch);
	assert_int_equal(item.index, index);
	if (item.kind == FEED_BATCH)
		assert_memory_equal(item.data, &value, sizeof value);
	feed_reader_release(r, item.ring, item.slot);
}

#endif
