/* SPDX-License-Identifier: MIT
 *
 * Placement: (request, GPUs as they are now, policy) -> GPUs, or a reason in numbers. Pure.
 *
 * A policy is a filter and a rank (section 6.2.2). The filter asks the same questions of every GPU, in the order of
 * MAP_REASONS, and the first "no" is the reason shown; the rank picks among those that pass; ties go to the lowest index,
 * then the first in the list. Callers list GPUs by index: `rr` takes turns in the order of the list.
 *
 * Idle: no task of ours, no memory still to be freed, at most 1 GiB foreign. A GPU with more foreign memory is never idle,
 * and is shared only with `foreign_share`.
 *
 * Memory
 *	shared		available >= claim + slack
 *	idle		available >= claim; slack is for neighbours, and there are none
 *	no estimate	available >= min_free; where others without one are not yet warm, for each and for it a third of the GPU,
 *			or what so many usually take together
 *	cut		An estimate is a guess: where no GPU has that much, it is cut to what an idle GPU has that is as
 *			large as any that answers (for n GPUs: as the n-th largest; within 5 %), and the task then has the GPU
 *			alone for life. So is min_free on any idle GPU. GPUs where the claim fits come first. A declaration is
 *			not cut: the task waits, or is refused at submission.
 *
 * Modes, one a GPU at a time, and one for all GPUs of a placement
 *	alone for life	(the task or its administrator says so, or `exclusive`): idle GPUs, and nobody joins: SHARE_NEVER
 *	auto		on an idle GPU SHARE_MPS where the policy says so and the GPU can, else SHARE_STREAMS; on a shared one
 *			the mode it has, but never MPS against the policy
 *	mps, streams, mig	that or wait
 *	MPS		for clients of one server: that of all users, or one of a single user's (`mps_together`), and for tasks of
 *			any number of GPUs (without `mps_multi_gpu`: of one). Where servers are users' own, a GPU on which
 *			another's runs may be the turn of one who waits for it: then nobody but him starts there
 *	MIG instances	for tasks of one GPU, one each, that say auto or mig or are alone for life: SHARE_MIG
 *
 * Load counts where something runs (under `gain` only beside a task not seen yet): SMACT under MPS, GRACT under streams; where
 * it is not known, the number of tasks does.
 */
#ifndef RAD_MAP_MAP_H
#define RAD_MAP_MAP_H

#include "base/error.h"
#include "monitor/window.h"
#include "share/share.h"
#include "task/task.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* Slow-down and gain. Speeds come from share_speeds, over the loads that the tasks there and the newcomer have alone.
 * Slow-down: a task with a limit of X may not become slower than 1/X of its speed alone; the policy's limit is for tasks
 * without one of their own. Gain: the part of the newcomer's work that is gained, less what the others lose; 1 on an idle GPU.
 * It is counted in what the tasks compete for, SM activity under MPS and GPU time under streams:
 *	(sum of speed x load afterwards - sum of speed x load before) / load of the newcomer
 * Under `gain` it replaces the limits on the load, once the tasks there were seen. While one of unknown load has just started
 * there, those limits decide. Under every policy, a GPU that is time-sliced although the policy shares by MPS takes nobody
 * while such a task has just started there.
 */

/* The policies: name, word, meaning. The row of each in map/ranks.c says what it does. */
#define MAP_RANKS(X) \
	X(RANK_MAGM, "magm", "most available memory first (worst fit)") \
	X(RANK_RR, "rr", "next in turn") \
	X(RANK_LUG, "lug", "least loaded first") \
	X(RANK_MUG, "mug", "most loaded that still fits first (best fit)") \
	X(RANK_FF, "ff", "first that fits") \
	X(RANK_GAIN, "gain", "most throughput gained, then most available memory; waits where too little is gained") \
	X(RANK_EXCLUSIVE, "exclusive", "idle GPUs only, one task each")

enum map_rank {
#define X(name, word, help) name,
	MAP_RANKS(X)
#undef X
	MAP_RANK_COUNT
};

const char *map_rank_name(enum map_rank r);

/* What the administrator decides. A condition that is "off" is NaN or 0 as its comment says. */
struct map_policy {
	enum map_rank rank;
	enum share_mode share;		/* default mode: SHARE_MPS, SHARE_STREAMS or SHARE_NEVER */
	double max_smact;		/* 0.80 under mps; NaN: off */
	double max_gract;		/* 0.90 under streams; NaN: off */
	uint64_t min_free_mib;		/* 5120: held for and asked of a task without an estimate; 0: off */
	uint64_t slack_mib;		/* 2048: free on top of the claim at admission (section 6.3.3), not held */
	double max_slowdown;		/* of tasks without a limit of their own; 0: off */
	double min_gain;		/* 0.05: what a newcomer must bring under `gain` to join others */
	unsigned max_tasks;		/* 2: per GPU, where no load is known; 0: off. Asked even if the limits above are off */
	bool foreign_share;		/* false ("avoid"): GPUs with over 1 GiB of foreign memory are not used */
	bool mps_multi_gpu;		/* true: tasks of several GPUs may be MPS clients, as the launcher's servers allow. False: for
					 * simulations of machines with a server for each GPU */
	bool ledger;			/* false: driver readings only, as the papers do */
	int64_t reserve_lead_ms;	/* 4 h: this long before a reservation of another user begins, no task of unknown length starts
					 * on its GPUs */
};

/* Up to this much memory of processes that are not ours (a desktop, a notebook at rest) leaves a GPU idle. */
#define MAP_FOREIGN_MIB 1024

#define MAP_COLD_MOST 16		/* of more tasks without an estimate it is not asked which are alike: all may be */

/* The defaults, as rad.conf(5) lists them. */
struct map_policy map_policy_default(void);

/* What counts of a task for others on its GPU: what it does alone (share/share.h), and how many times slower it may become
 * (0: no limit). */
struct map_tenant {
	struct share_task load;
	double max_slowdown;
};

/* A span of time (wall) in which a GPU is for the tasks of one user. */
struct map_reserve { uid_t uid; int64_t begin_ms, end_ms; };

/* One GPU as the map sees it. Made anew for each decision by `core` from ledger, windows and readings. */
struct map_gpu {
	uint32_t slot;			/* the caller's number for it */
	uint32_t index;			/* shown to people; breaks ties */
	const char *uuid, *name;
	uint64_t total_mib;		/* capacity of the empty GPU: total less driver reserve */
	uint64_t available_mib;		/* by the ledger, or by the driver when the ledger is off */
	uint64_t foreign_mib;		/* held by processes that are not ours, */
	uint64_t claimed_mib;		/* and of it, what other daemons hold for tasks that do not use it yet */
	struct load load;
	const struct map_tenant *tenants;	/* n_tasks of them; NULL: nothing is known of them */
	double work;			/* its map_work, so that not every request computes it; 0: not computed */
	unsigned n_tasks;		/* ours on it */
	enum share_mode mode;		/* of the tasks on it; SHARE_NEVER: one task has it alone. Counts when n_tasks > 0 */
	int64_t mps_uid;		/* the user whose MPS server its tasks are clients of, or one of MAP_MPS_*. Counts when n_tasks > 0:
					 * an idle server bars nobody */
	bool mps_together;		/* a newcomer would be a client of the server for all users */
	task_id turn_task;		/* the task whose turn it is at the MPS server there; 0: none. Other users' tasks do not join */
	uid_t turn_uid;			/* the user of that task */
	bool mps_capable, mig;
	uint32_t instance;		/* of a MIG instance: its number on its GPU */
	bool one_process;		/* its tasks share it under MPS or not at all */
	bool drained, stale;		/* stale: no reading within the deadline, or fallen off the bus */
	unsigned n_cold;		/* tasks without an estimate on it that are not yet warm, */
	uint64_t cold[MAP_COLD_MOST];	/* task_signature_key of the first of them; */
	uint64_t usual_mib, usual_mean_mib;	/* what such a task will most likely not go beyond, and what they take in the mean */
	bool capture_comes;		/* one of them began without its capture, which is being made */
	bool unseen;			/* a task of unknown load has just started there */
	bool has_limit;			/* one of its tasks has a limit on its slow-down */
	bool settling;			/* memory of an ended task is not yet seen to be free */
	bool has_multi_gpu;		/* one of its tasks spans several GPUs */
	task_id kept_for;		/* the task that it is kept free for; 0: none */
	const struct map_reserve *reserves;	/* n_reserves of them */
	unsigned n_reserves;
	uint64_t reserves_version;	/* moves when they change */
};

/* Values of mps_uid that are no user. */
#define MAP_MPS_NONE (-1)	/* no server */
#define MAP_MPS_ALL (-2)	/* the server for all users */
#define MAP_MPS_SEVERAL (-3)	/* servers of several users */

/* Some of the slots on which tasks of the same user run that share a data loader with the requested one. A policy that ranks
 * by a measure counts such a GPU as better by MAP_COMPANY of the measure's whole range: it goes before GPUs that are better by
 * less than that. Policies that rank by position alone (rr, ff, exclusive) ignore it. */
#define MAP_COMPANY 0.05
#define MAP_FEW 8
struct map_company { uint32_t slots[MAP_FEW]; unsigned n; };

/* The machine's cores, which all its GPUs share; core/fleet.h has the arithmetic. `have` 0: placement does not look at them. */
#define MAP_CORES_GAIN 0.5
struct map_cores {
	double have;		/* what there is */
	double need;		/* what running tasks need of it */
	double wanted, more;	/* what the requested task would want, and so need on top */
	double gain;		/* of starting it, in tasks that run undisturbed */
	bool used_up;		/* the gain is no more than MAP_CORES_GAIN: it shares no GPU */
};

struct map_request {
	task_id task;
	unsigned gpus;
	uint64_t claim_mib;		/* 0: no estimate */
	bool claim_is_declared;		/* declared claims are refused above an empty GPU, others are cut to it */
	uint64_t signature_key;		/* task_signature_key, of one without an estimate */
	uint64_t need_mib;		/* what it cannot run without, by its estimate: beside others, a claim is not cut below it; 0: not known */
	const char *model, *constraint;	/* which GPUs will do (task/constraint.h): both; NULL: all */
	bool exclusive;			/* wants its GPUs alone for its whole life */
	bool start_alone;		/* recovery: idle GPUs now, others may join later */
	enum share_mode share;		/* the task's wish */
	uid_t uid;
	struct map_tenant self;
	task_id lent_by;		/* the task that lends it the GPUs kept free for it, since it is gone before they are needed; 0: none */
	/* Where a plan has it start (map/plan.h): `gpus` slots, the only ones that it may take, whatever load and gain would say
	 * (under `gain` also those of its company). NULL: no plan has it. It may be one of at most `among` tasks there (0: of any
	 * number). `later`: not before `planned_s` from now; for `rad why`. */
	const uint32_t *planned;
	unsigned among;
	bool later;
	double planned_s;
	/* For reservations: a GPU is not taken that is another user's now, or will be before the task ends. */
	int64_t now_ms;			/* wall */
	double run_s;			/* how long the task may run; 0: not known */
	bool reserved;			/* only GPUs that are reserved for its user now, which it may use before its turn */
	struct map_company company;
	struct map_cores cores;
};

/* Why a GPU was not taken; word and help for `rad why`. In the order in which the filter asks. */
#define MAP_REASONS(X) \
	X(MAP_OK, "ok", "fits") \
	X(MAP_DRAINED, "Drained", "an administrator drained it") \
	X(MAP_STALE, "NoReading", "the GPU does not answer, or its last reading is too old") \
	X(MAP_CONSTRAINT, "Constraint", "another model of GPU is asked for") \
	X(MAP_KEPT, "Kept", "kept free for a task that goes first") \
	X(MAP_RESERVED, "Reserved", "reserved for another user now, or before it would end") \
	X(MAP_ELSEWHERE, "Planned", "the plan has it start on another GPU") \
	X(MAP_MODE, "Mode", "the GPU is shared in another way, or used alone") \
	X(MAP_TURN, "MpsTurn", "it is another user's turn there, whose task waits for the MPS server to be free") \
	X(MAP_USER, "MpsUser", "another user's MPS server runs there") \
	X(MAP_FOREIGN, "Foreign", "a process that is not ours uses it") \
	X(MAP_BUSY, "Busy", "an idle GPU is wanted, and there is none") \
	X(MAP_SETTLING, "Settling", "memory of a task that ended is not yet seen to be free") \
	X(MAP_COLD, "Cold", "a task without an estimate has just started there; too little is left for two") \
	X(MAP_CAPTURE, "Capture", "a task has just started there without its capture, which is still being made") \
	X(MAP_MEMORY, "Memory", "not enough memory available") \
	X(MAP_UNSEEN, "Unseen", "it is time-sliced, and a task of unknown load has just started there") \
	X(MAP_LOAD, "Load", "its SMs are too busy") \
	X(MAP_TASKS, "MaxTasks", "its load is not known (yet), and it has as many tasks as are allowed without") \
	X(MAP_SLOWDOWN, "Slowdown", "a task would become slower than its limit allows") \
	X(MAP_GAIN, "Gain", "too little would be gained beside the tasks there") \
	X(MAP_CORES, "Cores", "the machine's cores are used up, and it would share a GPU") \
	X(MAP_LATER, "PlannedLater", "it fits, and the plan has others start before it, or end there") \
	X(MAP_TOO_FEW, "Gpus", "not enough GPUs fit at once")

enum map_reason {
#define X(name, word, help) name,
	MAP_REASONS(X)
#undef X
	MAP_REASON_COUNT
};

const char *map_reason_word(enum map_reason r);
const char *map_reason_help(enum map_reason r);

/* What the filter found about one GPU: the reason and its arithmetic. */
struct map_finding {
	uint32_t slot;
	enum map_reason reason;
	enum share_mode mode;		/* in which the task would run there */
	double have, want;		/* of that reason: MiB (ok, memory, foreign), fractions (load, gain), times slower (slow-down),
					 * counts (busy, tasks, too few); else NaN */
};

struct placement {
	uint32_t slots[SPEC_MAX_GPUS];	/* by index */
	unsigned n;
	enum share_mode mode;
	uint64_t claim_mib;		/* what to hold on each: the claim, or min_free, cut to what there is */
};

/* Where a request is placed: the GPUs, and the policy. */
struct map_scene {
	const struct map_policy *policy;
	const struct map_gpu *gpus;
	size_t n;
	uint32_t *rr_next;		/* the position at which `rr` looks next; NULL where nothing is to be placed */
};

/* What it asks of each GPU, and has held there. */
static inline uint64_t map_claim_mib(const struct map_policy *p, const struct map_request *r)
{
	return r->claim_mib ? r->claim_mib : p->min_free_mib;
}

/* Whether processes that are not ours are more than a trifle there. */
static inline bool map_foreign_runs(const struct map_gpu *g) { return g->foreign_mib > MAP_FOREIGN_MIB; }
/* Nothing of ours is there. Where others are, they may stay for ever, so it is as empty as it gets. */
static inline bool map_is_vacant(const struct map_gpu *g) { return !g->n_tasks && !g->settling; }
static inline bool map_is_idle(const struct map_gpu *g) { return map_is_vacant(g) && !map_foreign_runs(g); }
/* GPUs of one model differ a little in capacity (retired pages, driver reserve): within 5 % they count as equally large. */
static inline bool map_is_as_large(const struct map_gpu *g, uint64_t mib) { return g->total_mib >= mib - mib / 20; }
/* Whether tasks may start there, once nothing of ours is in the way. */
static inline bool map_is_usable(const struct map_policy *p, const struct map_gpu *g)
{
	return !g->drained && !g->stale && (!map_foreign_runs(g) || p->foreign_share);
}

/* Whether the request could ever run on these GPUs, drained and silent ones included. 0, or -1 with why not: declared memory
 * that no GPU has, more GPUs than there are, or a sharing mode that none of them has. */
int map_feasible(const struct map_scene *s, const struct map_request *r, struct error *err);
/* What the largest of the GPUs that the request could run on offers when empty (for n GPUs, the n-th largest); 0: there is
 * none. */
uint64_t map_largest_mib(const struct map_scene *s, const struct map_request *r);

/* Whether the request could take that GPU once no task of ours runs there. */
bool map_suits(const struct map_scene *s, const struct map_request *r, const struct map_gpu *g);

/* Whether another user's MPS server is the first thing that keeps the request from that GPU, before memory. */
bool map_waits_for_server(const struct map_scene *s, const struct map_request *r, const struct map_gpu *g);

/* Whether the limits on load (max_smact, max_gract, max_tasks), as far as this policy has them, let one more task join those
 * on that GPU in their mode. */
bool map_load_admits(const struct map_policy *p, const struct map_gpu *g);

/* What the tasks on that GPU do together, by their loads: SMACT under MPS, GRACT under streams. Above 0. */
double map_work(const struct map_gpu *g);
/* Whether a GPU that looked like `a` and now looks like `b` still gives every request the same answer: they are equal, but for
 * a load that stayed on its side of the limits. (Which of the GPUs that fit is taken may depend on the load all the same.)
 * Both must have been zeroed before they were filled, since they are compared as memory. */
bool map_answers_alike(const struct map_policy *p, const struct map_gpu *a, const struct map_gpu *b);

/* Places the request. Returns true with *out filled; under `rr`, *s->rr_next is then past the last GPU taken. Returns false if
 * too few GPUs fit. `findings`: s->n of them, or NULL; after false, none of them is MAP_OK. */
bool map_place(const struct map_scene *s, const struct map_request *r, struct placement *out, struct map_finding *findings);
/* GPUs (positions in the list) that fit a request of several GPUs, but were too few for it; in no particular order. `n` above
 * MAP_FEW: there are more, which are not listed. */
struct map_few { uint32_t at[MAP_FEW]; unsigned n; };
/* As map_place, where it is known that only the GPUs in `only` (positions in the list, each once; NULL: all) can be taken.
 * After false, *few says which of them fitted: unless other GPUs change, only these can be taken along with GPUs that do
 * change. */
bool map_place_among(const struct map_scene *s, const struct map_request *r, const uint32_t *only, size_t n_only,
		     struct placement *out, struct map_few *few);

/* Whether every task has its GPUs alone under that policy. */
bool map_gives_alone(const struct map_policy *p);
/* Whether the requested task would have its GPUs alone for life. */
bool map_wants_alone(const struct map_policy *p, const struct map_request *r);
/* The mode in which the task would begin on a GPU without tasks. `alone`: map_wants_alone, which the caller asks once for all
 * GPUs. */
enum share_mode map_first_mode(const struct map_policy *p, const struct map_request *r, bool alone, const struct map_gpu *g);
/* Whether the policy asks what tasks do to each other, so that the loads of tenants are needed. */
bool map_predicts(const struct map_policy *p);
/* Whether decisions depend on how large loads are, not only on which side of the limits they are. */
bool map_minds_load(const struct map_policy *p);
/* Whether two loads of a GPU are on the same sides of the limits. */
bool map_loads_alike(const struct map_policy *p, const struct load *a, const struct load *b);
/* Whether it matters to the policy, on a GPU shared in that mode, that a task of unknown load has just started there. */
bool map_minds_unseen(const struct map_policy *p, enum share_mode mode);

/* The reason that stands for all to a task of `gpus`: the one that most GPUs have; of several, the nearest to fitting. */
enum map_reason map_summary(const struct map_finding *findings, size_t n, unsigned gpus);

/* One line of arithmetic for one GPU: "GPU 2: 12.3G available, 15.8G wanted (claim 13.8G + slack 2.0G): 3.5G short".
 * Returns buf. */
char *map_explain(const struct map_policy *p, const struct map_gpu *g, const struct map_request *r,
		  const struct map_finding *f, char *buf, size_t size);

#endif
