/* SPDX-License-Identifier: MIT
 * Cgroups of attempts: see cgroup.h. They are a help, never a need: where there is no version 2, or no right to make one, a
 * task runs without, and its processes are found by their parents and their session. So what fails here is passed over.
 */
#include "launch/cgroup.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/io.h"
#include "base/scope.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

/* Where version 2 is mounted: alone, or beside version 1. */
static const char *const mounts[] = { "/sys/fs/cgroup", "/sys/fs/cgroup/unified" };

static const char *mounted_at(void)
{
	for (size_t i = 0; i < COUNT_OF(mounts); i++) {
		char probe[64];
		snprintf(probe, sizeof probe, "%s/cgroup.procs", mounts[i]);
		if (!access(probe, F_OK))
			return mounts[i];
	}
	return NULL;
}

const char *cgroup_parse(const char *text, size_t *len)
{
	const char *line = strncmp(text, "0::/", 4) ? strstr(text, "\n0::/") : text;
	if (!line)
		return NULL;
	const char *own = strchr(line, '/');
	*len = strcspn(own, "\n");
	if (*len == 1)
		*len = 0;	/* the root */
	return own;
}

/* The folder of the cgroup a process is in. */
static int path_of(pid_t pid, char path[PATH_MAX])
{
	char file[40];
	scoped_buf text = { 0 };
	const char *mount = mounted_at();
	snprintf(file, sizeof file, "/proc/%d/cgroup", (int)pid);
	if (!mount || io_read_file(file, 65536, &text, NULL))
		return -1;
	size_t len;
	const char *own = cgroup_parse(buf_text(&text), &len);
	return own && snprintf(path, PATH_MAX, "%s%.*s", mount, (int)len, own) < PATH_MAX ? 0 : -1;
}

/* Above the daemon's own leaf, if it has one. Returns whether it has. */
static bool leave_leaf(char path[PATH_MAX])
{
	char *leaf = strrchr(path, '/');
	bool is = leaf && !strcmp(leaf + 1, CGROUP_DAEMON);
	if (is)
		*leaf = 0;
	return is;
}

int cgroup_path(pid_t of, const char *name, char path[PATH_MAX])
{
	if (path_of(of, path))
		return -1;
	leave_leaf(path);
	size_t used = strlen(path);
	return (size_t)snprintf(path + used, PATH_MAX - used, "/%s", name) < PATH_MAX - used ? 0 : -1;
}

bool cgroup_holds(const char *path, pid_t pid)
{
	char other[PATH_MAX];
	size_t n = strlen(path);
	return !path_of(pid, other) && !strncmp(other, path, n) && (!other[n] || other[n] == '/');
}

static int open_in(const char *folder, const char *name, int flags)
{
	scoped_free char *path = alloc_printf("%s/%s", folder, name);
	return open(path, flags | O_CLOEXEC);
}

void cgroup_create(struct cgroup *c, const char *name)
{
	*c = (struct cgroup){ .folder_fd = -1, .procs_fd = -1, .kill_fd = -1, .events_fd = -1, .peak_fd = -1 };
	char path[PATH_MAX];
	if (cgroup_path(getpid(), name, path) || mkdir(path, 0755))
		return;
	/* Opened now, as the daemon's user: the shim is the task's by the time that it needs them. */
	c->procs_fd = open_in(path, "cgroup.procs", O_WRONLY);
	if (c->procs_fd < 0) {	/* one that cannot be entered is of no use, and would stay */
		rmdir(path);
		return;
	}
	memcpy(c->path, path, sizeof path);
	c->folder_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	c->kill_fd = open_in(path, "cgroup.kill", O_WRONLY);
	c->events_fd = open_in(path, "memory.events", O_RDONLY);
	c->peak_fd = open_in(path, "memory.peak", O_RDONLY);
}

static int write_in(const char *folder, const char *name, const char *text)
{
	scoped_fd int fd = open_in(folder, name, O_WRONLY);
	return fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) ? 0 : -1;
}

int cgroup_put(const char *name, pid_t pid)
{
	char path[PATH_MAX], text[24];
	if (cgroup_path(getpid(), name, path) || (mkdir(path, 0755) && errno != EEXIST))
		return -1;
	snprintf(text, sizeof text, "%d", (int)pid);
	return write_in(path, "cgroup.procs", text);
}

void cgroup_remove(const char *name)
{
	char path[PATH_MAX];
	if (!cgroup_path(getpid(), name, path))
		cgroup_remove_path(path);
}

int cgroup_limit_memory(const struct cgroup *c, uint64_t bytes)
{
	char text[24];
	snprintf(text, sizeof text, "%llu", (unsigned long long)bytes);
	if (!c->path[0] || write_in(c->path, "memory.max", text))
		return -1;
	/* A data loader that is killed alone leaves a training that hangs. */
	write_in(c->path, "memory.oom.group", "1");
	return 0;
}

/* What it says now, of one that stays open too; "" if it cannot be read. */
static void read_now(int fd, char *text, size_t size)
{
	ssize_t n = fd < 0 ? 0 : pread(fd, text, size - 1, 0);
	text[n > 0 ? n : 0] = 0;
}

bool cgroup_is_used(const char *path)
{
	scoped_fd int fd = open_in(path, "cgroup.events", O_RDONLY);
	char text[256];
	read_now(fd, text, sizeof text);
	return strstr(text, "populated 1");
}

/* Whether the kernel counts memory in the cgroups below that one. */
static bool counts_below(const char *path)
{
	scoped_fd int fd = open_in(path, "cgroup.subtree_control", O_RDONLY);
	char text[256], *rest = text;
	read_now(fd, text, sizeof text);
	for (const char *word; (word = strsep(&rest, " \n")); )
		if (!strcmp(word, "memory"))
			return true;
	return false;
}

bool cgroup_take_memory(void)
{
	char path[PATH_MAX];

	if (path_of(getpid(), path))
		return false;
	if (leave_leaf(path))
		write_in(path, "cgroup.subtree_control", "+memory");
	return counts_below(path);
}

uint64_t cgroup_memory_peak(const struct cgroup *c)
{
	char text[32];
	read_now(c->peak_fd, text, sizeof text);
	return strtoull(text, NULL, 10);
}

/* Moves the calling process. */
static void enter(const struct cgroup *c)
{
	if (c->procs_fd >= 0 && write(c->procs_fd, "0", 1) != 1)
		return;		/* an old kernel looks at the rights of now, not of when it was opened: go on without */
}

pid_t cgroup_fork(const struct cgroup *c)
{
	struct clone_args args = { .flags = CLONE_INTO_CGROUP, .exit_signal = SIGCHLD, .cgroup = (uint64_t)c->folder_fd };
	/* Asks for the rights of now, which a task's user has in his own daemon's cgroup only. */
	pid_t pid = c->folder_fd < 0 ? -1 : (pid_t)syscall(SYS_clone3, &args, sizeof args);
	if (pid >= 0)
		return pid;
	pid = fork();
	if (!pid)
		enter(c);
	return pid;
}

void cgroup_confirm(struct cgroup *c, pid_t pid)
{
	int *const fds[] = { &c->folder_fd, &c->procs_fd, &c->kill_fd, &c->events_fd, &c->peak_fd };
	if (!c->path[0] || cgroup_holds(c->path, pid))
		return;
	for (size_t i = 0; i < COUNT_OF(fds); i++) {
		scope_close(fds[i]);
		*fds[i] = -1;
	}
	c->path[0] = 0;
}

static int kill_through(int fd)
{
	return fd >= 0 && write(fd, "1", 1) == 1 ? 0 : -1;
}

int cgroup_kill(const struct cgroup *c)
{
	return kill_through(c->kill_fd);
}

int cgroup_kill_path(const char *path)
{
	scoped_fd int fd = open_in(path, "cgroup.kill", O_WRONLY);
	return kill_through(fd);
}

void cgroup_end(const char *name)
{
	char path[PATH_MAX];
	if (cgroup_path(getpid(), name, path) || cgroup_remove_path(path))
		return;
	cgroup_kill_path(path);
	cgroup_remove_path(path);	/* who is killed may still be on the way out: then it stays for the next */
}

int64_t cgroup_oom_kills(const struct cgroup *c)
{
	char text[1024];
	long long count = 0;
	read_now(c->events_fd, text, sizeof text);
	const char *line = strstr(text, "oom_kill ");
	return line && sscanf(line, "oom_kill %lld", &count) == 1 && count > 0 ? count : 0;
}

/* Of "BYTES", and of "QUOTA PERIOD" in microseconds; "max" is 0: none. */
static double bytes_of(const char *text)
{
	return (double)strtoull(text, NULL, 10);
}

static double cores_of(const char *text)
{
	long long quota, period;
	return sscanf(text, "%lld %lld", &quota, &period) == 2 && quota > 0 && period > 0 ? (double)quota / (double)period : 0;
}

static double limit_at(const char *folder, const char *name, double (*read)(const char *text))
{
	scoped_buf text = { 0 };
	scoped_free char *file = alloc_printf("%s/%s", folder, name);
	return io_read_file(file, 64, &text, NULL) ? 0 : read(buf_text(&text));
}

/* The least that this file says from our cgroup up to the top; 0: none. In a container the top is its own, with its limits; the
 * machine's has none. */
static double least_limit(const char *name, double (*read)(const char *text))
{
	char path[PATH_MAX];
	const char *mount = mounted_at();
	double least = 0;
	if (!mount || path_of(getpid(), path))
		return 0;
	for (size_t top = strlen(mount);; *strrchr(path, '/') = 0) {
		double limit = limit_at(path, name, read);
		if (limit > 0 && (!(least > 0) || limit < least))
			least = limit;
		if (strlen(path) <= top)
			return least;
	}
}

uint64_t cgroup_memory_limit(void)
{
	return (uint64_t)least_limit("memory.max", bytes_of);
}

double cgroup_cpu_limit(void)
{
	return least_limit("cpu.max", cores_of);
}
