/* SPDX-License-Identifier: MIT
 * A shared file system, and a node's clock, that misbehave on command, for LD_PRELOAD. While the file named by FAKE_FILES is there,
 * each of its lines names a call and an errno ("linkat 1", "fsync 5", "flock 37"): the call fails so where it is about a path or a
 * descriptor below the folder FAKE_FILES_UNDER. FAKE_CLOCK_S is added to the wall clock. FAKE_CLOCK_FAST, "5@1234", has the monotonic
 * clock run five times as fast since it was at 1234 s: for all processes the same.
 */
#undef _FILE_OFFSET_BITS	/* both names of a call are wanted, as functions */
#undef _FORTIFY_SOURCE

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define REAL(name) __typeof__(&name) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)
#define EXPORTED __attribute__((visibility("default")))

static bool is_below(int fd)
{
	char link[64], path[4096];
	const char *under = getenv("FAKE_FILES_UNDER");
	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	ssize_t n = under ? readlink(link, path, sizeof path - 1) : -1;
	path[n < 0 ? 0 : n] = 0;
	return n > 0 && !strncmp(path, under, strlen(under));
}

/* Whether this call fails; errno is set then. */
static bool fails(int fd, const char *call)
{
	const char *name = getenv("FAKE_FILES");
	char word[32];
	int code = 0;
	bool said = false;
	FILE *f = name ? fopen(name, "re") : NULL;
	if (!f)
		return false;
	while (!said && fscanf(f, "%31s %d", word, &code) == 2)
		said = !strcmp(word, call);
	fclose(f);
	if (!said || !is_below(fd))
		return false;
	errno = code;
	return true;
}

EXPORTED int linkat(int a, const char *from, int b, const char *to, int flags)
{
	REAL(linkat);
	return fails(b, "linkat") ? -1 : real(a, from, b, to, flags);
}

EXPORTED int renameat(int a, const char *from, int b, const char *to)
{
	REAL(renameat);
	return fails(b, "renameat") ? -1 : real(a, from, b, to);
}

EXPORTED int fsync(int fd)
{
	REAL(fsync);
	return fails(fd, "fsync") ? -1 : real(fd);
}

EXPORTED ssize_t write(int fd, const void *bytes, size_t n)
{
	REAL(write);
	return fails(fd, "write") ? -1 : real(fd, bytes, n);
}

/* A quota is told when the file is closed, by some file systems. */
EXPORTED int close(int fd)
{
	REAL(close);
	bool failed = fails(fd, "close");
	int no = errno, rc = real(fd);
	if (!failed)
		return rc;
	errno = no;
	return -1;
}

EXPORTED int openat(int at, const char *path, int flags, ...)
{
	REAL(openat);
	va_list more;
	va_start(more, flags);
	mode_t mode = flags & O_CREAT ? va_arg(more, mode_t) : 0;
	va_end(more);
	return flags & O_CREAT && fails(at, "create") ? -1 : fails(at, "openat") ? -1 : real(at, path, flags, mode);
}

EXPORTED int openat64(int at, const char *path, int flags, ...)
{
	REAL(openat64);
	va_list more;
	va_start(more, flags);
	mode_t mode = flags & O_CREAT ? va_arg(more, mode_t) : 0;
	va_end(more);
	return flags & O_CREAT && fails(at, "create") ? -1 : fails(at, "openat") ? -1 : real(at, path, flags, mode);
}

EXPORTED int flock(int fd, int how)
{
	REAL(flock);
	return fails(fd, "flock") ? -1 : real(fd, how);
}

static time_t offset(void)
{
	const char *s = getenv("FAKE_CLOCK_S");
	return s ? atoi(s) : 0;
}

static void hasten(struct timespec *t)
{
	const char *s = getenv("FAKE_CLOCK_FAST");
	long long rate, from;
	if (!s || sscanf(s, "%lld@%lld", &rate, &from) != 2)
		return;
	long long ns = (t->tv_sec - from) * 1000000000 + t->tv_nsec;
	t->tv_sec = from + ns * rate / 1000000000;
	t->tv_nsec = ns * rate % 1000000000;
}

EXPORTED int clock_gettime(clockid_t id, struct timespec *t)
{
	REAL(clock_gettime);
	int rc = real(id, t);
	if (!rc && (id == CLOCK_MONOTONIC || id == CLOCK_MONOTONIC_COARSE))
		hasten(t);
	if (!rc && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE))
		t->tv_sec += offset();
	return rc;
}

EXPORTED time_t time(time_t *t)
{
	REAL(time);
	time_t now = real(NULL) + offset();
	if (t)
		*t = now;
	return now;
}
