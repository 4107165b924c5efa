/* SPDX-License-Identifier: MIT
 * A disk that fails on command, for LD_PRELOAD: while the file named by FAKE_DISK is there, every write to and sync of rad.db
 * and its WAL fails with the errno that the file holds as a number ("5"), and every read, too, after "all" ("5 all"); after "sync"
 * every sync alone.
 */
#undef _FILE_OFFSET_BITS	/* both names of a call are wanted, as functions */
#undef _FORTIFY_SOURCE

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static bool is_store(int fd)
{
	char link[64], path[4096];
	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	ssize_t n = readlink(link, path, sizeof path - 1);
	path[n < 0 ? 0 : n] = 0;
	return strstr(path, "/rad.db") && !strstr(path, "-shm");
}

enum call { READS, WRITES, SYNCS };

/* Whether this call fails; errno is set then. */
static bool fails(int fd, enum call call)
{
	const char *name = getenv("FAKE_DISK");
	char word[8] = "";
	int code = 0;
	FILE *f = name ? fopen(name, "re") : NULL;
	if (!f)
		return false;
	int n = fscanf(f, "%d %7s", &code, word);
	fclose(f);
	if (n < 1 || (call == READS && strcmp(word, "all")) || (call == WRITES && !strcmp(word, "sync")) || !is_store(fd))
		return false;
	errno = code;
	return true;
}

#define REAL(name) __typeof__(&name) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)
#define EXPORTED __attribute__((visibility("default")))

EXPORTED ssize_t pwrite64(int fd, const void *bytes, size_t n, off64_t at)
{
	REAL(pwrite64);
	return fails(fd, WRITES) ? -1 : real(fd, bytes, n, at);
}

EXPORTED ssize_t pwrite(int fd, const void *bytes, size_t n, off_t at)
{
	return pwrite64(fd, bytes, n, at);
}

EXPORTED ssize_t pread64(int fd, void *bytes, size_t n, off64_t at)
{
	REAL(pread64);
	return fails(fd, READS) ? -1 : real(fd, bytes, n, at);
}

EXPORTED ssize_t pread(int fd, void *bytes, size_t n, off_t at)
{
	return pread64(fd, bytes, n, at);
}

EXPORTED int fsync(int fd)
{
	REAL(fsync);
	return fails(fd, SYNCS) ? -1 : real(fd);
}

EXPORTED int fdatasync(int fd)
{
	REAL(fdatasync);
	return fails(fd, SYNCS) ? -1 : real(fd);
}
