/* SPDX-License-Identifier: MIT
 *
 * Figures as they are read: from words that any process of this user may have written, so nothing of them is believed
 * before it was bounded.
 */
#include "feed/figures.h"

#include <string.h>

static const uint64_t mark_us = 10 * 1000000ull;

void feed_span_count(struct feed_span *s, struct feed_count now)
{
	if (!s->from.at_us)
		s->from = s->mark = now;
	if (now.at_us - s->mark.at_us >= mark_us) {
		s->from = s->mark;
		s->mark = now;
	}
	s->now = now;
}

int feed_figures_read(const void *bytes, size_t n, struct feed_figures *out)
{
	if (n < sizeof *out)
		return -1;
	memcpy(out, bytes, sizeof *out);
	if (out->version != FEED_FIGURES_VERSION || out->n_readers > FEED_READERS_MAX || !out->slots || out->slots > FEED_SLOTS_MAX)
		return -1;
	for (size_t i = 0; i < out->n_readers; i++)
		if (out->reader[i].pid > INT32_MAX)
			return -1;
	return out->pid <= INT32_MAX && out->slowest_pid <= INT32_MAX ? 0 : -1;
}

static double grown(uint64_t from, uint64_t to)
{
	return to > from ? (double)(to - from) : 0;
}

struct feed_rate feed_span_rate(const struct feed_span *s, uint64_t now_us, uint64_t since_us)
{
	double us = grown(s->from.at_us, now_us);
	double waited = grown(s->from.waited_us, s->now.waited_us) + (since_us ? grown(since_us, now_us) : 0);
	if (us <= 0)
		return (struct feed_rate){ 0, 0, 0 };
	return (struct feed_rate){ 1e6 * grown(s->from.items, s->now.items) / us, 1e6 * grown(s->from.bytes, s->now.bytes) / us,
				   waited < us ? waited / us : 1 };
}
