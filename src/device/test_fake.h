/* SPDX-License-Identifier: MIT
 * For tests that run against the fake libraries of tests/fake-nvml: a folder with their scripts, and the paths to them.
 */
#ifndef RAD_DEVICE_TEST_FAKE_H
#define RAD_DEVICE_TEST_FAKE_H

#include "base/alloc.h"
#include "base/io.h"
#include "base/scope.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static char fake_folder[] = "/tmp/rad-test-fake-XXXXXX";

/* The script of a fake library: `name` is "nvml" or "dcgm". */
static inline char *fake_path(const char *name)
{
	return alloc_printf("%s/%s.json", fake_folder, name);
}

static inline void fake_script(const char *name, const char *text)
{
	scoped_free char *path = fake_path(name);
	assert_int_equal(io_replace_file(path, text, strlen(text), 0600, NULL), 0);
}

/* Points `variable` at a fake library. */
static inline void fake_library(const char *variable, const char *file)
{
	scoped_free char *path = alloc_printf("%s/tests/fake-nvml/%s", getenv("RAD_BUILD_ROOT"), file);
	setenv(variable, path, 1);
}

static inline void fake_use_nvml(void)
{
	scoped_free char *path = fake_path("nvml");
	fake_library("RAD_NVML_LIBRARY", "libnvidia-ml.so.1");
	setenv("RAD_FAKE_NVML", path, 1);
}

static inline int fake_group_set_up(void **state)
{
	(void)state;
	return mkdtemp(fake_folder) ? 0 : -1;
}

static inline int fake_group_tear_down(void **state)
{
	(void)state;
	const char *const names[] = { "nvml", "dcgm" };
	for (size_t i = 0; i < COUNT_OF(names); i++) {
		scoped_free char *path = fake_path(names[i]);
		unlink(path);
	}
	return rmdir(fake_folder);
}

#endif
