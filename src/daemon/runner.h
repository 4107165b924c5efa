/* SPDX-License-Identifier: MIT
 *
 * Attempts in the loop: what follows from EV_PLACED and EV_STOP_ASKED once they are on disk. Every effect may be run again
 * after a crash: launching is exactly-once by the claim file, signals are harmless twice.
 */
#ifndef RAD_DAEMON_RUNNER_H
#define RAD_DAEMON_RUNNER_H

#include "core/core.h"
#include "launch/launch.h"
#include "settings/settings.h"

#include <uv.h>

struct device;
struct runner;

/* What it works with; all of it belongs to others, and outlives it. */
struct runner_plan {
	struct core *core;
	const struct settings *config;	/* kill_wait, mps_idle */
	struct launch_home home;
	const char *run_dir, *socket_path;
	const struct device *device;
};

/* Takes over the MPS servers that a former radd left running. */
struct runner *runner_create(uv_loop_t *loop, const struct runner_plan *plan);
/* radd has run, and ends: MPS servers without clients are stopped, since no other may come that would. Not of a start that
 * failed: before tasks are restored every server looks as if it had none. */
void runner_leave(struct runner *r);
/* Tasks and MPS servers go on. Its memory goes when the loop has closed its handles. Takes NULL. */
void runner_destroy(struct runner *r);

/* An event happened; what has to be done about it is noted and done by runner_work. */
void runner_note(struct runner *r, const struct event *ev, const struct task *t);
/* Whether something waits to be started or stopped as soon as it is committed. */
bool runner_is_urgent(const struct runner *r);
/* After the commit, for some milliseconds; what is left wakes the loop for the next turn. Returns whether all was done, and may
 * have made new events. */
bool runner_work(struct runner *r);
/* The running tasks are in the core: what is left of all others is looked for, and what is ours of it removed, if `remove`. */
void runner_sweep(struct runner *r, bool remove);
/* A running task came back from the store: finds its shim, or what it left. `new_boot`: the machine, or this container, was
 * started anew since, so the pids that were stored are others'. */
void runner_adopt(struct runner *r, const struct task *t, bool new_boot);
/* Why that task's start, or the word of its end, is delayed, in words; NULL: it is not. Valid until the next turn. */
const char *runner_delay(const struct runner *r, task_id id);
/* Which MPS servers can be had here, as servers_can. */
enum core_mps runner_mps(const struct runner *r, const char **why);
/* Whether it was asked to make place by a signal that none of its processes handles. */
bool runner_is_unheard(const struct runner *r, task_id id);
/* Appends {"check","text"} for what a person should look after. */
void runner_tell_troubles(const struct runner *r, json_t *troubles);
/* Whose process that is (core_ops.owner). */
task_id runner_owner(struct runner *r, const struct proc_reading *p);
/* How the processes of that task, which stand below one that was announced, ended, by its word: nothing more is waited for.
 * False: it does not run. */
bool runner_departed(struct runner *r, task_id id, const struct exit_report *report);
/* The variables by which the running task is told of its GPUs, for a process that is there already; environment_free. */
char **runner_environment(const struct runner *r, const struct task *t);
/* Sends that signal now to the processes of a running task that have a handler for it. Returns how many. */
int runner_ask(const struct runner *r, const struct task *t, int signal);
/* A running task is to get that signal (core_ops.signal): from runner_work. */
void runner_signal(struct runner *r, const struct task *t, int signal);

#endif
