/* SPDX-License-Identifier: MIT
 * Each test forks, since a process is laid aside for good. Where the machine does not permit that, they are skipped.
 */
#include "cli/aside.h"

#include "base/alloc.h"
#include "base/io.h"
#include "base/scope.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
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

static struct place begin(void)
{
	struct place p = { .top = "/tmp/rad-test-XXXXXX" };
	assert_non_null(getcwd(p.before, sizeof p.before));
	assert_non_null(mkdtemp(p.top));
	p.work = alloc_printf("%s/work", p.top);
	p.scratch = alloc_printf("%s/scr:a,tch", p.top);
	p.elsewhere = alloc_printf("%s/else-XXXXXX", p.before);	/* not below /tmp */
	assert_non_null(mkdtemp(p.elsewhere));
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
		if (aside_enter(p->scratch, 16))
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

static int try_in_vain(const struct place *p)
{
	if (!geteuid() && (setresgid(SOMEBODY, SOMEBODY, SOMEBODY) || setresuid(SOMEBODY, SOMEBODY, SOMEBODY) ||
			   prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)))		/* else /proc/self is root's */
		return 8;
	if (mkdir("own", 0700) || setenv("TMPDIR", p->top, 1))
		return 9;
	scoped_fd int made = open("own/protected", O_WRONLY | O_CREAT, 0400);
	scoped_fd int before = open("own/protected", O_WRONLY);
	bool entered = !aside_enter("own", 16);
	scoped_fd int since = open("own/protected", O_WRONLY);
	return made < 0 || before >= 0 ? 10 : entered ? 11 : since >= 0 ? 12 : 0;
}

/* Who may mount in a namespace of its own may write to its write-protected files, too. */
static void where_nothing_is_laid_aside_it_may_do_no_more_than_before(void **unused)
{
	(void)unused;
	struct place p = begin();
	int status;
	assert_false(chdir(p.top) || (!geteuid() && chown(p.top, SOMEBODY, SOMEBODY)));
	pid_t pid = fork();
	if (!pid)
		_exit(try_in_vain(&p));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	end(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_it_writes_nobody_else_sees), cmocka_unit_test(caches_and_temporary_files_stay),
		cmocka_unit_test(as_much_as_is_allowed), cmocka_unit_test(a_folder_that_stays_cannot_be_worked_in),
		cmocka_unit_test(where_nothing_is_laid_aside_it_may_do_no_more_than_before),
	};
	struct place p = begin();
	bool works = aside_works(".");
	end(&p);
	if (works)
		return cmocka_run_group_tests(tests, NULL, NULL);
	puts("what a capture writes cannot be laid aside here: no namespaces, or no overlays");
	return 77;	/* meson counts it as skipped */
}
