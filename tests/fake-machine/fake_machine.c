/* SPDX-License-Identifier: MIT
 * A machine of a test's own, for LD_PRELOAD: the folder named by FAKE_MACHINE holds
 *	boot_id		read in place of /proc/sys/kernel/random/boot_id: another text is another boot
 *	clock		8 bytes, seconds (native int64_t) by which the wall clock is off; may change while programs run
 * What is not there is as it really is. Monotonic clocks are left alone, as a wall clock that is set leaves them, and so
 * is for how long a condition is waited for.
 */
#undef _FILE_OFFSET_BITS
#undef _FORTIFY_SOURCE

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define REAL(name) __typeof__(&name) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)
#define EXPORTED __attribute__((visibility("default")))

/* The path to open in place of that one. */
static const char *machine_path(const char *path, char *own, size_t size)
{
	const char *dir = getenv("FAKE_MACHINE");
	if (!dir || strcmp(path, "/proc/sys/kernel/random/boot_id"))
		return path;
	snprintf(own, size, "%s/boot_id", dir);
	return access(own, R_OK) ? path : own;
}

#define OPEN(name, before, before_names) \
	EXPORTED int name(before const char *path, int flags, ...) \
	{ \
		char own[4096]; \
		va_list ap; \
		va_start(ap, flags); \
		mode_t mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(ap, mode_t) : 0; \
		va_end(ap); \
		REAL(name); \
		return real(before_names machine_path(path, own, sizeof own), flags, mode); \
	}
#define NOTHING
#define FOLDER int folder,
#define FOLDER_NAME folder,
OPEN(open, NOTHING, NOTHING)
OPEN(open64, NOTHING, NOTHING)
OPEN(openat, FOLDER, FOLDER_NAME)
OPEN(openat64, FOLDER, FOLDER_NAME)

/* Mapped once: a clock is read too often for a look at a file. */
static int64_t machine_offset_s(void)
{
	static const volatile int64_t *at;
	static int tried;
	if (!tried) {
		char path[4096];
		const char *dir = getenv("FAKE_MACHINE");
		snprintf(path, sizeof path, "%s/clock", dir ? dir : "");
		int fd = (int)openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
		void *map = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof *at, PROT_READ, MAP_SHARED, fd, 0);
		if (fd >= 0)
			close(fd);
		at = map == MAP_FAILED ? NULL : map;
		tried = 1;
	}
	return at ? *at : 0;
}

EXPORTED int clock_gettime(clockid_t id, struct timespec *t)
{
	static __typeof__(&clock_gettime) real;
	if (!real)
		real = (__typeof__(real))dlsym(RTLD_NEXT, "clock_gettime");
	int rc = real(id, t);
	if (!rc && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE))
		t->tv_sec += machine_offset_s();
	return rc;
}

EXPORTED int gettimeofday(struct timeval *restrict t, void *restrict zone)
{
	REAL(gettimeofday);
	int rc = real(t, zone);
	if (!rc)
		t->tv_sec += machine_offset_s();
	return rc;
}

EXPORTED time_t time(time_t *out)
{
	struct timespec t;
	clock_gettime(CLOCK_REALTIME, &t);
	if (out)
		*out = t.tv_sec;
	return t.tv_sec;
}

/* The kernel waits by its own clock; what counts since the boot is never so large. */
EXPORTED int pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex, const struct timespec *until)
{
	static __typeof__(&pthread_cond_timedwait) real;
	struct timespec t = *until;
	if (!real)
		real = (__typeof__(real))dlsym(RTLD_NEXT, "pthread_cond_timedwait");
	if (t.tv_sec > 1000000000)
		t.tv_sec -= machine_offset_s();
	return real(cond, mutex, &t);
}
