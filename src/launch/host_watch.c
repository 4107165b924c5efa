/* SPDX-License-Identifier: MIT
 * See host_watch.h. /proc/vmstat counts kills of the whole machine, and everybody may read it: of a program that ended by a
 * SIGKILL which nobody of ours sent, in the same few seconds, it tells what the kernel's log would.
 */
#include "launch/host_watch.h"

#include "base/buf.h"
#include "base/io.h"
#include "base/proc_tree.h"
#include "base/scope.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static uint64_t machine_kills(void)
{
	scoped_buf text = { 0 };
	if (io_read_file("/proc/vmstat", 1 << 20, &text, NULL))
		return 0;
	const char *line = strstr(buf_text(&text), "\noom_kill ");
	return line ? strtoull(line + strlen("\noom_kill "), NULL, 10) : 0;
}

void host_watch_start(struct host_watch *w, const struct cgroup *c, uint64_t limit_mib)
{
	*w = (struct host_watch){ .limit_mib = limit_mib, .kills = machine_kills() };
	w->enforced = limit_mib && !cgroup_limit_memory(c, limit_mib << 20);
}

static uint64_t resident_kib(pid_t pid)
{
	char text[256];
	unsigned long long size, resident;
	if (proc_read(pid, "statm", text, sizeof text) < 0 || sscanf(text, "%llu %llu", &size, &resident) != 2)
		return 0;
	return resident * (uint64_t)sysconf(_SC_PAGESIZE) / 1024;
}

static uint64_t proportional_kib(pid_t pid)
{
	char path[48];
	scoped_buf text = { 0 };
	snprintf(path, sizeof path, "/proc/%d/smaps_rollup", (int)pid);
	if (io_read_file(path, 16384, &text, NULL))
		return resident_kib(pid);
	const char *line = strstr(buf_text(&text), "\nPss:");
	return line ? strtoull(line + strlen("\nPss:"), NULL, 10) : 0;
}

static uint64_t sum_mib(const pid_t *pids, size_t n, uint64_t (*kib_of)(pid_t pid))
{
	uint64_t kib = 0;
	for (size_t i = 0; i < n; i++)
		kib += kib_of(pids[i]);
	return kib / 1024;
}

/* What the kernel counted, where it does. */
static void look_at_cgroup(struct host_watch *w, const struct cgroup *c)
{
	uint64_t peak = w->enforced ? cgroup_memory_peak(c) >> 20 : 0;
	w->peak_mib = peak > w->peak_mib ? peak : w->peak_mib;
}

void host_watch_look(struct host_watch *w, const struct cgroup *c, pid_t shim)
{
	scoped_free pid_t *pids = NULL;
	w->kills = machine_kills();
	look_at_cgroup(w, c);
	if (!w->limit_mib || (w->enforced && c->path[0]))
		return;
	size_t n = proc_descendants(shim, &pids);
	uint64_t mib = sum_mib(pids, n, resident_kib);
	if (mib > w->limit_mib)
		mib = sum_mib(pids, n, proportional_kib);
	w->peak_mib = mib > w->peak_mib ? mib : w->peak_mib;
}

bool host_watch_end(struct host_watch *w, const struct cgroup *c)
{
	look_at_cgroup(w, c);
	return machine_kills() > w->kills;
}
