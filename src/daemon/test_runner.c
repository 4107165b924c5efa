/* SPDX-License-Identifier: MIT
 * The runner with real shims and real programs, on made-up GPUs: from "placed" to "ended", stopped, adopted, killed, and
 * started when nobody had.
 */
#include "daemon/test_running.h"

#include "daemon/outsiders.h"
#include "launch/spawn.h"

#include <fcntl.h>
#include <math.h>
#include <sys/resource.h>
#include <sys/wait.h>

/* NULL: as the build has them. */
static void shims_are(const char *path)
{
	if (path)
		setenv("RAD_SHIM", path, 1);
	else
		unsetenv("RAD_SHIM");
}

#define WAITS "echo >began; while [ ! -e go ]; do sleep 0.02; done\n"

/* Tests ---------------------------------------------------------------------------------------------------------------- */

static void a_program_runs_and_its_end_is_told(void **state)
{
	struct running *s = *state;
	expect_end(s, begin(s, "true\n"), TASK_COMPLETED, 0);
	expect_end(s, begin(s, "exit 9\n"), TASK_FAILED, 9);
}

static void nothing_runs_before_the_commit(void **state)
{
	struct running *s = *state;
	task_id id = world_submit(&s->w, world_spec(&s->w, "echo >began\n"));
	scoped_free char *attempts = alloc_printf("%s/attempts", s->w.state_dir);
	world_snapshot(&s->w);
	core_turn(s->w.core, now_read());
	assert_true(world_saw(&s->w, EV_PLACED, id));
	assert_int_not_equal(access(attempts, F_OK), 0);
	expect_end(s, id, TASK_COMPLETED, 0);
}

/* No attempt folder can be made there. */
static task_id begin_nowhere(struct running *s)
{
	s->plan.home.state_dir = "/proc/none";
	forget_all(s);
	task_id id = world_submit(&s->w, world_spec(&s->w, "true\n"));
	world_snapshot(&s->w);
	while (!runner_delay(s->runner, id)) {
		turn(s);
		uv_run(&s->w.loop, UV_RUN_ONCE);
	}
	return id;
}

static void a_launch_that_fails_waits_and_is_no_fault_of_the_task(void **state)
{
	struct running *s = *state;
	task_id id = begin_nowhere(s);
	scoped_json *troubles = json_array();
	assert_non_null(strstr(runner_delay(s->runner, id), "not started yet, and tried again: "));
	runner_tell_troubles(s->runner, troubles);
	assert_int_equal(json_array_size(troubles), 1);
	s->plan.home.state_dir = s->w.state_dir;	/* as if it had come back */
	forget_all(s);
	runner_adopt(s->runner, core_task(s->w.core, id), false);
	struct task *t = ended(s, id);
	assert_int_equal(t->state, TASK_COMPLETED);
	assert_int_equal(t->n_attempts, 1);
	task_destroy(t);
}

static void one_whose_launch_waits_can_be_cancelled(void **state)
{
	struct running *s = *state;
	task_id id = begin_nowhere(s);
	assert_int_equal(core_cancel(s->w.core, id, getuid(), now_read(), NULL), 0);
	struct task *t = ended(s, id);
	assert_int_equal(t->state, TASK_CANCELLED);
	assert_false(world_saw(&s->w, EV_STARTED, id));
	task_destroy(t);
}

/* Else it would run again if that end were never kept. */
static void no_epilog_begins_before_the_end_is_on_disk(void **state)
{
	struct running *s = *state;
	siginfo_t child;
	char *usual = s->w.config.epilog;
	while (wait(NULL) > 0)	/* what tests before have left */
		;
	s->w.config.epilog = (char *)"/bin/true";
	task_id id = begin_nowhere(s);
	assert_int_equal(core_cancel(s->w.core, id, getuid(), now_read(), NULL), 0);
	core_turn(s->w.core, now_read());
	world_commit(&s->w);
	assert_true(runner_work(s->runner));
	assert_true(world_saw(&s->w, EV_ENDED, id));
	assert_int_equal(waitid(P_ALL, 0, &child, WEXITED | WNOWAIT | WNOHANG), -1);
	turn(s);
	assert_int_equal(waitid(P_ALL, 0, &child, WEXITED | WNOWAIT | WNOHANG), 0);
	s->w.config.epilog = usual;
}

/* No further one is given out. */
static struct rlimit no_descriptors(void)
{
	struct rlimit before, none;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	none = (struct rlimit){ .rlim_cur = 3, .rlim_max = before.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	return before;
}

/* A task that has ended, and whose end cannot be read for want of a descriptor. */
static task_id end_unread(struct running *s, struct rlimit *before)
{
	task_id id = begin(s, WAITS "exit 6\n");
	struct proc_id shim = shim_of(s, id);
	until_file(s, "began");
	make_file(s, "go");
	until_gone(shim);
	*before = no_descriptors();
	while (!runner_delay(s->runner, id))
		uv_run(&s->w.loop, UV_RUN_ONCE);
	return id;
}

static void an_end_that_cannot_be_read_is_read_later(void **state)
{
	struct running *s = *state;
	struct rlimit before;
	task_id id = end_unread(s, &before);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_non_null(strstr(runner_delay(s->runner, id), "how cannot be read yet"));
	expect_end(s, id, TASK_FAILED, 6);
}

/* That it is asked to run again meanwhile makes it none of which nobody knows how it ended. */
static void one_whose_end_is_unread_is_run_again_when_it_is_read(void **state)
{
	struct running *s = *state;
	struct rlimit before;
	task_id id = end_unread(s, &before);
	int rc = core_requeue(s->w.core, id, getuid(), now_read(), NULL);
	turn(s);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_int_equal(rc, 0);
	struct task *t = ended(s, id);
	assert_int_equal(t->state, TASK_RUNNING);
	assert_int_equal(t->n_attempts, 2);
	task_destroy(t);
}

/* A shim that cannot be looked at for want of a descriptor is none that ended. */
static void one_that_cannot_be_looked_at_goes_on(void **state)
{
	struct running *s = *state;
	task_id id = begin(s, WAITS "exit 6\n");
	shim_of(s, id);
	until_file(s, "began");
	forget_all(s);
	struct rlimit before = no_descriptors();
	runner_adopt(s->runner, core_task(s->w.core, id), false);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_null(runner_delay(s->runner, id));
	make_file(s, "go");
	expect_end(s, id, TASK_FAILED, 6);
}

/* Eight that are placed in one turn; placed one way, started one way. */
static void they_start_in_the_order_of_their_placements(void **state)
{
	struct running *s = *state;
	task_id placed[8], id = 0;
	size_t n_placed = 0, n_started = 0;
	for (size_t i = 0; i < COUNT_OF(placed); i++) {
		struct spec *spec = world_spec(&s->w, "sleep 0.2\n");
		spec->gpu_mem_mib = 100;
		spec->share = SHARE_STREAMS;
		id = world_submit(&s->w, spec);
	}
	world_snapshot(&s->w);
	until(s, EV_STARTED, id);
	for (size_t i = 0; i < s->w.n_events; i++) {
		if (s->w.events[i].kind == EV_PLACED && n_placed < COUNT_OF(placed))
			placed[n_placed++] = s->w.events[i].task;
		if (s->w.events[i].kind == EV_STARTED)
			assert_int_equal(s->w.events[i].task, placed[n_started++]);
	}
	assert_true(n_started > 1);
}

/* A launch that is under way when radd ends goes on, and is found again. */
static void one_under_way_outlives_the_runner(void **state)
{
	struct running *s = *state;
	struct spec *spec = world_spec(&s->w, WAITS);
	task_id id = world_submit(&s->w, spec);
	world_snapshot(&s->w);
	core_turn(s->w.core, now_read());
	world_commit(&s->w);
	assert_true(runner_work(s->runner));
	forget_all(s);
	until_file(s, "began");
	runner_adopt(s->runner, core_task(s->w.core, id), false);
	assert_true(world_saw(&s->w, EV_STARTED, id));
	make_file(s, "go");
	expect_end(s, id, TASK_COMPLETED, 0);
}

static void one_that_heeds_TERM_ends_by_itself(void **state)
{
	struct running *s = *state;
	s->w.config.kill_wait_ms = WORLD_PATIENCE_MS * 2;
	task_id id = begin(s, "trap 'exit 3' TERM\n" WAITS);
	until_file(s, "began");
	assert_int_equal(core_cancel(s->w.core, id, getuid(), now_read(), NULL), 0);
	expect_end(s, id, TASK_CANCELLED, 3);
}

static void one_that_does_not_is_killed(void **state)
{
	struct running *s = *state;
	task_id id = begin(s, "trap '' TERM\n" WAITS);
	until_file(s, "began");
	assert_int_equal(core_cancel(s->w.core, id, getuid(), now_read(), NULL), 0);
	struct task *t = ended(s, id);
	assert_int_equal(t->state, TASK_CANCELLED);
	assert_int_equal(task_attempt(t)->signal, SIGKILL);
	task_destroy(t);
}

static void one_that_is_cancelled_where_it_was_placed_ends(void **state)
{
	struct running *s = *state;
	task_id id = world_submit(&s->w, world_spec(&s->w, WAITS));
	world_snapshot(&s->w);
	core_turn(s->w.core, now_read());
	assert_int_equal(core_cancel(s->w.core, id, getuid(), now_read(), NULL), 0);
	struct task *t = ended(s, id);
	assert_int_equal(t->state, TASK_CANCELLED);
	task_destroy(t);
}

/* Whether it has processes, and all of them are stopped. */
static bool stands_still(struct running *s, task_id id)
{
	scoped_free pid_t *pids = NULL;
	size_t n = launch_processes(&s->plan.home, core_task(s->w.core, id), &pids);
	for (size_t i = 0; i < n; i++) {
		scoped_free char *path = alloc_printf("/proc/%d/stat", (int)pids[i]);
		scoped_buf text = { 0 };
		if (io_read_file(path, 4096, &text, NULL) || !strstr(buf_text(&text), ") T "))
			return false;
	}
	return n;
}

/* Its shim has claimed the attempt, and its program is about to begin: there is no process yet that could be stopped. */
static void one_that_is_suspended_before_its_program_began_stands_still(void **state)
{
	struct running *s = *state;
	struct error err = ERROR_INIT;
	task_id id = begin(s, WAITS "exit 9\n");
	assert_int_equal(core_suspend(s->w.core, id, getuid(), now_read(), &err), 0);
	for (int64_t end = clock_mono_ms() + WORLD_PATIENCE_MS; !stands_still(s, id); usleep(2000)) {
		uv_run(&s->w.loop, UV_RUN_NOWAIT);
		turn(s);
		if (clock_mono_ms() > end)
			fail_msg("it runs on");
	}
	assert_int_equal(core_resume(s->w.core, id, getuid(), now_read(), &err), 0);
	make_file(s, "go");
	expect_end(s, id, TASK_FAILED, 9);
}

static void a_shim_that_is_killed_loses_its_task_and_nothing_goes_on(void **state)
{
	struct running *s = *state;
	task_id id = begin(s, "echo $$ >pid.new; mv pid.new pid\n" WAITS);
	until_file(s, "pid");
	scoped_free char *path = path_of(s, "pid");
	scoped_buf text = { 0 };
	assert_int_equal(io_read_file(path, 20, &text, NULL), 0);
	struct proc_id program = { .pid = atoi(buf_text(&text)) };
	pid_t parent;
	assert_int_equal(proc_stat(program.pid, &program.start_ticks, &parent), 0);
	kill(shim_of(s, id).pid, SIGKILL);
	struct task *t = ended(s, id);
	assert_int_equal(t->state, TASK_LOST);
	task_destroy(t);
	until_gone(program);
}

/* A frozen cgroup of version 1 holds its processes as a file system that hangs does: SIGKILL waits. */
static void freeze(const char *folder, const char *state, pid_t pid)
{
	scoped_free char *procs = alloc_printf("%s/cgroup.procs", folder), *word = alloc_printf("%s/freezer.state", folder);
	scoped_fd int a = open(procs, O_WRONLY | O_CLOEXEC), b = open(word, O_WRONLY | O_CLOEXEC);
	if (pid)
		dprintf(a, "%d\n", (int)pid);
	dprintf(b, "%s\n", state);
}

static void a_shim_that_hangs_in_the_kernel_does_not_keep_its_gpu(void **state)
{
	struct running *s = *state;
	scoped_free char *folder = alloc_printf("/sys/fs/cgroup/freezer/rad-test-%d", (int)getpid());
	if (mkdir(folder, 0755))
		skip();
	task_id id = begin(s, WAITS);
	struct proc_id shim = shim_of(s, id);
	until_file(s, "began");
	freeze(folder, "FROZEN", shim.pid);
	assert_int_equal(core_cancel(s->w.core, id, getuid(), now_read(), NULL), 0);
	struct task *t = ended(s, id);
	bool alive = proc_alive(shim);
	freeze(folder, "THAWED", 0);
	until_gone(shim);
	rmdir(folder);
	assert_int_equal(t->state, TASK_CANCELLED);
	assert_true(alive);
	task_destroy(t);
}

static void a_running_one_is_adopted(void **state)
{
	struct running *s = *state;
	task_id id = begin(s, WAITS "exit 4\n");
	struct proc_id shim = shim_of(s, id);
	forget_all(s);
	runner_adopt(s->runner, core_task(s->w.core, id), false);
	assert_true(proc_alive(shim));
	assert_false(world_saw(&s->w, EV_ENDED, id));
	make_file(s, "go");
	expect_end(s, id, TASK_FAILED, 4);
}

static void one_that_was_being_stopped_is_stopped_on(void **state)
{
	struct running *s = *state;
	task_id id = begin(s, "trap '' TERM\n" WAITS);
	until_file(s, "began");
	core_cancel(s->w.core, id, getuid(), now_read(), NULL);
	forget_all(s);	/* before its turn came: the effect is lost with the runner */
	runner_adopt(s->runner, core_task(s->w.core, id), false);
	struct task *t = ended(s, id);
	assert_int_equal(t->state, TASK_CANCELLED);
	task_destroy(t);
}

/* Its program, and whoever it runs, goes on at these; each time that it hears of them it says so. */
#define SAYS_AND_WAITS(signal) "trap 'echo x >>said' " signal "; echo >began; while [ ! -e go ]; do sleep 0.02 || :; done\n"

static void expect_said_once(struct running *s, task_id id, enum task_state state)
{
	static const char *const made[] = { "said", "began", "go" };
	scoped_free char *path = path_of(s, "said");
	scoped_buf text = { 0 };
	turn(s);
	until_file(s, "said");
	make_file(s, "go");
	expect_end(s, id, state, 0);
	assert_int_equal(io_read_file(path, 20, &text, NULL), 0);
	assert_string_equal(buf_text(&text), "x\n");
	for (size_t i = 0; i < COUNT_OF(made); i++) {
		scoped_free char *file = path_of(s, made[i]);
		unlink(file);
	}
}

/* Many a program saves its work at the first and gives up at the second. The time that it has to end goes on. */
static void one_that_was_asked_to_end_is_not_asked_by_the_next_radd(void **state)
{
	struct running *s = *state;
	s->w.config.kill_wait_ms = 600000;
	task_id id = begin(s, SAYS_AND_WAITS("TERM"));
	until_file(s, "began");
	core_cancel(s->w.core, id, getuid(), now_read(), NULL);
	turn(s);
	until_file(s, "said");
	forget_all(s);
	runner_adopt(s->runner, core_task(s->w.core, id), false);
	expect_said_once(s, id, TASK_CANCELLED);
}

/* Whether the radd before this one came to it or not. */
static void one_is_warned_once(void **state)
{
	struct running *s = *state;
	for (int sent = 0; sent < 2; sent++) {
		struct spec *spec = world_spec(&s->w, SAYS_AND_WAITS("USR1"));
		struct event limit = { .u.updated = { .set_time_limit = true, .time_limit_s = 3600 } };
		spec->signal = SIGUSR1;
		spec->signal_before_s = 3600;
		task_id id = world_submit(&s->w, spec);
		world_snapshot(&s->w);
		until(s, EV_STARTED, id);
		until_file(s, "began");
		assert_int_equal(core_update(s->w.core, id, &limit, now_read(), NULL), 0);
		core_turn(s->w.core, now_read());
		world_commit(&s->w);
		assert_true(world_saw(&s->w, EV_WARNED, id));
		if (sent) {
			turn(s);
			until_file(s, "said");
		}
		forget_all(s);
		runner_adopt(s->runner, core_task(s->w.core, id), false);
		expect_said_once(s, id, TASK_COMPLETED);
	}
}

static void set_limit(struct running *s, task_id id, int64_t limit_s)
{
	struct event limit = { .u.updated = { .set_time_limit = true, .time_limit_s = limit_s } };
	assert_int_equal(core_update(s->w.core, id, &limit, now_read(), NULL), 0);
	core_turn(s->w.core, now_read());
	world_commit(&s->w);
}

/* The note of the first warning is not taken for one of the second. */
static void a_second_warning_that_was_lost_is_sent(void **state)
{
	struct running *s = *state;
	struct spec *spec = world_spec(&s->w, SAYS_AND_WAITS("USR1"));
	spec->signal = SIGUSR1;
	spec->signal_before_s = 3600;
	task_id id = world_submit(&s->w, spec);
	world_snapshot(&s->w);
	until(s, EV_STARTED, id);
	until_file(s, "began");
	set_limit(s, id, 3600);
	turn(s);
	until_file(s, "said");
	set_limit(s, id, 36000);
	assert_false(task_attempt(core_task(s->w.core, id))->warned);
	scoped_free char *said = path_of(s, "said");
	assert_int_equal(unlink(said), 0);
	set_limit(s, id, 3600);
	assert_true(task_attempt(core_task(s->w.core, id))->warned);
	forget_all(s);	/* before its turn came */
	runner_adopt(s->runner, core_task(s->w.core, id), false);
	expect_said_once(s, id, TASK_COMPLETED);
}

static void one_that_ended_meanwhile_is_told(void **state)
{
	struct running *s = *state;
	task_id id = begin(s, WAITS "exit 5\n");
	struct proc_id shim = shim_of(s, id);
	forget_all(s);
	make_file(s, "go");
	until_gone(shim);
	runner_adopt(s->runner, core_task(s->w.core, id), false);
	expect_end(s, id, TASK_FAILED, 5);
}

/* Placed and committed, and then radd was killed. */
static void one_that_nobody_started_is_started_once(void **state)
{
	struct running *s = *state;
	task_id id = world_submit(&s->w, world_spec(&s->w, "echo x >>runs\n"));
	world_snapshot(&s->w);
	core_turn(s->w.core, now_read());
	assert_true(world_saw(&s->w, EV_PLACED, id));
	forget_all(s);
	runner_adopt(s->runner, core_task(s->w.core, id), false);
	expect_end(s, id, TASK_COMPLETED, 0);
	scoped_free char *path = path_of(s, "runs");
	scoped_buf text = { 0 };
	assert_int_equal(io_read_file(path, 20, &text, NULL), 0);
	assert_string_equal(buf_text(&text), "x\n");
}

/* Its program runs on, for somebody else's: it says so once it may end. */
static task_id of_another_boot(struct running *s)
{
	task_id id = begin(s, WAITS "echo >over\n");
	struct proc_id shim = shim_of(s, id);
	until_file(s, "began");
	forget_all(s);
	kill(shim.pid, SIGKILL);
	until_gone(shim);
	return id;
}

/* The pids in the store are others' then: nothing is signalled. */
static void after_a_new_boot_it_is_lost(void **state)
{
	struct running *s = *state;
	task_id id = of_another_boot(s);
	runner_adopt(s->runner, core_task(s->w.core, id), true);
	struct task *t = ended(s, id);
	assert_int_equal(t->state, TASK_LOST);
	task_destroy(t);
	make_file(s, "go");
	until_file(s, "over");	/* it saw that: without its folder it would wait for ever */
}

/* The same where its record cannot be read yet, and somebody does not want to wait for that. */
static void after_a_new_boot_nothing_is_killed_by_a_cancel(void **state)
{
	struct running *s = *state;
	task_id id = of_another_boot(s);
	struct rlimit before = no_descriptors();
	runner_adopt(s->runner, core_task(s->w.core, id), true);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_non_null(runner_delay(s->runner, id));
	assert_int_equal(core_cancel(s->w.core, id, getuid(), now_read(), NULL), 0);
	struct task *t = ended(s, id);
	assert_int_equal(t->state, TASK_CANCELLED);
	task_destroy(t);
	make_file(s, "go");
	until_file(s, "over");
}

/* Killed together, before radd had written down which shim it is: the claim says. Nothing of a lost task goes on. */
static void the_program_of_a_shim_that_radd_never_knew_does_not_go_on(void **state)
{
	struct running *s = *state;
	task_id id = begin(s, "echo $$ >pid.new; mv pid.new pid\nsleep 1000\n");
	struct proc_id shim = shim_of(s, id), program = { .pid = pid_in(s, "pid") };
	assert_int_equal(proc_stat(program.pid, &program.start_ticks, NULL), 0);
	forget_all(s);
	kill(shim.pid, SIGKILL);
	until_gone(shim);
	task_attempt(core_task(s->w.core, id))->shim = (struct proc_id){ 0 };
	runner_adopt(s->runner, core_task(s->w.core, id), false);
	struct task *t = ended(s, id);
	assert_int_equal(t->state, TASK_LOST);
	task_destroy(t);
	until_gone(program);
}

/* Its shim had not come to the claim: nothing ran, and it is begun again. */
static void one_whose_shim_never_claimed_it_is_begun_again(void **state)
{
	struct running *s = *state;
	task_id id = begin(s, WAITS "exit 8\n");
	struct proc_id shim = shim_of(s, id);
	char name[LAUNCH_NAME_LEN];
	until_file(s, "began");
	forget_all(s);
	kill(shim.pid, SIGKILL);
	until_gone(shim);
	launch_signal(&s->plan.home, core_task(s->w.core, id), SIGKILL);
	scoped_free char *claim = alloc_printf("%s/attempts/%s/claim", s->w.state_dir,
					       launch_name(&s->plan.home, core_task(s->w.core, id), name));
	assert_int_equal(unlink(claim), 0);
	make_file(s, "go");
	runner_adopt(s->runner, core_task(s->w.core, id), true);
	expect_end(s, id, TASK_FAILED, 8);
}

/* The same, and the machine is short of what the next launch needs, while radd is restarted: what is left of the attempt has to
 * say still that nothing ran, or the task would be lost. */
static void one_that_could_not_be_begun_again_is_not_lost(void **state)
{
	struct running *s = *state;
	task_id id = begin(s, WAITS "exit 8\n");
	struct proc_id shim = shim_of(s, id);
	char name[LAUNCH_NAME_LEN];
	scoped_free char *before = alloc_string_or_null(getenv("RAD_SHIM")), *broken = path_of(s, "broken");
	launch_name(&s->plan.home, core_task(s->w.core, id), name);
	scoped_free char *claim = alloc_printf("%s/attempts/%s/claim", s->w.state_dir, name);
	scoped_free char *cgroup = alloc_printf("%s/attempts/%s/cgroup", s->w.state_dir, name);
	until_file(s, "began");
	kill(shim.pid, SIGKILL);
	until_gone(shim);
	launch_signal(&s->plan.home, core_task(s->w.core, id), SIGKILL);
	assert_int_equal(unlink(claim), 0);
	unlink(cgroup);			/* as of a shim that came to neither */
	make_file(s, "broken");		/* no program: the launch fails when its folder is complete */
	assert_int_equal(chmod(broken, 0755), 0);
	setenv("RAD_SHIM", broken, 1);
	while (!runner_delay(s->runner, id) || !strstr(runner_delay(s->runner, id), "broken")) {
		uv_run(&s->w.loop, UV_RUN_ONCE);
		turn(s);
	}
	shims_are(before);
	forget_all(s);
	make_file(s, "go");
	runner_adopt(s->runner, core_task(s->w.core, id), false);
	expect_end(s, id, TASK_FAILED, 8);
}

/* A shim that was short of something says so while its child is still dying in its cgroup, for which a folder that is not empty
 * stands here. It goes when it can, though the attempt has another by then. */
static void the_cgroup_of_one_that_is_begun_again_goes_when_it_can(void **state)
{
	struct running *s = *state;
	scoped_free char *before = alloc_string_or_null(getenv("RAD_SHIM")), *shim = path_of(s, "short");
	scoped_free char *held = path_of(s, "rad-held"), *child = path_of(s, "rad-held/child"), *real = spawn_shim_path(NULL);
	scoped_free char *text = alloc_printf("#!/bin/sh\nmkdir '%s' 2>/dev/null || exec '%s' \"$@\"\n: >'%s'\nfolder=$2\n"
					      "read -r line </proc/$$/stat\nset -- $line\necho \"$$ ${22}\" >$folder/claim\n"
					      "printf %%s '%s' >$folder/cgroup\n"
					      "echo '{\"v\":1,\"began\":false,\"again\":true}' >$folder/exit\n", held, real, child, held);
	assert_int_equal(io_replace_file(shim, text, strlen(text), 0755, NULL), 0);
	setenv("RAD_SHIM", shim, 1);
	task_id id = begin(s, "exit 8\n");
	expect_end(s, id, TASK_FAILED, 8);
	shims_are(before);
	assert_int_equal(access(child, F_OK), 0);
	assert_int_equal(unlink(child), 0);
	for (int64_t end = clock_mono_ms() + WORLD_PATIENCE_MS; !access(held, F_OK); uv_run(&s->w.loop, UV_RUN_ONCE))
		assert_true(clock_mono_ms() < end);
}

/* Its shim ends without a claim, for want of an inode or by the signal, while it is asked to run again. */
static void one_that_was_to_run_again_before_it_began_does(void **state)
{
	struct running *s = *state;
	scoped_free char *before = alloc_string_or_null(getenv("RAD_SHIM")), *shim = path_of(s, "short");
	scoped_free char *go = path_of(s, "go");
	scoped_free char *text = alloc_printf("#!/bin/sh\nwhile [ ! -e '%s' ]; do sleep 0.02; done\n", go);
	assert_int_equal(io_replace_file(shim, text, strlen(text), 0755, NULL), 0);
	setenv("RAD_SHIM", shim, 1);
	task_id id = begin(s, "exit 8\n");
	shims_are(before);
	assert_int_equal(core_requeue(s->w.core, id, getuid(), now_read(), NULL), 0);
	make_file(s, "go");
	struct task *t = ended(s, id);
	assert_int_equal(t->state, TASK_RUNNING);
	assert_int_equal(t->n_attempts, 2);
	task_destroy(t);
}

/* A shim that comes to its claim when another radd has given the attempt up begins nothing. */
static void one_that_was_stopped_before_a_late_shim_came_never_begins(void **state)
{
	struct running *s = *state;
	scoped_free char *before = alloc_string_or_null(getenv("RAD_SHIM")), *late = path_of(s, "late"), *go = path_of(s, "go");
	scoped_free char *shim_path = spawn_shim_path(NULL);
	scoped_free char *text = alloc_printf("#!/bin/sh\nwhile [ ! -e '%s' ]; do sleep 0.02; done\nexec '%s' \"$@\"\n", go,
					      shim_path);
	assert_int_equal(io_replace_file(late, text, strlen(text), 0755, NULL), 0);
	setenv("RAD_SHIM", late, 1);
	task_id id = begin(s, "echo >began\n");
	shims_are(before);
	struct proc_id shim = shim_of(s, id);
	forget_all(s);
	task_attempt(core_task(s->w.core, id))->shim = (struct proc_id){ 0 };	/* radd was killed before it was written down */
	assert_int_equal(core_cancel(s->w.core, id, getuid(), now_read(), NULL), 0);
	runner_adopt(s->runner, core_task(s->w.core, id), false);
	make_file(s, "go");
	until_gone(shim);
	expect_end(s, id, TASK_CANCELLED, -1);
	scoped_free char *began = path_of(s, "began");
	assert_int_equal(access(began, F_OK), -1);
}

static void whose_process_it_is(void **state)
{
	struct running *s = *state;
	task_id id = begin(s, "echo $$ >pid.new; mv pid.new pid\n" WAITS);
	struct proc_reading own = { .id = { .pid = getpid() }, .uid = getuid() };
	struct proc_reading program = { .id = { .pid = pid_in(s, "pid") }, .uid = getuid() };
	assert_int_equal(runner_owner(s->runner, &program), id);
	assert_int_equal(runner_owner(s->runner, &own), 0);
	uint64_t since = shim_of(s, id).start_ticks;
	struct proc_reading claims = { .id = { .pid = 1, .start_ticks = since }, .uid = getuid(), .claimed = id };
	assert_int_equal(runner_owner(s->runner, &claims), id);
	struct proc_reading lies = { .id = { .pid = 1, .start_ticks = since + 1 }, .uid = getuid() + 1, .claimed = id };
	assert_int_equal(runner_owner(s->runner, &lies), 0);
	/* A container's process, of whatever user, has the token; a stranger who knows the task's id has not. */
	struct proc_reading contained = { .id = { .pid = 2, .start_ticks = since + 2 }, .uid = getuid() + 1, .claimed = id };
	char token[LAUNCH_TOKEN_LEN];
	assert_int_equal(launch_token(&s->plan.home, core_task(s->w.core, id), token), 0);
	memcpy(contained.token, token, sizeof token);
	assert_int_equal(runner_owner(s->runner, &contained), id);
	contained.id.pid = 3;
	contained.token[5] ^= 1;
	assert_int_equal(runner_owner(s->runner, &contained), 0);
	struct proc_reading older = { .id = { .pid = 1, .start_ticks = since - 1 }, .uid = getuid(), .claimed = id };
	assert_int_equal(runner_owner(s->runner, &older), 0);	/* of a task of that id in another store */
	make_file(s, "go");
	expect_end(s, id, TASK_COMPLETED, 0);
}

/* As of a container that runs for weeks, and starts processes all the time. */
static void processes_of_a_container_that_are_gone_are_forgotten(void **state)
{
	struct running *s = *state;
	task_id id = begin(s, "echo $$ >pid.new; mv pid.new pid\n" WAITS);
	struct proc_reading lives = { .id = { .pid = pid_in(s, "pid") }, .uid = getuid(), .claimed = id };
	struct outsiders *o = outsiders_create(&s->w.loop, &s->plan.home);
	const struct task *t = core_task(s->w.core, id);
	assert_int_equal(proc_stat(lives.id.pid, &lives.id.start_ticks, NULL), 0);
	assert_int_equal(launch_token(&s->plan.home, t, lives.token), 0);
	assert_true(outsiders_prove(o, t, &lives));
	struct proc_reading gone = lives;
	for (unsigned i = 0; i < 1000; i++) {
		gone.id.start_ticks++;	/* one that had the pid before, or after */
		assert_true(outsiders_prove(o, t, &gone));
	}
	assert_true(outsiders_count(o) <= 10);
	assert_int_equal(outsiders_signal(o, t, SIGCONT), 1);
	outsiders_destroy(o);
	make_file(s, "go");
	expect_end(s, id, TASK_COMPLETED, 0);
}

/* To find a task's processes takes long where there are many: others have their turns between the ends of many tasks. */
static void many_that_are_signalled_and_ended_are_a_piece_a_turn(void **state)
{
	enum { N = 24 };
	struct running *s = *state;
	task_id ids[N];
	s->w.config.core.map.rank = RANK_FF;
	s->w.config.core.map.max_smact = s->w.config.core.map.max_gract = NAN;
	s->w.config.core.map.max_tasks = 0;
	core_reconfigure(s->w.core, &s->w.config.core);
	for (int i = 0; i < N; i++) {
		scoped_free char *script = alloc_printf("for i in $(seq 20); do sleep 1000 & done\necho >forked%d\nwait\n", i);
		struct spec *spec = world_spec(&s->w, script);
		spec->share = SHARE_STREAMS;
		spec->signal = SIGCONT;
		ids[i] = world_submit(&s->w, spec);
	}
	world_snapshot(&s->w);
	for (int i = 0; i < N; i++) {
		scoped_free char *forked = alloc_printf("forked%d", i);
		until(s, EV_STARTED, ids[i]);
		until_file(s, forked);
	}
	for (int i = 0; i < N; i++)
		runner_note(s->runner, &(struct event){ .kind = EV_WARNED }, core_task(s->w.core, ids[i]));
	assert_false(runner_work(s->runner));
	assert_true(runner_is_urgent(s->runner));	/* there are more */
	while (runner_is_urgent(s->runner))
		runner_work(s->runner);
	for (int i = 0; i < N; i++)
		assert_int_equal(core_cancel(s->w.core, ids[i], getuid(), now_read(), NULL), 0);
	turn(s);
	assert_true(runner_is_urgent(s->runner));
	for (int i = 0; i < N; i++)
		task_destroy(ended(s, ids[i]));
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(a_program_runs_and_its_end_is_told), T(nothing_runs_before_the_commit),
		T(a_launch_that_fails_waits_and_is_no_fault_of_the_task), T(one_whose_launch_waits_can_be_cancelled),
		T(no_epilog_begins_before_the_end_is_on_disk),
		T(an_end_that_cannot_be_read_is_read_later),
		T(one_whose_end_is_unread_is_run_again_when_it_is_read), T(one_that_cannot_be_looked_at_goes_on),
		T(they_start_in_the_order_of_their_placements),
		T(one_under_way_outlives_the_runner), T(one_that_heeds_TERM_ends_by_itself), T(one_that_does_not_is_killed),
		T(one_that_is_cancelled_where_it_was_placed_ends),
		T(one_that_is_suspended_before_its_program_began_stands_still), T(a_shim_that_is_killed_loses_its_task_and_nothing_goes_on),
		T(a_shim_that_hangs_in_the_kernel_does_not_keep_its_gpu), T(a_running_one_is_adopted),
		T(one_that_was_being_stopped_is_stopped_on), T(one_that_was_asked_to_end_is_not_asked_by_the_next_radd),
		T(one_is_warned_once), T(a_second_warning_that_was_lost_is_sent), T(one_that_ended_meanwhile_is_told),
		T(one_that_nobody_started_is_started_once), T(after_a_new_boot_it_is_lost),
		T(after_a_new_boot_nothing_is_killed_by_a_cancel),
		T(the_program_of_a_shim_that_radd_never_knew_does_not_go_on),
		T(one_whose_shim_never_claimed_it_is_begun_again), T(one_that_could_not_be_begun_again_is_not_lost),
		T(the_cgroup_of_one_that_is_begun_again_goes_when_it_can),
		T(one_that_was_to_run_again_before_it_began_does),
		T(one_that_was_stopped_before_a_late_shim_came_never_begins),
		T(whose_process_it_is), T(processes_of_a_container_that_are_gone_are_forgotten),
		T(many_that_are_signalled_and_ended_are_a_piece_a_turn),
#undef T
	};
	return cmocka_run_group_tests_name("runner", tests, NULL, NULL);
}
