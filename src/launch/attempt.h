/* SPDX-License-Identifier: MIT
 *
 * The folder of an attempt, STATE/attempts/NAME/ (launch_name), and the files that say "I am the one": used by daemon and shim.
 * All of it belongs to the daemon's user alone: what lies there decides what is run, and as whom.
 */
#ifndef RAD_LAUNCH_ATTEMPT_H
#define RAD_LAUNCH_ATTEMPT_H

#include "base/error.h"
#include "base/proc.h"

#include <stddef.h>
#include <sys/types.h>

#define ATTEMPT_REQUEST "request"
#define ATTEMPT_CLAIM "claim"
#define ATTEMPT_EXIT "exit"
#define ATTEMPT_TOKEN "token"		/* 32 hexadecimal digits */
#define ATTEMPT_CGROUP "cgroup"		/* the path of its cgroup; only when there is one */
#define CGROUP_PREFIX "rad-"		/* of the names of attempts' cgroups */

/* Opens the folder. Refuses one that others may write, or that is a link. Returns a descriptor, or -1;
 * the code is ERR_NOT_FOUND when there is none. */
int attempt_open(const char *path, struct error *err);

/* Reads what a file in it begins with as text, at most size - 1 bytes. Returns how many, or -1 (errno) with "" as text. */
ssize_t attempt_read(int folder, const char *name, char *text, size_t size);

/* *path: that of its cgroup, the caller's; NULL: none is noted, or a part of its path only, as a power cut may leave it: that
 * would name one with processes and cgroups of others. Returns 0, or -1: what is noted cannot be read just now. */
int attempt_cgroup(int folder, char **path);

/* The claim, "PID START_TICKS\n": the file comes into being whole or not at all (written aside, then linked to its name, which
 * fails if the name is taken), and is durable on return, folder and parent folder included. Returns 0; -1 with ERR_CONFLICT
 * when it was there. */
int claim_create(int folder, struct proc_id self, struct error *err);
/* A file of that form: the claim, or the pid of an MPS control daemon. 1: *id is filled; 0: there is no such file; -1:
 * error. */
int claim_read(int folder, const char *name, struct proc_id *id, struct error *err);

#endif
