/* SPDX-License-Identifier: MIT
 * Cgroups that a task made below its own. What is removed are folders of any file system, so most is tried where there are no
 * cgroups, too.
 */
#include "launch/cgroup.h"

#include "base/alloc.h"
#include "base/io.h"
#include "base/scope.h"

#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <cmocka.h>

static char dir[PATH_MAX];

static int setup(void **state)
{
	(void)state;
	strcpy(dir, "/dev/shm/rad-cgroup-XXXXXX");
	return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	scoped_free char *command = alloc_printf("rm -rf '%s'", dir);
	return system(command);
}

static char *below(const char *name)
{
	return alloc_printf("%s/%s", dir, name);
}

static void make(const char *name)
{
	scoped_free char *path = below(name);
	assert_int_equal(io_make_dirs(path, 0755, NULL), 0);
}

static void put(const char *name, const char *text)
{
	scoped_free char *path = below(name);
	assert_int_equal(io_replace_file(path, text, strlen(text), 0644, NULL), 0);
}

static bool is_there(const char *name)
{
	struct stat st;
	scoped_free char *path = below(name);
	return !lstat(path, &st);
}

/* Each in the one before. Deeper than any path can name, and than there are descriptors. */
static void make_nest(const char *path, int depth)
{
	scoped_fd int at = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (int i = 0; i < depth; i++) {
		assert_int_equal(mkdirat(at, "n", 0755), 0);
		int next = openat(at, "n", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		close(at);
		at = next;
		assert_true(at >= 0);
	}
}

static void those_below_go_too(void **state)
{
	(void)state;
	scoped_free char *path = below("top");
	make("top/a/b/c");
	make("top/a/d");
	make("top/e");
	assert_true(cgroup_remove_path(path));
	assert_false(is_there("top"));
	assert_true(is_there(""));
	assert_true(cgroup_remove_path(path));		/* it is gone */
}

static void one_that_is_in_use_stays_with_those_above_it(void **state)
{
	(void)state;
	scoped_free char *path = below("top");
	make("top/a/b");
	put("top/a/b/file", "");
	assert_false(cgroup_remove_path(path));
	assert_true(is_there("top/a/b/file"));
	scoped_free char *file = below("top/a/b/file");
	assert_int_equal(unlink(file), 0);
	assert_true(cgroup_remove_path(path));
	assert_false(is_there("top"));
}

static void no_link_is_followed(void **state)
{
	(void)state;
	scoped_free char *path = below("top"), *other = below("other"), *link = below("top/a/link");
	make("top/a");
	make("other/kept");
	assert_int_equal(symlink(other, link), 0);
	assert_false(cgroup_remove_path(path));
	cgroup_remove_path(link);
	assert_true(is_there("other/kept") && is_there("top/a/link"));
	put("other/cgroup.procs", "4711\n");
	scoped_free pid_t *pids = NULL, *linked = NULL;
	assert_int_equal(cgroup_members(path, &pids), 0);
	assert_int_equal(cgroup_members(link, &linked), 0);
}

/* However many there are, a try ends soon, and some tries remove them. */
static void thousands_go_in_a_few_tries(void **state)
{
	struct rlimit limit, few;
	(void)state;
	scoped_free char *path = below("top"), *nest = below("top/nest");
	make("top/nest");
	make_nest(nest, 6000);
	for (int i = 0; i < 6000; i++) {
		scoped_free char *one = alloc_printf("%s/%d", path, i);
		assert_int_equal(mkdir(one, 0755), 0);
	}
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	few = (struct rlimit){ 32, limit.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	scoped_free pid_t *pids = NULL;
	assert_int_equal(cgroup_members(path, &pids), 0);
	int tries = 1;
	while (!cgroup_remove_path(path))
		assert_true(tries++ < 10);
	assert_true(tries > 1);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	assert_false(is_there("top"));
}

static void processes_are_found_in_those_below(void **state)
{
	(void)state;
	scoped_free char *path = below("top");
	make("top/a/b");
	make("top/c");
	put("top/cgroup.procs", "");
	put("top/a/cgroup.procs", "101\n102\n");
	put("top/a/b/cgroup.procs", "0\n1\n103\n");	/* who is outside of our namespace is 0 */
	put("top/c/cgroup.procs", "104\n");
	scoped_free pid_t *pids = NULL, *none = NULL;
	size_t n = cgroup_members(path, &pids);
	int sum = 0;
	for (size_t i = 0; i < n; i++)
		sum += pids[i];
	assert_int_equal(n, 4);
	assert_int_equal(sum, 410);
	scoped_free char *missing = below("missing");
	assert_int_equal(cgroup_members(missing, &none), 0);
}

static pid_t start_pausing(void)
{
	pid_t pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	assert_true(pid > 1);
	return pid;
}

static void in_real_ones(void **state)
{
	(void)state;
	char name[64];
	struct cgroup top;
	snprintf(name, sizeof name, "rad-test-%d", (int)getpid());
	cgroup_create(&top, name);
	scoped_free char *inner = alloc_printf("%s/inner", top.path), *deep = alloc_printf("%s/inner/deep", top.path);
	scoped_free char *procs = alloc_printf("%s/cgroup.procs", deep);
	scoped_free char *shorter = alloc_printf("%.*s", (int)strlen(top.path) - 1, top.path);
	if (!top.path[0] || mkdir(inner, 0755) || mkdir(deep, 0755))
		skip();
	pid_t pid = start_pausing();
	scoped_free char *text = alloc_printf("%d", (int)pid);
	scoped_fd int fd = open(procs, O_WRONLY | O_CLOEXEC);
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	assert_true(cgroup_is_used(top.path));
	assert_true(cgroup_holds(top.path, pid) && cgroup_holds(deep, pid));
	assert_false(cgroup_holds(shorter, pid));
	scoped_free pid_t *pids = NULL;
	assert_int_equal(cgroup_members(top.path, &pids), 1);
	assert_int_equal(*pids, pid);
	assert_false(cgroup_remove_path(top.path));
	assert_int_equal(access(deep, F_OK), 0);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_false(cgroup_is_used(top.path));
	make_nest(inner, 200);
	while (!cgroup_remove_path(top.path))
		;
	assert_int_equal(access(top.path, F_OK), -1);
}

/* Where the kernel puts nobody into it, as from outside of what was delegated, it is given up. */
static void one_that_could_not_be_entered_is_none(void **state)
{
	(void)state;
	char name[64];
	struct cgroup c;
	snprintf(name, sizeof name, "rad-test-%d", (int)getpid());
	cgroup_create(&c, name);
	if (!c.path[0])
		skip();
	scoped_free char *path = alloc_string(c.path);
	pid_t outside = start_pausing(), inside = cgroup_fork(&c);
	if (!inside)
		for (;;)
			pause();
	while (!cgroup_is_used(path))
		sched_yield();
	cgroup_confirm(&c, inside);
	assert_string_equal(c.path, path);
	cgroup_confirm(&c, outside);
	assert_string_equal(c.path, "");
	assert_true(c.folder_fd == -1 && c.procs_fd == -1 && c.kill_fd == -1 && c.events_fd == -1 && c.peak_fd == -1);
	kill(inside, SIGKILL);
	kill(outside, SIGKILL);
	assert_int_equal(waitpid(inside, NULL, 0), inside);
	assert_int_equal(waitpid(outside, NULL, 0), outside);
	assert_int_equal(rmdir(path), 0);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(those_below_go_too), T(one_that_is_in_use_stays_with_those_above_it), T(no_link_is_followed),
		T(thousands_go_in_a_few_tries), T(processes_are_found_in_those_below), T(in_real_ones),
		T(one_that_could_not_be_entered_is_none),
#undef T
	};
	return cmocka_run_group_tests_name("cgroup_tree", tests, NULL, NULL);
}
