/* SPDX-License-Identifier: MIT
 * Texts of /proc: stat, status, cgroup and mountinfo, in which names that processes gave themselves, and names of folders, stand
 * among the kernel's words; any bytes.
 */
#include "fuzz.h"

#include "base/alloc.h"
#include "base/proc.h"
#include "base/scope.h"
#include "launch/cgroup.h"
#include "store/store_internal.h"

#include <ctype.h>
#include <string.h>
#include <sys/sysmacros.h>

/* What a process is called changes nothing. */
static void check_stat(const char *text)
{
	struct proc_figures f, same;
	const char *behind = strrchr(text, ')');
	if (!proc_parse_stat(text, &f))
		return;
	FUZZ_HOLDS(!isspace((unsigned char)f.state));
	scoped_free char *renamed = alloc_printf("1 (x) R 1 1 1 (%s", behind);
	FUZZ_HOLDS(proc_parse_stat(renamed, &same));
	FUZZ_HOLDS(same.parent == f.parent && same.start_ticks == f.start_ticks && same.cpu_ticks == f.cpu_ticks &&
		   same.rss_pages == f.rss_pages && same.threads == f.threads && same.session == f.session && same.state == f.state);
}

static void check_status(const char *text)
{
	FUZZ_HOLDS(!proc_parse_owned(text, 0) || !proc_parse_owned(text, 1000));
	FUZZ_HOLDS(!proc_parse_catches(text, 0) && !proc_parse_catches(text, 65) && !proc_parse_catches(text, -1));
	bool any = false;
	for (int signal = 1; signal <= 64; signal++)
		any = proc_parse_catches(text, signal) || any;
	FUZZ_HOLDS(!any || strstr(text, "SigCgt:"));
}

static void check_cgroup(const char *text)
{
	size_t len = 0;
	const char *own = cgroup_parse(text, &len);
	FUZZ_HOLDS(!own || (*own == '/' && own - text >= 3 && len != 1 && !memchr(own, '\n', len)));
	FUZZ_HOLDS(!own || len <= strlen(own));
}

static void check_mounts(char *text)
{
	static const unsigned devices[][2] = { { 7, 0 }, { 8, 1 }, { 0, 42 } };
	char *rest = text;
	for (char *line; (line = strsep(&rest, "\n"));)
		for (size_t i = 0; i < COUNT_OF(devices); i++) {
			struct store_mount m;
			bool is = store_mount_line(line, makedev(devices[i][0], devices[i][1]), &m);
			FUZZ_HOLDS(!is || (memchr(m.type, 0, sizeof m.type) && *m.type && strstr(line, m.type)));
			FUZZ_HOLDS(!is || !m.halted || strstr(line, "emergency_ro") || strstr(line, "shutdown"));
		}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	scoped_free char *text = alloc_zero(size + 1);
	memcpy(text, data, size);
	check_stat(text);
	check_status(text);
	check_cgroup(text);
	check_mounts(text);
	return 0;
}
