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

enum { GROUPS_MAX = 65536 };
enum { TRIES = 100, PAUSE_MS = 1 };	/* for whole figures: a writer that notes new ones may have no core meanwhile */

static const char ending[] = ".feed";

static int is_feed(const struct dirent *e)
{
	size_t n = strlen(e->d_name), m = sizeof ending - 1;
	return n > m && n - m <= FEED_NAME_MAX && !strcmp(e->d_name + n - m, ending);
}

struct look_names {
	char (*text)[FEED_LOOK_NAME_MAX + 1];
	size_t n;
};

/* Of one folder, "GROUP:NAME" in a group's. That a group's may not be read is no error: anybody can make one of that name
 * in /tmp. */
static int add_names(struct look_names *names, const struct feed_party *party, struct error *err)
{
	char dir[FEED_FOLDER_MAX], prefix[16] = "";
	struct dirent **found = NULL;
	struct error why = ERROR_INIT;
	int n = 0, rc = feed_folder_look(party, dir, sizeof dir, &why);
	if (rc > 0 && (n = scandir(dir, &found, is_feed, alphasort)) < 0)
		rc = error_errno(&why, "feed: folder %s", dir);
	if (rc < 0 && !party->of_group && err)
		*err = why;
	if (rc < 0)
		return party->of_group ? 0 : -1;
	if (party->of_group)
		snprintf(prefix, sizeof prefix, "%u:", (unsigned)party->gid);
	names->text = alloc_resize(names->text, names->n + (size_t)n + 1, sizeof *names->text);
	for (int i = 0; i < n; i++) {
		int length = (int)(strlen(found[i]->d_name) - (sizeof ending - 1));
		snprintf(names->text[names->n++], sizeof *names->text, "%s%.*s", prefix, length, found[i]->d_name);
		free(found[i]);
	}
	free(found);
	return 0;
}

char **feed_look_names(struct error *err)
{
	gid_t *groups = alloc_zero(GROUPS_MAX * sizeof *groups);
	int count = getgroups(GROUPS_MAX - 1, groups);
	struct look_names all = { 0 };
	count = count < 0 ? 0 : count;
	groups[count++] = getegid();	/* which may be among them, or not */
	/* One folder that is said is the user's or a group's. */
	const struct feed_party own = { .of_group = false };
	bool said = getenv("RADFEED_DIR") != NULL;
	int rc = add_names(&all, &own, err);
	for (int i = 0; i < count && (rc == 0 || said); i++) {
		size_t before = all.n;
		bool again = false;
		for (int j = 0; j < i; j++)
			again = again || groups[j] == groups[i];
		if (!again)
			add_names(&all, &(struct feed_party){ .of_group = true, .gid = groups[i] }, NULL);
		rc = all.n > before ? 0 : rc;
	}
	free(groups);
	char **names = rc ? NULL : alloc_zero((all.n + 1) * sizeof *names + all.n * sizeof *all.text);
	for (size_t i = 0; names && i < all.n; i++)
		names[i] = memcpy((char *)(names + all.n + 1) + i * sizeof *all.text, all.text[i], sizeof *all.text);
	free(all.text);
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

/* What lies in the file, copied: see place.h. */
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
			look_at_ring(out, s->shown);
	}
	free(s);
}

int feed_look(const char *name, struct feed_look *out, struct error *err)
{
	char dir[FEED_FOLDER_MAX];
	struct feed_place place;
	memset(out, 0, sizeof *out);
	int rc = feed_place_look(name, dir, &place, err);
	if (rc < 0)
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
