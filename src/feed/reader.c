/* SPDX-License-Identifier: MIT */
#include "feed/view.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "feed/copies.h"
#include "feed/fds.h"
#include "feed/place.h"
#include "feed/wire.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
	RETRY_MS = 5,	/* between two looks for a writer, while one is dead and the next does not listen yet */
	FULL_MS = 100,	/* before a writer that has no place is asked again: it is to make batches meanwhile */
};

struct feed_reader {
	struct feed_place place;
	char sign[FEED_SIGN_MAX + 1];
	enum feed_join join;
	pid_t pid;		/* whose it is: a fork has no part in it */
	int lock_fd, sock;
	bool asked;		/* said hello on sock */
	uint64_t token, want;
	uint64_t last_sum;	/* of the item before `want`, in the ring of a writer that is gone */
	bool differs;		/* the next writer made another one of it, and nobody has asked yet */
	pthread_mutex_t mutex;	/* of what feed_reader_release touches: the views, and `sock` while there is one */
	struct feed_view *view;	/* of the ring that it reads now; NULL: it looks for a writer */
	size_t views;		/* that exist, with those of earlier rings of which items are held */
	bool closed;
};

struct feed_reader *feed_reader_open(const char *name, const char *sign, enum feed_join join, struct error *err)
{
	struct feed_reader *r = alloc_zero(sizeof *r);
	r->lock_fd = r->sock = -1;
	r->want = FEED_NEVER;
	r->join = join;
	r->pid = getpid();
	pthread_mutex_init(&r->mutex, NULL);
	if (strlen(sign) > FEED_SIGN_MAX) {
		error_set(err, ERR_INVALID, "feed: more than %d bytes say what its data are", FEED_SIGN_MAX);
	} else if (feed_place_find(name, &r->place, err) == 0) {
		snprintf(r->sign, sizeof r->sign, "%s", sign);
		return r;
	}
	free(r);
	return NULL;
}

static int no_time(struct error *err)
{
	return error_set(err, ERR_UNAVAILABLE, "feed: no batch in that time");
}

static int left_ms(int64_t deadline)
{
	int64_t left = deadline - clock_mono_ms();
	return left < 0 ? 0 : (int)left;
}

/* Connects and says hello. Returns 0, or -1 with the connection closed: nobody listens. */
static int ask(struct feed_reader *r)
{
	r->sock = feed_fds_own(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	if (r->sock < 0)
		return -1;
	pid_t writer;
	struct feed_hello hello = { .token = r->token, .want = r->want, .join = r->join };
	memcpy(hello.sign, r->sign, sizeof hello.sign);
	unsigned char bytes[FEED_WIRE_MAX];
	size_t n = feed_wire_put_hello(&hello, bytes);
	if (connect(r->sock, (const struct sockaddr *)&r->place.sock, sizeof r->place.sock) == 0 &&
	    feed_folder_trusts(&r->place.party, r->sock, &writer) && feed_wire_send(r->sock, bytes, n, NULL, 0) == 0) {
		r->asked = true;
		return 0;
	}
	feed_fds_close(&r->sock);
	return -1;
}

static void hang_up(struct feed_reader *r)
{
	feed_fds_close(&r->sock);
	r->asked = false;
}

/* Makes the view, and says that it is there; where that cannot be sent, the connection will say why. Returns 1 or -1. */
static int welcomed(struct feed_reader *r, const int fds[2], uint32_t number, struct error *err)
{
	struct feed_view *view = feed_view_make(fds[0], fds[1], number, err);
	if (!view)
		return -1;
	pthread_mutex_lock(&r->mutex);
	r->view = view;
	r->views++;
	pthread_mutex_unlock(&r->mutex);
	if (feed_view_differs(r->view, r->want - 1, r->last_sum))
		r->differs = true;
	r->last_sum = 0;
	feed_wire_send(r->sock, "", 1, NULL, 0);
	return 1;
}

static int refused(int64_t deadline, const struct feed_answer *answer, struct error *err)
{
	bool full = answer->code == ERR_UNAVAILABLE;
	if (full)
		poll(NULL, 0, left_ms(deadline) < FULL_MS ? left_ms(deadline) : FULL_MS);
	error_set(err, (enum error_code)answer->code, "%s", answer->text);
	if (full && err)
		err->no = EBUSY;
	return -1;
}

/* Waits for the answer. Returns 1 once welcome; 0 if the writer is gone, or it was no answer; -1 with an error. */
static int hear(struct feed_reader *r, int64_t deadline, struct error *err)
{
	struct pollfd p = { .fd = r->sock, .events = POLLIN };
	if (poll(&p, 1, left_ms(deadline)) <= 0)
		return no_time(err);
	unsigned char bytes[FEED_WIRE_MAX];
	struct feed_answer answer;
	int fds[2];
	ssize_t n = feed_wire_receive(r->sock, bytes, sizeof bytes, fds);
	int rc = 0;
	if (n > 0 && feed_wire_get_answer(bytes, (size_t)n, &answer) == 0) {
		if (answer.welcome && fds[0] >= 0)
			rc = welcomed(r, fds, answer.reader, err);
		else if (!answer.welcome)
			rc = refused(deadline, &answer, err);
	}
	for (int i = 0; i < 2; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	if (rc != 1)
		hang_up(r);
	return rc;
}

/* Has a writer's ring in r->view. */
static int join(struct feed_reader *r, int64_t deadline, struct error *err)
{
	for (;;) {
		if (r->lock_fd < 0 || (!r->asked && !feed_place_current(&r->place, r->lock_fd))) {
			feed_fds_close(&r->lock_fd);
			if (feed_place_join(&r->place, &r->lock_fd, &r->token, err))
				return -1;
		}
		if (!r->asked && ask(r)) {
			if (left_ms(deadline) == 0)
				return no_time(err);
			struct timespec pause = { .tv_nsec = RETRY_MS * 1000000l };
			if (nanosleep(&pause, NULL))
				return no_time(err);
			continue;
		}
		int rc = hear(r, deadline, err);
		if (rc)
			return rc < 0 ? -1 : 0;
	}
}

/* The writer is gone, and all that it published is read. What is still held of its ring stays until it is released. */
static void part(struct feed_reader *r)
{
	pthread_mutex_lock(&r->mutex);
	uint64_t next = feed_view_next(r->view);
	if (next != FEED_NEVER)
		r->want = next;
	if (feed_view_retire(r->view))
		r->views--;
	r->view = NULL;
	pthread_mutex_unlock(&r->mutex);
	hang_up(r);
}

/* Sleeps until the writer says "look", or hangs up: 1 then. Returns -1 when time is up or a signal came. */
static int sleep_on(struct feed_reader *r, int64_t deadline, struct error *err)
{
	struct pollfd p = { .fd = r->sock, .events = POLLIN };
	char bytes[8];
	int64_t from_us = clock_mono_us();
	int rc = feed_view_sleeps(r->view) ? poll(&p, 1, left_ms(deadline)) : 1;
	feed_view_awake(r->view);
	feed_view_waited(r->view, (uint64_t)(clock_mono_us() - from_us));
	if (rc <= 0)
		return no_time(err);
	for (;;) {
		ssize_t n = feed_wire_receive(r->sock, bytes, sizeof bytes, NULL);
		if (n < 0 && errno == EAGAIN)
			return 0;
		if (n <= 0)
			return 1;
	}
}

int feed_reader_next(struct feed_reader *r, int timeout_ms, struct feed_item *item, struct error *err)
{
	int64_t deadline = clock_mono_ms() + timeout_ms;
	if (r->pid != getpid())
		return error_set(err, ERR_CONFLICT, "this process is a fork of the one that joined the feed, and has no part in it");
	for (bool hung = false;;) {
		if (!r->view && join(r, deadline, err))
			return -1;
		pthread_mutex_lock(&r->mutex);
		int rc = feed_view_take(r->view, item, err);
		if (rc == -2)
			hang_up(r);	/* not later: a thread that gives back would send to whatever has that number next */
		pthread_mutex_unlock(&r->mutex);
		if (rc != 0)
			return rc < 0 ? -1 : 0;
		if (hung) {	/* seen before that last look, so there is nothing more to come */
			r->last_sum = feed_view_last_sum(r->view);
			part(r);
			hung = false;
			continue;
		}
		rc = sleep_on(r, deadline, err);
		if (rc < 0)
			return -1;
		hung = rc == 1;
	}
}

bool feed_reader_differs(struct feed_reader *r)
{
	bool differs = r->differs;
	r->differs = false;
	return differs;
}

const void *feed_item_shared(const struct feed_item *item, void **slots, uint64_t *slots_bytes)
{
	return feed_view_shared(item->ring, item->slot, slots, slots_bytes);
}

/* What was kept by others: its copies are opened, its memory is handed on. */
static int take_copies(int fds[2], uint64_t slots, struct feed_copies **copies, int *memory, struct error *err)
{
	*copies = feed_copies_open(fds[1], slots, err);
	close(fds[1]);
	if (!*copies) {
		close(fds[0]);
		return -1;
	}
	*memory = fds[0];
	return 1;
}

int feed_reader_copies(struct feed_reader *r, const struct feed_item *item, const char *key, int timeout_ms,
		       const struct feed_memory *offer, struct feed_copies **copies, int *memory, struct error *err)
{
	struct feed_keep ask = { .ring = feed_view_ring(item->ring), .offers = offer != NULL };
	uint64_t slots = feed_view_slots(item->ring);
	struct feed_copies *own = NULL;
	int pair[2] = { offer ? offer->fd : -1, -1 }, fds[2];
	*copies = NULL;
	if (snprintf(ask.key, sizeof ask.key, "%s", key) >= (int)sizeof ask.key)
		return error_set(err, ERR_INVALID, "feed: a key of more than %d bytes", FEED_KEY_MAX);
	if (offer && !(own = feed_copies_make(slots, offer->stride, offer->bytes, &pair[1], err)))
		return -1;
	int rc = feed_kept_ask(&r->place, &ask, pair, timeout_ms, fds, err);
	if (pair[1] >= 0)
		close(pair[1]);
	if (rc == 0)
		*copies = own;
	else
		feed_copies_close(own);
	return rc == 1 ? take_copies(fds, slots, copies, memory, err) : rc;
}

uint64_t feed_item_slots(const struct feed_item *item)
{
	return feed_view_slots(item->ring);
}

/* Ends what began with the lock. Who finds it over is the only one: until that unlock another thread's release keeps it. */
static void unlock_or_free(struct feed_reader *r)
{
	bool over = r->closed && r->views == 0;
	pthread_mutex_unlock(&r->mutex);
	if (!over)
		return;
	pthread_mutex_destroy(&r->mutex);
	free(r);
}

void feed_reader_release(struct feed_reader *r, void *ring, uint32_t slot)
{
	if (r->pid != getpid())
		return;
	pthread_mutex_lock(&r->mutex);
	int rc = feed_view_release(ring, slot);
	if (rc == FEED_VIEW_GONE)
		r->views--;
	else if (rc == FEED_VIEW_AWAITED && ring == r->view && r->sock >= 0)
		feed_wire_send(r->sock, "", 1, NULL, 0);
	unlock_or_free(r);
}

void feed_reader_close(struct feed_reader *r)
{
	if (!r || r->pid != getpid())
		return;
	if (r->view)
		part(r);
	hang_up(r);
	feed_place_leave(&r->place, &r->lock_fd, r->token);
	pthread_mutex_lock(&r->mutex);
	r->closed = true;
	unlock_or_free(r);
}
