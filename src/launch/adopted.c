/* SPDX-License-Identifier: MIT
 * Processes that we did not start: see adopted.h. Whose a process is, is asked of /proc/PID/status after a pidfd of it was
 * opened: a pid that became another's meanwhile has another start time, and the pidfd still is the first one's.
 */
#include "launch/adopted.h"

#include "base/alloc.h"
#include "base/proc_tree.h"
#include "base/scope.h"

#include <errno.h>

int adopted_check(struct proc_id process, uid_t uid, struct error *err)
{
	struct error unseen = ERROR_INIT;
	errno = 0;
	scoped_fd int fd = proc_pidfd(process.pid);
	bool there = fd >= 0 && proc_alive(process), own = there && proc_owned(process.pid, uid);
	if (!own)
		error_errno(&unseen, "process %d: radd cannot look at it now", (int)process.pid);
	if (error_is_shortage(&unseen))
		return error_set(err, ERR_UNAVAILABLE, "%s: try again", unseen.text);
	if (!there)
		return error_set(err, ERR_NOT_FOUND, "process %d: radd sees no such process, or another one by that number (is one of "
				 "you in a container?)", (int)process.pid);
	if (!own)
		return error_set(err, ERR_DENIED, "process %d: is not yours alone: real and effective user must be you", (int)process.pid);
	if (proc_descends(getpid(), process.pid))
		return error_set(err, ERR_INVALID, "process %d: radd itself runs below it", (int)process.pid);
	return 0;
}

bool adopted_is(const struct task *t)
{
	return t->spec->process_pid;
}

/* Before it is told that it has its place, it has not begun. */
bool adopted_find(const struct task *t, struct proc_id *process)
{
	*process = spec_process(t->spec);
	return task_attempt(t)->shim.pid && !proc_gone(*process);
}

void adopted_result(const struct task *t, bool *claimed, struct exit_report *r)
{
	*claimed = task_attempt(t)->shim.pid;
	if (*claimed)
		*r = (struct exit_report){ .have_record = true, .unseen = true };
}

size_t adopted_processes(const struct task *t, pid_t **pids)
{
	struct proc_id process = spec_process(t->spec);
	*pids = NULL;
	if (!proc_alive(process))
		return 0;
	size_t n = proc_descendants(process.pid, pids);
	*pids = alloc_resize(*pids, n + 1, sizeof **pids);
	(*pids)[n] = process.pid;
	return n + 1;
}

/* What was announced stands above its user's processes, as Slurm's slurmstepd does, and is none of them, root's jobs
 * included. */
static bool is_member(const struct task *t, const struct proc_tree *tree, struct proc_node *p)
{
	struct proc_id process = spec_process(t->spec);
	pid_t pid = p->seen.id.pid;
	bool is = pid == process.pid ? !t->spec->announced && proc_alive(process) : proc_tree_confirm(tree, p, process);
	return is && proc_owned(pid, t->spec->uid);	/* a set-uid program that its caller may not signal is not */
}

/* Children first; the process itself may be what holds them together. */
int adopted_signal(const struct task *t, int signal, int handled)
{
	struct proc_id process = spec_process(t->spec);
	scoped_proc_tree struct proc_tree tree;
	scoped_free struct proc_node **list = NULL;
	int got = 0;
	proc_tree_read_below(&tree, process.pid);
	if (!proc_alive(process))
		return 0;
	size_t n = proc_tree_below(&tree, process.pid, &list);
	list[n] = proc_tree_find(&tree, process.pid);	/* one place more is there */
	for (size_t i = 0; i <= n; i++) {
		pid_t pid = list[i] ? list[i]->seen.id.pid : 0;
		scoped_fd int fd = pid > 1 && pid != getpid() ? proc_pidfd(pid) : -1;
		if (fd >= 0 && is_member(t, &tree, list[i]) && (!handled || proc_catches(pid, handled)))
			got += !proc_pidfd_signal(fd, signal);
	}
	return got;
}
