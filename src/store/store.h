/* SPDX-License-Identifier: MIT
 *
 * What survives: jobs (specs) and the event log of every task, in SQLite (WAL, synchronous=FULL, STRICT tables).
 * One transaction a loop turn: store_append only adds to it; nothing is told to anybody before store_commit returned 0.
 *
 *	jobs(job PRIMARY KEY, uid, user, gid, submit_ms, spec JSON, environ JSON)
 *	events(seq PRIMARY KEY, task, t_ms, kind, body JSON)
 *	tasks(task PRIMARY KEY, job, uid, live, state, submit_ms, end_ms)	the index of the log, rebuilt from it when missing
 *	meta(key PRIMARY KEY, value)
 */
#ifndef RAD_STORE_STORE_H
#define RAD_STORE_STORE_H

#include "base/error.h"
#include "task/task.h"

#include <stdbool.h>
#include <stdint.h>

#define STORE_SCHEMA 1

struct store;

/* Opens or makes DIR/rad.db. Refuses a corrupt one, one of a newer schema, and one on a network file system; the error says
 * what to do and nothing is overwritten. Migrates an older one (a copy is kept beside it). */
struct store *store_open(const char *dir, struct error *err);
void store_close(struct store *s);

/* A new job number, never used before. */
uint32_t store_next_job(struct store *s);
int store_add_job(struct store *s, uint32_t job, const struct spec *spec, int64_t submit_ms, struct error *err);
/* The event, and the task's row as it stands after it. */
int store_append(struct store *s, const struct event *ev, const struct task *after, struct error *err);
/* Ends the transaction and waits for the disk. On failure everything since the last commit is rolled back. */
int store_commit(struct store *s, struct error *err);
bool store_dirty(const struct store *s);

/* Replays every live task (or, with `id`, one task, finished or not) through task_apply and hands it over. A task whose log does not
 * apply is handed over with `broken` set to the reason, as far as it came. Return non-zero from `each` to stop. */
typedef int (*store_each)(void *ctx, struct task *t, const char *broken);
int store_load_live(struct store *s, store_each each, void *ctx, struct error *err);
struct task *store_load_task(struct store *s, task_id id, struct error *err);

/* Finished tasks that ended in [from_ms, to_ms), oldest first; uid -1: all users; `limit` 0: all. */
int store_load_finished(struct store *s, int64_t from_ms, int64_t to_ms, int64_t uid, unsigned limit, store_each each, void *ctx,
			struct error *err);
/* The states of all elements of a job, finished ones too. */
int store_job_states(struct store *s, uint32_t job, int (*each)(void *ctx, task_id id, enum task_state state), void *ctx,
		     struct error *err);
/* The event log of one task, in order. */
int store_load_events(struct store *s, task_id id, int (*each)(void *ctx, const struct event *ev), void *ctx, struct error *err);

/* Small values that outlive a restart: "drained:GPU-...", "turn". */
int store_set_meta(struct store *s, const char *key, const char *value, struct error *err);	/* value NULL: removes it */
char *store_get_meta(struct store *s, const char *key);	/* free it; NULL if unset */
int store_each_meta(struct store *s, const char *prefix, int (*each)(void *ctx, const char *key, const char *value), void *ctx);

#endif
