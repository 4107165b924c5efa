/* SPDX-License-Identifier: MIT
 * Where there are no more processes to be had: nothing is lost, and nobody waits for ever.
 */
#include "cli/client.h"
#include "cli/pilot_notice.h"
#include "cli/submit_capture.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/io.h"
#include "base/json.h"
#include "base/scope.h"
#include "submit/wire.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
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
	scoped_free char *text = alloc_printf("#!/bin/sh\necho $1 $2 >>%s\nkill $$\necho ignored >>%s\n", log, log);
	scoped_free char *to = alloc_printf("exec:%s", program);
	struct error err = ERROR_INIT;
	assert_int_equal(io_replace_file(program, text, strlen(text), 0700, &err), 0);
	struct pilot_notices *n = pilot_notices_create();

	forks_left = 0;
	note(n, to, TASK_ID(1, -1));
	pilot_notices_work(n);
	forks_left = 1;		/* the child's own fails */
	note(n, to, TASK_ID(2, -1));
	pilot_notices_work(n);
	signal(SIGTERM, SIG_IGN);	/* as in a pilot: what it starts does not ignore it */
	forks_left = 1;		/* for what is sent at the end and waited for, as many as are needed */
	pilot_notices_destroy(n);
	signal(SIGTERM, SIG_DFL);

	scoped_buf told = { 0 };
	assert_int_equal(io_read_file(log, 1000, &told, &err), 0);
	assert_string_equal(buf_text(&told), "end 1\nend 2\n");
	unlink(log);
	unlink(program);
	rmdir(folder);
}

/* More places than are kept, all with something to tell that could not be told: none is left out, the last ones either. */
static void every_place_is_told(void **state)
{
	(void)state;
	char folder[] = "/tmp/rad-notice-XXXXXX";
	assert_non_null(mkdtemp(folder));
	struct error err = ERROR_INIT;
	scoped_free char *program = alloc_printf("%s/told", folder), *remove = alloc_printf("rm -r %s", folder);
	static const char text[] = "#!/bin/sh\ntouch ${0%/*}/end-$2\n";
	struct pilot_notices *n = pilot_notices_create();
	forks_left = 0;
	assert_int_equal(io_replace_file(program, text, sizeof text - 1, 0700, &err), 0);
	for (uint32_t i = 1; i <= 22; i++) {
		scoped_free char *link = alloc_printf("%s/told%u", folder, i), *to = alloc_printf("exec:%s", link);
		assert_int_equal(symlink(program, link), 0);
		note(n, to, TASK_ID(i, -1));
	}
	pilot_notices_work(n);
	forks_left = 1000;
	pilot_notices_destroy(n);
	forks_left = 0;
	for (uint32_t i = 1; i <= 22; i++) {
		scoped_free char *end = alloc_printf("%s/end-%u", folder, i);
		assert_int_equal(access(end, F_OK), 0);
	}
	assert_int_equal(system(remove), 0);
}

/* What was meant to become radd becomes none, and rad does not wait for it as if it were only on its way. */
static void a_daemon_that_cannot_be_begun_is_told(void **state)
{
	(void)state;
	char folder[] = "/tmp/rad-forks-XXXXXX";
	struct error err = ERROR_INIT;
	bool started;
	assert_non_null(mkdtemp(folder));
	scoped_free char *socket = alloc_printf("%s/s", folder), *remove = alloc_printf("rm -r %s", folder);
	assert_int_equal(setenv("RAD_SOCKET", socket, 1) | setenv("XDG_STATE_HOME", folder, 1) | setenv("HOME", folder, 1) |
			 setenv("RAD_STATE", folder, 1) | setenv("RAD_DEVICES", "sim:1xa100-40g", 1), 0);
	forks_left = 1;
	alarm(100);
	assert_int_equal(client_start(&started, &err), -1);
	alarm(0);
	assert_non_null(strstr(err.text, "could not be started for you: fork: "));
	assert_int_equal(system(remove), 0);
}

static void a_capture_that_cannot_be_begun_took_no_time(void **state)
{
	(void)state;
	char *const words[] = { (char *)"python", (char *)"train.py", NULL };
	struct error err = ERROR_INIT;
	forks_left = 0;
	assert_int_equal(submit_capture_now(NULL, words, 60, &err), -1);
	assert_string_equal(err.text, "fork: Resource temporarily unavailable");
}

/* One question, which goes into the pipe; the answer is that all is well. */
static void answer_one(int listener, int to)
{
	struct error err;
	alarm(100);
	int fd = accept(listener, NULL, NULL);
	json_t *asked = wire_receive(fd, &err), *reply = json_pack("{sb}", "ok", true);
	scoped_free char *text = json_to_text(asked);
	bool good = asked && !wire_send(fd, reply, &err) && !io_write_full(to, text, strlen(text));
	_exit(!good);
}

/* `forks`: how many of the two succeed. radd is told why there is none, by whoever is left. */
static void begin_capture(int listener, unsigned forks)
{
	struct error err = ERROR_INIT;
	struct spec s = { .cwd = (char *)"/", .gpus = 1 };
	int pipes[2], status;
	assert_int_equal(pipe(pipes), 0);
	alarm(100);
	pid_t radd = _Fork();
	if (!radd)
		answer_one(listener, pipes[1]);
	close(pipes[1]);
	forks_left = forks;
	assert_int_equal(submit_capture_start(&s, "7", 60), EAGAIN);
	assert_int_equal(waitpid(radd, &status, 0), radd);
	alarm(0);
	assert_int_equal(status, 0);
	scoped_buf told = { 0 };
	assert_int_equal(io_read_fd(pipes[0], "the pipe", 1000, &told, &err), 0);
	close(pipes[0]);
	assert_non_null(strstr(buf_text(&told), "\"captured\""));
	assert_non_null(strstr(buf_text(&told), "\"id\":\"7\",\"why\":\"fork: Resource temporarily unavailable\""));
}

static void a_task_does_not_wait_for_a_capture_that_cannot_be_begun(void **state)
{
	(void)state;
	char path[] = "/tmp/rad-forks-XXXXXX";
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	assert_non_null(mkdtemp(path));
	snprintf(address.sun_path, sizeof address.sun_path, "%s/s", path);
	scoped_fd int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(listener, (struct sockaddr *)&address, sizeof address) | listen(listener, 1), 0);
	setenv("RAD_SOCKET", address.sun_path, 1);
	begin_capture(listener, 0);
	begin_capture(listener, 1);
	unlink(address.sun_path);
	rmdir(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_processes_nothing_is_lost), cmocka_unit_test(every_place_is_told),
		cmocka_unit_test(a_capture_that_cannot_be_begun_took_no_time),
		cmocka_unit_test(a_task_does_not_wait_for_a_capture_that_cannot_be_begun),
		cmocka_unit_test(a_daemon_that_cannot_be_begun_is_told),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
