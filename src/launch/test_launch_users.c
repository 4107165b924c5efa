/* SPDX-License-Identifier: MIT
 * Launches as their users: conda environments and BASH_ENV, processes that are there already, other users' rights, cgroups.
 */
#include "launch/test_launch.h"

#include "launch/identity.h"

#include <sys/resource.h>

#define NO_ACCOUNT 3000000001u

static const char fake_conda[] =
	"#!/bin/sh\n"
	"[ \"$1\" = shell.bash ] || exit 1\n"
	"echo 'conda() { export ACTIVE=\"$1 $2\"; [ \"$2\" != missing ]; }'\n";

static void add_conda(struct bench *b)
{
	scoped_free char *folder = alloc_printf("%s/miniconda3/bin", b->dir);
	scoped_free char *path = alloc_printf("%s/conda", folder);
	assert_int_equal(io_make_dirs(folder, 0755, NULL), 0);
	assert_int_equal(io_replace_file(path, fake_conda, sizeof fake_conda - 1, 0755, NULL), 0);
	scoped_free char *home = alloc_printf("HOME=%s", b->dir);
	set_words(spec_set_environ, b->task->spec, "PATH=/usr/bin:/bin", home, NULL);
}

static void test_conda_in_script(void **state)
{
	struct bench *b = *state;
	add_conda(b);
	set_script(b, "conda activate vision\necho \"$ACTIVE ${BASH_ENV-unset}\"\nno-such-program\n");
	assert_int_equal(run(b).exit_code, 127);
	assert_log_has(b, "activate vision unset\n");
	assert_log_has(b, "line 3: no-such-program");
}

static void test_conda_env_for_command(void **state)
{
	struct bench *b = *state;
	add_conda(b);
	set_text(&b->task->spec->conda_env, "it's");
	set_words(spec_set_argv, b->task->spec, "bash", "-c", "echo \"$ACTIVE:$0\"; exit 3", "a  b", NULL);
	assert_int_equal(run(b).exit_code, 3);
	assert_log(b, "activate it's:a  b\n");
}

static void test_conda_env_missing(void **state)
{
	struct bench *b = *state;
	add_conda(b);
	set_text(&b->task->spec->conda_env, "missing");
	set_script(b, "echo ran\n");
	assert_int_equal(run(b).exit_code, 127);
	assert_log(b, "rad: env: 'conda activate' failed\n");
}

static void test_conda_not_found(void **state)
{
	struct bench *b = *state;
	if (!access("/opt/conda/bin/conda", X_OK) || !access("/opt/miniconda3/bin/conda", X_OK) ||
	    !access("/usr/bin/conda", X_OK))
		skip();
	set_script(b, "conda activate vision\necho ran\n");
	assert_int_equal(run(b).exit_code, 127);
	assert_log(b, "rad: conda: not found in CONDA_EXE, PATH, the home folder or /opt: set CONDA_EXE\n");
}

static void test_users_bash_env(void **state)
{
	struct bench *b = *state;
	add_conda(b);
	scoped_free char *rc = alloc_printf("%s/rc", b->dir);
	scoped_free char *var = alloc_printf("BASH_ENV=%s", rc);
	scoped_free char *home = alloc_printf("HOME=%s", b->dir);
	assert_int_equal(io_replace_file(rc, "from_rc=1\n", 10, 0644, NULL), 0);
	set_words(spec_set_environ, b->task->spec, "PATH=/usr/bin:/bin", home, var, NULL);
	set_script(b, "conda activate x\necho \"$from_rc\"\nbash -c 'echo $from_rc'\n");
	assert_int_equal(run(b).exit_code, 0);
	assert_log(b, "1\n1\n");
}

/* As root: the task is the user, wholly and for good. */
static pid_t start_sleep(void)
{
	pid_t pid = fork();
	if (!pid) {
		execlp("sleep", "sleep", "100", NULL);
		_exit(1);
	}
	assert_true(pid > 1);
	return pid;
}

/* A process that was there: found by pid and start time alone, signalled, and its end known without a word of how. */
static void test_adopted(void **state)
{
	struct bench *b = *state;
	struct exit_report r = { 0 };
	struct proc_id process = { .pid = start_sleep() }, found;
	bool claimed;
	assert_int_equal(proc_stat(process.pid, &process.start_ticks, NULL), 0);
	assert_int_equal(adopted_check(process, getuid(), NULL), 0);
	b->task->spec->process_pid = process.pid;
	b->task->spec->process_ticks = process.start_ticks;
	/* It has not been told that it has its place: to be begun again. */
	assert_false(launch_adopt(&b->request.home, b->task, &found));
	assert_int_equal(launch_result(&b->request.home, b->task, &claimed, &r, NULL), 0);
	assert_false(claimed || r.have_record);
	b->task->attempts[0].shim = process;
	assert_true(launch_adopt(&b->request.home, b->task, &found));
	assert_int_equal(found.pid, process.pid);
	/* Only who is its user's alone, and was there then. */
	b->task->spec->uid = getuid() + 1;
	assert_int_equal(launch_signal(&b->request.home, b->task, SIGKILL), 0);
	b->task->spec->uid = getuid();
	b->task->spec->process_ticks++;
	assert_int_equal(launch_signal(&b->request.home, b->task, SIGKILL), 0);
	b->task->spec->process_ticks--;
	assert_int_equal(launch_signal(&b->request.home, b->task, SIGKILL), 1);
	assert_int_equal(waitpid(process.pid, NULL, 0), process.pid);
	assert_false(launch_adopt(&b->request.home, b->task, &found));
	assert_int_equal(launch_result(&b->request.home, b->task, &claimed, &r, NULL), 0);
	assert_true(claimed && r.have_record && r.unseen);
	assert_int_equal(launch_signal(&b->request.home, b->task, SIGKILL), 0);
}

static void on_usr1(int signal)
{
	(void)signal;
}

/* A child that handles SIGUSR1, below a process that does not; 0 is written when it does. */
static pid_t start_listener(int ready_fd)
{
	pid_t pid = fork();
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (!fork()) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		signal(SIGUSR1, on_usr1);
		if (write(ready_fd, "", 1) == 1)
			for (;;)
				pause();
	}
	for (;;)
		pause();
}

/* Asked to make place is only who is its user's alone, as with any other signal. */
static void test_adopted_asked(void **state)
{
	struct bench *b = *state;
	int ready[2];
	char byte;
	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	struct proc_id process = { .pid = start_listener(ready[1]) };
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	close(ready[1]);
	assert_int_equal(proc_stat(process.pid, &process.start_ticks, NULL), 0);
	b->task->spec->process_pid = process.pid;
	b->task->spec->process_ticks = process.start_ticks;
	b->task->attempts[0].shim = process;
	b->task->spec->uid = getuid() + 1;
	assert_int_equal(launch_ask(&b->request.home, b->task, SIGUSR1), 0);
	assert_false(launch_hears(&b->request.home, b->task, SIGUSR1));
	b->task->spec->uid = getuid();
	assert_true(launch_hears(&b->request.home, b->task, SIGUSR1));
	assert_false(launch_hears(&b->request.home, b->task, SIGUSR2));
	assert_int_equal(launch_ask(&b->request.home, b->task, SIGUSR1), 1);
	assert_int_equal(launch_ask(&b->request.home, b->task, SIGUSR2), 0);
	kill(process.pid, SIGKILL);
	assert_int_equal(waitpid(process.pid, NULL, 0), process.pid);
}

/* Each the child of the one before; a byte is written for each. */
static pid_t start_chain(int depth, int ready_fd)
{
	pid_t first = fork();
	for (int i = 1; !first && i < depth && !fork();)
		i++;
	if (first)
		return first;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (write(ready_fd, "", 1) == 1)
		for (;;)
			pause();
	_exit(1);
}

/* However deep they stand, and although each loses its parent when the signal comes. */
static void test_adopted_deep(void **state)
{
	enum { DEPTH = 80 };
	struct bench *b = *state;
	int ready[2];
	char byte;
	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	struct proc_id process = { .pid = start_chain(DEPTH, ready[1]) };
	close(ready[1]);
	for (int i = 0; i < DEPTH; i++)
		assert_int_equal(read(ready[0], &byte, 1), 1);
	assert_int_equal(proc_stat(process.pid, &process.start_ticks, NULL), 0);
	b->task->spec->process_pid = process.pid;
	b->task->spec->process_ticks = process.start_ticks;
	b->task->attempts[0].shim = process;
	b->task->spec->uid = getuid();
	assert_int_equal(launch_signal(&b->request.home, b->task, 0), DEPTH);
	kill(process.pid, SIGKILL);
	assert_int_equal(waitpid(process.pid, NULL, 0), process.pid);
	assert_int_equal(read(ready[0], &byte, 1), 0);
	close(ready[0]);
}

static void test_adopted_by_others(void **state)
{
	(void)state;
	struct error err = ERROR_INIT;
	struct proc_id self = { .pid = getpid() }, child = { .pid = start_sleep() };
	assert_int_equal(proc_stat(self.pid, &self.start_ticks, NULL), 0);
	assert_int_equal(proc_stat(child.pid, &child.start_ticks, NULL), 0);
	assert_int_equal(adopted_check(child, getuid() + 1, &err), -1);
	assert_int_equal(err.code, ERR_DENIED);
	assert_int_equal(adopted_check(self, getuid(), &err), -1);	/* "radd" itself */
	assert_int_equal(err.code, ERR_INVALID);
	struct rlimit before, few;
	int next = dup(STDIN_FILENO);
	assert_true(next >= 0);
	close(next);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	for (rlim_t room = 0; room < 2; room++) {	/* for no descriptor; for the process's, and none for a look at it */
		few = (struct rlimit){ .rlim_cur = (rlim_t)next + room, .rlim_max = before.rlim_max };
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
		int rc = adopted_check(child, getuid(), &err);
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
		assert_int_equal(rc, -1);
		assert_int_equal(err.code, ERR_UNAVAILABLE);
		assert_non_null(strstr(err.text, "radd cannot look at it now: Too many open files: try again"));
	}
	assert_int_equal(adopted_check(child, getuid(), &err), 0);
	child.start_ticks++;
	assert_int_equal(adopted_check(child, getuid(), &err), -1);
	assert_int_equal(err.code, ERR_NOT_FOUND);
	assert_int_equal(adopted_check((struct proc_id){ INT32_MAX, 1 }, getuid(), &err), -1);
	assert_int_equal(err.code, ERR_NOT_FOUND);
	kill(child.pid, SIGKILL);
	waitpid(child.pid, NULL, 0);
}

static void test_drops_root(void **state)
{
	struct bench *b = *state;
	if (geteuid())
		skip();
	assert_int_equal(chown(b->dir, NOBODY, NOBODY), 0);
	b->task->spec->uid = b->task->spec->gid = NOBODY;
	set_script(b, "grep -E '^(Uid|Gid|Groups|CapEff|CapPrm|CapAmb)' /proc/self/status\n"
		      "if cat attempts/12.1/request; then echo leaked; fi 2>/dev/null\n"
		      "if ls /proc/$PPID/fd; then echo leaked; fi 2>/dev/null\n");
	struct exit_report r = run(b);
	assert_int_equal(r.exit_code, 0);
	assert_log(b, "Uid:\t65534\t65534\t65534\t65534\nGid:\t65534\t65534\t65534\t65534\nGroups:\t65534 \n"
		      "CapPrm:\t0000000000000000\nCapEff:\t0000000000000000\nCapAmb:\t0000000000000000\n");
	scoped_free char *log = alloc_printf("%s/log", b->dir);
	struct stat st;
	assert_int_equal(stat(log, &st), 0);
	assert_int_equal(st.st_uid, NOBODY);
	assert_int_equal(st.st_gid, NOBODY);
}

/* What waited while its account was deleted, and the uid given away, runs as nobody. */
static void test_a_uid_that_is_anothers_by_now(void **state)
{
	struct bench *b = *state;
	if (geteuid())
		skip();
	assert_int_equal(chown(b->dir, NOBODY, NOBODY), 0);
	b->task->spec->uid = b->task->spec->gid = NOBODY;
	set_script(b, "exit 5\n");
	set_text(&b->task->spec->user, "root");
	assert_never_began(b, "uid 65534 was root's, who submitted this, and is nobody's now");
	const char *const good[] = { "nobody", "65534" };
	scoped_free char *folder = launch_folder(&b->request.home, b->task);
	for (size_t i = 0; i < COUNT_OF(good); i++) {
		forget(folder);
		set_text(&b->task->spec->user, good[i]);
		assert_int_equal(run(b).exit_code, 5);
	}
}

/* It may be a database that does not answer, so it is tried again, and does not run without its user's groups. */
static void test_a_uid_whose_account_is_gone(void **state)
{
	struct bench *b = *state;
	if (geteuid())
		skip();
	assert_int_equal(chown(b->dir, NO_ACCOUNT, NO_ACCOUNT), 0);
	b->task->spec->uid = b->task->spec->gid = NO_ACCOUNT;
	set_script(b, "exit 5\n");
	set_text(&b->task->spec->user, "ghost");
	struct exit_report r = run(b);
	assert_true(r.never_began && r.again);
	assert_non_null(strstr(r.output.line, "uid 3000000001 was ghost's, who submitted this, and has no account"));
	const char *const never_had[] = { "3000000001", NULL };
	scoped_free char *folder = launch_folder(&b->request.home, b->task);
	for (size_t i = 0; i < COUNT_OF(never_had); i++) {
		forget(folder);
		free(b->task->spec->user);
		b->task->spec->user = alloc_string_or_null(never_had[i]);
		assert_int_equal(run(b).exit_code, 5);
	}
}

/* A machine that has no descriptor left says of nobody that he is in no group: it is tried again. */
static void test_groups_that_cannot_be_asked_for(void **state)
{
	(void)state;
	int status;
	if (geteuid())
		skip();
	pid_t child = fork();
	if (!child) {
		struct error err = ERROR_INIT;
		const struct rlimit none = { .rlim_cur = 0, .rlim_max = 0 };
		_exit(!setrlimit(RLIMIT_NOFILE, &none) && identity_become(NOBODY, NOBODY, NULL, &err) && error_is_shortage(&err) ? 42 : 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(WEXITSTATUS(status), 42);
}

static void test_output_needs_the_users_rights(void **state)
{
	struct bench *b = *state;
	if (geteuid())
		skip();
	b->task->spec->uid = b->task->spec->gid = NOBODY;	/* b->dir belongs to root */
	set_script(b, "true\n");
	assert_never_began(b, "output log: Permission denied");
}

/* As in /tmp, where the name of the next log can be guessed. */
static void test_output_that_another_user_put_there(void **state)
{
	struct bench *b = *state;
	if (geteuid())
		skip();
	scoped_free char *shared = alloc_printf("%s/shared", b->dir), *log = alloc_printf("%s/log", shared);
	scoped_free char *mine = alloc_printf("%s/mine", b->dir), *folder = launch_folder(&b->request.home, b->task);
	assert_true(!mkdir(shared, 0700) && !chmod(shared, 01777));
	set_text(&b->task->spec->output, log);
	set_script(b, "echo said\n");
	assert_true(!symlink(mine, log) && !lchown(log, NOBODY, NOBODY));
	assert_never_began(b, "another user (uid 65534) has put a link there");
	assert_int_equal(access(mine, F_OK), -1);
	forget(folder);
	assert_int_equal(lchown(log, 0, 0), 0);
	assert_int_equal(run(b).exit_code, 0);		/* one's own leads where it leads */
	scoped_free char *said = content(b, "mine");
	assert_string_equal(said, "said\n");
	forget(folder);
	assert_true(!unlink(log) && !link(mine, log) && !chown(log, NOBODY, NOBODY));
	assert_never_began(b, "/log: another user");
	forget(folder);
	assert_int_equal(chown(shared, NOBODY, NOBODY), 0);	/* the folder's owner could do more than that */
	assert_int_equal(run(b).exit_code, 0);
}

static void test_other_users_need_root(void **state)
{
	struct bench *b = *state;
	if (!geteuid())
		assert_int_equal(chown(b->dir, NOBODY, NOBODY), 0);
	set_script(b, "true\n");
	pid_t daemon = fork();
	if (!daemon) {
		if (!geteuid() && (setgid(NOBODY) || setuid(NOBODY)))
			_exit(1);
		b->task->spec->uid = getuid() - 1;
		assert_never_began(b, "cannot start tasks of uid");
		_exit(42);
	}
	int status;
	assert_int_equal(waitpid(daemon, &status, 0), daemon);
	assert_int_equal(WEXITSTATUS(status), 42);
}

/* Where cgroups may be made, the task is in its own; the shim is not, and it is removed in the end. */
static void test_cgroup(void **state)
{
	struct bench *b = *state;
	struct cgroup probe;
	cgroup_create(&probe, "rad-probe");
	if (!probe.path[0])
		skip();
	rmdir(probe.path);
	if (!geteuid()) {
		assert_int_equal(chown(b->dir, NOBODY, NOBODY), 0);
		b->task->spec->uid = b->task->spec->gid = NOBODY;
	}
	set_script(b, "grep -q '/rad-12.1-' /proc/self/cgroup\n! grep -q '/rad-12.1-' /proc/$PPID/cgroup\n"
		      "echo > ready\nsleep 1000\n");
	start(b);
	wait_line(b, "ready");
	scoped_free char *cgroup = content(b, "attempts/12.1/" ATTEMPT_CGROUP);
	assert_string_not_equal(cgroup, "");
	scoped_free pid_t *pids = NULL;
	assert_true(cgroup_members(cgroup, &pids) >= 1);
	assert_true(cgroup_holds(cgroup, pids[0]));
	assert_false(cgroup_holds(cgroup, getpid()));
	launch_signal(&b->request.home, b->task, SIGKILL);
	assert_int_equal(result(b).signal, SIGKILL);
	scoped_free char *folder = launch_folder(&b->request.home, b->task);
	forget(folder);
	assert_int_equal(access(cgroup, F_OK), -1);
}

/* Cgroups of its own: who is in one is the task's, though the shim is dead and he began a session of his own, and they go with
 * the attempt. */
static void test_cgroups_of_a_task(void **state)
{
	struct bench *b = *state;
	struct cgroup probe;
	cgroup_create(&probe, "rad-probe");
	if (!probe.path[0])
		skip();
	*strrchr(probe.path, '/') = 0;
	scoped_free char *script = alloc_printf("own=%s/$(sed -n 's|^0::.*/||p' /proc/self/cgroup)\n"
						"mkdir -p $own/a/b $own/c\n"
						"setsid sh -c \"echo \\$\\$ >$own/a/b/cgroup.procs; echo \\$\\$ >pid; exec sleep 1000\" &\n"
						"sleep 1000\n", probe.path);
	scoped_free char *own_probe = alloc_printf("%s/rad-probe", probe.path);
	rmdir(own_probe);
	set_script(b, script);
	start(b);
	wait_line(b, "pid");
	scoped_free char *text = content(b, "pid"), *folder = launch_folder(&b->request.home, b->task);
	struct proc_id inner = identity(atoi(text));
	scoped_free char *cgroup = content(b, "attempts/12.1/" ATTEMPT_CGROUP);
	assert_int_equal(kill(b->shim.pid, SIGKILL), 0);
	wait_gone(b->shim);
	assert_true(launch_signal(&b->request.home, b->task, SIGTERM) >= 2);
	wait_gone(inner);
	forget(folder);
	assert_int_equal(access(cgroup, F_OK), -1);
}

/* Of a radd that was started anew somewhere else, with another cgroup: the attempt's is found all the same, when nothing else
 * tells of its processes any more. */
static void test_cgroup_seen_from_another(void **state)
{
	struct bench *b = *state;
	char name[40], here[24], before[PATH_MAX];
	snprintf(name, sizeof name, "rad-elsewhere-%d", (int)getpid());
	snprintf(here, sizeof here, "%d", (int)getpid());
	set_script(b, "setsid sh -c 'echo $$ >pid; exec sleep 1000' &\nsleep 1000\n");
	start(b);
	wait_line(b, "pid");
	scoped_free char *text = content(b, "pid"), *cgroup = content(b, "attempts/12.1/" ATTEMPT_CGROUP);
	struct proc_id inner = identity(atoi(text));
	assert_int_equal(kill(b->shim.pid, SIGKILL), 0);
	wait_gone(b->shim);
	if (!*cgroup || cgroup_path(getpid(), "cgroup.procs", before) || cgroup_put(name, getpid())) {
		proc_signal(inner, SIGKILL);
		skip();
	}
	launch_signal(&b->request.home, b->task, SIGTERM);
	scoped_fd int back = open(before, O_WRONLY | O_CLOEXEC);
	assert_int_equal(write(back, here, strlen(here)), (ssize_t)strlen(here));
	cgroup_remove(name);
	wait_gone(inner);
}

/* With no inode left the name of a cgroup cannot be noted, and nobody would remove it: the shim gives up before. */
static void test_cgroup_not_noted(void **state)
{
	struct bench *b = *state;
	char name[128], path[PATH_MAX];
	scoped_free char *folder = alloc_printf("%s/attempts/12.1", b->dir), *note = alloc_printf("%s/" ATTEMPT_CGROUP, folder);
	if (cgroup_path(getpid(), "rad-probe", path))
		skip();
	assert_int_equal(io_make_dirs(folder, 0700, NULL), 0);
	assert_int_equal(symlink("/dev/full", note), 0);
	set_script(b, "exit 5\n");
	struct exit_report r = run(b);
	assert_true(r.have_record && r.again);
	assert_non_null(strstr(r.output.line, ATTEMPT_CGROUP ": No space left"));
	family_cgroup_name("12.1", b->shim, name, sizeof name);
	assert_int_equal(cgroup_path(getpid(), name, path), 0);
	assert_int_equal(access(path, F_OK), -1);
}

int main(void)
{
	find_shim();
	const struct CMUnitTest tests[] = {
		T(test_conda_in_script), T(test_conda_env_for_command), T(test_conda_env_missing),
		T(test_conda_not_found), T(test_users_bash_env), T(test_adopted), T(test_adopted_asked), T(test_adopted_deep),
		T(test_adopted_by_others), T(test_drops_root), T(test_a_uid_that_is_anothers_by_now), T(test_a_uid_whose_account_is_gone),
		T(test_groups_that_cannot_be_asked_for),
		T(test_output_needs_the_users_rights), T(test_output_that_another_user_put_there),
		T(test_other_users_need_root), T(test_cgroup), T(test_cgroups_of_a_task),
		T(test_cgroup_seen_from_another),
		T(test_cgroup_not_noted),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
