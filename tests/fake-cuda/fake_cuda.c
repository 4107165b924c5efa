/* SPDX-License-Identifier: MIT
 *
 * As much of libcuda as registering memory takes, on no GPU. FAKE_CUDA_LOG names a file that gets a line for each registering
 * and its end. FAKE_CUDA_FAIL: the error that registering ends with; FAKE_CUDA_HANG: it does not end. Like the driver it
 * refuses memory that is not mapped for writing, what is registered already, and who has not said in which context.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { SUCCESS = 0, INVALID_VALUE = 1, INVALID_CONTEXT = 201, ALREADY_REGISTERED = 712, NOT_REGISTERED = 713, RANGES_MAX = 8 };

#define CUDA __attribute__((visibility("default")))

CUDA int cuInit(unsigned flags);
CUDA int cuDeviceGet(int *device, int index);
CUDA int cuDevicePrimaryCtxRetain(void **context, int device);
CUDA int cuCtxSetCurrent(void *context);
CUDA int cuMemHostRegister_v2(void *begin, size_t bytes, unsigned flags);
CUDA int cuMemHostUnregister(void *begin);

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

/* The kernel is asked to store the byte that is there already. */
static bool writable(unsigned char *at)
{
	int fds[2];
	if (pipe(fds))
		return false;
	bool yes = write(fds[1], at, 1) == 1 && read(fds[0], at, 1) == 1;
	close(fds[0]);
	close(fds[1]);
	return yes;
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
