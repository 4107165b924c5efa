/* SPDX-License-Identifier: MIT
 *
 * What survives: jobs (specs) and the event log of every task, in SQLite (WAL, synchronous=FULL, STRICT tables).
 * One transaction a loop turn: store_append only adds to it; nothing is told to anybody before store_commit returned 0.
 *
 *	jobs(job PRIMARY KEY, uid, gid, user, submit_ms, spec JSON, environ JSON, folded)
 *	events(seq PRIMARY KEY, task, t_ms, kind, body JSON)
 *	tasks(task PRIMARY KEY, uid, live, state, submit_ms, end_ms)	the index of the log, rebuilt from it when empty
 *	accounts(task PRIMARY KEY, ...), account_attempts(task, n, ...)	of those that ended, what accounts tell; rebuilt with `tasks`
 *	outcomes(seq PRIMARY KEY, told_ms, signature, gpu, ...)		what ended attempts taught: struct outcome, in order
 *	meta(key PRIMARY KEY, value)
 *	gpus(gpu PRIMARY KEY, uuid, ...)			whose means are kept
 *	series(t_s, gpu, step_s, ...)				means over time: of 10 s for a day, then of a minute, for 60 days
 *
 * `environ` is private: it is in no event and in no other column. One connection, one thread; the daemon holds store_lock.
 */
#ifndef RAD_STORE_STORE_H
#define RAD_STORE_STORE_H

#include "account/series.h"
#include "base/error.h"
#include "base/idmap.h"
#include "estimate/history.h"
#include "task/task.h"

#include <stdbool.h>
#include <stdint.h>

#define STORE_SCHEMA 12

struct store;

/* Makes DIR if need be (mode 0700) and takes its lock, so that one daemon at a time works on it. Returns the descriptor
 * (O_CLOEXEC; the lock ends when it and every fork's copy of it are closed), or -1: ERR_CONFLICT names the holder. */
int store_lock(const char *dir, struct error *err);
/* Whether a daemon works on it, as far as the caller may know. */
bool store_is_locked(const char *dir);

/* Opens or makes DIR/rad.db (mode 0600). Refuses a damaged one, one of a newer schema, another program's, and a folder that is
 * on a network file system or that others may write to; the error says what to do and nothing is overwritten. An older one is
 * migrated, after a copy was kept beside it as rad.db.vN. A torn WAL is cut after its last whole commit. */
struct store *store_open(const char *dir, struct error *err);
/* The same file for reading alone, by a process beside the daemon that has it open: nothing is checked, made or migrated, and
 * each task is read as it was committed last. Only the functions that load may be called. */
struct store *store_open_reader(const char *dir, struct error *err);
/* The store's mark: 16 random hexadecimal digits, made with it. A copy of the store has the same. */
#define STORE_MARK_LEN 17
const char *store_mark(const struct store *s);
/* Since when it has a mark (wall); 0: from the beginning. Stores made by earlier releases got theirs later. */
int64_t store_marked_ms(const struct store *s);
/* Takes NULL. What was not committed is gone. */
void store_close(struct store *s);

/* A new job number, which no committed job ever had, even if the store was moved away or replaced by an older copy: a file
 * beside the store bounds the numbers that were given out (`next-job`, decision 116). */
uint32_t store_next_job(struct store *s);

/* These add to the open transaction. Return 0, or -1: a failure dooms the transaction, and all that follow in it fail with the
 * same error. */
int store_add_job(struct store *s, uint32_t job, const struct spec *spec, int64_t submit_ms, struct error *err);
/* Replaces the job's spec, whose capture has come since. */
int store_set_spec(struct store *s, uint32_t job, const struct spec *spec, struct error *err);
/* The event, and the row of its task as it is after the event. */
int store_append(struct store *s, const struct event *ev, const struct task *after, struct error *err);
/* What an attempt taught, so that a start need not read the whole log to know it again. */
int store_add_outcome(struct store *s, const struct outcome *o, struct error *err);
/* Ends the transaction and waits for the disk. On failure everything since the last commit is rolled back, the store is as it
 * was then and can be used on (ERR_UNAVAILABLE: no room on the disk, or locked by another program). */
int store_commit(struct store *s, struct error *err);
/* Whether there is something to commit (or a doomed transaction to roll back). */
bool store_dirty(const struct store *s);

/* Replays tasks through task_apply and hands each over (`each` owns it), by id. A task whose log does not apply, or cannot be
 * read, is handed over with `broken` set to the reason, as far as it came, and does not hinder the others. Return non-zero
 * from `each` to stop; it may append and commit meanwhile. */
typedef int (*store_each)(void *ctx, struct task *t, const char *broken);
int store_load_live(struct store *s, store_each each, void *ctx, struct error *err);
/* One task, finished or not. ERR_NOT_FOUND; ERR_CORRUPT when its log does not apply. */
struct task *store_load_task(struct store *s, task_id id, struct error *err);
/* The same of one that has ended, as accounts have it: neither `environ` nor EV_MEASURED is read, of which a
 * long task has many. */
struct task *store_load_ended(struct store *s, task_id id, struct error *err);

/* Which finished tasks: those that ended in [from_ms, to_ms), of user `uid` (-1: all users). To split a millisecond in which
 * several ended: at from_ms from the id `from` on, at to_ms up to the one before `to` (0: none).
 * Specs come without `environ`, and EV_MEASURED is left out, since the end of the attempt has the same. `sums`: specs say only
 * whose the task was, unless it was not placed first of all, and estimates are left out, since nearly all the time of reading
 * goes into JSON. `brief`: of the task only what store_account_has is asked for, which is there in a row, ready to be read. */
struct store_span { int64_t from_ms, to_ms, uid; task_id from, to; bool sums, brief; };
/* Whether a member of the task object, as `members` of the protocol names it, is known of a task that was read as `brief`. */
bool store_account_has(const char *member);
/* The tasks of that span, oldest end first, then by id. */
int store_load_finished(struct store *s, const struct store_span *span, store_each each, void *ctx, struct error *err);
/* The tasks beside those of the span, as for sums: all others that were placed before on_to_ms and had not ended at
 * on_from_ms. */
int store_load_beside(struct store *s, const struct store_span *finished, int64_t on_from_ms, int64_t on_to_ms, store_each each,
		      void *ctx, struct error *err);
/* Calls `each` with the state of that task, finished or not, or of all elements of a job if `id` is the job's; not at all if
 * there is none. Reads an index and no log, so it may be asked of thousands. */
int store_states(struct store *s, task_id id, int (*each)(void *ctx, task_id id, enum task_state state), void *ctx,
		 struct error *err);
/* Whether the log of that task has more events than `most`. */
bool store_has_more_events(struct store *s, task_id id, unsigned most);
/* The event log of one task, in order. */
int store_load_events(struct store *s, task_id id, int (*each)(void *ctx, const struct event *ev), void *ctx,
		      struct error *err);

/* Folds what ended before that time, so that it takes less room: of jobs of which every task has ended, drops environments,
 * scripts, captures and summaries, and what was measured on the way. Accounts need none of it. `forget`: removes jobs that were
 * folded, from accounts as well; their numbers are not given out again. Each call looks at `most` tasks (64 at most) from where
 * the last one stopped; begin with at_ms and at 0. 1: that was all; 0: there may be more; -1: error. Part of the turn's
 * transaction. */
struct store_folding {
	int64_t before_ms;
	bool forget;
	bool purge;		/* remove at once, folded or not, jobs whose tasks all ended before that time */
	bool dry_run;		/* only count */
	bool one_user;		/* only jobs of `uid` */
	uid_t uid;
	/* Whether a waiting task depends on this one, which then stays. NULL: none does. */
	bool (*named)(void *ctx, task_id id);
	void *ctx;
	int64_t at_ms;
	task_id at;
	size_t tasks;		/* of `purge`, so far: removed, or would be */
	size_t kept;		/* the same: left, since they are named or their job is not due */
	uint32_t asked_job;	/* the store's own, within one call: the job of which job_due says whether all of it has ended */
	bool job_due;
};
int store_fold(struct store *s, struct store_folding *f, unsigned most, struct error *err);
/* When the oldest of the newest `most` ended tasks ended (wall). 0: there are fewer. */
int64_t store_kept_from(struct store *s, size_t most);
/* Whether the job was folded, so that it cannot be run again. */
bool store_is_folded(struct store *s, uint32_t job);

/* Drops outcomes: those told before from_ms, those beyond the newest `of_one` of their signature, and of the rest those beyond
 * the newest `most`. Goes from the newest to the oldest, a piece at each call; begin with an empty *t. Returns as
 * store_fold. */
struct store_trimming { int64_t below; size_t left; struct idmap *of_signature; };
int store_trim_outcomes(struct store *s, struct store_trimming *t, int64_t from_ms, unsigned of_one, unsigned most,
			struct error *err);
void store_trimming_clear(struct store_trimming *t);

/* Gives up to `most` unused pages back to the disk, and leaves some to be used again. (Files made by earlier releases cannot
 * shrink.) 1: nothing more to give; 0: there may be; -1: error. Part of the turn's transaction. */
int store_shrink(struct store *s, unsigned most, struct error *err);

/* The newest `most` outcomes, those told before from_ms left out, in the order in which they were told. */
int store_load_outcomes(struct store *s, int64_t from_ms, unsigned most, void (*each)(void *ctx, const struct outcome *o),
			void *ctx, struct error *err);

/* Small values that outlive a restart: "boot" (of the machine), "clock" (how the wall clock stands), "written_by" (version),
 * "store" (its mark, and since when), and what parts of radd keep, each under a word of its own: "drained:GPU-...",
 * "reserve:ID", "limit:UID", "used:UID", "notice:N", "epilog:N". */
int store_set_meta(struct store *s, const char *key, const char *value, struct error *err);	/* value NULL: removes it */
char *store_get_meta(struct store *s, const char *key);	/* free it; NULL if unset */
/* Calls `each` for those whose keys begin with `prefix`, in order of their keys (of the numbers, where they end in such), until
 * it returns non-zero. 0, or -1. */
int store_each_meta(struct store *s, const char *prefix, int (*each)(void *ctx, const char *key, const char *value), void *ctx,
		    struct error *err);

/* A GPU whose means over time are kept. mem_total_mib 0: not known. */
struct store_gpu { char uuid[GPU_UUID_LEN], name[64]; uint32_t index; uint64_t mem_total_mib; };
/* Adds means of a span of whole seconds. Replaces means of that GPU that begin at the same time. */
int store_add_means(struct store *s, const struct store_gpu *gpu, int64_t from_ms, int64_t to_ms,
		    const double values[SERIES_VALUES], struct error *err);
/* Joins means that begin in [from_ms, to_ms) into means of minutes, and drops those that began before keep_ms. */
int store_thin_means(struct store *s, int64_t from_ms, int64_t to_ms, int64_t keep_ms, struct error *err);
/* Calls `each` for means that begin in [from_ms, to_ms), oldest first. */
typedef void (*store_each_means)(void *ctx, const struct store_gpu *gpu, int64_t from_ms, int64_t to_ms,
				 const double values[SERIES_VALUES]);
int store_load_means(struct store *s, int64_t from_ms, int64_t to_ms, store_each_means each, void *ctx, struct error *err);

/* Whether there is more room on the store's disk than what is kept for events of tasks that were accepted already. */
#define STORE_MIN_ROOM_BYTES ((unsigned long long)16 << 20)
bool store_has_room(const struct store *s);

/* Opens a folder for a state, which has to be its owner's (or root's) alone: nobody else's, and not for others to write to.
 * Returns a descriptor, or -1; ERR_DENIED: it is another's. */
int store_open_place(const char *dir, struct error *err);

/* The kind of network file system that a folder is on ("NFS"), where no state may be kept; NULL: it is local, or that cannot be
 * told. Valid until the next call. */
const char *store_network_folder(const char *dir);
/* Whether what is written to a folder's file system gets there, however much room there is: not if it is mounted read-only, nor
 * if it stopped taking writes after an error. PASS where it cannot be told. */
enum store_writes { STORE_WRITES_PASS, STORE_WRITES_READ_ONLY, STORE_WRITES_HALTED };
enum store_writes store_writes(const char *dir);

#endif
