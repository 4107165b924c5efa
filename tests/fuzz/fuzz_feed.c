/* SPDX-License-Identifier: MIT
 *
 * What readers and writers of a feed say to each other, and the head of a ring: any bytes are a message or none, one that was
 * read can be written again and is the same, a ring that is believed lies within its memory, and figures are numbers in bounds.
 */
#include "fuzz.h"

#include "feed/ring.h"
#include "feed/wire.h"

#include <string.h>

static void messages(const uint8_t *data, size_t size)
{
	unsigned char again[FEED_WIRE_MAX];
	struct feed_hello hello;
	struct feed_answer answer;
	struct feed_keep keep;
	if (feed_wire_get_hello(data, size, &hello) == 0) {
		FUZZ_HOLDS(memchr(hello.sign, 0, sizeof hello.sign));
		FUZZ_HOLDS(feed_wire_put_hello(&hello, again) == size && !memcmp(again, data, size));
	}
	if (feed_wire_get_keep(data, size, &keep) == 0) {
		FUZZ_HOLDS(memchr(keep.key, 0, sizeof keep.key));
		FUZZ_HOLDS(feed_wire_put_keep(&keep, again) == size && !memcmp(again, data, size));
	}
	if (feed_wire_get_answer(data, size, &answer) == 0) {
		FUZZ_HOLDS(memchr(answer.text, 0, sizeof answer.text) && answer.reader < FEED_READERS_MAX);
		FUZZ_HOLDS(feed_wire_put_answer(&answer, again) == size && !memcmp(again, data, size));
	}
}

static void figures(const uint8_t *data, size_t size)
{
	static struct feed_figures padded, f;
	memset(&padded, 0, sizeof padded);	/* of few readers there are few bytes */
	memcpy(&padded, data, size < sizeof padded ? size : sizeof padded);
	FUZZ_HOLDS(feed_figures_read(data, size < sizeof f ? size : sizeof f - 1, &f));
	if (feed_figures_read(&padded, sizeof padded, &f))
		return;
	FUZZ_HOLDS(f.n_readers <= FEED_READERS_MAX && f.slots > 0 && f.slots <= FEED_SLOTS_MAX);
	for (size_t i = 0; i <= f.n_readers; i++) {
		const struct feed_span *s = i ? &f.reader[i - 1].span : &f.span;
		struct feed_rate r = feed_span_rate(s, f.pos, f.sleeps_us);
		FUZZ_HOLDS(r.batches_s >= 0 && r.bytes_s >= 0 && r.wait_fraction >= 0 && r.wait_fraction <= 1);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct feed_ring ring;
	messages(data, size);
	figures(data, size);
	memcpy(&ring, data, size < sizeof ring ? size : sizeof ring);
	uint64_t bytes = ring.data_at + ring.slots * ring.slot_bytes, at;
	if (feed_ring_valid(&ring, bytes)) {
		FUZZ_HOLDS(ring.slots <= FEED_SLOTS_MAX && ring.data_at >= sizeof ring + ring.slots * sizeof(struct feed_slot));
		FUZZ_HOLDS(feed_ring_bytes(ring.slots, ring.slot_bytes, &at) == bytes && at == ring.data_at);
	}
	return 0;
}
