/* SPDX-License-Identifier: MIT
 *
 * One attempt on its way from "placed" to a shim that runs: its MPS server comes up, the administrator's prolog ends, a thread
 * launches it. What is the machine's trouble is told as a delay, after which the caller begins again; what is the task's own
 * ends it.
 */
#ifndef RAD_DAEMON_STARTING_H
#define RAD_DAEMON_STARTING_H

#include "core/core.h"
#include "launch/launch.h"
#include "settings/settings.h"

struct device;
struct hooks;
struct launching_line;
struct servers;
struct starting;

/* The library that tasks load to stay on their GPUs; it is looked for when the first one needs it. */
struct starting_library { bool looked; char *path; };

/* What all of them work with; it belongs to others, and outlives them. */
struct starting_plan {
	struct core *core;
	struct launch_home home;
	const char *socket_path;
	const struct device *device;
	struct servers *servers;
	struct hooks *hooks;
	struct launching_line *launches;
	const struct settings *config;	/* stay_on_gpus */
	struct starting_library *library;
};

/* How a starting_begin went: exactly one of these is called, from within it or later from the loop. All but the first may
 * destroy the object. */
struct starting_ops {
	void (*waits)(void *ctx);		/* for its MPS server: call starting_begin again in a moment */
	void (*started)(void *ctx, struct proc_id shim);
	void (*over)(void *ctx);		/* a former radd started it, and it has ended */
	void (*failed)(void *ctx, const char *why);	/* it never will: the task's own fault, or it is being stopped */
	void (*delayed)(void *ctx, const char *why);	/* the machine is short of something: try again later */
};

/* `plan` and `ops` outlive it. */
struct starting *starting_create(const struct starting_plan *plan, const struct starting_ops *ops, void *ctx, task_id task);
/* Takes NULL. What is under way goes on, and no callback comes any more. */
void starting_destroy(struct starting *s);

/* Begins, or goes on where it waits for its MPS server. A prolog that went well is not run again. */
void starting_begin(struct starting *s);
/* Whether it waits for its MPS server. */
bool starting_waits(const struct starting *s);
/* Whether its launch is under way, so that its program may begin: whatever is asked of the attempt waits for the callback. */
bool starting_is_launching(const struct starting *s);

/* The variables that tell the running task of its GPUs, for a process that exists already; alloc_free_list. */
char **starting_environment(const struct starting_plan *plan, const struct task *t);

#endif
