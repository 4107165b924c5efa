/* SPDX-License-Identifier: MIT
 * See capture_turn.h. Files in the cache's folder, each locked as long as its process lives, so that whoever is killed leaves
 * nothing that others wait for: a ticket with the task's number for each capture that waits, and a place for each that
 * runs. The first ticket takes the next place.
 */
#include "cli/capture_turn.h"

#include "base/alloc.h"
#include "base/io.h"
#include "base/least.h"
#include "base/paths.h"
#include "base/scope.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define CORES_EACH 2		/* of the machine, for each capture that a user makes at the same time */
#define HOST_MIB_EACH 16384	/* likewise, of the memory that is available: what one may take */
#define MOST_AT_ONCE 8
#define POLL_MS 100		/* of the first; those behind it look more seldom */
#define MOST_BEHIND 20
#define MOST_TRIES 100		/* to make a ticket: whoever else may write to the folder could make it first, each time */
#define TICKET "capture-turn-"

/* Of the machine's memory what could be had without swapping; 0: not known. */
static uint64_t available_mib(void)
{
	char line[128];
	unsigned long long kib = 0;
	FILE *f = fopen("/proc/meminfo", "re");
	while (f && fgets(line, sizeof line, f) && sscanf(line, "MemAvailable: %llu", &kib) != 1)
		;
	if (f)
		fclose(f);
	return kib / 1024;
}

/* How many captures a user makes at the same time on a machine with that many cores and that much memory available. */
static int at_once(uint64_t cores, uint64_t host_mib)
{
	return (int)largest_of(least_of(least_of(cores / CORES_EACH, host_mib / HOST_MIB_EACH), MOST_AT_ONCE), 1);
}

/* Who is in one's group may be able to make files in the folder, and hold them locked for ever. */
static bool is_own(int fd)
{
	struct stat st;
	return !fstat(fd, &st) && st.st_uid == geteuid();
}

/* Takes one of `n` places of the folder. False: all are taken. */
static bool take_place(const char *folder, int n)
{
	for (int place = 0; place < n; place++) {
		scoped_free char *path = alloc_printf("%s/capturing-%d", folder, place);
		int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
		if (fd < 0 || !is_own(fd) || !flock(fd, LOCK_EX | LOCK_NB))
			return true;	/* where none can be made, they do not wait for each other */
		close(fd);
	}
	return false;
}

/* -1: none can be made. It is made anew, so that nobody else can have it open and locked; what has its name is a dead
 * process's, or another user's. One of one's own may have taken the new file for a dead one's, and removed it, before it was
 * locked. */
static int take_ticket(const char *path)
{
	struct stat st;
	for (int tries = 0; tries < MOST_TRIES; tries++) {
		int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		if (fd < 0 && (errno != EEXIST || unlink(path)))
			return -1;
		if (fd >= 0 && (flock(fd, LOCK_EX) || fstat(fd, &st) || st.st_nlink))
			return fd;
		if (fd >= 0)
			close(fd);
	}
	return -1;
}

/* Those of processes that ended are removed, and another user's. */
static bool ticket_lives(int folder, const char *name)
{
	scoped_fd int fd = openat(folder, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return false;
	if (is_own(fd) && flock(fd, LOCK_EX | LOCK_NB))
		return true;
	unlinkat(folder, name, 0);
	return false;
}

/* How many tickets come before that one, at least; 0: it is the first. One look a call at a live one is enough. */
static int tickets_before(const char *folder, const char *mine)
{
	scoped_dir DIR *dir = opendir(folder);
	int n = 0;
	bool live = false;
	for (const struct dirent *e; dir && (e = readdir(dir));) {
		if (strncmp(e->d_name, TICKET, sizeof TICKET - 1) || strcmp(e->d_name, mine) >= 0)
			continue;
		live = live || ticket_lives(dirfd(dir), e->d_name);
		n++;
	}
	return live ? n : 0;
}

static bool wait_in_folder(const char *folder, const char *id, capture_turn_wanted wanted, void *ctx)
{
	uint64_t cores = (uint64_t)sysconf(_SC_NPROCESSORS_ONLN);
	int before;
	scoped_free char *ticket = alloc_printf(TICKET "%010lu-%010d", strtoul(id, NULL, 10), getpid());
	scoped_free char *path = alloc_printf("%s/%s", folder, ticket);
	scoped_fd int fd = take_ticket(path);
	bool still = true;
	while (((before = tickets_before(folder, ticket)) || !take_place(folder, at_once(cores, available_mib()))) &&
	       (still = wanted(ctx)))
		poll(NULL, 0, before < MOST_BEHIND ? (before + 1) * POLL_MS : MOST_BEHIND * POLL_MS);
	unlink(path);
	return still;
}

bool capture_turn_wait(const char *id, capture_turn_wanted wanted, void *ctx)
{
	scoped_free char *cache = paths_own("XDG_CACHE_HOME", ".cache");
	struct stat st;
	scoped_free char *folder = alloc_printf("%s/rad", cache ? cache : "");
	/* Without a cache they do not help each other either; and nobody waits for locks that are another user's. */
	if (!cache || io_make_dirs(folder, 0700, NULL) || stat(folder, &st) || st.st_uid != geteuid() || st.st_mode & 02)
		return true;
	return wait_in_folder(folder, id, wanted, ctx);
}
