/* SPDX-License-Identifier: MIT
 * A disk that fails on command, for LD_PRELOAD: while the file named by FAKE_DISK is there, every write to and sync of rad.db
 * and its WAL fails with the errno that the file holds as a number ("5"), and every read, too, after "all" ("5 all"); after "sync"
 * every sync alone. FAKE_DISK_FILE says which other files it is about, by a part of their paths. Each call that failed adds a byte to
 * the file named by FAKE_DISK with ".met" behind it.
 *
 * FAKE_DISK_JOURNAL names a file to which every write is added with what stood there before, and every sync: from it a test makes
 * of the store what a power cut may leave (tests/torture/disk.py), where writes that were not synced are lost, or torn, in any order.
 */
#undef _FILE_OFFSET_BITS	/* both names of a call are wanted, as functions */
#undef _FORTIFY_SOURCE

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static bool is_meant(int fd)
{
	const char *other = getenv("FAKE_DISK_FILE");
	char link[64], path[4096];
	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	ssize_t n = readlink(link, path, sizeof path - 1);
	path[n < 0 ? 0 : n] = 0;
	return other ? strstr(path, other) != NULL : strstr(path, "/rad.db") && !strstr(path, "-shm");
}

static void note_met(const char *name)
{
	char path[4096];
	snprintf(path, sizeof path, "%s.met", name);
	FILE *f = fopen(path, "ae");
	if (f) {
		fputc('x', f);
		fclose(f);
	}
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
	if (n < 1 || (call == READS && strcmp(word, "all")) || (call == WRITES && !strcmp(word, "sync")) || !is_meant(fd))
		return false;
	note_met(name);
	errno = code;
	return true;
}

#define REAL(name) __typeof__(&name) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)
#define EXPORTED __attribute__((visibility("default")))

/* Where a record begins; then `old` bytes that stood there, and `n` that were written. A sync has neither. */
struct journal_record { uint32_t what, wal; uint64_t at, n, old, size; };
enum { JOURNAL_WRITE = 1, JOURNAL_SYNC = 2 };

/* 0: the database, 1: its WAL, -1: neither. */
static int store_part(int fd)
{
	char link[64], path[4096];
	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	ssize_t n = readlink(link, path, sizeof path - 1);
	path[n < 0 ? 0 : n] = 0;
	const char *name = strrchr(path, '/');
	return !name ? -1 : !strcmp(name, "/rad.db") ? 0 : !strcmp(name, "/rad.db-wal") ? 1 : -1;
}

static void journal(int fd, uint32_t what, const void *bytes, size_t n, off64_t at)
{
	static char old[1 << 17];
	static int to = -2;
	const char *path = getenv("FAKE_DISK_JOURNAL");
	int part = path ? store_part(fd) : -1;
	if (part < 0 || n > sizeof old)
		return;
	if (to == -2)
		to = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
	struct stat st;
	__typeof__(&pread64) before = (__typeof__(&pread64))dlsym(RTLD_NEXT, "pread64");
	ssize_t got = n ? before(fd, old, n, at) : 0;
	struct journal_record r = { what, (uint32_t)part, (uint64_t)at, n, got > 0 ? (uint64_t)got : 0,
				    fstat(fd, &st) ? 0 : (uint64_t)st.st_size };
	struct iovec parts[] = { { &r, sizeof r }, { old, r.old }, { (void *)bytes, n } };
	if (writev(to, parts, 3) < 0)
		abort();
}

EXPORTED ssize_t pwrite64(int fd, const void *bytes, size_t n, off64_t at)
{
	REAL(pwrite64);
	if (fails(fd, WRITES))
		return -1;
	journal(fd, JOURNAL_WRITE, bytes, n, at);
	return real(fd, bytes, n, at);
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
	int rc = fails(fd, SYNCS) ? -1 : real(fd);
	if (!rc)
		journal(fd, JOURNAL_SYNC, NULL, 0, 0);
	return rc;
}

EXPORTED int fdatasync(int fd)
{
	REAL(fdatasync);
	int rc = fails(fd, SYNCS) ? -1 : real(fd);
	if (!rc)
		journal(fd, JOURNAL_SYNC, NULL, 0, 0);
	return rc;
}
