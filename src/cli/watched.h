/* SPDX-License-Identifier: MIT
 *
 * Whom `rad monitor` watches: a command that it starts, a process, a task's processes, or every process on the GPUs. And the
 * signals meanwhile: a command gets those that are sent to its watcher, and goes on whatever becomes of the watching.
 */
#ifndef RAD_CLI_WATCHED_H
#define RAD_CLI_WATCHED_H

#include "base/error.h"
#include "base/proc.h"
#include "device/reading.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct watched {
	struct proc_id *roots;	/* owned; each stands for all that descends from it. None: every process on a GPU */
	size_t n;
	char (*programs)[PROC_PROGRAM_LEN];	/* owned; of each root */
	task_id task;		/* 0: none was asked for */
	pid_t child;		/* the command; 0: none was started, or it has been waited for */
	int code;		/* its exit code, once it has; -1: there was none */
	double cpu_s, peak_rss_mib;	/* of it and its children, from then on; the peak is of the largest of them */
};

void watched_clear(struct watched *w);
/* A process that is there. 0 or -1. */
int watched_pid(struct watched *w, pid_t pid, struct error *err);
/* Those that carry that task's number, and the socket of the radd that is asked here, in their environment: of the caller's, or
 * for root of anybody's. */
int watched_task(struct watched *w, task_id task, struct error *err);

/* From here on signals end the watching between two readings, not in the midst of one. Once, before a command is started. */
void watched_signals(void);
/* Starts it in the caller's process group, so that the terminal treats both alike. 0; -1, w->code being what a shell would
 * give: 127 where there is no such program, 126 where it cannot be run. */
int watched_command(struct watched *w, char *const *argv, struct error *err);

/* Until that time (monotonic), a signal, or the end of the command or of the last process that was asked for. */
void watched_wait(struct watched *w, int64_t until_ms);
/* Whether there is no more to watch: all of that, or a signal where no command runs that it could be passed on to. */
bool watched_over(struct watched *w);
/* Around a reading, in which a driver may hang: signals come through then. The second that asks for the end is one, unless a
 * command runs; and when that ends, its watcher does so too, a few seconds later, with its code. */
void watched_let_signals(bool in);

#endif
