/* SPDX-License-Identifier: MIT
 * A task in a folder of its own, and what tests of launches do with it.
 */
#ifndef RAD_LAUNCH_TEST_LAUNCH_H
#define RAD_LAUNCH_TEST_LAUNCH_H

#include "launch/launch.h"
#include "launch/adopted.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/scope.h"
#include "device/device.h"
#include "launch/attempt.h"
#include "launch/processes.h"
#include "launch/record.h"
#include "launch/shim.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <cmocka.h>

#define NOBODY 65534
#define DEADLINE_MS 60000

/* One task in a folder of its own. */
struct bench {
	char dir[64];
	struct task *task;
	struct launch_gpu gpu;
	struct device *device;
	struct launch_request request;
	struct proc_id shim;
};

/* spec_set_argv or spec_set_environ, with words that end with NULL. */
static inline void set_words(void (*set)(struct spec *, char *const *), struct spec *s, ...)
{
	char *words[16] = { NULL };
	va_list ap;
	va_start(ap, s);
	for (size_t n = 0; (words[n] = va_arg(ap, char *)); n++)
		;
	va_end(ap);
	set(s, words);
}

static inline void set_text(char **member, const char *text)
{
	free(*member);
	*member = alloc_string_or_null(text);
}

static inline int setup(void **state)
{
	struct bench *b = alloc_zero(sizeof *b);
	strcpy(b->dir, "/tmp/rad-launch-XXXXXX");
	assert_non_null(mkdtemp(b->dir));
	chmod(b->dir, 0755);
	struct spec *s = spec_create();
	s->uid = getuid();
	s->gid = getgid();
	s->umask = 022;
	set_text(&s->cwd, b->dir);
	set_text(&s->output, "log");
	set_words(spec_set_environ, s, "PATH=/usr/bin:/bin", "HOME=/nonexistent", NULL);
	b->task = task_create(TASK_ID(12, -1), s);
	b->task->attempts = alloc_zero(sizeof *b->task->attempts);
	b->task->n_attempts = 1;
	b->task->attempts[0].mode = SHARE_STREAMS;
	b->gpu = (struct launch_gpu){ .uuid = "GPU-11111111-2222", .index = 3 };
	b->device = device_create("nvml", b->dir, NULL);
	b->request = (struct launch_request){ .home.state_dir = b->dir, .task = b->task, .gpus = &b->gpu, .n_gpus = 1,
					      .device = b->device };
	*state = b;
	return 0;
}

/* What was killed is in its cgroup until it is gone. */
static inline void forget(const char *folder)
{
	for (int64_t end = clock_mono_ms() + DEADLINE_MS; !launch_forget(folder); poll(NULL, 0, 5))
		assert_true(clock_mono_ms() < end);
}

static inline int teardown(void **state)
{
	struct bench *b = *state;
	launch_signal(&b->request.home, b->task, SIGKILL);
	scoped_free char *folder = launch_folder(&b->request.home, b->task);
	forget(folder);
	char *command = alloc_printf("rm -rf '%s'", b->dir);
	assert_int_equal(system(command), 0);
	free(command);
	task_destroy(b->task);
	device_destroy(b->device);
	free(b);
	return 0;
}

static inline void set_script(struct bench *b, const char *script)
{
	set_text(&b->task->spec->script, script);
	set_words(spec_set_argv, b->task->spec, NULL);
}

static inline int launch_start(const struct launch_request *r, struct proc_id *shim, struct error *err)
{
	struct launch *l = launch_prepare(r);
	int rc = launch_run(l, shim, err);
	launch_destroy(l);
	return rc;
}

static inline void start(struct bench *b)
{
	struct error err = ERROR_INIT;
	if (launch_start(&b->request, &b->shim, &err))
		fail_msg("%s", err.text);
	assert_true(b->shim.pid > 1);
	b->task->attempts[0].shim = b->shim;
}

static inline void wait_gone(struct proc_id id)
{
	scoped_fd int fd = proc_pidfd(id.pid);
	struct pollfd p = { .fd = fd, .events = POLLIN };
	if (fd < 0 || !proc_alive(id))
		return;
	assert_int_equal(poll(&p, 1, DEADLINE_MS), 1);
}

static inline struct exit_report result(struct bench *b)
{
	struct error err = ERROR_INIT;
	struct exit_report r;
	bool claimed;
	memset(&r, 0, sizeof r);
	wait_gone(b->shim);
	if (launch_result(&b->request.home, b->task, &claimed, &r, &err))
		fail_msg("%s", err.text);
	assert_true(claimed);
	return r;
}

static inline struct exit_report run(struct bench *b)
{
	start(b);
	return result(b);
}

static inline char *content(struct bench *b, const char *name)
{
	scoped_free char *path = alloc_printf("%s/%s", b->dir, name);
	scoped_buf text = { 0 };
	io_read_file(path, 1 << 20, &text, NULL);
	return buf_steal(&text);
}

static inline void assert_log(struct bench *b, const char *expected)
{
	scoped_free char *text = content(b, "log");
	assert_string_equal(text, expected);
}

static inline void assert_log_has(struct bench *b, const char *part)
{
	scoped_free char *text = content(b, "log");
	if (!strstr(text, part))
		fail_msg("'%s' is not in: %s", part, text);
}

/* Until the program has written a line into a file of its folder. */
static inline void wait_line(struct bench *b, const char *name)
{
	for (int64_t end = clock_mono_ms() + DEADLINE_MS; clock_mono_ms() < end; poll(NULL, 0, 5)) {
		scoped_free char *text = content(b, name);
		if (strchr(text, '\n'))
			return;
	}
	fail_msg("no line in %s", name);
}

static inline struct proc_id identity(pid_t pid)
{
	struct proc_id id = { .pid = pid };
	assert_int_equal(proc_stat(pid, &id.start_ticks, NULL), 0);
	return id;
}

static inline void assert_never_began(struct bench *b, const char *text)
{
	struct exit_report r = run(b);
	assert_true(r.have_record);
	assert_true(r.never_began);
	if (!strstr(r.output.line, text))
		fail_msg("'%s' is not in: %s", text, r.output.line);
}

static inline void find_shim(void)
{
	const char *root = getenv("RAD_BUILD_ROOT");
	scoped_free char *shim = alloc_printf("%s/rad-shim", root ? root : ".");
	setenv("RAD_SHIM", shim, 0);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

#endif
