/* SPDX-License-Identifier: MIT
 * Turns of captures in a folder where somebody else may write.
 */
#include "cli/capture_turn.h"

#include "base/alloc.h"
#include "base/scope.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define PATIENCE_S 100

static char cache[] = "/tmp/rad-turn-XXXXXX";

static bool always(void *ctx)
{
	(void)ctx;
	return true;
}

static char *ticket_of(pid_t pid)
{
	return alloc_printf("%s/rad/capture-turn-%010d-%010d", cache, 7, (int)pid);
}

/* A file of the ticket's name, which its maker keeps locked: the turn comes all the same. */
static void test_ticket_that_another_holds(void **state)
{
	(void)state;
	int go[2], status;
	assert_int_equal(pipe(go), 0);
	pid_t child = fork();
	if (!child) {
		char byte;
		alarm(PATIENCE_S);
		close(go[1]);
		_exit(read(go[0], &byte, 1) || !capture_turn_wait("7", always, NULL));
	}
	scoped_free char *path = ticket_of(child);
	scoped_fd int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
	assert_true(fd >= 0);
	assert_int_equal(flock(fd, LOCK_EX), 0);
	close(go[0]);
	close(go[1]);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_not_equal(access(path, F_OK), 0);
}

/* The same of a folder by that name, which cannot be removed: then without a ticket. */
static void test_ticket_that_cannot_be_made(void **state)
{
	(void)state;
	scoped_free char *path = ticket_of(getpid());
	assert_int_equal(mkdir(path, 0700), 0);
	alarm(PATIENCE_S);
	assert_true(capture_turn_wait("7", always, NULL));
	alarm(0);
	assert_int_equal(rmdir(path), 0);
}

static int set_up(void **state)
{
	(void)state;
	if (!mkdtemp(cache) || setenv("XDG_CACHE_HOME", cache, 1))
		return -1;
	scoped_free char *folder = alloc_printf("%s/rad", cache);
	return mkdir(folder, 0775);
}

static int tear_down(void **state)
{
	(void)state;
	scoped_free char *command = alloc_printf("rm -rf '%s'", cache);
	return system(command);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ticket_that_another_holds),
		cmocka_unit_test(test_ticket_that_cannot_be_made),
	};
	return cmocka_run_group_tests_name("capture_turn", tests, set_up, tear_down);
}
