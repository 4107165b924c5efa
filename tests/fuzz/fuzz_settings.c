/* SPDX-License-Identifier: MIT
 * rad.conf: any bytes. What is accepted, printed and read again, is the same; all mistakes are told with their line.
 */
#include "fuzz.h"

#include "base/scope.h"
#include "settings/settings.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void told(void *ctx, const char *text)
{
	FUZZ_HOLDS(*text);
	++*(size_t *)ctx;
}

static void check_printed(const struct settings *s)
{
	struct settings again = settings_default();
	struct error err;
	for (const struct setting *row = settings_table; row->name; row++) {
		scoped_free char *text = settings_print(s, row);
		FUZZ_HOLDS(!settings_set(&again, row, text, (struct settings_source){ SETTINGS_FILE, 1 }, &err));
		scoped_free char *second = settings_print(&again, row);
		FUZZ_HOLDS(!strcmp(text, second));
	}
	settings_clear(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char path[40];
	size_t n = 0;
	struct error err = ERROR_INIT;
	scoped_fd int fd = memfd_create("rad.conf", MFD_CLOEXEC);
	FUZZ_HOLDS(fd >= 0 && write(fd, data, size) == (ssize_t)size);
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	struct settings s = settings_default();
	int rc = settings_read(&s, path, true, told, &n, &err);
	FUZZ_HOLDS(!rc == !n);
	if (!rc)
		check_printed(&s);
	settings_clear(&s);
	return 0;
}
