/* SPDX-License-Identifier: MIT
 *
 * As much of libcuda as a feed takes, on no GPU: registering memory, and a GPU's memory that is handed on as a descriptor, which
 * here is memory of the host that real processes map. FAKE_CUDA_LOG names a file that gets a line for each registering and making,
 * mapping, and its end. FAKE_CUDA_NO_FD: there is no such descriptor. FAKE_CUDA_FULL: a file which whoever makes memory first makes
 * too; there is none for others then, and what the first made comes when one was refused it. FAKE_CUDA_FAIL: the error that
 * registering ends with; FAKE_CUDA_HANG: it does not end. Like the driver it refuses memory that is not mapped for writing, what is
 * registered already, and who has not said in which context.
 */
#include <fcntl.h>
#include <linux/futex.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, INVALID_CONTEXT = 201, ALREADY_REGISTERED = 712,
       NOT_REGISTERED = 713, NOT_SUPPORTED = 801,
       RANGES_MAX = 8, GRANULARITY = 1 << 16, POSIX_FD = 1 };

#define CUDA __attribute__((visibility("default")))

CUDA int cuInit(unsigned flags);
CUDA int cuDeviceGet(int *device, int index);
CUDA int cuDevicePrimaryCtxRetain(void **context, int device);
CUDA int cuCtxSetCurrent(void *context);
CUDA int cuMemHostRegister_v2(void *begin, size_t bytes, unsigned flags);
CUDA int cuMemHostUnregister(void *begin);
CUDA int cuDeviceGetUuid_v2(unsigned char uuid[16], int device);
CUDA int cuMemGetAllocationGranularity(size_t *each, const void *what, int how);
CUDA int cuMemCreate(unsigned long long *handle, size_t bytes, const void *what, unsigned long long flags);
CUDA int cuMemExportToShareableHandle(int *fd, unsigned long long handle, int type, unsigned long long flags);
CUDA int cuMemImportFromShareableHandle(unsigned long long *handle, void *fd, int type);
CUDA int cuMemRelease(unsigned long long handle);
CUDA int cuMemAddressReserve(unsigned long long *place, size_t bytes, size_t align, unsigned long long at, unsigned long long flags);
CUDA int cuMemMap(unsigned long long place, size_t bytes, size_t from, unsigned long long handle, unsigned long long flags);
CUDA int cuMemSetAccess(unsigned long long place, size_t bytes, const void *access, size_t count);
CUDA int cuMemUnmap(unsigned long long place, size_t bytes);
CUDA int cuMemAddressFree(unsigned long long place, size_t bytes);

static _Thread_local void *current;
static void *registered[RANGES_MAX];
static int the_context;

static void note(const char *what, const void *begin, size_t bytes)
{
	const char *path = getenv("FAKE_CUDA_LOG");
	FILE *log = path ? fopen(path, "a") : NULL;
	if (!log)
		return;
	fprintf(log, "%s %p %zu\n", what, begin, bytes);
	fclose(log);
}

/* The kernel is asked to add nothing to the word there: others may be writing to it. */
static bool writable(unsigned char *at)
{
	uint32_t own = 0, *word = (uint32_t *)((uintptr_t)at / sizeof *word * sizeof *word);
	return syscall(SYS_futex, &own, FUTEX_WAKE_OP, 0, NULL, word, FUTEX_OP(FUTEX_OP_ADD, 0, FUTEX_OP_CMP_EQ, 0)) >= 0;
}

int cuInit(unsigned flags)
{
	return flags ? INVALID_VALUE : SUCCESS;
}

int cuDeviceGet(int *device, int index)
{
	*device = index;
	return index == 0 ? SUCCESS : INVALID_VALUE;
}

int cuDevicePrimaryCtxRetain(void **context, int device)
{
	*context = &the_context;
	return device == 0 ? SUCCESS : INVALID_VALUE;
}

int cuCtxSetCurrent(void *context)
{
	current = context;
	return SUCCESS;
}

static void **find(const void *begin)
{
	for (int i = 0; i < RANGES_MAX; i++)
		if (registered[i] == begin)
			return &registered[i];
	return NULL;
}

int cuMemHostRegister_v2(void *begin, size_t bytes, unsigned flags)
{
	const char *fail = getenv("FAKE_CUDA_FAIL");
	while (getenv("FAKE_CUDA_HANG"))
		pause();
	if (!current)
		return INVALID_CONTEXT;
	if (fail || flags != 1 || !bytes || !writable(begin) || !writable((unsigned char *)begin + bytes - 1))
		return fail ? atoi(fail) : INVALID_VALUE;
	if (find(begin) || !find(NULL))
		return ALREADY_REGISTERED;
	*find(NULL) = begin;
	note("register", begin, bytes);
	return SUCCESS;
}

int cuMemHostUnregister(void *begin)
{
	if (!current)
		return INVALID_CONTEXT;
	if (!begin || !find(begin))
		return NOT_REGISTERED;
	*find(begin) = NULL;
	/* Memory that is no more is where this would fault. */
	note("unregister", begin, *(volatile unsigned char *)begin);
	return SUCCESS;
}

int cuDeviceGetUuid_v2(unsigned char uuid[16], int device)
{
	memset(uuid, 0xa5, 16);
	return device == 0 ? SUCCESS : INVALID_VALUE;
}

int cuMemGetAllocationGranularity(size_t *each, const void *what, int how)
{
	*each = GRANULARITY;
	return what && how == 0 ? SUCCESS : INVALID_VALUE;
}

/* Whether the GPU has no room (FAKE_CUDA_FULL). */
static bool is_full(void)
{
	const char *path = getenv("FAKE_CUDA_FULL");
	char refused[4096];
	if (!path)
		return false;
	snprintf(refused, sizeof refused, "%s.refused", path);
	int fd = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
	bool first = fd >= 0;
	if (!first)
		fd = open(refused, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	close(fd);
	for (int i = 0; first && i < 5000 && access(refused, F_OK); i++)
		usleep(1000);
	return !first;
}

/* A handle is a descriptor, which no test has 0 of. */
int cuMemCreate(unsigned long long *handle, size_t bytes, const void *what, unsigned long long flags)
{
	static const int pinned_fd_on_device_0[4] = { 1, POSIX_FD, 1, 0 };
	if (!current || flags || bytes % GRANULARITY || memcmp(what, pinned_fd_on_device_0, sizeof pinned_fd_on_device_0))
		return INVALID_VALUE;
	if (is_full())
		return OUT_OF_MEMORY;
	int fd = memfd_create("fake-gpu", MFD_CLOEXEC);
	if (fd < 0 || ftruncate(fd, (off_t)bytes))
		return OUT_OF_MEMORY;
	*handle = (unsigned)fd;
	note("create", NULL, bytes);
	return SUCCESS;
}

int cuMemExportToShareableHandle(int *fd, unsigned long long handle, int type, unsigned long long flags)
{
	if (getenv("FAKE_CUDA_NO_FD"))
		return NOT_SUPPORTED;
	*fd = fcntl((int)handle, F_DUPFD_CLOEXEC, 0);
	return *fd >= 0 && type == POSIX_FD && !flags ? SUCCESS : INVALID_VALUE;
}

int cuMemImportFromShareableHandle(unsigned long long *handle, void *fd, int type)
{
	int own = current && type == POSIX_FD ? fcntl((int)(size_t)fd, F_DUPFD_CLOEXEC, 0) : -1;
	*handle = (unsigned)own;
	return own >= 0 ? SUCCESS : INVALID_VALUE;
}

int cuMemRelease(unsigned long long handle)
{
	return close((int)handle) ? INVALID_VALUE : SUCCESS;
}

int cuMemAddressReserve(unsigned long long *place, size_t bytes, size_t align, unsigned long long at, unsigned long long flags)
{
	void *map = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	*place = (unsigned long long)(size_t)map;
	return map == MAP_FAILED || align || at || flags || bytes % GRANULARITY ? INVALID_VALUE : SUCCESS;
}

int cuMemMap(unsigned long long place, size_t bytes, size_t from, unsigned long long handle, unsigned long long flags)
{
	void *map = mmap((void *)(size_t)place, bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, (int)handle, 0);
	return map == MAP_FAILED || from || flags ? INVALID_VALUE : SUCCESS;
}

int cuMemSetAccess(unsigned long long place, size_t bytes, const void *access, size_t count)
{
	static const int read_write_of_device_0[3] = { 1, 0, 3 };
	if (count != 1 || memcmp(access, read_write_of_device_0, sizeof read_write_of_device_0))
		return INVALID_VALUE;
	note("map", (void *)(size_t)place, bytes);
	return mprotect((void *)(size_t)place, bytes, PROT_READ | PROT_WRITE) ? INVALID_VALUE : SUCCESS;
}

int cuMemUnmap(unsigned long long place, size_t bytes)
{
	note("unmap", (void *)(size_t)place, bytes);
	return mmap((void *)(size_t)place, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) == MAP_FAILED ?
	       INVALID_VALUE : SUCCESS;
}

int cuMemAddressFree(unsigned long long place, size_t bytes)
{
	return munmap((void *)(size_t)place, bytes) ? INVALID_VALUE : SUCCESS;
}
