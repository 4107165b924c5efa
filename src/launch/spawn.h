/* SPDX-License-Identifier: MIT
 *
 * Starting a process that is nobody's child here. It is made by way of another one that ends at once, so that init (or the
 * nearest subreaper) takes it over: it outlives us, and needs no waitpid from us, whatever our event loop does with SIGCHLD.
 * Its end is seen through a pidfd. May be called by a thread.
 */
#ifndef RAD_LAUNCH_SPAWN_H
#define RAD_LAUNCH_SPAWN_H

#include "base/error.h"
#include "base/proc.h"

/* Runs argv[0] (a path) with `env`, in a session of its own, in "/", with no descriptors but 0-2: /dev/null, except that
 * standard output is `out_fd` where that is not -1. When we die meanwhile it may run without anybody knowing: what must not run
 * twice claims a file first (attempt.h). Waits for the exec, at most 5 s. On error nothing runs, and *id is zero. */
int spawn_detached(char *const argv[], char *const env[], int out_fd, struct proc_id *id, struct error *err);

/* The path of `rad-shim`: RAD_SHIM, or beside the running program. NULL with *err when it is not there. Free it. */
char *spawn_shim_path(struct error *err);

#endif
