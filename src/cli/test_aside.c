/* SPDX-License-Identifier: MIT
 * Each test forks, since a process is laid aside for good. Where the machine does not permit that, they are skipped.
 */
#include "cli/aside.h"

#include "base/alloc.h"
#include "base/io.h"
#include "base/scope.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pwd.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define SOMEBODY 1234	/* who has no account */

struct place {
	char top[32], before[4096], *work, *scratch, *elsewhere;
};

static void write_file(const char *path, const char *text)
{
	scoped_fd int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		_exit(9);
}

static bool holds(const char *path, const char *text)
{
	char read_text[32] = "";
	scoped_fd int fd = open(path, O_RDONLY);
	return fd >= 0 && read(fd, read_text, sizeof read_text - 1) >= 0 && !strcmp(read_text, text);
}

/* A new folder that is not below /tmp, where a clone of this may lie: what is there stays as it is. */
static char *new_folder_elsewhere(const char *cwd)
{
	const struct passwd *me = getpwuid(geteuid());
	const char *const above[] = { cwd, me ? me->pw_dir : "/", "/" };
	for (size_t i = 0; i < COUNT_OF(above); i++) {
		char *folder = alloc_printf("%s/else-XXXXXX", above[i]);
		if (strncmp(folder, "/tmp/", 5) && strncmp(folder, "/var/tmp/", 9) && mkdtemp(folder))
			return folder;
		free(folder);
	}
	fail_msg("only folders for temporary files can be written to");
	return NULL;
}

static struct place begin(void)
{
	struct place p = { .top = "/tmp/rad-test-XXXXXX" };
	assert_non_null(getcwd(p.before, sizeof p.before));
	assert_non_null(mkdtemp(p.top));
	p.work = alloc_printf("%s/work", p.top);
	p.scratch = alloc_printf("%s/scr:a,tch", p.top);
	p.elsewhere = new_folder_elsewhere(p.before);
	assert_false(mkdir(p.work, 0700) || mkdir(p.scratch, 0700) || chdir(p.work));
	assert_false(setenv("TMPDIR", p.scratch, 1) || setenv("HOME", p.work, 1));
	write_file("was", "before");
	scoped_free char *file = alloc_printf("%s/was", p.elsewhere);
	write_file(file, "before");
	return p;
}

static void end(struct place *p)
{
	scoped_free char *command = alloc_printf("rm -rf '%s' '%s'", p->top, p->elsewhere);
	assert_int_equal(chdir(p->before) || system(command), 0);
	free(p->work);
	free(p->scratch);
	free(p->elsewhere);
}

/* Calls it in a process that is laid aside. */
static void aside(const struct place *p, void (*run)(const struct place *p))
{
	int status;
	pid_t pid = fork();
	if (!pid) {
		if (aside_enter(p->scratch, 16, false))
			_exit(1);
		run(p);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

#define HOLD(what) do { if (!(what)) { dprintf(2, "%s:%d: " #what "\n", __FILE__, __LINE__); _exit(2); } } while (0)

static void change_all(const struct place *p)
{
	HOLD(!rename("was", "is") && !mkdir("new", 0700));
	write_file("new/file", "mine");
	write_file("is", "mine");
	HOLD(!system("test -e is && ! test -e was && echo theirs >new/other"));	/* what it starts sees the same */
	HOLD(holds("new/other", "theirs\n"));
	scoped_free char *file = alloc_printf("%s/was", p->elsewhere), *below = alloc_printf("%s/a/b", p->elsewhere);
	HOLD(aside_cover(p->scratch, below) == 1 && !aside_cover(p->scratch, file) && !unlink(file));
}

static void what_it_writes_nobody_else_sees(void **unused)
{
	(void)unused;
	struct place p = begin();
	aside(&p, change_all);
	scoped_free char *file = alloc_printf("%s/was", p.elsewhere);
	assert_true(holds("was", "before"));
	assert_true(holds(file, "before"));
	assert_int_equal(access("new", F_OK), -1);
	assert_int_equal(access("is", F_OK), -1);
	end(&p);
}

static void write_caches(const struct place *p)
{
	(void)p;
	write_file(".cache/hub", "kept");
	scoped_free char *temporary = alloc_printf("%s/file", getenv("TMPDIR"));
	HOLD(!aside_cover(p->scratch, temporary));
	write_file(temporary, "kept");
	write_file("beside", "dropped");
}

/* A folder for temporary files may lie where all else is laid aside. */
static void caches_and_temporary_files_stay(void **unused)
{
	(void)unused;
	struct place p = begin();
	assert_false(mkdir(".cache", 0700) || mkdir("tmp", 0700) || unsetenv("XDG_CACHE_HOME"));
	scoped_free char *temporary = alloc_printf("%s/tmp", p.work);
	setenv("TMPDIR", temporary, 1);
	aside(&p, write_caches);
	assert_true(holds(".cache/hub", "kept"));
	assert_true(holds("tmp/file", "kept"));
	assert_int_equal(access("beside", F_OK), -1);
	end(&p);
}

static void fill(const struct place *p)
{
	static char mib[1 << 20];
	signal(SIGXFSZ, SIG_IGN);
	scoped_fd int fd = open("large", O_WRONLY | O_CREAT, 0600);
	int n = 0;
	while (n < 64 && write(fd, mib, sizeof mib) == sizeof mib)
		n++;
	HOLD(n > 12 && n <= 16);
	(void)p;
}

static void as_much_as_is_allowed(void **unused)
{
	(void)unused;
	struct place p = begin();
	aside(&p, fill);
	end(&p);
}

/* What cannot be laid aside is said, before anything is changed: a temporary folder itself, which others share. */
static void a_folder_that_stays_cannot_be_worked_in(void **unused)
{
	(void)unused;
	struct place p = begin();
	assert_true(aside_works("."));
	assert_int_equal(rmdir(p.scratch), 0);	/* nothing of the trial is left */
	assert_int_equal(chdir(p.top), 0);
	setenv("TMPDIR", p.top, 1);
	assert_false(aside_works("."));
	end(&p);
}

/* Whom the kernel gives rights in a namespace of its own alone. */
static bool become_somebody(void)
{
	return geteuid() || (!setresgid(SOMEBODY, SOMEBODY, SOMEBODY) && !setresuid(SOMEBODY, SOMEBODY, SOMEBODY) &&
			     !prctl(PR_SET_DUMPABLE, 1, 0, 0, 0));	/* else /proc/self is root's */
}

/* Calls it in a process of somebody's, in a folder of that user's. It returns 0 if all is well. */
static void as_somebody(int (*run)(const struct place *p))
{
	struct place p = begin();
	int status;
	assert_false(chdir(p.top) || (!geteuid() && (chown(p.top, SOMEBODY, SOMEBODY) || chown(p.work, SOMEBODY, SOMEBODY) ||
						     chown(p.scratch, SOMEBODY, SOMEBODY))));
	pid_t pid = fork();
	if (!pid)
		_exit(become_somebody() && !chmod("work", 0700) && !chdir("work") ? run(&p) : 8);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	end(&p);
}

/* 0: the kernel refuses to write to a file that is write-protected, to this process and to programs that it starts. */
static int writes_to_protected(void)
{
	scoped_fd int made = open("protected", O_WRONLY | O_CREAT, 0400);
	scoped_fd int here = open("protected", O_WRONLY);
	return here >= 0 ? 1 : system("! ( : >>protected ) 2>/dev/null") ? 2 : 0;
}

/* Of a process: its namespaces. */
static void read_namespaces(char to[2][64])
{
	static const char *const of[] = { "/proc/self/ns/user", "/proc/self/ns/mnt" };
	for (int i = 0; i < 2; i++)
		to[i][readlink(of[i], to[i], 63)] = 0;
}

static int try_in_vain(const struct place *p)
{
	char before[2][64] = { "" }, since[2][64] = { "" };
	if (mkdir("own", 0700) || setenv("TMPDIR", p->work, 1) || writes_to_protected())
		return 9;
	read_namespaces(before);
	if (!aside_enter("own", 16, true))
		return 10;
	read_namespaces(since);
	return strcmp(before[0], since[0]) || strcmp(before[1], since[1]) ? 11 : writes_to_protected();
}

static void where_nothing_is_laid_aside_it_may_do_no_more_than_before(void **unused)
{
	(void)unused;
	as_somebody(try_in_vain);
}

/* As where AppArmor lets a program have a namespace of its own and no rights in it: mount(2) is refused, and so are a user
 * namespace's ids (the one file that is opened to be written and nothing else). */
static bool refuse_rights(void)
{
	struct sock_filter refuses[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mount, 3, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, O_WRONLY | O_CLOEXEC, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog filter = { sizeof refuses / sizeof *refuses, refuses };
	return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) && !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
}

static int enter_without_rights(const struct place *p)
{
	char before[2][64] = { "" }, since[2][64] = { "" };
	read_namespaces(before);
	if (!refuse_rights())
		return 9;
	if (aside_works(".") || !aside_enter(p->scratch, 16, false) || errno != EPERM)
		return 10;
	read_namespaces(since);
	signal(SIGCHLD, SIG_IGN);	/* as whoever started it may have it: then nobody tells how a trial ended */
	return strcmp(before[0], since[0]) || strcmp(before[1], since[1]) ? 11 : aside_works(".") ? 12 : 0;
}

static void a_namespace_without_rights_is_not_entered(void **unused)
{
	(void)unused;
	as_somebody(enter_without_rights);
}

static int lay_aside_and_write(const struct place *p)
{
	if (aside_enter(p->scratch, 16, false))
		return 9;
	int rc = writes_to_protected();
	if (rc || mkdir("later", 0700) || chdir("later"))
		return rc + 10;
	write_file("new", "mine");	/* and mounts on, with the rights that it does not use otherwise */
	scoped_free char *there = alloc_printf("%s/x", p->elsewhere);
	return aside_cover(p->scratch, there) < 0 ? 20 : writes_to_protected();
}

#ifndef __SANITIZE_ADDRESS__	/* whose library only programs with sanitizers load */
static int lay_aside_and_start(const struct place *p)
{
	scoped_free char *library = alloc_printf("%s/libradcapture.so", getenv("RAD_BUILD_ROOT"));
	setenv("LD_PRELOAD", library, 1);
	setenv("RADRM_CAPTURE_PATH", p->top, 1);
	return aside_enter(p->scratch, 16, true) ? 9 : writes_to_protected();
}
#endif

/* Who may mount in a namespace of its own may write to its write-protected files, too; not all of these are laid aside. */
static void what_is_write_protected_stays_so(void **unused)
{
	(void)unused;
	as_somebody(lay_aside_and_write);
#ifndef __SANITIZE_ADDRESS__
	as_somebody(lay_aside_and_start);
#endif
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_it_writes_nobody_else_sees), cmocka_unit_test(caches_and_temporary_files_stay),
		cmocka_unit_test(as_much_as_is_allowed), cmocka_unit_test(a_folder_that_stays_cannot_be_worked_in),
		cmocka_unit_test(where_nothing_is_laid_aside_it_may_do_no_more_than_before),
		cmocka_unit_test(a_namespace_without_rights_is_not_entered), cmocka_unit_test(what_is_write_protected_stays_so),
	};
	struct place p = begin();
	bool works = aside_works(".");
	end(&p);
	if (works)
		return cmocka_run_group_tests(tests, NULL, NULL);
	puts("what a capture writes cannot be laid aside here: no namespaces, or no overlays");
	return 77;	/* meson counts it as skipped */
}
