/* SPDX-License-Identifier: MIT
 *
 * What a pilot knows of the tasks of its queue: read once, and again where something changed. It may be old: whatever is done
 * about a task is a change of its record, which fails where it was.
 */
#ifndef RAD_CLI_PILOT_KNOWN_H
#define RAD_CLI_PILOT_KNOWN_H

#include "base/error.h"
#include "spool/spool.h"
#include "task/spec.h"

struct pilot_known_job;

/* What pilot_after.c found of it, kept while nothing changes: in a queue of thousands all is asked about several times a
 * second, and of tasks that wait for each other in layers there are more ways than one could walk. */
struct pilot_known_found {
	unsigned at;			/* pilot_known_changes() then; 0: nothing was found yet */
	int is;
	size_t on;			/* which of its dependencies */
};

struct pilot_known_task {
	struct pilot_known_job *job;
	task_id id;
	struct spool_record record;	/* without `task` */
	unsigned refused;		/* the pilot's radd can never run it: said of this version, counted from 1; 0: it was not */
	struct pilot_known_found found;	/* of an element that waits for one of another array */
};

/* How many tasks of a job have come to what. */
struct pilot_known_sum { size_t n, begun, claimed, ended, completed; };

struct pilot_known_job {
	uint32_t number;
	struct spec *spec;		/* without its environment */
	struct pilot_known_task *tasks;
	size_t n;
	struct pilot_known_sum sum;	/* of all of its tasks */
	struct pilot_known_found found;	/* of all of its tasks */
	uint32_t earlier;		/* of a singleton: which one it waits for, found at ... */
	unsigned earlier_at;		/* as in pilot_known_found */
	uint64_t stamp;			/* of the folder, when it was read */
	int64_t looked_ms;		/* mono; when that was */
	bool live;			/* was listed by the last look */
	bool needed;			/* another one waits for it: it is kept after its end */
	unsigned first_look;		/* the number of the look that found it */
	unsigned gate;			/* the version of its places that was seen last, since ... */
	int64_t gate_ms, shut_ms;	/* mono; when that one was seen first; when there was none left; 0: never */
	int64_t unfit_ms;		/* mono; since when its first task has found no room here; 0: it was not tried */
};

struct pilot_known;
struct pilot_known *pilot_known_create(void);
void pilot_known_destroy(struct pilot_known *k);

/* Looks through the queue, and takes what has ended off the list of live jobs. */
int pilot_known_look(struct pilot_known *k, const struct spool *s, struct error *err);
/* How many jobs the last look found that are there and that it could not read, for now or for being of a newer release. */
size_t pilot_known_unread(const struct pilot_known *k);
/* The next look lists every job's folder, though nothing shows that it changed. */
void pilot_known_doubt(struct pilot_known *k);
/* Reads that task's record now. NULL: it is not there, or cannot be read. */
struct pilot_known_task *pilot_known_read(struct pilot_known *k, const struct spool *s, task_id id, struct error *err);
/* What was written just now. */
void pilot_known_set(struct pilot_known *k, task_id id, const struct spool_record *r);

/* That job, and that task; NULL: it is not known. */
struct pilot_known_job *pilot_known_job(const struct pilot_known *k, uint32_t number);
struct pilot_known_task *pilot_known_find(const struct pilot_known *k, task_id id);
/* The jobs one by one; *at is 0 before the first. NULL: no more. */
struct pilot_known_job *pilot_known_next(const struct pilot_known *k, size_t *at);
/* Whether all jobs that were submitted before that one are known: what a look found first, the next one has all earlier ones
 * of, if it could read all. */
bool pilot_known_since(const struct pilot_known *k, const struct pilot_known_job *j);

/* Another number after each change of what is known. Never 0. */
unsigned pilot_known_changes(const struct pilot_known *k);
/* Adds that record, of one task, to *sum; `by` 1, or -1 to take it away again. */
void pilot_known_add(struct pilot_known_sum *sum, const struct spool_record *r, int by);

/* Calls `each` with every task that has not ended; those that wait in the order in which they are to start. */
void pilot_known_each(struct pilot_known *k, void (*each)(void *ctx, struct pilot_known_task *t), void *ctx);
/* Pending ones in their order: *list (to be freed), returns how many. */
size_t pilot_known_pending(struct pilot_known *k, struct pilot_known_task ***list);

#endif
