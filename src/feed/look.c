/* SPDX-License-Identifier: MIT */
#include "feed/look.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "feed/place.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { TRIES = 100, PAUSE_MS = 1 };	/* for whole figures: a writer that notes new ones may have no core meanwhile */

static const char ending[] = ".feed";

static int is_feed(const struct dirent *e)
{
	size_t n = strlen(e->d_name), m = sizeof ending - 1;
	return n > m && n - m <= FEED_NAME_MAX && !strcmp(e->d_name + n - m, ending);
}

char **feed_look_names(struct error *err)
{
	char dir[FEED_FOLDER_MAX];
	struct dirent **found = NULL;
	int n = 0, rc = feed_place_folder(dir, err);
	if (rc < 0)
		return NULL;
	if (rc > 0)
		n = scandir(dir, &found, is_feed, alphasort);
	if (n < 0) {
		error_errno(err, "feed: folder %s", dir);
		return NULL;
	}
	char **names = alloc_zero(((size_t)n + 1) * sizeof *names + (size_t)n * (FEED_NAME_MAX + 1));
	char *text = (char *)(names + n + 1);
	for (int i = 0; i < n; i++, text += FEED_NAME_MAX + 1) {
		names[i] = text;
		snprintf(text, FEED_NAME_MAX + 1, "%.*s", (int)(strlen(found[i]->d_name) - (sizeof ending - 1)), found[i]->d_name);
		free(found[i]);
	}
	free(found);
	return names;
}

/* A memfd of a feed and nothing else is opened: to open any other file may do something. So it is held first (O_PATH), for that
 * process may be gone in between and its number another's. */
static int open_ring(pid_t pid, int fd)
{
	static const char is[] = "/memfd:" FEED_RING_NAME " ";
	char path[64], link[sizeof is + 32];
	snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)pid, fd);
	int held = open(path, O_PATH | O_CLOEXEC), ring = -1;
	if (held < 0)
		return -1;
	snprintf(path, sizeof path, "/proc/self/fd/%d", held);
	ssize_t n = readlink(path, link, sizeof link);
	if (n >= (ssize_t)sizeof is && !memcmp(link, is, sizeof is - 1))
		ring = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	close(held);
	return ring;
}

static bool read_at(int fd, void *to, size_t n, size_t at)
{
	return pread(fd, to, n, (off_t)at) == (ssize_t)n;
}

static int read_figures(int fd, struct feed_figures *out)
{
	const size_t at = offsetof(struct feed_ring, figures);
	uint64_t magic, before = 0, after = 1, words[sizeof *out / sizeof(uint64_t)];
	if (!read_at(fd, &magic, sizeof magic, 0) || magic != FEED_RING_MAGIC)
		return -1;
	for (int i = 0; i < TRIES && (before != after || before & 1); i++) {
		if (i)
			nanosleep(&(struct timespec){ .tv_nsec = PAUSE_MS * 1000000l }, NULL);
		if (!read_at(fd, &before, sizeof before, at))
			return -1;
		atomic_thread_fence(memory_order_acquire);
		if (!read_at(fd, words, sizeof words, at + offsetof(struct feed_figures_shared, word)))
			return -1;
		atomic_thread_fence(memory_order_acquire);
		if (!read_at(fd, &after, sizeof after, at))
			return -1;
	}
	return before == after && !(before & 1) ? feed_figures_read(words, sizeof words, out) : -1;
}

static void look_at_ring(struct feed_look *out, uint64_t shown)
{
	out->writer = (pid_t)(shown >> 32);
	uint32_t fd = (uint32_t)shown;
	if (!fd) {
		out->state = FEED_LOOK_BEGINS;
		return;
	}
	int ring = fd <= INT32_MAX ? open_ring(out->writer, (int)fd - 1) : -1;
	out->state = ring >= 0 && read_figures(ring, &out->figures) == 0 ? FEED_LOOK_RUNS : FEED_LOOK_HIDDEN;
	if (out->state == FEED_LOOK_HIDDEN)
		memset(&out->figures, 0, sizeof out->figures);
	if (ring >= 0)
		close(ring);
}

/* What lies in the file, copied: a mapping of it would end with it. */
static void look_at_state(int fd, struct feed_look *out)
{
	struct feed_state *s = alloc_zero(sizeof *s);
	uint64_t tokens[FEED_READERS_MAX];
	out->tasks = feed_place_tokens(fd, tokens, FEED_READERS_MAX);
	bool whole = read_at(fd, s, sizeof *s, 0) && s->magic == FEED_STATE_MAGIC;
	if (whole)
		snprintf(out->sign, sizeof out->sign, "%.*s", FEED_SIGN_MAX, s->sign);
	if (feed_place_is_claimed(fd)) {
		out->state = FEED_LOOK_HIDDEN;
		if (whole)
			look_at_ring(out, atomic_load(&s->shown));
	}
	free(s);
}

int feed_look(const char *name, struct feed_look *out, struct error *err)
{
	char dir[FEED_FOLDER_MAX];
	struct feed_place place;
	memset(out, 0, sizeof *out);
	int rc = feed_place_folder(dir, err);
	if (rc < 0 || feed_place_name(dir, name, &place, err))
		return -1;
	int fd = rc ? open(place.state, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK) : -1;
	if (rc && fd < 0 && errno != ENOENT)
		return error_errno(err, "feed: %s", place.state);
	if (fd < 0)
		return error_set(err, ERR_NOT_FOUND, "no feed %s of yours on this machine: there is none in %s", name, dir);
	snprintf(out->name, sizeof out->name, "%s", name);
	look_at_state(fd, out);
	out->now_us = (uint64_t)clock_mono_us();
	close(fd);
	return 0;
}
