/* SPDX-License-Identifier: MIT
 *
 * For readers that want the name of a file: the input as one, in memory.
 */
#ifndef RAD_TESTS_FUZZ_FILE_H
#define RAD_TESTS_FUZZ_FILE_H

#include "fuzz.h"

#include <string.h>
#include <unistd.h>

#define FUZZ_FILE_END ".yaml"

static char fuzz_file_path[] = "/dev/shm/fuzz-XXXXXX" FUZZ_FILE_END;

static void fuzz_file_remove(void)
{
	unlink(fuzz_file_path);
}

/* Its path; the same file each time, which goes with the process. */
static const char *fuzz_file(const uint8_t *data, size_t size)
{
	static int fd = -1;
	if (fd < 0) {
		fd = mkstemps(fuzz_file_path, (int)strlen(FUZZ_FILE_END));
		FUZZ_HOLDS(fd >= 0 && !atexit(fuzz_file_remove));
	}
	FUZZ_HOLDS(!ftruncate(fd, 0) && pwrite(fd, data, size, 0) == (ssize_t)size);
	return fuzz_file_path;
}

#endif
