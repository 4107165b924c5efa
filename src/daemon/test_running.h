/* SPDX-License-Identifier: MIT
 *
 * A runner on made-up GPUs whose shims and programs are real: what is begun in it, waited for and ended.
 */
#ifndef RAD_DAEMON_TEST_RUNNING_H
#define RAD_DAEMON_TEST_RUNNING_H

#include "base/clock.h"
#include "base/proc.h"
#include "daemon/runner.h"
#include "daemon/test_world.h"
#include "device/device.h"

struct running {
	struct world w;
	struct runner *runner;
	struct runner_plan plan;
	struct device *device;
	char *run_dir;
};

static void on_event(void *part, const struct event *ev, const struct task *t)
{
	struct running *s = part;
	if (s->runner)
		runner_note(s->runner, ev, t);
}

static int setup(void **state)
{
	struct running *s = alloc_zero(sizeof *s);
	world_open(&s->w);
	chmod(s->w.dir, 0755);
	s->run_dir = alloc_printf("%s/run", s->w.dir);
	s->w.config.kill_wait_ms = 100;
	s->device = device_create("nvml", s->w.state_dir, NULL);
	s->plan = (struct runner_plan){ .core = s->w.core, .config = &s->w.config, .store = s->w.store,
					.home = { s->w.state_dir, store_mark(s->w.store), store_marked_ms(s->w.store) },
					.run_dir = s->run_dir, .socket_path = "/nonexistent/socket",
					.device = s->device };
	s->runner = runner_create(&s->w.loop, &s->plan);
	s->w.also = on_event;
	s->w.part = s;
	*state = s;
	return 0;
}

/* One turn, as daemon.c makes it. */
static void turn(struct running *s)
{
	do {
		core_turn(s->w.core, now_read());
		world_commit(&s->w);
	} while (runner_work(s->runner));
}

static void until(struct running *s, enum event_kind kind, task_id id)
{
	turn(s);
	while (!world_saw(&s->w, kind, id)) {
		uv_run(&s->w.loop, UV_RUN_ONCE);
		turn(s);
	}
}

static void note_live(void *ctx, const struct task *t)
{
	*(task_id *)ctx = t->id;
}

/* What a test began ends with it, however far it came: a task that waits for a file in a folder that is gone does so for ever,
 * and one that begins while the folder goes makes its log there again. */
static int teardown(void **state)
{
	struct running *s = *state;
	s->w.config.kill_wait_ms = 100;
	for (task_id id = 0; core_each_task(s->w.core, note_live, &id), id; id = 0) {
		core_cancel(s->w.core, id, getuid(), now_read(), NULL);
		for (turn(s); core_task(s->w.core, id); turn(s))
			uv_run(&s->w.loop, UV_RUN_ONCE);
	}
	runner_destroy(s->runner);
	world_close(&s->w);
	device_destroy(s->device);
	free(s->run_dir);
	free(s);
	return 0;
}

static task_id begin(struct running *s, const char *script)
{
	struct spec *spec = world_spec(&s->w, script);
	spec->requeue = false;
	task_id id = world_submit(&s->w, spec);
	world_snapshot(&s->w);
	until(s, EV_STARTED, id);
	return id;
}

/* The task as it ended. */
static struct task *ended(struct running *s, task_id id)
{
	struct error err = ERROR_INIT;
	until(s, EV_ENDED, id);
	struct task *t = store_load_task(s->w.store, id, &err);
	if (!t)
		fail_msg("%s", err.text);
	return t;
}

static void expect_end(struct running *s, task_id id, enum task_state state, int code)
{
	struct task *t = ended(s, id);
	assert_string_equal(task_state_name(t->state), task_state_name(state));
	assert_int_equal(task_attempt(t)->exit_code, code);
	task_destroy(t);
}

static char *path_of(struct running *s, const char *name)
{
	return alloc_printf("%s/%s", s->w.dir, name);
}

/* Until a program has made that file. */
static void until_file(struct running *s, const char *name)
{
	scoped_free char *path = path_of(s, name);
	for (int64_t end = clock_mono_ms() + WORLD_PATIENCE_MS; access(path, F_OK); usleep(2000))
		if (clock_mono_ms() > end)
			fail_msg("%s was never made", name);
}

static pid_t pid_in(struct running *s, const char *name)
{
	scoped_free char *path = path_of(s, name);
	scoped_buf text = { 0 };
	until_file(s, name);
	assert_int_equal(io_read_file(path, 20, &text, NULL), 0);
	return atoi(buf_text(&text));
}

static void make_file(struct running *s, const char *name)
{
	scoped_free char *path = path_of(s, name);
	scoped_file FILE *f = fopen(path, "we");
	assert_non_null(f);
}

static void until_gone(struct proc_id id)
{
	for (int64_t end = clock_mono_ms() + WORLD_PATIENCE_MS; proc_alive(id); usleep(2000))
		if (clock_mono_ms() > end)
			fail_msg("process %d does not end", (int)id.pid);
}

static struct proc_id shim_of(struct running *s, task_id id)
{
	return task_attempt(core_task(s->w.core, id))->shim;
}

/* As a radd that dies and one that comes: the runner knows nothing of before. */
static void forget_all(struct running *s)
{
	runner_destroy(s->runner);
	s->runner = NULL;
	uv_run(&s->w.loop, UV_RUN_NOWAIT);
	s->runner = runner_create(&s->w.loop, &s->plan);
}

#endif
