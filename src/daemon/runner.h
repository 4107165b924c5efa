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
struct store;

/* What it works with; all of it belongs to others, and outlives it. */
struct runner_plan {
	struct core *core;
	const struct settings *config;	/* kill_wait, mps_idle, stay_on_gpus */
	struct store *store;		/* of epilogs */
	struct launch_home home;
	const char *run_dir, *socket_path;
	const struct device *device;
};

/* Takes over the MPS servers that a former radd left running. */
struct runner *runner_create(uv_loop_t *loop, const struct runner_plan *plan);
/* Call it when radd ends after it ran: stops MPS servers without clients, since no other radd may come to do so. Do not call it
 * when a start failed: before tasks are restored, no server seems to have clients. */
void runner_leave(struct runner *r);
/* Takes NULL. Tasks and MPS servers go on. Frees itself once the loop has closed its handles. */
void runner_destroy(struct runner *r);

/* An event happened: notes what has to be done about it, for runner_work. */
void runner_note(struct runner *r, const struct event *ev, const struct task *t);
/* Whether something waits to be started or stopped as soon as it is committed. */
bool runner_is_urgent(const struct runner *r);
/* Does what was noted, after the commit, for some milliseconds; what is left wakes the loop for the next turn. Returns whether
 * all was done; that may have made new events. */
bool runner_work(struct runner *r);
/* Call it when the core has all running tasks: looks for what is left of any other attempt, and removes what is ours of it, if
 * `remove`. */
void runner_sweep(struct runner *r, bool remove);
/* A running task was restored from the store: finds its shim, or what it left. `new_boot`: the machine, or this container, was
 * started anew since, so the stored pids belong to other processes now. */
void runner_adopt(struct runner *r, const struct task *t, bool new_boot);
/* In words, why the task's start, or the word of its end, is delayed; NULL: it is not. Valid until the next turn. */
const char *runner_delay(const struct runner *r, task_id id);
/* As servers_can. */
enum core_mps runner_mps(const struct runner *r, const char **why);
/* Whether a process of the running task handles the signal that asks it to make place. */
bool runner_slot_hears(const struct runner *r, const struct task *t);
/* Appends {"check","text"} for what a person should look after. */
void runner_tell_troubles(const struct runner *r, json_t *troubles);
/* As core_ops.owner. */
task_id runner_owner(struct runner *r, const struct proc_reading *p);
/* The program that announced the task says how its processes ended: ends the attempt with that report. False: none runs. */
bool runner_departed(struct runner *r, task_id id, const struct exit_report *report);
/* The variables that tell the running task of its GPUs, for a process that exists already; alloc_free_list. */
char **runner_environment(const struct runner *r, const struct task *t);
/* Sends the signal now to those processes of a running task that have a handler for it. Returns how many got it. */
int runner_ask(const struct runner *r, const struct task *t, int signal);

#endif
