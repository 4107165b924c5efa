/* SPDX-License-Identifier: MIT
 *
 * The daemon: one thread, one libuv loop, one owner of all state. Each turn of the loop does, in this order:
 *	read (clients, sampler, ends of shims)  ->  core_turn  ->  store_commit  ->  replies  ->  effects
 * so that nothing is told to anybody, and no program is started, before it is on disk.
 */
#ifndef RAD_DAEMON_DAEMON_H
#define RAD_DAEMON_DAEMON_H

#include "base/error.h"

struct daemon;

/* What `radd` was given on its command line; NULL: the default. */
struct daemon_options {
	const char *devices, *config_path, *state_dir, *socket_path;	/* borrowed, for as long as the daemon lives */
	int ready_fd;	/* a line is written here when the socket is open, or the error; -1: none */
};

/* Makes everything up to an open socket. `program`: the path of radd itself, which it starts as its workers. NULL with an
 * error; ERR_NOT_FOUND: there is no driver for its devices, and only an installation will bring one. */
struct daemon *daemon_create(const struct daemon_options *options, const char *program, struct error *err);
/* Runs until SIGTERM or SIGINT, or until the store cannot be written. Running tasks go on; the next radd finds them. Returns
 * radd's exit code. */
int daemon_run(struct daemon *d);
/* Takes NULL. */
void daemon_destroy(struct daemon *d);

#endif
