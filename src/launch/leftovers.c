/* SPDX-License-Identifier: MIT
 * What attempts left: see leftovers.h. The names are read once, before anything is started: a folder that is made later is not
 * among them, so that removing can take its time. A cgroup that has processes in it cannot be removed, which is as it should
 * be.
 */
#include "launch/leftovers.h"

#include "base/alloc.h"
#include "base/scope.h"
#include "launch/attempt.h"
#include "launch/cgroup.h"

#include <dirent.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct paths { char **list; size_t n, cap; };

struct leftovers {
	struct paths folders, cgroups;	/* paths, to be removed */
	struct stray *strays;
	size_t n_strays, cap_strays;
	size_t n_unknown;
};

static void paths_add(struct paths *l, char *name)
{
	alloc_grow(l->list, l->n, l->cap);
	l->list[l->n++] = name;
}

static void paths_clear(struct paths *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->list[i]);
	free(l->list);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* "12_3.1-STORE-PLACED" of our own store. */
static bool name_is_ours(const struct launch_home *home, const char *name)
{
	const char *mark = strchr(name, '-');
	size_t n = home->store ? strlen(home->store) : 0;
	return n && mark && !strncmp(mark + 1, home->store, n) && mark[1 + n] == '-';
}

static void leftovers_look_at(struct leftovers *l, const struct launch_home *home, const char *name)
{
	struct proc_id shim = { 0 };
	scoped_free char *path = alloc_printf("%s/attempts/%s", home->state_dir, name);
	scoped_fd int folder = attempt_open(path, NULL);
	int claimed = folder < 0 ? -1 : claim_read(folder, ATTEMPT_CLAIM, &shim, NULL);
	if (claimed > 0 && !proc_gone(shim)) {
		alloc_grow(l->strays, l->n_strays, l->cap_strays);
		struct stray *s = &l->strays[l->n_strays++];
		*s = (struct stray){ .shim = shim, .uid = proc_uid(shim.pid) };
		snprintf(s->name, sizeof s->name, "%.79s", name);
	} else if (claimed >= 0 && name_is_ours(home, name)) {
		paths_add(&l->folders, steal(path));
	} else {
		l->n_unknown++;
	}
}

/* Of a running task's attempt there may be those of shims that came before and began nothing. The one that is in use was noted
 * before it was made. */
static bool leftovers_is_used(const struct launch_home *home, const char *attempt, const char *cgroup)
{
	scoped_free char *path = alloc_printf("%s/attempts/%s", home->state_dir, attempt);
	scoped_fd int folder = attempt_open(path, NULL);
	scoped_free char *noted = NULL;
	return folder < 0 || attempt_cgroup(folder, &noted) || (noted && !strcmp(noted, cgroup));
}

/* `name` is one of cgroups: "rad-NAME-PID-START". Those of other stores on this machine are theirs. */
static void leftovers_look_at_cgroup(struct leftovers *l, const struct launch_home *home, const char *folder, const char *name,
				     char *const *keep, size_t n_keep)
{
	char attempt[NAME_MAX + 1];
	const char *key = attempt;
	snprintf(attempt, sizeof attempt, "%s", name + strlen(CGROUP_PREFIX));
	for (int i = 0; i < 2; i++) {
		char *dash = strrchr(attempt, '-');
		if (!dash)
			return;
		*dash = 0;
	}
	if (!name_is_ours(home, attempt))
		return;
	scoped_free char *path = alloc_printf("%s%s", folder, name);
	if (!bsearch(&key, keep, n_keep, sizeof *keep, by_name) || !leftovers_is_used(home, attempt, path))
		paths_add(&l->cgroups, steal(path));
}

static void leftovers_find_cgroups(struct leftovers *l, const struct launch_home *home, char *const *keep, size_t n_keep)
{
	char path[PATH_MAX];
	if (cgroup_path(getpid(), "", path))
		return;
	scoped_dir DIR *dir = opendir(path);
	for (const struct dirent *e; dir && (e = readdir(dir));)
		if (!strncmp(e->d_name, CGROUP_PREFIX, strlen(CGROUP_PREFIX)))
			leftovers_look_at_cgroup(l, home, path, e->d_name, keep, n_keep);
}

struct leftovers *leftovers_find(const struct launch_home *home, char *const *keep, size_t n_keep)
{
	struct leftovers *l = alloc_zero(sizeof *l);
	scoped_free char **sorted = alloc_zero((n_keep + 1) * sizeof *sorted);
	if (n_keep)
		memcpy(sorted, keep, n_keep * sizeof *sorted);
	qsort(sorted, n_keep, sizeof *sorted, by_name);
	scoped_free char *path = alloc_printf("%s/attempts", home->state_dir);
	scoped_dir DIR *dir = opendir(path);
	for (const struct dirent *e; dir && (e = readdir(dir));) {
		const char *name = e->d_name;
		if (*name >= '0' && *name <= '9' && !bsearch(&name, sorted, n_keep, sizeof *sorted, by_name))
			leftovers_look_at(l, home, name);
	}
	leftovers_find_cgroups(l, home, sorted, n_keep);
	return l;
}

void leftovers_each(const struct leftovers *l, void (*each)(void *ctx, bool (*way)(const char *path), const char *path),
		    void *ctx)
{
	for (size_t i = 0; i < l->folders.n; i++)
		each(ctx, launch_forget, l->folders.list[i]);
	for (size_t i = 0; i < l->cgroups.n; i++)
		each(ctx, cgroup_remove_path, l->cgroups.list[i]);
}

void leftovers_destroy(struct leftovers *l)
{
	if (!l)
		return;
	paths_clear(&l->folders);
	paths_clear(&l->cgroups);
	free(l->strays);
	free(l);
}

const struct stray *leftovers_strays(const struct leftovers *l, size_t *n)
{
	*n = l->n_strays;
	return l->strays;
}

size_t leftovers_ended(const struct leftovers *l)
{
	return l->folders.n;
}

size_t leftovers_unknown(const struct leftovers *l)
{
	return l->n_unknown;
}
