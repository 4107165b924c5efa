/* SPDX-License-Identifier: MIT
 *
 * What the files of this folder share. Who changes what:
 *	tasks.c		the table of tasks, jobs and their arrays, dependencies; every event goes through core_emit
 *	estimates.c	what tasks are expected to need, what ended ones taught
 *	gpus.c		slots: readings, windows, ledgers, meters
 *	tenants.c	what tasks do to each other
 *	schedule.c	requests, kept GPUs, placements, why
 *	planning.c	plans of what starts where
 *	ending.c	exits, cohorts, verdicts
 *	view.c		JSON, changes nothing
 */
#ifndef RAD_CORE_PRIVATE_H
#define RAD_CORE_PRIVATE_H

#include "account/account.h"
#include "base/idmap.h"
#include "core/core.h"
#include "map/ledger.h"
#include "queue/queue.h"
#include "queue/waiting.h"

/* A running attempt. Lives from EV_PLACED to EV_ENDED. */
struct run {
	struct task *t;
	uint32_t slots[SPEC_MAX_GPUS];
	unsigned n_slots;
	struct meter meter;
	int64_t placed_ms;		/* mono */
	int64_t active_since_ms;	/* mono, first sample with a process of its own; 0: none yet */
	bool warm, unknown;		/* unknown: placed without an estimate */
	bool had_neighbours;
	bool signalled;			/* the warning signal was sent */
	int64_t noted_ms;		/* mono of the last EV_MEASURED */
	struct share_task known;	/* what runs before it did alone; NaN: not known */
	/* Set once the processes have ended and the verdict is still open. */
	bool exited;
	int64_t exit_ms;		/* mono */
	struct exit_report report;
};

#define LOW_WATER_MS 30000	/* the lowest free memory is kept for this and the interval before it */

/* One GPU or MIG instance. Slots are never reused: a device that went away stays known by its UUID. */
struct slot {
	uint32_t number;		/* its place in core.slots */
	bool changed;			/* since its place in core.gpus was filled */
	struct gpu_reading r;		/* the last one */
	int64_t read_ms;		/* mono of the last good reading */
	bool drained;
	struct window *window;
	struct ledger ledger;
	struct run **runs;		/* attempts whose processes run there */
	size_t n_runs, cap_runs;
	struct map_tenant *tenants;	/* they as the map sees them, since the slot was filled */
	size_t n_tenants, cap_tenants;
	double *speeds;			/* at which they ran up to speeds_ms (mono) */
	size_t n_speeds, cap_speeds;
	int64_t speeds_ms;
	task_id kept_for;
	double energy_j;		/* of the reading before, NaN: none */
	uint64_t low_mib[2];		/* lowest free memory: of the interval before, of this one */
	int64_t low_interval;		/* counted from the clock's zero */
	bool in_snapshot;		/* it was in the last one */
	/* What the processes on it held in the snapshot being read. */
	struct slot_seen { task_id task; uint64_t mib; uint32_t procs; } *seen;
	size_t n_seen, cap_seen;
	uint64_t foreign_mib, mps_mib;
	struct proc_reading *procs;	/* of the last snapshot, with `claimed` set to the owner */
	size_t n_procs, cap_procs;
	/* Recent deaths under MPS, for cohorts. */
	struct { task_id task; int64_t placed_ms, ms; } deaths[8];
	unsigned n_deaths;
};

/* An array job: its elements beyond the limit are parked here, not queued. */
struct job {
	uint32_t limit, active;
	struct task **parked;	/* ascending by index from `first` */
	size_t first, n, cap;
};

struct core {
	struct core_config config;
	struct core_ops ops;

	struct idmap tasks;	/* task_id -> struct task */
	struct idmap runs;	/* task_id -> struct run */
	struct idmap users;	/* uid + 1 -> size_t, how many live tasks he has */
	struct idmap jobs;	/* job number -> struct job, arrays with a limit only */
	struct history *history;
	const struct estimator *estimators;	/* the table that is asked */
	struct estimator one_estimator[2];	/* where it has one row only */
	struct idmap questions;	/* number -> struct question: slow estimators that are being asked */
	struct question *last_question;	/* the newest, while it is open */
	int64_t n_asked;
	struct queue *queue;	/* eligible pending tasks */
	struct waiting *waiting;	/* those whose dependencies are not met */
	size_t by_state[TASK_STATE_COUNT];
	struct idmap alive;	/* job number -> how many of its tasks are alive, as a number in the pointer */
	size_t n_unjudged;	/* runs that ended and whose verdict is open */
	bool slow_limits;	/* a task had a limit on its slow-down */
	bool limits;		/* a running task may have a time limit */

	struct idmap by_uuid;	/* core_hash(UUID) -> struct slot */
	struct slot **slots;
	size_t n_slots, cap_slots;
	uint64_t largest_gpu_mib;
	char gpu_name[64];	/* model of the GPUs; "": none was read yet */
	bool gpus_differ;	/* there are several models */
	bool mps;		/* MPS servers can be had on this machine */

	uint32_t turn;		/* round robin */
	task_id keeping;	/* the recovering task that GPUs are kept for */
	int64_t keep_since_ms;
	task_id head;		/* first in line of the main queue, unless the order is fifo; 0: none */
	task_id passed;		/* the last head that did not fit; it stays so while others come before it and are placed */
	int64_t passed_since_ms;	/* mono */
	bool passed_enough;	/* for pass_max: GPUs are kept for it */
	struct planning *plan;	/* under ORDER_PLAN; NULL: none was made yet */
	bool plan_stale;	/* a task came, ended or changed since, or none was made yet */
	double typical_s;	/* mean work of tasks that completed here, the last hundred or so */
	unsigned typical_n;
	bool dirty;		/* something changed since the last pass */
	bool snapshot_seen;
	task_id blocked_at;	/* head of the main queue that did not fit in the last pass; 0 also when it changed since */
	/* Kept from pass to pass: only slots that changed are filled anew. */
	struct map_gpu *gpus;
	struct map_finding *findings;
	size_t cap_scratch;
	bool gpus_changed;	/* since the last pass */
	uint32_t *read;		/* slot of each GPU of the snapshot being read */
	size_t cap_read;
};

/* tasks.c: applies, counts, and tells the wiring. `ev->task` and time are set by the caller. */
void core_emit(struct core *c, struct task *t, struct event *ev);
/* Puts a pending task where it belongs: queue, parked, or nowhere (held, waiting). */
void core_enqueue(struct core *c, struct task *t);
/* FNV-1a of a text; never 0. */
int64_t core_hash(const char *text);
/* After EV_ENDED: frees the run; queues, parks or drops the task. */
void core_after_end(struct core *c, struct task *t, struct now now);

/* estimates.c. A task is estimated as soon as it exists; one whose estimator is slow is not yet when this returns:
 * core_estimated will put it into the queue. */
void core_estimate(struct core *c, struct task *t, struct now now);
/* Before it is placed: again, if something was learnt of its signature since. */
void core_refresh_estimate(struct core *c, struct task *t, struct now now);
/* Of a task that is not submitted. Slow estimators are not asked. */
void core_preview_estimate(const struct core *c, const struct spec *s, struct estimate_result *out);
/* Its last attempt ended. */
void core_learn(struct core *c, const struct task *t, struct now now);
void core_free_questions(struct core *c);

/* gpus.c */
struct slot *core_slot(const struct core *c, const char *uuid);
struct run *core_run(const struct core *c, task_id id);
/* Makes the run of the task's last attempt and puts it on its slots. */
struct run *core_attach(struct core *c, struct task *t, struct now now);
/* Something of a running task changed that counts for others on its GPUs. */
void core_touch(struct core *c, const struct task *t);
/* Its processes are gone: off the slots; the ledger keeps the hold until a sample shows it. */
void core_detach(struct core *c, struct run *r, struct now now);
/* Where readings hold: its window, its low water and the meters of its runs come up to now. */
void core_hold_slot(struct core *c, struct slot *s, struct now now);
bool core_slot_stale(const struct core *c, const struct slot *s, int64_t mono_ms);
/* What a running attempt was seen to use so far. */
struct measured core_measured(const struct core *c, const struct run *r);
/* The lowest free memory on a slot in its last minute; UINT64_MAX: not known. */
uint64_t core_low_water(const struct slot *s);

/* tenants.c: what runs of its signature did alone on that model of GPU; NaN: not known. */
struct share_task core_known_load(const struct core *c, const struct task *t, const char *gpu_name);
/* Nothing is known of what the run does to its GPUs, and it was not there for long enough to be seen. */
bool core_unseen(const struct core *c, const struct run *r, struct now now);
/* A task has a limit on its slow-down. */
void core_limit_slowdown(struct core *c);
/* Whether anybody wants to know what tasks do to each other. */
bool core_predicts(const struct core *c);
/* How fast the run goes on that slot, relative to running alone, by what is known of those there. */
double core_speed(const struct core *c, struct slot *s, const struct run *r, struct now now);
/* Brings s->tenants up to now, none if nobody wants to know; returns whether they changed. */
bool core_fill_tenants(const struct core *c, struct slot *s);

/* schedule.c */
void core_schedule(struct core *c, struct now now);
struct map_request core_request(const struct core *c, const struct task *t, struct now now);
/* Brings c->gpus up to now; returns how many. */
size_t core_map_gpus(struct core *c, struct now now);
/* core_feasible, had it declared this much. */
int core_feasible_with(struct core *c, const struct spec *spec, uint64_t gpu_mem_mib, struct error *err);
/* Whatever GPUs are kept for that task are kept no longer. */
void core_give_up(struct core *c, task_id id);

bool core_try_request(struct core *c, struct task *t, const struct map_request *r, struct now now);

/* planning.c */
void core_free_plan(struct core *c);
/* A task completed whose work took this long alone; NaN: not known. */
void core_note_work(struct core *c, double work_s);
/* Says in the request where a plan has the task start; false: none has. */
bool core_planned(const struct core *c, struct map_request *r, struct now now);
/* There is a plan, and those who came since are not in it yet. */
bool core_plan_to_come(const struct core *c);
/* When a new plan may be made (mono), INT64_MAX: none is wanted. */
int64_t core_plan_due(const struct core *c, struct now now);
/* Plans if that is due, and starts what the plan has start now. */
void core_follow_plan(struct core *c, struct now now);

/* ending.c: verdicts whose waiting time is over. Returns the next mono time one is due, INT64_MAX if none. */
int64_t core_settle_exits(struct core *c, struct now now);

#endif
