/* SPDX-License-Identifier: MIT
 * The writer's side of figures.h.
 */
#include "feed/writer.h"
#include "base/clock.h"

#include <string.h>
#include <unistd.h>

static struct feed_count count_of(const struct peer *p, uint64_t now_us)
{
	const struct feed_control *c = p->control;
	return (struct feed_count){
		.at_us = now_us,
		.items = atomic_load_explicit(&c->items, memory_order_relaxed),
		.bytes = atomic_load_explicit(&c->bytes, memory_order_relaxed),
		.waited_us = atomic_load_explicit(&c->waited_us, memory_order_relaxed),
	};
}

static void note_readers(struct feed_writer *w, struct feed_figures *f, uint64_t now_us)
{
	uint64_t least = UINT64_MAX;
	for (size_t i = 0; i < FEED_READERS_MAX; i++) {
		struct peer *p = &w->peer[i];
		if (p->stage != PEER_WAITS && p->stage != PEER_READS)
			continue;
		feed_span_count(&p->span, count_of(p, now_us));
		uint64_t behind = p->stage == PEER_READS ? w->head - p->done : 0;
		f->reader[f->n_readers++] = (struct feed_reader_figures){ (uint64_t)p->pid, behind, p->span };
		if (p->stage == PEER_READS && p->done < least) {
			least = p->done;
			f->slowest_pid = (uint64_t)p->pid;
		}
	}
	if (w->expected_count || feed_writer_awaits(w, f->n_readers))
		f->slowest_pid = 0;
}

/* As much of it as there are readers. */
static void store(struct feed_figures_shared *to, const struct feed_figures *f)
{
	uint64_t words[sizeof *f / sizeof(uint64_t)];
	size_t n = (offsetof(struct feed_figures, reader) + f->n_readers * sizeof f->reader[0]) / sizeof *words;
	memcpy(words, f, n * sizeof *words);
	uint64_t sequence = atomic_load_explicit(&to->sequence, memory_order_relaxed);
	atomic_store_explicit(&to->sequence, sequence + 1, memory_order_relaxed);
	atomic_thread_fence(memory_order_release);
	for (size_t i = 0; i < n; i++)
		atomic_store_explicit(&to->word[i], words[i], memory_order_relaxed);
	atomic_store_explicit(&to->sequence, sequence + 2, memory_order_release);
}

void feed_figures_note(struct feed_writer *w)
{
	uint64_t now_us = (uint64_t)clock_mono_us();
	struct feed_figures f;
	memset(&f, 0, offsetof(struct feed_figures, reader));
	f.version = FEED_FIGURES_VERSION;
	f.pid = (uint64_t)getpid();
	f.pos = w->pos;
	f.slots = w->ring->slots;
	f.slot_bytes = w->ring->slot_bytes;
	f.memory_bytes = w->memory_bytes;
	w->count.at_us = now_us;
	feed_span_count(&w->span, w->count);
	f.span = w->span;
	note_readers(w, &f, now_us);
	f.sleeps_us = w->sleeps_us;
	store(&w->ring->figures, &f);
}
