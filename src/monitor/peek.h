/* SPDX-License-Identifier: MIT
 *
 * What a process's own memory says of it: its command line and its environment. To read that is to wait for that memory, and
 * its user can have it hang for as long as he likes: where one of its threads waits for a page of a file system that does not
 * answer, and another for what that one holds. So each is read in a thread, for which is waited so long and no longer.
 */
#ifndef RAD_MONITOR_PEEK_H
#define RAD_MONITOR_PEEK_H

#include "device/reading.h"

#define PEEK_CMDLINE 4096	/* bytes of a command line that are looked at */

struct peek_found {
	task_id claimed;		/* by RAD_TASK_ID; 0: by none */
	char token[PROC_TOKEN_LEN];	/* RAD_TASK_TOKEN, if it may be one */
	size_t n;			/* of the command line, as /proc has it; a 0 follows */
	char cmdline[PEEK_CMDLINE + 1];
};

struct peek;

struct peek *peek_create(void);
/* What hangs is left to hang. Takes NULL. */
void peek_destroy(struct peek *p);

/* Fills *out, with nothing where that cannot be had in time: then no other process of `uid` is read until that one answers, and
 * nobody's while there are too many such. Returns whether it could be had. */
bool peek_at(struct peek *p, pid_t pid, uid_t uid, struct peek_found *out);

#endif
