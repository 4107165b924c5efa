/* SPDX-License-Identifier: MIT
 * What a writer keeps for its readers, without knowing what it is: pairs of descriptors under a key. Both ends of asking
 * for it.
 */
#include "base/clock.h"
#include "base/text.h"
#include "feed/copies.h"
#include "feed/fds.h"
#include "feed/writer.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void close_pair(int fds[2])
{
	for (int i = 0; i < 2; i++) {
		if (fds[i] >= 0)
			close(fds[i]);
		fds[i] = -1;
	}
}

static struct feed_kept *find(struct feed_writer *w, const char *key)
{
	for (size_t i = 0; i < w->kept_count; i++)
		if (!strcmp(w->kept[i].key, key))
			return &w->kept[i];
	return NULL;
}

/* Closed in forks: the workers of a loader are not to keep memory of a GPU. */
static void keep(struct feed_writer *w, const char *key, int fds[2])
{
	struct feed_kept *k = &w->kept[w->kept_count];
	k->fds[0] = feed_fds_own(fds[0]);
	k->fds[1] = feed_fds_own(fds[1]);
	fds[0] = fds[1] = -1;
	if (k->fds[0] < 0 || k->fds[1] < 0) {
		feed_fds_close(&k->fds[0]);
		feed_fds_close(&k->fds[1]);
		return;
	}
	snprintf(k->key, sizeof k->key, "%s", key);
	w->kept_count++;
}

static void refuse(struct feed_answer *answer, enum error_code code, const char *text)
{
	answer->welcome = false;
	answer->code = code;
	text_printf(answer->text, sizeof answer->text, "%s", text);
}

bool feed_kept_answer(struct feed_writer *w, int sock, const unsigned char *bytes, size_t n, int fds[2])
{
	struct feed_keep ask;
	struct feed_answer answer = { .welcome = true };
	unsigned char out[FEED_WIRE_MAX];
	struct feed_kept *k = NULL;
	bool is_one = feed_wire_get_keep(bytes, n, &ask) == 0;
	if (!is_one)
		goto done;
	if (w->place.party.of_group)
		refuse(&answer, ERR_DENIED, "a group's feed has no copies that all its users share");
	else if (!w->ring || ask.ring != feed_ring_number(w->ring_fd))
		refuse(&answer, ERR_NOT_FOUND, "the ring that it read is another writer's");
	else if (!(k = find(w, ask.key)) && ask.offers && fds[0] >= 0 && fds[1] >= 0 && w->kept_count < FEED_KEPT_MAX)
		keep(w, ask.key, fds);
	else if (!k && ask.offers)
		refuse(&answer, ERR_UNAVAILABLE, "the feed keeps no more of such things");
	feed_wire_send(sock, out, feed_wire_put_answer(&answer, out), k ? k->fds : NULL, k ? 2 : 0);
done:
	close_pair(fds);
	return is_one;
}

void feed_kept_close(struct feed_writer *w)
{
	for (; w->kept_count; w->kept_count--)
		for (int i = 0; i < 2; i++)
			feed_fds_close(&w->kept[w->kept_count - 1].fds[i]);
}

static int hear(int sock, int64_t deadline, int fds[2], struct error *err)
{
	unsigned char bytes[FEED_WIRE_MAX];
	struct feed_answer answer;
	struct pollfd p = { .fd = sock, .events = POLLIN };
	int left;
	do {
		left = (int)(deadline - clock_mono_ms());
	} while (poll(&p, 1, left < 0 ? 0 : left) < 0 && errno == EINTR);
	ssize_t n = feed_wire_receive(sock, bytes, sizeof bytes, fds);
	if (n < 0)
		return error_set(err, ERR_UNAVAILABLE, "feed: who runs the loader did not answer");
	if (n == 0 || feed_wire_get_answer(bytes, (size_t)n, &answer)) {
		close_pair(fds);
		return error_set(err, ERR_NOT_FOUND, "feed: who ran the loader is gone");
	}
	if (!answer.welcome) {
		close_pair(fds);
		return error_set(err, (enum error_code)answer.code, "feed: %s", answer.text);
	}
	return fds[0] >= 0 && fds[1] >= 0;
}

int feed_kept_ask(const struct feed_place *place, const struct feed_keep *ask, const int offer[2], int timeout_ms, int fds[2],
		  struct error *err)
{
	int64_t deadline = clock_mono_ms() + timeout_ms;
	unsigned char bytes[FEED_WIRE_MAX];
	pid_t writer;
	int sock = feed_fds_own(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	fds[0] = fds[1] = -1;
	if (sock < 0)
		return error_errno(err, "feed: socket");
	int rc;
	if (connect(sock, (const struct sockaddr *)&place->sock, sizeof place->sock) ||
	    !feed_folder_trusts(&place->party, sock, &writer) ||
	    feed_wire_send(sock, bytes, feed_wire_put_keep(ask, bytes), offer, ask->offers ? 2 : 0))
		rc = error_set(err, ERR_NOT_FOUND, "feed: who ran the loader is gone");
	else
		rc = hear(sock, deadline, fds, err);
	feed_fds_close(&sock);
	return rc;
}
