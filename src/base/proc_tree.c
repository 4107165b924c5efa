/* SPDX-License-Identifier: MIT
 * Who descends from whom: see proc_tree.h.
 *
 * Why one more reading is enough. A parent that is confirmed after the look was there, under its number, when its child was
 * seen to be its child: else that number was somebody else's then, and the child is older than the parent that has it now. And
 * a child whose parent ended since belongs to an ancestor of that one, which is confirmed before it.
 */
#include "base/proc_tree.h"

#include "base/alloc.h"
#include "base/io.h"
#include "base/scope.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#define FAMILY_MAX 2048	/* processes, and threads: more cost as much as all processes of a machine */
#define LIST_BYTES ((size_t)32 << 20)	/* more than there are pids */

static int by_pid(const void *a, const void *b)
{
	pid_t x = ((const struct proc_node *)a)->seen.id.pid, y = ((const struct proc_node *)b)->seen.id.pid;
	return (x > y) - (x < y);
}

static void add(struct proc_tree *t, size_t *cap, pid_t pid)
{
	struct proc_node one = { 0 };
	if (pid <= 0 || proc_see(pid, &one.seen))
		return;
	alloc_grow(t->all, t->n, *cap);
	t->all[t->n++] = one;
}

void proc_tree_read(struct proc_tree *t)
{
	scoped_dir DIR *dir = opendir("/proc");
	const struct dirent *entry;
	size_t cap = 0;
	*t = (struct proc_tree){ 0 };
	while (dir && (entry = readdir(dir)))
		add(t, &cap, (pid_t)strtol(entry->d_name, NULL, 10));
	if (t->n)
		qsort(t->all, t->n, sizeof *t->all, by_pid);
}

static void add_list(struct proc_tree *t, size_t *cap, int folder, const char *thread)
{
	scoped_buf text = { 0 };
	scoped_free char *name = alloc_printf("%s/children", thread);
	scoped_fd int fd = openat(folder, name, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || io_read_fd(fd, name, LIST_BYTES, &text, NULL))
		return;
	for (char *p = text.data, *end; p && *p && t->n <= FAMILY_MAX; p = end) {
		pid_t pid = (pid_t)strtol(p, &end, 10);
		if (end == p)
			break;
		add(t, cap, pid);
	}
}

/* A child is its thread's who made it. Returns how many there are. */
static size_t add_children(struct proc_tree *t, size_t *cap, pid_t pid)
{
	size_t n = 0;
	scoped_free char *path = alloc_printf("/proc/%d/task", (int)pid);
	scoped_dir DIR *dir = opendir(path);
	for (const struct dirent *e; dir && n <= FAMILY_MAX && (e = readdir(dir));)
		if (e->d_name[0] != '.') {
			add_list(t, cap, dirfd(dir), e->d_name);
			n++;
		}
	return n;
}

/* Who came to another parent while we read may be seen twice. */
static void sort_each_once(struct proc_tree *t)
{
	size_t kept = 0;
	if (t->n)
		qsort(t->all, t->n, sizeof *t->all, by_pid);
	for (size_t i = 0; i < t->n; i++)
		if (!kept || t->all[kept - 1].seen.id.pid != t->all[i].seen.id.pid)
			t->all[kept++] = t->all[i];
	t->n = kept;
}

bool proc_tree_read_below(struct proc_tree *t, pid_t ancestor)
{
	size_t cap = 0, threads = 0;
	bool told = !access("/proc/thread-self/children", R_OK);
	*t = (struct proc_tree){ 0 };
	if (told)
		add(t, &cap, ancestor);
	for (size_t next = 0; next < t->n && t->n <= FAMILY_MAX && threads <= FAMILY_MAX; next++)
		threads += add_children(t, &cap, t->all[next].seen.id.pid);
	if (told && t->n <= FAMILY_MAX && threads <= FAMILY_MAX) {
		sort_each_once(t);
		return true;
	}
	proc_tree_free(t);
	proc_tree_read(t);
	return false;
}

void proc_tree_free(struct proc_tree *t)
{
	free(t->all);
	*t = (struct proc_tree){ 0 };
}

struct proc_node *proc_tree_find(const struct proc_tree *t, pid_t pid)
{
	const struct proc_node key = { .seen.id.pid = pid };
	return t->n ? bsearch(&key, t->all, t->n, sizeof *t->all, by_pid) : NULL;
}

static int by_parent(const void *a, const void *b)
{
	const struct proc_node *x = *(struct proc_node *const *)a, *y = *(struct proc_node *const *)b;
	return (x->seen.parent > y->seen.parent) - (x->seen.parent < y->seen.parent);
}

/* The place of the first whose parent that is, or of where it would stand. */
static size_t first_child(struct proc_node *const *sorted, size_t n, pid_t parent)
{
	size_t low = 0, high = n;
	while (low < high) {
		size_t mid = low + (high - low) / 2;
		if (sorted[mid]->seen.parent < parent)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

size_t proc_tree_below(const struct proc_tree *t, pid_t ancestor, struct proc_node ***nodes)
{
	scoped_free struct proc_node **sorted = alloc_zero((t->n + 1) * sizeof *sorted);
	struct proc_node **list = alloc_zero((t->n + 1) * sizeof *list);
	size_t found = 0;
	for (size_t i = 0; i < t->n; i++)
		sorted[i] = &t->all[i];
	qsort(sorted, t->n, sizeof *sorted, by_parent);
	/* Breadth first: `next` walks the ones found; each round adds the children of one. */
	for (size_t next = 0; next <= found; next++) {
		pid_t of = next ? list[next - 1]->seen.id.pid : ancestor;
		for (size_t i = first_child(sorted, t->n, of); i < t->n && sorted[i]->seen.parent == of; i++)
			if (sorted[i]->seen.id.pid != ancestor)
				list[found++] = sorted[i];
	}
	*nodes = list;
	return found;
}

static bool is_sure(const struct proc_tree *t, pid_t parent, const struct proc_node *child, struct proc_id ancestor)
{
	if (parent == ancestor.pid)
		return ancestor.start_ticks <= child->seen.id.start_ticks;
	const struct proc_node *p = proc_tree_find(t, parent);
	return p && p->sure && p->seen.id.start_ticks <= child->seen.id.start_ticks;
}

bool proc_tree_confirm(const struct proc_tree *t, struct proc_node *p, struct proc_id ancestor)
{
	struct proc_seen now;
	p->sure = !proc_see(p->seen.id.pid, &now) && now.id.start_ticks == p->seen.id.start_ticks &&
		  (is_sure(t, p->seen.parent, p, ancestor) || is_sure(t, now.parent, p, ancestor));
	return p->sure;
}

size_t proc_descendants(pid_t ancestor, pid_t **pids)
{
	scoped_proc_tree struct proc_tree t;
	scoped_free struct proc_node **nodes = NULL;
	proc_tree_read_below(&t, ancestor);
	size_t n = proc_tree_below(&t, ancestor, &nodes);
	*pids = alloc_zero((n + 1) * sizeof **pids);
	for (size_t i = 0; i < n; i++)
		(*pids)[i] = nodes[i]->seen.id.pid;
	return n;
}
