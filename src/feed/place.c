/* SPDX-License-Identifier: MIT */
#include "feed/place.h"
#include "base/clock.h"
#include "feed/fds.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { SWEEP_MS = 10 };	/* between two looks whether a writer is gone */

/* Byte 0 is the writer's; tokens are these. */
static const uint64_t token_first = 1ull << 32, token_last = 1ull << 60;

/* The name alone; what stands before ':' is the group whose it is. */
static const char *split_name(const char *name, struct feed_party *party, struct error *err)
{
	char group[FEED_NAME_MAX + 1];
	const char *colon = strchr(name, ':');
	*party = (struct feed_party){ .of_group = false };
	if (!colon)
		return feed_name_check(name, FEED_NAME_MAX, err) ? NULL : name;
	if (snprintf(group, sizeof group, "%.*s", (int)(colon - name), name) >= (int)sizeof group) {
		error_set(err, ERR_INVALID, "feed name \"%.80s\": no group has a name of that length", name);
		return NULL;
	}
	return feed_name_check(colon + 1, FEED_NAME_MAX, err) || feed_folder_group(group, party, err) ? NULL : colon + 1;
}

/* Where a feed of that name lies in that folder. */
static int place_name(const char *dir, const char *name, struct feed_place *place, struct error *err)
{
	if (feed_name_check(name, FEED_NAME_MAX, err))
		return -1;
	memset(place, 0, sizeof *place);
	place->sock.sun_family = AF_UNIX;
	int n = snprintf(place->sock.sun_path, sizeof place->sock.sun_path, "%s/%s.sock", dir, name);
	int m = snprintf(place->state, sizeof place->state, "%s/%s.feed", dir, name);
	if (n >= (int)sizeof place->sock.sun_path || m >= (int)sizeof place->state)
		return error_set(err, ERR_INVALID, "feed: %s/%s.sock is too long for a socket: a shorter name, or another RADFEED_DIR", dir,
				 name);
	return 0;
}

int feed_place_look(const char *name, char dir[FEED_FOLDER_MAX], struct feed_place *place, struct error *err)
{
	struct feed_party party;
	name = split_name(name, &party, err);
	int rc = name ? feed_folder_look(&party, dir, FEED_FOLDER_MAX, err) : -1;
	if (rc < 0 || place_name(dir, name, place, err))
		return -1;
	place->party = party;
	return rc;
}

int feed_place_find(const char *name, struct feed_place *place, struct error *err)
{
	char dir[FEED_FOLDER_MAX];
	struct feed_party party;
	name = split_name(name, &party, err);
	if (!name || feed_folder_find(&party, dir, sizeof dir, err) || place_name(dir, name, place, err))
		return -1;
	place->party = party;
	return 0;
}

static struct flock byte_at(uint64_t at, short how)
{
	return (struct flock){ .l_type = how, .l_whence = SEEK_SET, .l_start = (off_t)at, .l_len = 1 };
}

bool feed_place_current(const struct feed_place *place, int fd)
{
	struct stat own, there;
	return fstat(fd, &own) == 0 && lstat(place->state, &there) == 0 && own.st_ino == there.st_ino && own.st_dev == there.st_dev;
}

/* One page, written at once: whoever is killed meanwhile has written all of it or nothing. What cannot be written now is
 * written with the next change. */
static void save_state(const struct feed_state *state, int fd)
{
	ssize_t n;
	while ((n = pwrite(fd, state, sizeof *state, 0)) < 0 && errno == EINTR)
		;
	(void)n;
}

/* A file that is too short was never written, or somebody else did that: zeros are no feed that goes on. */
static int load_state(int fd, struct feed_state *state, struct error *err)
{
	/* The disk may be full: that is told here, before anything rests on the file. */
	int rc;
	while ((rc = posix_fallocate(fd, 0, sizeof *state)) == EINTR)
		;
	errno = rc ? rc : errno;
	memset(state, 0, sizeof *state);
	if (rc || pread(fd, state, sizeof *state, 0) < 0)
		return error_errno(err, "feed: its file");
	state->sign[FEED_SIGN_MAX] = 0;
	return 0;
}

int feed_place_claim(const struct feed_place *place, int *fd, struct feed_state *state, struct error *err)
{
	for (;;) {
		*fd = feed_folder_open(&place->party, place->state, err);
		if (*fd < 0)
			return -1;
		struct flock lock = byte_at(0, F_WRLCK);
		if (fcntl(*fd, F_OFD_SETLKW, &lock)) {
			if (errno == EINTR)
				error_set(err, ERR_UNAVAILABLE, "feed: a signal came");
			else
				error_errno(err, "feed: lock of %s", place->state);
			break;
		}
		/* The one that had it may have taken the file away at its end. */
		if (!feed_place_current(place, *fd)) {
			feed_fds_close(fd);
			continue;
		}
		if (load_state(*fd, state, err) == 0)
			return 0;
		break;
	}
	feed_fds_close(fd);
	return -1;
}

/* A token that is held within [from, to]; 0 if none is. The kernel names any, not the least. */
static uint64_t held_within(int fd, uint64_t from, uint64_t to)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)from, .l_len = (off_t)(to - from + 1) };
	if (from > to || fcntl(fd, F_OFD_GETLK, &lock) || lock.l_type == F_UNLCK)
		return 0;
	return (uint64_t)lock.l_start;
}

bool feed_place_alive(int fd, uint64_t token)
{
	return held_within(fd, token, token) != 0;
}

bool feed_place_is_claimed(int fd)
{
	struct flock lock = byte_at(0, F_WRLCK);
	return fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

static size_t tokens_within(int fd, uint64_t from, uint64_t to, uint64_t *tokens, size_t max)
{
	uint64_t token = held_within(fd, from, to);
	if (!token || max == 0)
		return 0;
	tokens[0] = token;
	size_t n = 1;
	n += tokens_within(fd, from, token - 1, tokens + n, max - n);
	n += tokens_within(fd, token + 1, to, tokens + n, max - n);
	return n;
}

size_t feed_place_tokens(int fd, uint64_t *tokens, size_t max)
{
	return tokens_within(fd, token_first, token_last, tokens, max);
}

static bool member_alive(const struct feed_member *m, int fd)
{
	return m->token >= token_first && m->token <= token_last && feed_place_alive(fd, m->token);
}

bool feed_place_goes_on(const struct feed_state *state, int fd)
{
	bool any = false;
	for (size_t i = 0; i < FEED_READERS_MAX && !any; i++)
		any = member_alive(&state->member[i], fd);
	return any && state->magic == FEED_STATE_MAGIC;
}

/* The first row of a token is its own; others are in files that somebody else wrote. */
static bool member_stays(const struct feed_state *state, size_t i, int fd)
{
	for (size_t before = 0; before < i; before++)
		if (state->member[before].token == state->member[i].token)
			return false;
	return member_alive(&state->member[i], fd);
}

uint64_t feed_place_position(struct feed_state *state, int fd)
{
	uint64_t from = state->next;
	for (size_t i = 0; i < FEED_READERS_MAX; i++) {
		struct feed_member *m = &state->member[i];
		if (!member_stays(state, i, fd))
			m->token = 0;
		else if (m->want < from)
			from = m->want;
	}
	for (size_t i = 0; i < FEED_READERS_MAX; i++)
		state->member[i].want = from;
	state->next = from;
	save_state(state, fd);
	return from;
}

void feed_place_begin(struct feed_state *state, int fd, const char *sign, uint64_t seed)
{
	*state = (struct feed_state){ .magic = FEED_STATE_MAGIC, .seed = seed };
	snprintf(state->sign, sizeof state->sign, "%s", sign);
	save_state(state, fd);
}

void feed_place_note(struct feed_state *state, int fd, uint64_t token, uint64_t want)
{
	struct feed_member *there = NULL, *room = NULL;
	for (size_t i = 0; i < FEED_READERS_MAX && !there; i++) {
		struct feed_member *m = &state->member[i];
		if (m->token == token)
			there = m;
		else if (!m->token && !room)
			room = m;
	}
	*(there ? there : room) = (struct feed_member){ .token = token, .want = want };
	save_state(state, fd);
}

void feed_place_forget(struct feed_state *state, int fd, uint64_t token)
{
	for (size_t i = 0; i < FEED_READERS_MAX; i++)
		if (state->member[i].token == token)
			state->member[i].token = 0;
	save_state(state, fd);
}

void feed_place_published(struct feed_state *state, int fd, uint64_t next)
{
	state->next = next;
	save_state(state, fd);
}

void feed_place_show(struct feed_state *state, int fd, int ring_fd)
{
	state->shown = (uint64_t)getpid() << 32 | (uint32_t)(ring_fd + 1);
	save_state(state, fd);
}

void feed_place_remove(const struct feed_place *place, int fd)
{
	uint64_t token;
	if (!feed_place_current(place, fd) || feed_place_tokens(fd, &token, 1))
		return;
	unlink(place->sock.sun_path);
	unlink(place->state);
}

void feed_place_sweep(const struct feed_place *place, int wait_ms)
{
	struct flock writer = byte_at(0, F_WRLCK);
	int fd = feed_fds_own(open(place->state, O_RDWR | O_CLOEXEC | O_NOFOLLOW));
	uint64_t token;
	int64_t until = clock_mono_ms() + wait_ms;
	while (fd >= 0 && feed_place_current(place, fd) && !feed_place_tokens(fd, &token, 1)) {
		if (fcntl(fd, F_OFD_SETLK, &writer) == 0) {
			feed_place_remove(place, fd);
			break;
		}
		if (clock_mono_ms() >= until)
			break;
		nanosleep(&(struct timespec){ .tv_nsec = SWEEP_MS * 1000000l }, NULL);
	}
	feed_fds_close(&fd);
}

void feed_place_leave(const struct feed_place *place, int *fd, uint64_t token)
{
	struct flock own = byte_at(token, F_UNLCK);
	struct flock writer = byte_at(0, F_WRLCK);
	if (*fd >= 0 && fcntl(*fd, F_OFD_SETLK, &own) == 0 && fcntl(*fd, F_OFD_SETLK, &writer) == 0)
		feed_place_remove(place, *fd);
	feed_fds_close(fd);
}

int feed_place_join(const struct feed_place *place, int *fd, uint64_t *token, struct error *err)
{
	for (;;) {
		*fd = feed_folder_open(&place->party, place->state, err);
		if (*fd < 0)
			return -1;
		if (getrandom(token, sizeof *token, 0) != sizeof *token) {
			error_errno(err, "feed: getrandom");
			break;
		}
		*token = token_first + *token % (token_last - token_first);
		struct flock lock = byte_at(*token, F_WRLCK);
		int no = fcntl(*fd, F_OFD_SETLK, &lock) ? errno : 0;
		if (!no && feed_place_current(place, *fd))
			return 0;
		if (no && no != EAGAIN && no != EACCES) {
			errno = no;
			error_errno(err, "feed: lock of %s", place->state);
			break;
		}
		feed_fds_close(fd);	/* taken away in between, or that token is another's */
	}
	feed_fds_close(fd);
	return -1;
}
