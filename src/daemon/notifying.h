/* SPDX-License-Identifier: MIT
 *
 * Notices to submitters (--notify): a mail, a web hook, or a program of theirs, sent by a process with their rights and never
 * with radd's (`radd --notify`), which has a deadline. Told after the commit, once; one that is under way when radd is killed
 * may be lost: what happened is in the history.
 *
 * The first goes at once. While more come for the same place they are gathered into one, after half a minute, a minute, up to
 * ten, so that an array of a thousand is some ten mails.
 */
#ifndef RAD_DAEMON_NOTIFYING_H
#define RAD_DAEMON_NOTIFYING_H

#include "task/task.h"

#include <uv.h>

struct names;
struct notifying;

struct notifying *notifying_create(uv_loop_t *loop, const char *program, struct names *names);
/* Frees itself once the loop has closed its handle. What was not sent is not. Takes NULL. */
void notifying_destroy(struct notifying *n);

/* An event of a task, not committed yet: what its submitter wants of it is kept. */
void notifying_note(struct notifying *n, const struct event *ev, const struct task *t);
/* After the commit. */
void notifying_work(struct notifying *n);

/* The worker's main: reads {"to", "notices"} and sends them as the user that it runs as. Writes nothing when that went well,
 * else why not. Returns its exit code. */
int notifying_worker(void);

#endif
