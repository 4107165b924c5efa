/* SPDX-License-Identifier: MIT
 *
 * Notices to submitters (--notify): a mail, a web hook, or a program of theirs, sent by a process with their rights and never
 * with radd's (`radd --notify`), which has a deadline, in a cgroup of that user's notices beside radd's.
 *
 * What waits is in the store, and goes when radd is started again. It is taken out there, and that is on disk, before it is
 * sent: so nothing is ever told twice, and lost is what the machine, or its sender, dies over. What is under way when radd ends
 * goes on without it. A day after it happened nothing is told any more: it is in the history.
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
struct store;
struct untold;

/* Takes over the notices that a former radd had not sent yet: they are sent after the next commit. */
struct notifying *notifying_create(uv_loop_t *loop, const char *program, struct names *names, struct store *store);
/* Frees itself once the loop has closed its handle. What was not sent yet is in the store. Takes NULL. */
void notifying_destroy(struct notifying *n);

/* An event of a task, not committed yet: keeps a notice of it, if its submitter wants one. */
void notifying_note(struct notifying *n, const struct event *ev, const struct task *t);
/* The same when the task comes near the host memory that it asked for. */
void notifying_note_memory(struct notifying *n, const struct task *t);
/* After the commit: sends the notices that the commit took out of the store, and takes the next ones out, for the commit that
 * follows. So none is sent twice. */
void notifying_work(struct notifying *n);

/* Those that were not sent. */
const struct untold *notifying_untold(const struct notifying *n);

/* The worker's main: reads {"to", "notices"} and sends them as the user that it runs as, or first becomes by the words UID GID.
 * Writes nothing when that went well, else why not, and, where only some were not sent, a line with the ids of their tasks, a
 * blank before and behind each. Returns its exit code. */
int notifying_worker(int argc, char **argv);

#endif
