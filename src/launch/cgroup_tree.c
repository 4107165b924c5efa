/* SPDX-License-Identifier: MIT
 * A cgroup with those below it: see cgroup.h. A program may make some of its own, as container runtimes do, and as many as it
 * likes, so what is done at one time is bounded, and neither depth nor number costs descriptors or stack.
 */
#include "launch/cgroup.h"

#include "base/alloc.h"
#include "base/io.h"
#include "base/scope.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define OPEN_FOLDER (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
#define LOOK_MAX 256	/* that are asked for their processes at one time: it is done in radd's loop */
#define STEPS_MAX 10000	/* at one time, of removing, which is done in a thread */
#define PIDS_BYTES ((size_t)16 << 20)

/* To go through what is in it. NULL: no folder is, which the number of its links tells without reading it. */
static DIR *open_with_folders(int folder)
{
	struct stat st;
	return fstat(folder, &st) || st.st_nlink == 2 ? NULL : io_open_folder(folder, ".");
}

static const char *next_folder(DIR *dir)
{
	for (const struct dirent *e; dir && (e = readdir(dir));)
		if (e->d_type == DT_DIR && strcmp(e->d_name, ".") && strcmp(e->d_name, ".."))
			return e->d_name;
	return NULL;
}

/* Processes ------------------------------------------------------------------------------------------------------------ */

struct cgroup_look { pid_t *pids; size_t n, cap; char **folders; size_t n_folders, cap_folders; };

static void add_processes(struct cgroup_look *l, int folder)
{
	scoped_buf text = { 0 };
	scoped_fd int fd = openat(folder, "cgroup.procs", O_RDONLY | O_CLOEXEC);
	if (fd < 0 || io_read_fd(fd, "cgroup.procs", PIDS_BYTES, &text, NULL))
		return;
	for (char *p = text.data, *end; p && *p; p = end + 1) {
		long pid = strtol(p, &end, 10);
		if (end == p)
			break;
		if (pid <= 1)
			continue;
		alloc_grow(l->pids, l->n, l->cap);
		l->pids[l->n++] = (pid_t)pid;
	}
}

static void add_folders(struct cgroup_look *l, int folder, const char *below)
{
	scoped_dir DIR *dir = open_with_folders(folder);
	for (const char *name; l->n_folders < LOOK_MAX && (name = next_folder(dir));) {
		alloc_grow(l->folders, l->n_folders, l->cap_folders);
		l->folders[l->n_folders++] = alloc_printf("%s/%s", below, name);
	}
}

/* The nearest first. Who is in one that is not looked at descends from the task's shim, most likely, and is ended by
 * cgroup_kill in any case. */
size_t cgroup_members(const char *path, pid_t **pids)
{
	struct cgroup_look l = { 0 };
	scoped_fd int top = open(path, OPEN_FOLDER);
	add_processes(&l, top);
	add_folders(&l, top, ".");
	for (size_t i = 0; i < l.n_folders; i++) {
		scoped_fd int folder = openat(top, l.folders[i], OPEN_FOLDER);
		add_processes(&l, folder);
		add_folders(&l, folder, l.folders[i]);
	}
	for (size_t i = 0; i < l.n_folders; i++)
		free(l.folders[i]);
	free(l.folders);
	*pids = l.pids;
	return l.n;
}

/* Removing ------------------------------------------------------------------------------------------------------------- */

static bool first_folder(int folder, char name[NAME_MAX + 1])
{
	scoped_dir DIR *dir = open_with_folders(folder);
	const char *first = next_folder(dir);
	if (first)
		strcpy(name, first);
	return first;
}

static void move_to(int *at, const char *name)
{
	int fd = openat(*at, name, OPEN_FOLDER);
	close(*at);
	*at = fd;
}

/* Down to one that has none below it, which goes, and up again: no cgroup is ever moved, so ".." is where we came from. Ends at
 * one that processes are in, and where there are more than can be removed at one time. */
static void remove_below(const char *path)
{
	char name[NAME_MAX + 1];
	scoped_fd int at = open(path, OPEN_FOLDER);
	size_t depth = 0;
	bool held = false;	/* where we are could not be removed a moment ago */
	for (int steps = 0; at >= 0 && steps < STEPS_MAX; steps++) {
		if (first_folder(at, name)) {
			held = unlinkat(at, name, AT_REMOVEDIR) && errno != ENOENT;
			if (held) {
				move_to(&at, name);
				depth++;
			}
		} else if (held || !depth) {
			return;
		} else {
			move_to(&at, "..");
			depth--;
		}
	}
}

static bool in_use(void)
{
	return errno == EBUSY || errno == ENOTEMPTY;
}

bool cgroup_remove_path(const char *path)
{
	if (!rmdir(path) || !in_use())
		return true;
	remove_below(path);
	return !rmdir(path) || !in_use();
}
