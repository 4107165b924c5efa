/* SPDX-License-Identifier: MIT
 *
 * The daemon: one thread, one libuv loop, one owner of all state. Each turn of the loop does, in this order:
 *	read (clients, sampler, ends of shims)  ->  core_turn  ->  store_commit  ->  replies  ->  effects
 * so that nothing is told to anybody, and no program is started, before it is on disk.
 */
#ifndef RAD_DAEMON_DAEMON_H
#define RAD_DAEMON_DAEMON_H

#include "core/core.h"
#include "device/device.h"
#include "monitor/sampler.h"
#include "settings/settings.h"
#include "store/store.h"

#include <uv.h>

struct server;
struct recording;
struct runner;
struct sampling;
struct estimating;
struct names;
struct lookups;

/* What `radd` was asked for on its command line; NULL: the default of that thing. */
struct daemon_options {
	const char *devices, *config_path, *state_dir, *socket_path;	/* borrowed, for as long as the daemon lives */
	int ready_fd;	/* a line is written here when the socket is open, or the error; -1: none */
};

struct daemon {
	struct settings config;		/* as they are in force; SIGHUP changes them */
	struct daemon_options options;
	struct device *device;		/* the GPUs it was given */
	uv_loop_t *loop;
	struct store *store;
	struct core *core;
	struct server *server;		/* clients */
	struct runner *runner;		/* attempts: launching, watching, ending, MPS servers */
	struct sampling *sampling;	/* the sampler process */
	struct recording *recording;	/* what it read, over time */
	struct estimating *estimating;	/* workers of slow estimators */
	struct names *names;		/* of users */
	struct lookups *lookups;	/* workers that read in the history */
	int lock_fd;
	char *state_dir, *run_dir, *socket_path, *program;	/* owned; program: radd's own path */
	int64_t started_ms;		/* wall */
	bool stopping;
	bool store_failed;		/* the last commit failed */
	bool new_boot;			/* the machine, or this container, started anew since the last radd: its pids are others' */

	uv_prepare_t prepare;
	uv_check_t check;
	uv_timer_t timer;		/* for what core_turn says is due */
	uv_signal_t on_term, on_int, on_hup;
};

struct now daemon_now(void);

/* Everything up to an open socket. Returns NULL with an error for people. */
struct daemon *daemon_create(const struct daemon_options *options, const char *program, struct error *err);
/* Runs until SIGTERM or SIGINT. Running tasks go on; the next radd finds them. */
void daemon_run(struct daemon *d);
void daemon_destroy(struct daemon *d);

/* Whether tasks can be MPS clients here: the setting says so, and the devices allow it. */
bool daemon_has_mps(const struct daemon *d);
/* Whether the disk of the state folder has room for more than the events of what was accepted already. */
bool daemon_has_room(const struct daemon *d);

#endif
