/* SPDX-License-Identifier: MIT
 *
 * A queue of files: a folder on a shared file system, from which pilots (radds inside batch allocations, one a node) take
 * tasks. It outlives all of them, and nobody serves it: every operation here is some calls on files, made by whoever wants it
 * done.
 *
 *	DIR/spool		{"format","mark","release"}: what this is
 *	DIR/jobs/12/job		what was submitted: spec and environment; never changes
 *	DIR/jobs/12/t.1 t.2 ...	versions of the task's record; of an array's element 3: 3.1 3.2 ...
 *	DIR/jobs/12/g.1 g.2 ...	of an array with a limit: which claims have its places
 *	DIR/live/12  12_3.7	jobs, and elements that were put back, that may have something to do
 *	DIR/pilots/ID/pilot	who it is; `status` beside it: what it does, and its heartbeat
 *	DIR/pilots/ID/kept	the same as `pilot`: a pilot of an older release that cannot read some of its tasks takes that one away
 *	DIR/tmp/		what is being written
 *
 * **One rule keeps it right: a change is the next version.** Whoever wants to change a task has read version n of its record
 * and writes n + 1, under a name that only one can make (link(2) of a complete, synced file). Of two that want to claim a
 * task, or one that claims and one that cancels it, one makes the name, and the other finds it made, reads, and decides anew.
 * There is no lock that could be lost or left behind, nothing is ever overwritten, and a process that is killed at any moment
 * has made a version or has not. Version 0 is the submission.
 *
 * NFS may answer a link that was made with "exists", when the first answer was lost: the count of links of the file that was to
 * be linked tells. A listing may be old: then the version that is wanted is there already, and nothing has happened.
 *
 * No times of two machines are compared. Times in records are for people; heartbeats are counters, and whoever looks measures
 * with a clock of his own how long one has stood.
 */
#ifndef RAD_SPOOL_SPOOL_H
#define RAD_SPOOL_SPOOL_H

#include "base/error.h"
#include "task/task.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SPOOL_FORMAT 1			/* of a queue, and of its records */
/* Of a submission that no release before may begin, since it would not see to what it waits for, or to its limit. */
#define SPOOL_FORMAT_WAITS 2
#define SPOOL_NAME 96			/* names of pilots */
#define SPOOL_TEXT 400			/* texts for people */
#define SPOOL_MAX_VERSION 99999
#define SPOOL_MAX_GATE 99999999	/* of an array's places: one for each claim of each of its elements */
#define SPOOL_MAX_JOB 99999999u
#define SPOOL_MAX_PLACES 100000		/* of an array's limit */

struct spool;

/* Whether what cannot be read was damaged, or put there by hand, and so is no more readable later. */
static inline bool spool_is_damage(const struct error *why) { return why->code == ERR_CORRUPT || why->code == ERR_INVALID; }

/* Opens the queue in that folder; `create`: makes it where there is nothing yet, or an empty folder. Refused with one line: a
 * folder with other things in it, of another user, that others may write to, of a newer release, and where it is made, a file
 * system without exclusive names. */
struct spool *spool_open(const char *dir, bool create, struct error *err);
void spool_close(struct spool *s);
/* Its path, absolute; its mark, 16 hex digits that tell it from others. Borrowed. */
const char *spool_dir(const struct spool *s);
const char *spool_mark(const struct spool *s);
/* Whether the file system does what all this rests on: names that one process alone can make, of files and of folders, and
 * syncs.
 * 0; or -1 with what it does not, and where a queue may be put instead. */
int spool_probe(const struct spool *s, struct error *err);

/* ---- jobs ---- */

/* A new job, on disk with all that belongs to it when this returns; its number in *job. `format`: SPOOL_FORMAT, or
 * ..._WAITS. */
int spool_submit(const struct spool *s, int format, const json_t *spec, const json_t *env, uint32_t *job,
		 struct error *err);
/* {"spec", "environ", "time"}: a new reference. ERR_NOT_FOUND: there is no such job; ERR_CONFLICT: it is of a
 * newer release. Where `env` is false, without "environ". */
json_t *spool_job(const struct spool *s, uint32_t job, bool env, struct error *err);
/* What is in the job's folder is asked of the server anew. A client of NFS remembers for up to a minute that a name was not
 * there, unless its folder is opened: then it asks whether that has changed. */
void spool_ask_server(const struct spool *s, uint32_t job);
/* The highest number given out; 0: none. */
uint32_t spool_last_job(const struct spool *s);

/* Calls `each` with every job that may have something to do, once each, in no order. */
int spool_live(const struct spool *s, void (*each)(void *ctx, uint32_t job), void *ctx, struct error *err);
/* A number that changes with every change in the job's folder, and seldom else; 0: there is none. */
uint64_t spool_stamp(const struct spool *s, uint32_t job);
/* Calls `each` with every task of that job of which there is a version, and the highest. Others are as they were submitted. */
int spool_versions(const struct spool *s, uint32_t job, void (*each)(void *ctx, task_id id, unsigned version), void *ctx,
		   struct error *err);
/* Of a job whose tasks have all ended: takes it off the list of live ones. `ended`: says of a task which version it ended with,
 * 0: it has not. A task that is put back meanwhile stays. */
void spool_tidy(const struct spool *s, uint32_t job, unsigned (*ended)(void *ctx, task_id id), void *ctx);

/* ---- records ---- */

enum spool_state {
	SPOOL_PENDING,
	SPOOL_HELD,
	SPOOL_CLAIMED,		/* a pilot has it; whether it runs already is `started` */
	SPOOL_ENDED,		/* `end` says how */
	SPOOL_BROKEN,		/* its last version cannot be read: `text` says why; nobody claims it */
};

/* What a person wants of a task that a pilot has, who sees to it. */
enum spool_wish { SPOOL_WISH_NONE, SPOOL_WISH_CANCEL, SPOOL_WISH_REQUEUE, SPOOL_WISH_HOLD };

struct spool_record {
	unsigned version;		/* 0: as it was submitted */
	char event[24];			/* what made this version: "claimed" */
	char by[SPOOL_NAME];		/* who: a pilot, or user@host */
	int64_t time_ms;		/* wall clock of who wrote it; for people */
	enum spool_state state;
	enum spool_wish wish;
	char pilot[SPOOL_NAME];		/* who has it, or had it last; "" */
	unsigned claim;			/* the version with which that pilot claimed it */
	bool started;
	enum task_state end;		/* of one that ended */
	unsigned claims, cuts;		/* how often it was claimed; cut off in a row, without having saved */
	double ran_s;			/* running time of earlier claims */
	char text[SPOOL_TEXT];		/* for people: why */
	json_t *task;			/* what the pilot's radd said of it last, as `rad show --json`; owned, may be NULL */
};

const char *spool_state_name(enum spool_state state);

/* The record as it is now. Looks from version `from` on (0: from the submission), which is known to be there. A client of NFS
 * may answer from its memory, and what is newest be a minute old: spool_ask_server first, where that matters. A record that
 * cannot be read is SPOOL_BROKEN, and no error. Overwrites *r; spool_record_clear it. */
int spool_read(const struct spool *s, task_id id, unsigned from, struct spool_record *r, struct error *err);
/* Exactly that version. ERR_NOT_FOUND: there is none. */
int spool_read_version(const struct spool *s, task_id id, unsigned version, struct spool_record *r, struct error *err);
void spool_record_clear(struct spool_record *r);
/* Copies all but `task`, which becomes NULL: what the next version begins from. */
struct spool_record spool_record_next(const struct spool_record *r, const char *event, const char *by);

/* Makes *r the version that follows r->version, and counts that up. 0: it is on disk; 1: somebody else made that version
 * first, or this one cannot be seen to be ours: read again; -1: nothing was made, or it is not known (ERR_UNAVAILABLE): read
 * again. */
int spool_change(const struct spool *s, task_id id, struct spool_record *r, struct error *err);
/* The same for a task that ended: keeps it among the live ones. */
int spool_revive(const struct spool *s, task_id id, struct spool_record *r, struct error *err);

/* From the text of a version; false with r->text saying what is wrong. For tests: what hostile files come to. */
bool spool_parse_record(const char *text, size_t len, struct spool_record *r);

/* ---- arrays with a limit ---- */

/* A claim that has one of the array's places, from before it is made. It is over when the element's version `claim` is there,
 * and that does not hold the element any more, or never did. */
struct spool_place { uint32_t element; unsigned claim; };
struct spool_gate { unsigned version; struct spool_place *places; size_t n; bool broken; };

/* The places as they are now; `from` as in spool_read. One that cannot be read is `broken`, and no error.
 * spool_gate_clear it. */
int spool_gate_read(const struct spool *s, uint32_t job, unsigned from, struct spool_gate *g, struct error *err);
/* Makes *g the version that follows g->version: as spool_change. */
int spool_gate_change(const struct spool *s, uint32_t job, struct spool_gate *g, struct error *err);
void spool_gate_clear(struct spool_gate *g);
/* From its text; false: it is broken. For tests. */
bool spool_parse_gate(const char *text, size_t len, struct spool_gate *g);

/* ---- what is left over ---- */

/* Removes what was begun in tmp/ more than `age_s` ago, by the file system's own time, and not finished. Returns how many; -1:
 * it could not be tried. */
int spool_clean(const struct spool *s, int64_t age_s, struct error *err);

/* ---- pilots ---- */

/* Who it is is written once; its status again and again. Both are JSON objects of the pilot's own. */
int spool_enter(const struct spool *s, const char *pilot, const json_t *who, struct error *err);
int spool_status(const struct spool *s, const char *pilot, const json_t *status, struct error *err);
/* {"who", "status"}: a new reference; NULL: it is not there, or cannot be read. */
json_t *spool_pilot(const struct spool *s, const char *pilot);
/* A new list of their names. */
json_t *spool_pilots(const struct spool *s);
/* It has no tasks any more. */
void spool_leave(const struct spool *s, const char *pilot);

#endif
