/* SPDX-License-Identifier: MIT
 * Notices of a pilot that is short of processes: they are told later, not lost.
 */
#include "cli/pilot_notice.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/io.h"
#include "base/scope.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

static unsigned forks_left;

/* In place of C's: each call takes one, in parent and child alike, and there is none when they are used up. */
pid_t fork(void)
{
	if (!forks_left) {
		errno = EAGAIN;
		return -1;
	}
	forks_left--;
	return _Fork();
}

static void note(struct pilot_notices *n, const char *to, task_id id)
{
	const struct spec s = { .name = (char *)"x", .notify = (char *)"end", .notify_to = (char *)to };
	const struct spool_record r = { .state = SPOOL_ENDED, .end = TASK_COMPLETED };
	pilot_notices_note(n, &s, id, &r);
}

static void without_processes_nothing_is_lost(void **state)
{
	(void)state;
	char folder[] = "/tmp/rad-notice-XXXXXX";
	assert_non_null(mkdtemp(folder));
	scoped_free char *program = alloc_printf("%s/told", folder), *log = alloc_printf("%s/log", folder);
	scoped_free char *text = alloc_printf("#!/bin/sh\necho $1 $2 >>%s\n", log), *to = alloc_printf("exec:%s", program);
	struct error err = ERROR_INIT;
	assert_int_equal(io_replace_file(program, text, strlen(text), 0700, &err), 0);
	struct pilot_notices *n = pilot_notices_create();

	forks_left = 0;
	note(n, to, TASK_ID(1, -1));
	pilot_notices_work(n);
	forks_left = 1;		/* the child's own fails */
	note(n, to, TASK_ID(2, -1));
	pilot_notices_work(n);
	forks_left = 1;		/* for what is sent at the end and waited for, as many as are needed */
	pilot_notices_destroy(n);

	scoped_buf told = { 0 };
	assert_int_equal(io_read_file(log, 1000, &told, &err), 0);
	assert_string_equal(buf_text(&told), "end 1\nend 2\n");
	unlink(log);
	unlink(program);
	rmdir(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_processes_nothing_is_lost),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
