/* SPDX-License-Identifier: MIT
 *
 * Notices (--notify) of tasks of a queue: the pilot that made the record which is told of sends it, by `radd --notify`, after
 * that record is on disk. So none is sent twice, and one is lost with a pilot that is killed just then. Of what a radd alone
 * sees (oom, slot, mem) the pilot's radd tells.
 */
#ifndef RAD_CLI_PILOT_NOTICE_H
#define RAD_CLI_PILOT_NOTICE_H

#include "spool/spool.h"
#include "task/spec.h"

struct pilot_notices;
struct pilot_notices *pilot_notices_create(void);
/* Sends what is left. Takes NULL. */
void pilot_notices_destroy(struct pilot_notices *n);

/* That record was made: it began, or ended. */
void pilot_notices_note(struct pilot_notices *n, const struct spec *s, task_id id, const struct spool_record *r);
/* The first goes at once; what comes for the same place within half a minute goes together. */
void pilot_notices_work(struct pilot_notices *n);

/* Of a task's words, those that the pilot's radd sees to: to be freed; NULL: none. */
char *pilot_notices_of_radd(const char *list);

#endif
