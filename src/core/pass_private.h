/* SPDX-License-Identifier: MIT
 *
 * The insides of the pass, for its own files alone, each using only those above it:
 *	pass_keep.c	GPUs kept for tasks that go first, and what they are promised
 *	pass_turns.c	turns at MPS servers that serve one user each
 *	pass_refused.c	what was refused: by what users may have, by kind of request, for want of GPUs in use, by task
 *	pass_place.c	what a task asks for, whether that fits, and where it goes
 *	pass_plan.c	plans of what starts where
 *	pass_cpu.c	tasks without GPUs
 *	pass.c		the order in which tasks are tried
 *
 * What a pass knows of the world are versions that others own: of the tasks, of the fleet (its slots, and what tasks need of
 * cores), of the fleet's shape (capacity and kind of GPUs, which are in use, settings, reservations) and of the estimates. What
 * it remembers itself is here. Each is forgotten by what it hangs on, and by no more, since a pass costs what it asks anew:
 *
 *	memory		says						until
 *	seen		a pass would place nobody			any version moves (their sum), pass_ask, or a time is over
 *	refused		that kind of request does not fit		the shape moves; only slots that moved since are asked
 *	tried		that task's request is of that kind		its record, what was learnt of its like, cores or the shape moves
 *	aside		those tasks lack GPUs (marked in the queue)	their record, the shape or the estimates move
 *	recovering,	who is the first of its queue, since when, and	it is placed, overtaken, left out, held or cancelled, or settings
 *	head		whether GPUs are kept for it			change, which the time of the recovering one outlasts; since when is
 *									in fair.h until it starts or waits no more
 *	vacated		for whom others make place, and where		timeslots.c says otherwise, or it waits no more
 *	turns		at which MPS servers a user waits		its user was not tried in a pass, it waits no more, settings change
 *	promise		when the head's GPUs are expected to be free	the head is asked again: in each pass
 *	plan		what starts where				tasks come, end or tell when, or it is broken (is_outdated)
 *	rr_next		under `rr`, the slot that is next		never
 *
 * `refused` and `tried` are two, since one kind is that of many tasks, and what a request is made of moves by other causes than
 * whether it fits. Others remember for the pass: each slot of the fleet for whom it is kept and whose turn it is, the host for
 * whom room is kept, and fair.h who insists. That one orders users, and may be another than the head: who is owed a start goes
 * before it.
 */
#ifndef RAD_CORE_PASS_PRIVATE_H
#define RAD_CORE_PASS_PRIVATE_H

#include "core/pass.h"
#include "map/plan.h"

#define REFUSED_PLACES 256	/* power of two; where a kind may be remembered: */
#define REFUSED_WAYS 4		/* in one of so many entries, so that kinds which fall together do not push each other out */
#define TRIED_PLACES 512	/* power of two; more than a pass goes by */
#define PASS_BEHIND 100		/* tasks after one that does not fit that are looked at in one pass */
#define PLAN_WAITING 64		/* waiting tasks of a plan, in the order of the queue */

/* What placement can tell requests apart by, where no GPU is kept for them and no plan has them. Zeroed before it is filled. */
struct kind {
	uint64_t claim_mib, need_mib, signature_key;
	uint64_t models;		/* which it takes, as a hash */
	double run_s;
	struct map_tenant self;
	unsigned gpus;
	enum share_mode share;
	uid_t uid;
	bool claim_is_declared, exclusive, cores_used_up;
};

/* A kind of request that did not fit when the fleet had that version. */
struct refused {
	struct kind kind;
	uint64_t serial;		/* of the entry: another one in its place has another */
	uint64_t version, shape;	/* of the fleet; version 0: not refused yet, shape 0: no entry */
	struct map_few few;		/* slots that fitted then, too few as they were */
	uint64_t asked;			/* the mark (pass.aside) under which it was asked whether it lacks GPUs: */
	bool lacks;
	enum { FEASIBLE_NOT_ASKED, FEASIBLE, FEASIBLE_NEVER } feasible;	/* whether GPUs here could ever run it */
};

/* A task that was tried and did not fit. */
struct tried {
	task_id task;			/* 0: none */
	uint32_t n_events;		/* of its record then */
	int64_t told_ms;		/* when something was learnt of its signature, as of then */
	uint64_t learnt;		/* version of the estimates at which that was still so */
	const struct refused *kind;	/* of its request, */
	uint64_t serial;		/* if that is its serial still */
	uint64_t cores;			/* fleet_cores_version then */
	struct fair_taken asks;
};

/* One that waits, as the plan has it. */
struct planned {
	struct plan_task p;
	uint32_t slots[SPEC_MAX_GPUS];
};

/* The plan that stands. */
struct planning {
	uint32_t slots[PLAN_GPUS];
	size_t n_gpus;
	size_t n_known, n_asked;	/* tasks whose time is known, of so many that it was to be of */
	struct planned waiting[PLAN_WAITING];
	size_t n_waiting;
	int64_t made_ms;		/* mono; 0: none was made yet */
	uint64_t as_of;			/* version of the tasks and of what they told, in sum, as of which it was made */
	uint64_t usable;		/* the GPUs of which it could be, as a number */
	bool broken;			/* since then other GPUs are kept, or one of it started elsewhere */
	bool other_gpus;		/* others are usable now */
};

/* GPUs on which a user's first waiting task goes before others who come after it. */
struct turn {
	task_id task;
	uid_t uid;
	uint32_t slots[SPEC_MAX_GPUS];
	unsigned n;
	bool taken;			/* in this pass, or in the last one where none is under way */
};

#define PASS_NOT_YET INT64_MAX

/* The first of a queue that did not fit: it is passed, and then insists (the states are in pass.h). */
struct first {
	task_id task;			/* 0: there is none */
	int64_t passed_ms;		/* mono; since when it is passed, as its user's record had it when it became the first */
	int64_t insists_ms;		/* since when GPUs are kept for it; PASS_NOT_YET: it is passed */
};

struct pass {
	const struct core_config *config;
	const struct core_ops *ops;
	struct fair *fair;
	struct tasks *tasks;
	struct fleet *fleet;
	struct estimates *estimates;
	struct host *host;

	uint64_t seen, cpu_seen;	/* of all outside, as of the end of the last pass; of the tasks, when CPU tasks were placed last */
	bool asked, cpu_asked;		/* for another one, whatever the versions say (pass_ask) */
	int64_t ran_ms;			/* mono; the last one */

	uint32_t rr_next;		/* under `rr`: the slot that is next */
	struct first recovering, head;	/* of the recovery queue and of the main queue */
	struct vacated_list vacated;	/* GPUs are kept for these tasks too */

	bool some_out_of_use;		/* GPUs are drained, silent or reserved, in the pass under way */
	bool all_out_of_use;		/* drained or silent */
	uint64_t aside;			/* mark of tasks that lack GPUs: moves with what that hangs on; 0: they are asked each time */
	struct { bool known; int64_t ms; } promise;	/* under fifo, when those are expected to be free (mono); 0: nobody can tell */

	struct turn *turns;		/* one for each user who waits for another's MPS server */
	size_t n_turns, cap_turns;

	struct planning plan;

	struct refused refused[REFUSED_PLACES][REFUSED_WAYS];
	uint64_t n_kinds;		/* entries that were ever made there */
	struct tried tried[TRIED_PLACES];
	uint32_t *moved;		/* scratch: slots */
	size_t cap_moved;
};

/* All GPUs as of now, under the policy. */
static inline struct map_scene pass_scene(struct pass *p, struct now now)
{
	const struct map_gpu *gpus = fleet_gpus(p->fleet, now);
	return (struct map_scene){ &p->config->map, gpus, fleet_size(p->fleet), &p->rr_next };
}

/* Something that was kept is given up, or came due: what did not fit may fit now, though no version moved. */
static inline void pass_ask(struct pass *p)
{
	p->asked = p->cpu_asked = true;
}

/* pass_keep.c; pass_vacate and the like too */
bool pass_keeps_anything_for(const struct pass *p, task_id id);
/* What is kept for the recovering task or the head is free for others now, but for what is vacated. */
void pass_let_go(struct pass *p, task_id id);
/* The first of that queue (of `p`) from now on. */
void pass_lead(struct pass *p, struct first *f, task_id id);
/* The first recovering task does not fit. What need not be alone is passed for pass_max, as heads are. */
void pass_note_recovering(struct pass *p, const struct map_request *r, struct now now);
/* It insists: keeps n GPUs that it could have free for it, those with the fewest tasks (ties: the lowest slot). */
void pass_keep_for_recovering(struct pass *p, const struct map_request *r, struct now now);
bool pass_kept_long_enough(const struct pass *p, task_id id, struct now now);
/* The head did not fit. Keeps what it needs once it was passed for long enough, and others where some of that went away. */
void pass_keep_for_head(struct pass *p, const struct task *t, const struct map_request *r, struct now now);
/* Whether that task, begun now, is over before what the head is promised. */
bool pass_ends_in_time(struct pass *p, const struct task *t, struct now now);
/* It is the head, and insists. */
bool pass_is_first(const struct pass *p, task_id id);
/* When the times of keeping and passing are over (mono), INT64_MAX: nothing is kept; notes what is over now. */
int64_t pass_watch_keeping(struct pass *p, struct now now);

/* pass_turns.c */
/* A pass begins: turns are taken anew, by those who still wait, as it comes to them. */
void pass_begin_turns(struct pass *p);
/* The task was tried and is not placed. */
void pass_take_turn(struct pass *p, const struct task *t, const struct map_request *r, struct now now);
/* It was placed, or waits no more. */
void pass_end_turn(struct pass *p, task_id id);
void pass_forget_turns(struct pass *p);

/* pass_refused.c; pass_allowance, pass_would_take and pass_lacks_gpus too */
/* What keeps its user from having it now; *never: at any time. */
enum allowance_kind pass_refused(const struct pass *p, const struct map_request *r, bool *never);
/* A pass begins. */
void pass_note_out_of_use(struct pass *p, struct now now);
/* The entry of that kind as of the fleet's shape, a new one where there was none. */
struct refused *pass_refused_kind(struct pass *p, const struct map_request *r);
/* The task was tried with that request, like any other of its kind, and did not fit. */
void pass_note_refused(struct pass *p, const struct task *t, const struct map_request *r, struct now now);
/* Whether it was, and to try it now would come to the same. False: it must be tried. */
bool pass_is_refused_still(struct pass *p, const struct task *t, struct now now);

/* pass_uncaptured.c */
/* Where nobody waits for a GPU and some are idle, tasks begin there that wait for their captures. */
void pass_begin_uncaptured(struct pass *p, struct now now);

/* pass_place.c */
/* Whether the task's user may have it now. If not, the user is left out of the rest of the walk. */
bool pass_may_try(struct pass *p, struct task *t, struct queue_walk *w, struct now now);
/* The plan's entry of that task, if there is one. */
const struct planned *pass_planned(const struct pass *p, task_id id);
/* Places it there: EV_PLACED. It is in the queue. */
void pass_place_there(struct pass *p, struct task *t, const struct map_request *r, const struct placement *where,
		      struct now now);
/* Places the task if its request fits. */
bool pass_try(struct pass *p, struct task *t, const struct map_request *r, struct now now);
/* A task that nothing here can run now (a GPU went away since it was submitted) must not block the others. */
bool pass_hopeless(struct pass *p, const struct task *t, const struct map_request *r, struct now now);

/* pass_plan.c */
/* There is a plan, and those who came since are not in it yet. */
bool pass_plan_to_come(const struct pass *p);
/* When a new plan may be made (mono), INT64_MAX: none is wanted. */
int64_t pass_plan_due(const struct pass *p, struct now now);
/* GPUs may come back, or go, though no task did: then the plan that stands is made anew. */
void pass_watch_gpus(struct pass *p, struct now now);
/* Plans if that is due, and starts what the plan has start now. */
void pass_follow_plan(struct pass *p, struct now now);

/* pass_cpu.c */
/* Places CPU tasks, if tasks moved since or pass_ask was called. Those that go to GPUs come first. */
void pass_place_cpu_tasks(struct pass *p, struct now now);

#endif
