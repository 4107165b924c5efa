/* SPDX-License-Identifier: MIT
 * One attempt, from claim to exit record. In this order, because each step needs what the next gives up:
 * as the daemon's user: claim, request, record file, cgroup; as the task's user: folder, output files, program; then
 * waiting, reading along, clearing up what the program left, and the record.
 * spawn_detached left us no descriptors but /dev/null on 0-2. All signals are blocked: a TERM that a user sends to all of
 * their processes must not lose the record.
 */
#include "launch/shim.h"

#include "base/clock.h"
#include "base/io.h"
#include "base/scope.h"
#include "base/text.h"
#include "launch/attempt.h"
#include "launch/cpu_watch.h"
#include "launch/host_watch.h"
#include "launch/identity.h"
#include "launch/processes.h"
#include "launch/record.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define FOLLOW_MS 1000
#define PROGRESS_MS 3000	/* between two words about how far the program is */
/* What a program leaves behind when it ends gets TERM, this long, then KILL; then we go, whatever hangs in a driver. */
#define LEFTOVER_GRACE_MS 5000
#define LEFTOVER_GIVE_UP_MS 15000
#define LEFTOVER_LOOK_MS 100
#define RECORD_AGAIN_MS 1000

struct attempt_run {
	struct proc_id self;
	int folder, exit_fd, signal_fd;
	struct cgroup cgroup;
	struct host_watch host;
	struct cpu_watch cpu;
	int out_fd, err_fd;
	struct output_watch *out, *err;	/* err NULL: the output has both */
	pid_t program;
	struct script_link link;
	bool ended;
	struct exit_record record;
	struct progress_record progress;	/* as it was written last */
};

static int prepare_self(struct attempt_run *run, struct error *err)
{
	sigset_t all, child;
	sigfillset(&all);
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sigprocmask(SIG_SETMASK, &all, NULL);
	setsid();
	identity_unprotect();
	/* A keyring of the daemon's session is not for the task; where there are no keyrings there is nothing to hide. */
	syscall(SYS_keyctl, 1 /* KEYCTL_JOIN_SESSION_KEYRING */, NULL);
	run->signal_fd = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
	if (run->signal_fd < 0 || prctl(PR_SET_CHILD_SUBREAPER, 1))
		return error_errno(err, "preparing");
	return 0;
}

static struct shim_request *take_request(const struct attempt_run *run, struct error *err)
{
	scoped_buf bytes = { 0 };
	scoped_fd int fd = openat(run->folder, ATTEMPT_REQUEST, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0) {
		error_errno(err, ATTEMPT_REQUEST);
		return NULL;
	}
	if (io_read_fd(fd, ATTEMPT_REQUEST, REQUEST_MAX, &bytes, err))
		return NULL;
	return shim_request_decode(buf_text(&bytes), bytes.len, err);
}

/* Its path is noted before it is made, only so that the empty cgroup can be removed later, whenever the shim is killed. What
 * cannot be noted is not made: nobody would remove it. */
static int make_cgroup(struct attempt_run *run, const char *label, struct error *err)
{
	char name[128], path[PATH_MAX];
	family_cgroup_name(label, run->self, name, sizeof name);
	if (cgroup_path(getpid(), name, path))
		return 0;	/* no version 2 */
	scoped_fd int fd = openat(run->folder, ATTEMPT_CGROUP, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0 || io_write_full(fd, path, strlen(path))) {
		error_errno(err, ATTEMPT_CGROUP);
		unlinkat(run->folder, ATTEMPT_CGROUP, 0);
		return -1;
	}
	cgroup_create(&run->cgroup, name);
	if (!run->cgroup.path[0])
		unlinkat(run->folder, ATTEMPT_CGROUP, 0);
	return 0;
}

/* "--epochs 10", in the command or in the script. */
static int64_t epochs_named(const struct shim_request *r)
{
	int64_t epochs = 0;
	bool named = false;
	for (char *const *word = r->argv; *word; word++)
		progress_epochs_word(*word, strlen(*word), &named, &epochs);
	named = false;
	for (const char *p = r->script ? r->script : ""; *p; p += strspn(p, " \t\n'\"\\")) {
		size_t n = strcspn(p, " \t\n'\"\\");
		progress_epochs_word(p, n, &named, &epochs);
		p += n;
	}
	return epochs;
}

/* From here on as the task's user. */
static int open_outputs(struct attempt_run *run, const struct shim_request *r, struct error *err)
{
	umask(r->umask);
	if (chdir(r->cwd))
		return error_errno(err, "working directory %s", r->cwd);
	run->out_fd = output_open(r->output, r->truncate, r->heading, err);
	if (run->out_fd < 0)
		return -1;
	int64_t epochs = epochs_named(r);
	run->out = output_watch_start(r->output, run->out_fd, epochs);
	run->err_fd = run->out_fd;
	if (!r->error || !strcmp(r->error, r->output))
		return 0;
	run->err_fd = output_open(r->error, r->truncate, NULL, err);
	if (run->err_fd < 0)
		return -1;
	run->err = output_watch_start(r->error, run->err_fd, epochs);
	return 0;
}

/* Asked for last: whoever sits there sees the program at once, or nothing. */
static int open_terminal(const struct shim_request *r, int *terminal, struct error *err)
{
	if (r->terminal)
		*terminal = terminal_open(r->terminal, err);
	return r->terminal && *terminal < 0 ? -1 : 0;
}

static int begin(struct attempt_run *run, const struct shim_request *r, struct error *err)
{
	scoped_fd int terminal = -1;
	if (make_cgroup(run, r->label, err))
		return -1;
	host_watch_start(&run->host, &run->cgroup, r->mem_max_mib);
	close(run->folder);
	if (identity_become(r->uid, r->gid, r->user, err) || open_outputs(run, r, err) || open_terminal(r, &terminal, err))
		return -1;
	struct program_streams io = { run->out_fd, run->err_fd, terminal };
	run->record.start_ms = clock_wall_ms();
	run->program = program_start(r, &run->cgroup, &io, &run->link, err);
	if (run->program < 0)
		return -1;
	run->record.began = true;
	cgroup_confirm(&run->cgroup, run->program);
	/* A pipe's reader must see the end when the program closes it; and no file system is held by us. */
	close(run->out_fd);
	if (run->err_fd != run->out_fd)
		close(run->err_fd);
	return chdir("/") ? error_errno(err, "/") : 0;
}

static void reap(struct attempt_run *run)
{
	int status;
	pid_t pid;
	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		if (pid != run->program)
			continue;
		run->ended = true;
		run->record.end_ms = clock_wall_ms();
		run->record.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
		run->record.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
	}
}

/* Waits for the end of a child, at most timeout_ms, and reaps. */
static void wait_child(struct attempt_run *run, int timeout_ms)
{
	struct pollfd p = { .fd = run->signal_fd, .events = POLLIN };
	struct signalfd_siginfo info;
	if (poll(&p, 1, timeout_ms) > 0)
		while (read(run->signal_fd, &info, sizeof info) == sizeof info)
			;
	reap(run);
}

static bool read_outputs(struct attempt_run *run)
{
	bool more = output_watch_read(run->out);
	return output_watch_read(run->err) || more;
}

/* Of two outputs that one that knows more: bars go to one, lines to the other, as the program likes. */
static void look_at_progress(const struct attempt_run *run, struct progress_record *r)
{
	struct progress_record other = { 0 };
	output_watch_progress(run->out, &r->seen, &r->dev, &r->ino);
	output_watch_progress(run->err, &other.seen, &other.dev, &other.ino);
	bool nothing = r->seen.source == PROGRESS_NONE, something = other.seen.source != PROGRESS_NONE;
	if (other.seen.fraction >= 0 ? r->seen.fraction < 0 : nothing && something)
		*r = other;
}

/* The file has its blocks, so a full disk takes nothing from us; where it fails all the same, the daemon knows less. */
static void tell_progress(struct attempt_run *run)
{
	struct progress_record r = { 0 }, *told = &run->progress;
	look_at_progress(run, &r);
	r.host_mib = (int64_t)run->host.peak_mib;
	r.cpu = run->cpu.sums;
	if (r.seen.source == told->seen.source && r.seen.t_ms == told->seen.t_ms && r.seen.fraction == told->seen.fraction &&
	    r.host_mib == told->host_mib && r.cpu.ran_ms == told->cpu.ran_ms)
		return;
	r.number = told->number + 1;
	record_write_progress(run->exit_fd, &r);
	*told = r;
}

/* All that came from the program has us for an ancestor, since we are its subreaper: without a child nothing is left of it. To
 * know that by looking at every process of the machine cost more than all else that is done for a short task. */
static bool all_gone(const struct attempt_run *run)
{
	siginfo_t info;
	bool child = !waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) || errno != ECHILD;
	return !child && (!run->cgroup.path[0] || !cgroup_is_used(run->cgroup.path));
}

/* As Slurm does, nothing of a task outlives its program: a forgotten worker would hold the GPU's memory. That a look finds
 * nobody does not say that nobody is there: who makes a child and ends, again and again, is missed by many. */
static void clear_leftovers(struct attempt_run *run)
{
	struct family f = { .shim = run->self, .keeps = true };
	int64_t began = clock_mono_ms(), next_term = began;
	snprintf(f.cgroup, sizeof f.cgroup, "%s", run->cgroup.path);
	while (!all_gone(run)) {
		int64_t now = clock_mono_ms();
		int signal = 0;
		if (now - began >= LEFTOVER_GRACE_MS) {
			signal = SIGKILL;
			cgroup_kill(&run->cgroup);	/* also those of them that changed their user */
		} else if (now >= next_term) {
			signal = SIGTERM;
			next_term = now + 1000;
		}
		if (signal)
			family_signal(&f, signal, 0);
		if (now - began >= LEFTOVER_GIVE_UP_MS)
			return;
		wait_child(run, LEFTOVER_LOOK_MS);
	}
}

static void wait_end(struct attempt_run *run)
{
	int64_t next_ms = 0;
	while (!run->ended) {
		bool more = read_outputs(run);
		int64_t now = clock_mono_ms();
		if (now >= next_ms) {
			host_watch_look(&run->host, &run->cgroup, run->self.pid);
			cpu_watch_look(&run->cpu, &run->cgroup, run->self.pid, now);
			tell_progress(run);
			next_ms = now + PROGRESS_MS;
		}
		wait_child(run, more ? 0 : FOLLOW_MS);
	}
	clear_leftovers(run);
	output_watch_read_rest(run->out);
	output_watch_read_rest(run->err);
	tell_progress(run);
}

static void finish_record(struct attempt_run *run)
{
	struct scan_result out;
	struct rusage usage;
	output_watch_end(run->out, &out);
	output_watch_end(run->err, &run->record.output);
	if (run->record.output.kind == SCAN_NOTHING)
		run->record.output = out;
	if (!getrusage(RUSAGE_CHILDREN, &usage))
		run->record.maxrss_kib = usage.ru_maxrss;
	run->record.oom_kills = cgroup_oom_kills(&run->cgroup);
	run->record.machine_oom = host_watch_end(&run->host, &run->cgroup);
	run->record.host_peak_mib = (int64_t)run->host.peak_mib;
}

/* Why it never began stands where the last error of an output would. */
static void record_failure(struct attempt_run *run, const struct error *err)
{
	output_watch_end(run->out, &run->record.output);
	output_watch_end(run->err, &run->record.output);
	run->record.end_ms = clock_wall_ms();
	run->record.again = error_is_shortage(err);
	run->record.output = (struct scan_result){ .kind = SCAN_OTHER_ERROR };
	text_printf(run->record.output.line, sizeof run->record.output.line, "%.239s", err->text);
}

/* The file has its blocks, but a file system that copies what is written anew (btrfs, ZFS) wants others, and a disk may have
 * failed. radd, which has its store there, waits for it as well. */
static void keep_record(const struct attempt_run *run)
{
	while (record_write(run->exit_fd, &run->record))
		poll(NULL, 0, RECORD_AGAIN_MS);
}

int shim_task(const char *folder)
{
	struct attempt_run run = { .folder = -1, .exit_fd = -1, .out_fd = -1, .err_fd = -1,
				   .self = { .pid = getpid() } };
	struct error err = ERROR_INIT;
	if (prepare_self(&run, &err) || proc_stat(run.self.pid, &run.self.start_ticks, NULL))
		return SHIM_FAILED;
	run.folder = attempt_open(folder, &err);
	if (run.folder < 0)
		return SHIM_FAILED;
	run.exit_fd = openat(run.folder, ATTEMPT_EXIT, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
	if (run.exit_fd < 0)
		return SHIM_FAILED;
	if (claim_create(run.folder, run.self, &err))
		return err.code == ERR_CONFLICT ? SHIM_SECOND : SHIM_FAILED;
	struct shim_request *r = take_request(&run, &err);
	bool begun = r && !begin(&run, r, &err);
	shim_request_destroy(r);	/* a script and an environment may be large, and a task long */
	if (begun || run.record.began) {
		wait_end(&run);
		finish_record(&run);
	} else {
		record_failure(&run, &err);
	}
	program_remove_link(&run.link);
	keep_record(&run);
	return SHIM_DONE;
}
