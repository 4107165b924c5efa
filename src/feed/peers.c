/* SPDX-License-Identifier: MIT */
#include "base/clock.h"
#include "feed/fds.h"
#include "feed/wire.h"
#include "feed/writer.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	CONTROL_BYTES = 4096,
	MESSAGES_A_LOOK = 16,	/* of one reader; the rest is for the next look, so that none can keep the writer busy */
};

static void peer_gone(struct feed_writer *w, struct peer *p)
{
	if (p->stage == PEER_WAITS || p->stage == PEER_READS)
		feed_place_forget(&w->state, w->lock_fd, p->token);
	feed_fds_close(&p->sock);
	if (p->control)
		munmap(p->control, CONTROL_BYTES);
	*p = (struct peer){ .sock = -1 };
}

static void peer_drop(struct feed_writer *w, struct peer *p)
{
	uint64_t token = p->token;
	atomic_store_explicit(&w->ring->dropped[p - w->peer], 1, memory_order_seq_cst);
	peer_gone(w, p);
	p->token = token;
}

/* A number whose reader was dropped is not given again while that one is there: it may not have looked yet. */
static bool is_free(const struct feed_writer *w, size_t i)
{
	return w->peer[i].stage == PEER_NONE &&
	       (!atomic_load(&w->ring->dropped[i]) || !feed_place_alive(w->lock_fd, w->peer[i].token));
}

/* What another writer would have to make again for this reader: nothing, once it has the ring and a place in it. */
static void peer_note(struct feed_writer *w, const struct peer *p)
{
	feed_place_note(&w->state, w->lock_fd, p->token,
			p->want == FEED_NEVER || (p->has_ring && p->stage == PEER_READS) ? FEED_NEVER : p->want);
}

static void peer_wake(const struct peer *p)
{
	if (p->stage == PEER_READS && atomic_load(&p->control->sleeps))
		feed_wire_send(p->sock, "", 1, NULL, 0);
}

static void peer_begin(struct feed_writer *w, struct peer *p, uint64_t item)
{
	p->stage = PEER_READS;
	p->done = item;
	p->since_ms = clock_mono_ms();
	atomic_store_explicit(&p->control->done, item, memory_order_release);
	peer_note(w, p);	/* before it may read: who has read anything is known to the next writer */
	atomic_store_explicit(&w->ring->start[p - w->peer], item, memory_order_seq_cst);
}

/* The oldest item that is whole: no slot is being written while connections are looked at. */
static uint64_t oldest(const struct feed_writer *w)
{
	return w->head > w->ring->slots ? w->head - w->ring->slots : 0;
}

static uint64_t position_of(const struct feed_writer *w, uint64_t item)
{
	return item < w->head ? w->ring->slot[item % w->ring->slots].pos : w->pos;
}

/* Where a new reader begins. */
static uint64_t want_of_new(const struct feed_writer *w, enum feed_join join)
{
	uint64_t epoch = FEED_POS_EPOCH(w->pos);
	if (join == FEED_JOIN_NOW)
		return w->pos;
	return position_of(w, oldest(w)) <= FEED_POS(epoch, 0) ? FEED_POS(epoch, 0) : FEED_POS(epoch + 1, 0);
}

/* The first item from that position on; FEED_NEVER if it is yet to come. */
static uint64_t item_at(const struct feed_writer *w, uint64_t want)
{
	for (uint64_t item = oldest(w); item <= w->head; item++)
		if (position_of(w, item) >= want)
			return item;
	return FEED_NEVER;
}

static void answer_no(struct peer *p, enum error_code code, const char *fmt, const char *what)
{
	struct feed_answer no = { .code = code };
	unsigned char bytes[FEED_WIRE_MAX];
	snprintf(no.text, sizeof no.text, fmt, what);
	feed_wire_send(p->sock, bytes, feed_wire_put_answer(&no, bytes), NULL, 0);
}

static int answer_yes(struct feed_writer *w, struct peer *p)
{
	struct feed_answer yes = { .welcome = true, .reader = (uint32_t)(p - w->peer) };
	unsigned char bytes[FEED_WIRE_MAX];
	void *map;
	int fd = feed_ring_memory("radfeed-reader", CONTROL_BYTES, false, &map, NULL);
	if (fd < 0)
		return -1;
	p->control = map;
	atomic_store(&w->ring->start[p - w->peer], FEED_NEVER);
	int rc = feed_wire_send(p->sock, bytes, feed_wire_put_answer(&yes, bytes), (int[]){ w->ring_fd, fd }, 2);
	close(fd);
	return rc;
}

static bool is_expected(const struct feed_writer *w, uint64_t token)
{
	for (size_t i = 0; i < w->expected_count; i++)
		if (w->expected[i] == token)
			return true;
	return false;
}

static void unexpect(struct feed_writer *w, uint64_t token)
{
	for (size_t i = 0; i < w->expected_count; i++)
		if (w->expected[i] == token)
			w->expected[i--] = w->expected[--w->expected_count];
}

/* Who is expected has a seat; another takes none of theirs. */
static bool has_seat(struct feed_writer *w, uint64_t token)
{
	feed_peers_expect(w);
	return is_expected(w, token) || feed_peers_count(w) + w->expected_count < FEED_READERS_MAX;
}

static void answer_full(struct peer *p)
{
	answer_no(p, ERR_UNAVAILABLE, "this feed has as many readers as it can%s", "");
}

/* Returns -1 where the connection is to be closed. */
static int on_hello(struct feed_writer *w, struct peer *p, const unsigned char *bytes, size_t n)
{
	struct feed_hello hello;
	if (feed_wire_get_hello(bytes, n, &hello) || !feed_place_alive(w->lock_fd, hello.token))
		return -1;
	for (size_t i = 0; i < FEED_READERS_MAX; i++)
		if (w->peer[i].stage > PEER_NEW && w->peer[i].token == hello.token)
			return -1;
	if (strcmp(hello.sign, w->state.sign)) {
		unexpect(w, hello.token);
		answer_no(p, ERR_INVALID, "this name is used for other data, \"%.400s\": give one of them another name", w->state.sign);
		return -1;
	}
	if (hello.want != FEED_NEVER && hello.want < position_of(w, oldest(w))) {
		answer_no(p, ERR_DENIED, "the batches that this task needs next are gone%s", "");
		return -1;
	}
	if (!has_seat(w, hello.token)) {
		answer_full(p);
		return -1;
	}
	p->token = hello.token;
	p->want = hello.want;
	unexpect(w, hello.token);
	uint64_t want = hello.want != FEED_NEVER ? hello.want : want_of_new(w, hello.join);
	if (answer_yes(w, p))
		return -1;
	uint64_t item = item_at(w, want);
	p->stage = PEER_WAITS;
	if (item != FEED_NEVER) {
		peer_begin(w, p, item);
		feed_peers_wake(w);	/* it may sleep already, and in a full ring no item comes to wake it */
	} else if (p->want != FEED_NEVER)
		peer_note(w, p);
	else
		p->want = want;
	return 0;
}

static void on_message(struct feed_writer *w, struct peer *p)
{
	unsigned char bytes[FEED_WIRE_MAX];
	for (int i = 0; i < MESSAGES_A_LOOK && p->stage != PEER_NONE; i++) {
		int fds[2];
		ssize_t n = feed_wire_receive(p->sock, bytes, sizeof bytes, p->stage == PEER_NEW ? fds : NULL);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (p->stage == PEER_NEW && feed_kept_answer(w, p->sock, bytes, n < 0 ? 0 : (size_t)n, fds)) {
			peer_gone(w, p);
			return;
		}
		if (n <= 0 || (p->stage == PEER_NEW ? on_hello(w, p, bytes, (size_t)n) != 0 : n != 1)) {
			peer_gone(w, p);
			return;
		}
		if (n == 1 && !p->has_ring) {
			p->has_ring = true;
			if (p->stage == PEER_READS)
				peer_note(w, p);
		}
	}
}

static void on_connect(struct feed_writer *w)
{
	for (;;) {
		struct peer fresh = { .sock = feed_fds_own(accept4(w->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) };
		w->crowded = fresh.sock < 0 && errno != EAGAIN;
		if (fresh.sock < 0)
			return;
		size_t i = 0;
		while (i < FEED_READERS_MAX && !is_free(w, i))
			i++;
		if (i == FEED_READERS_MAX || !feed_folder_trusts(&w->place.party, fresh.sock, &fresh.pid)) {
			unsigned char hello[FEED_WIRE_MAX];	/* left unread, it would take the answer away */
			feed_wire_receive(fresh.sock, hello, sizeof hello, NULL);
			answer_full(&fresh);
			feed_fds_close(&fresh.sock);
			continue;
		}
		fresh.stage = PEER_NEW;
		w->peer[i] = fresh;
		atomic_store(&w->ring->dropped[i], 0);
		on_message(w, &w->peer[i]);
	}
}

int feed_peers_serve(struct feed_writer *w, int timeout_ms)
{
	struct pollfd fds[FEED_READERS_MAX + 2];
	struct peer *of[FEED_READERS_MAX + 2];
	nfds_t n = 0;
	fds[n++] = (struct pollfd){ .fd = w->crowded ? -1 : w->listen_fd, .events = POLLIN };
	fds[n++] = (struct pollfd){ .fd = w->until ? -1 : w->until_fd, .events = POLLIN };
	for (size_t i = 0; i < FEED_READERS_MAX; i++) {
		if (w->peer[i].stage == PEER_NONE)
			continue;
		of[n] = &w->peer[i];
		fds[n++] = (struct pollfd){ .fd = w->peer[i].sock, .events = POLLIN };
	}
	if (poll(fds, n, timeout_ms) < 0)
		return -1;
	for (nfds_t i = 2; i < n; i++)
		if (fds[i].revents)
			on_message(w, of[i]);
	if (fds[1].revents)
		w->until = true;
	if (fds[0].revents || w->crowded)
		on_connect(w);
	return 0;
}

uint64_t feed_peers_least(struct feed_writer *w)
{
	uint64_t least = w->expected_count ? 0 : w->head;
	for (size_t i = 0; i < FEED_READERS_MAX; i++) {
		struct peer *p = &w->peer[i];
		if (p->stage != PEER_READS)
			continue;
		uint64_t done = atomic_load(&p->control->done);
		if (done < p->done || done > w->head) {	/* nothing that a reader of ours says */
			peer_drop(w, p);
			continue;
		}
		if (done != p->done)
			p->since_ms = clock_mono_ms();
		p->done = done;
		if (done < least)
			least = done;
	}
	return least;
}

uint32_t feed_peers_count(const struct feed_writer *w)
{
	uint32_t n = 0;
	for (size_t i = 0; i < FEED_READERS_MAX; i++)
		n += w->peer[i].stage > PEER_NEW;
	return n;
}

bool feed_peers_any(const struct feed_writer *w)
{
	return feed_peers_count(w) || w->expected_count;
}

void feed_peers_expect(struct feed_writer *w)
{
	for (size_t i = 0; i < w->expected_count; i++)
		if (!feed_place_alive(w->lock_fd, w->expected[i])) {
			feed_place_forget(&w->state, w->lock_fd, w->expected[i]);	/* its row is for others */
			w->expected[i--] = w->expected[--w->expected_count];
		}
}

void feed_peers_drop(struct feed_writer *w, uint64_t least, int64_t since_ms)
{
	for (size_t i = 0; i < FEED_READERS_MAX; i++)
		if (w->peer[i].stage == PEER_READS && w->peer[i].done == least && w->peer[i].since_ms <= since_ms)
			peer_drop(w, &w->peer[i]);
	for (; least == 0 && w->expected_count; w->expected_count--)
		feed_place_forget(&w->state, w->lock_fd, w->expected[w->expected_count - 1]);
}

void feed_peers_begin(struct feed_writer *w)
{
	for (size_t i = 0; i < FEED_READERS_MAX; i++)
		if (w->peer[i].stage == PEER_WAITS && w->peer[i].want <= w->pos)
			peer_begin(w, &w->peer[i], w->head);
}

void feed_peers_wake(struct feed_writer *w)
{
	for (size_t i = 0; i < FEED_READERS_MAX; i++)
		peer_wake(&w->peer[i]);
}

void feed_peers_close(struct feed_writer *w)
{
	for (size_t i = 0; i < FEED_READERS_MAX; i++) {
		struct peer *p = &w->peer[i];
		feed_fds_close(&p->sock);
		if (p->control)
			munmap(p->control, CONTROL_BYTES);
		*p = (struct peer){ .sock = -1 };
	}
}
