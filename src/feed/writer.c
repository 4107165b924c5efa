/* SPDX-License-Identifier: MIT */
#include "feed/writer.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "feed/fds.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	PAGE_BYTES = 4096,
	BACKLOG = 64,
	EXPECTED_LOOK_MS = 50,	/* the kernel tells nobody that a lock was let go: while that is all the writer waits for, it looks */
	RESIGN_MS = 1000,
	FIGURES_MS = 1000,	/* so old figures are at most while it sleeps */
};

static int listen_at(const struct feed_place *place, struct error *err)
{
	int fd = feed_fds_own(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	if (fd < 0)
		return error_errno(err, "feed: socket");
	unlink(place->sock.sun_path);	/* of a writer that is no more: this one has the lock */
	if (bind(fd, (const struct sockaddr *)&place->sock, sizeof place->sock) ||
	    (place->party.of_group && chmod(place->sock.sun_path, 0660)) || listen(fd, BACKLOG)) {
		error_errno(err, "feed: %s", place->sock.sun_path);
		feed_fds_close(&fd);
	}
	return fd;
}

static void expect(struct feed_writer *w, uint64_t token)
{
	for (size_t i = 0; i < w->expected_count; i++)
		if (w->expected[i] == token)
			return;
	if (token && w->expected_count < FEED_READERS_MAX)
		w->expected[w->expected_count++] = token;
}

/* Members first: the others have nothing to lose. */
static void expect_all(struct feed_writer *w)
{
	uint64_t living[FEED_READERS_MAX];
	size_t n = feed_place_tokens(w->lock_fd, living, FEED_READERS_MAX);
	for (size_t i = 0; i < FEED_READERS_MAX; i++)
		expect(w, w->state.member[i].token);
	for (size_t i = 0; i < n; i++)
		expect(w, living[i]);
}

/* Goes on where living readers need it, or begins anew. */
static int begin(struct feed_writer *w, const char *sign, uint64_t seed, struct error *err)
{
	if (!feed_place_goes_on(&w->state, w->lock_fd)) {
		feed_place_begin(&w->state, w->lock_fd, sign, seed);
		expect_all(w);
		return 0;
	}
	if (strcmp(w->state.sign, sign))
		return error_set(err, ERR_INVALID, "this name is used for other data, \"%.400s\": give one of them another name",
				 w->state.sign);
	w->from = w->pos = feed_place_position(&w->state, w->lock_fd);
	expect_all(w);
	return 0;
}

struct feed_writer *feed_writer_claim(const char *name, const char *sign, uint64_t seed, struct error *err)
{
	struct feed_writer *w = alloc_zero(sizeof *w);
	w->lock_fd = w->listen_fd = w->until_fd = w->ring_fd = -1;
	for (size_t i = 0; i < FEED_READERS_MAX; i++)
		w->peer[i].sock = -1;
	if (strlen(sign) > FEED_SIGN_MAX) {
		error_set(err, ERR_INVALID, "feed: more than %d bytes say what its data are", FEED_SIGN_MAX);
		goto failed;
	}
	if (feed_place_find(name, &w->place, err) || feed_place_claim(&w->place, &w->lock_fd, &w->state, err))
		goto failed;
	if (begin(w, sign, seed, err))
		goto failed;
	feed_place_show(&w->state, w->lock_fd, -1);
	w->listen_fd = listen_at(&w->place, err);
	if (w->listen_fd < 0)
		goto failed;
	return w;
failed:
	feed_fds_close(&w->lock_fd);
	free(w);
	return NULL;
}

void feed_writer_position(const struct feed_writer *w, uint64_t *epoch, uint64_t *index, uint64_t *seed)
{
	*epoch = FEED_POS_EPOCH(w->pos);
	*index = FEED_POS_INDEX(w->pos);
	*seed = w->state.seed;
}

int feed_writer_open(struct feed_writer *w, uint32_t slots, uint64_t slot_bytes, uint32_t patience_ms, struct error *err)
{
	uint64_t data_at;
	slot_bytes = slot_bytes ? (slot_bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES : PAGE_BYTES;
	w->ring_bytes = feed_ring_bytes(slots, slot_bytes, &data_at);
	if (!w->ring_bytes)
		return error_set(err, ERR_INVALID, "feed: %u slots of %llu bytes: there are 2 to %d, of a TiB at most", slots,
				 (unsigned long long)slot_bytes, FEED_SLOTS_MAX);
	void *map;
	w->ring_fd = feed_ring_memory(FEED_RING_NAME, w->ring_bytes, !w->pinnable || w->place.party.of_group, &map, err);
	if (w->ring_fd < 0)
		return -1;
	w->ring = map;
	w->ring->slots = slots;
	w->ring->slot_bytes = slot_bytes;
	w->ring->data_at = data_at;
	w->ring->again_pos = FEED_NEVER;
	for (size_t i = 0; i < FEED_READERS_MAX; i++)
		atomic_store(&w->ring->start[i], FEED_NEVER);
	w->ring->magic = FEED_RING_MAGIC;
	w->filled = alloc_zero(slots * sizeof *w->filled);
	w->patience_ms = patience_ms;
	feed_figures_note(w);
	feed_place_show(&w->state, w->lock_fd, w->ring_fd);
	return 0;
}

void feed_writer_pinnable(struct feed_writer *w)
{
	w->pinnable = true;
}

void feed_writer_again(struct feed_writer *w, const void *data, uint64_t bytes)
{
	w->ring->again_sum = feed_ring_sum(data, bytes);
	w->ring->again_pos = w->pos - 1;
}

void feed_writer_until(struct feed_writer *w, int fd)
{
	w->until_fd = fd;
}

void feed_writer_wants(struct feed_writer *w, uint32_t readers)
{
	w->wants = readers;
}

/* How long to sleep for want of room; 0 if time is up for those who hold it. */
static int64_t sleep_ms(const struct feed_writer *w, int64_t since)
{
	int64_t ms = w->expected_count || w->until ? EXPECTED_LOOK_MS : -1;
	if (!w->patience_ms || !feed_peers_any(w) || feed_writer_awaits(w, feed_writer_readers(w)))
		return ms;
	int64_t left = since + w->patience_ms - clock_mono_ms();
	left = left < 0 ? 0 : left;
	return ms < 0 || left < ms ? left : ms;
}

/* Whether the next slot may be written. */
static bool has_room(struct feed_writer *w)
{
	return feed_ring_free(w->head, w->ring->slots, feed_peers_least(w)) && (feed_peers_any(w) || w->head < w->ring->slots) &&
	       !feed_writer_awaits(w, feed_writer_readers(w));
}

/* Returns -1 after a signal. */
static int sleep_for_room(struct feed_writer *w, int ms)
{
	w->sleeps_us = w->sleeps_us ? w->sleeps_us : (uint64_t)clock_mono_us();
	feed_figures_note(w);
	return feed_peers_serve(w, ms < 0 || ms > FIGURES_MS ? FIGURES_MS : ms) && errno == EINTR ? -1 : 0;
}

static void awake(struct feed_writer *w)
{
	w->count.waited_us += w->sleeps_us ? (uint64_t)clock_mono_us() - w->sleeps_us : 0;
	w->sleeps_us = 0;
}

static int wait_for_room(struct feed_writer *w, struct error *err)
{
	int64_t since = clock_mono_ms();
	uint64_t token;
	for (int64_t ms = 0;;) {
		if (feed_peers_serve(w, (int)ms) && errno == EINTR)
			return error_set(err, ERR_UNAVAILABLE, "feed: a signal came");
		feed_peers_expect(w);
		if (w->until && !feed_peers_any(w) && !feed_place_tokens(w->lock_fd, &token, 1))
			return error_set(err, ERR_NOT_FOUND, "feed: nobody reads");
		if (has_room(w))
			return 0;
		ms = sleep_ms(w, since);
		if (ms == 0) {
			feed_peers_drop(w, feed_peers_least(w), since);
			since = clock_mono_ms();
			continue;
		}
		atomic_store(&w->ring->writer_sleeps, 1);
		if (!has_room(w) && sleep_for_room(w, (int)ms))
			return error_set(err, ERR_UNAVAILABLE, "feed: a signal came");
		atomic_store(&w->ring->writer_sleeps, 0);
		ms = 0;
	}
}

int feed_writer_reserve(struct feed_writer *w, uint64_t bytes, void **data, struct error *err)
{
	if (bytes > w->ring->slot_bytes)
		return error_set(err, ERR_INVALID, "a batch of %llu bytes, and a slot of the feed has %llu", (unsigned long long)bytes,
				 (unsigned long long)w->ring->slot_bytes);
	if (wait_for_room(w, err))
		return -1;
	awake(w);
	uint64_t slot = w->head % w->ring->slots;
	uint64_t at = w->ring->data_at + slot * w->ring->slot_bytes;
	/* Memory that is not there is an error here, and would be a SIGBUS at the first store. A signal is none. */
	if (bytes > w->filled[slot]) {
		int rc;
		while ((rc = fallocate(w->ring_fd, 0, (off_t)at, (off_t)bytes)) && errno == EINTR)
			;
		if (rc) {
			error_errno(err, "feed: %llu MiB of memory for its ring", (unsigned long long)(w->ring_bytes >> 20));
			if (err)
				err->code = ERR_UNAVAILABLE;
			return -1;
		}
		w->memory_bytes += bytes - w->filled[slot];
		w->filled[slot] = bytes;
	}
	*data = (unsigned char *)w->ring + at;
	return 0;
}

void feed_writer_publish(struct feed_writer *w, enum feed_kind kind, uint64_t bytes)
{
	struct feed_slot *slot = &w->ring->slot[w->head % w->ring->slots];
	*slot = (struct feed_slot){ .pos = w->pos, .bytes = bytes, .kind = kind };
	feed_peers_begin(w);
	w->pos = kind == FEED_END ? FEED_POS(FEED_POS_EPOCH(w->pos) + 1, 0) : w->pos + 1;
	w->head++;
	w->count.items += kind == FEED_BATCH;
	w->count.bytes += bytes;
	atomic_store(&w->ring->head, w->head);
	feed_place_published(&w->state, w->lock_fd, w->pos);	/* after head: too early is harmless */
	feed_peers_wake(w);
	feed_figures_note(w);
}

uint32_t feed_writer_readers(const struct feed_writer *w)
{
	return feed_peers_count(w);
}

void feed_writer_clean(const struct feed_writer *w)
{
	feed_place_remove(&w->place, w->lock_fd);
}

void feed_writer_resign(const char *name)
{
	struct feed_place place;
	if (feed_place_find(name, &place, NULL) == 0)
		feed_place_sweep(&place, RESIGN_MS);
}

void feed_writer_close(struct feed_writer *w)
{
	if (!w)
		return;
	feed_peers_close(w);
	feed_kept_close(w);
	feed_fds_close(&w->listen_fd);
	if (w->ring)
		munmap(w->ring, w->ring_bytes);
	if (w->ring_fd >= 0)
		close(w->ring_fd);
	free(w->filled);
	feed_fds_close(&w->lock_fd);
	feed_place_sweep(&w->place, 0);	/* not before: a reader that leaves while the lock is taken leaves the files to this */
	free(w);
}
