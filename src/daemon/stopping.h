/* SPDX-License-Identifier: MIT
 *
 * Ending a running attempt in steps: SIGTERM, after kill_wait its MPS server is asked to end its clients, then SIGKILL until
 * its shim is gone. And signals to its processes otherwise.
 */
#ifndef RAD_DAEMON_STOPPING_H
#define RAD_DAEMON_STOPPING_H

#include "launch/launch.h"
#include "settings/settings.h"

struct outsiders;
struct servers;

/* What it works with; all of it belongs to others. */
struct stopping_plan {
	const struct settings *config;	/* kill_wait */
	struct launch_home home;
	struct servers *servers;
	struct outsiders *outsiders;
};

/* How far it is; zero: not begun. */
struct stopping {
	int64_t next_step_ms;	/* mono; 0: it is not being stopped */
	int64_t since_ms;
	enum { STOPPING_TERM, STOPPING_CLIENTS, STOPPING_KILL } step;
	unsigned kills;
};

/* The step that is due, and when the next one is. `shim_fd`: pidfd of its shim, or -1. Returns false when nothing helped: its
 * processes hang in the kernel. */
bool stopping_step(struct stopping *s, const struct stopping_plan *plan, const struct task *t, int shim_fd);
/* Signals all processes of the attempt. Returns how many got it. */
int stopping_signal(const struct stopping_plan *plan, const struct task *t, int signal);

#endif
