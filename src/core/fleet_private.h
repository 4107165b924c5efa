/* SPDX-License-Identifier: MIT
 *
 * The insides of the fleet, for its own files alone, each using only those above it:
 *	fleet_tenants.c	what the attempts on a slot do to it and to each other
 *	fleet_meter.c	sums over time: meters, low water, windows
 *	fleet_slot.c	below them all
 *	fleet_warm.c	when a run's peak is believed
 *	fleet_idle.c	places that are held and not used
 *	fleet_infer.c	what each does alone, from what the GPU shows of all
 *	fleet_part.c	whose GPU time it is
 *	fleet.c		slots and attempts, which come and go; what people and plans see
 *	fleet_move.c	attempts whose processes are on other GPUs than they were given
 *	fleet_others.c	what other daemons of this machine hold, and what they are told
 *	fleet_unlisted.c	memory that no process is listed with
 *	fleet_read.c	snapshots
 *	fleet_pace.c	how far attempts say they are, and how fast they went
 *	fleet_cores.c	what attempts take of the machine's cores
 *	fleet_map.c	what placement sees, and its versions
 */
#ifndef RAD_CORE_FLEET_PRIVATE_H
#define RAD_CORE_FLEET_PRIVATE_H

#include "account/account.h"
#include "base/idmap.h"
#include "core/fleet.h"
#include "map/ledger.h"
#include "share/infer.h"
#include "parse/progress.h"

/* How far a running attempt is by its own output. */
struct run_progress {
	bool known;			/* something was said in this life of ours */
	bool mixed;			/* others print into the same file */
	bool told;			/* when it ends was known once */
	struct progress_report now;
	uint64_t file;			/* what it prints into; 0: not known */
	uint64_t company;		/* who else was on its GPUs at the last look; 0: nobody */
	int64_t company_since_ms;	/* mono, the look at which that was new */
	int64_t from_ms;		/* mono, 0: none: the word up to which its sums count, */
	double from_units;		/* and where it was then */
	double first_units;		/* where its series began */
	double work_s;			/* done at the last word, as seconds alone by the model of sharing */
	struct { double units, work_s; } stepped;	/* as of its first step, which may have taken minutes; units 0: none yet */
};

/* A GPU on which an attempt has processes though it does not hold it. */
#define ASTRAY_MOST 8	/* looked at at a time */
struct astray {
	uint32_t slot;
	unsigned samples;		/* in so many on end */
	bool here;			/* in the one at hand */
};

/* A running attempt: from EV_PLACED until its processes have ended. */
struct run {
	struct task *t;
	uint32_t slots[SPEC_MAX_GPUS];
	int64_t used_ms[SPEC_MAX_GPUS];	/* mono, of each: when a process of it was there last, or may have been */
	bool was_used[SPEC_MAX_GPUS];	/* of each: one was seen there */
	unsigned n_slots;
	struct astray astray[ASTRAY_MOST];
	unsigned n_astray;
	struct meter meter;
	struct fleet_clock clock;
	int64_t placed_ms;		/* mono */
	int64_t took_ms;		/* mono; the same, also where a restart found it; where it moved, since then */
	uint64_t weight_mib;		/* held for it on each slot when it was placed; above 0 */
	bool was_found;			/* after a restart: it was placed before */
	double begin_s;			/* from there to its first word of progress; NaN: not known */
	uint64_t host_peak_mib;		/* of the machine's memory; 0: not known */
	struct cpu_sums cpu;		/* as told last */
	struct fleet_cores cores;	/* of late; its need as of the version */
	double cores_expected;		/* that it would want, before it was seen */
	int64_t active_since_ms;	/* mono, first sample with a process of its own; 0: none yet */
	bool warm;			/* its peak is believed */
	bool computes;			/* it was seen to, or is there for so long that it must be taken to */
	bool steady;			/* see fleet_warm.c */
	int64_t steady_since_ms;	/* mono, while it is */
	uint64_t grown_mib;		/* its memory when it grew last */
	int64_t grown_ms;		/* mono; 0: it was not seen to have any */
	bool unknown;			/* placed without an estimate */
	bool capture_comes;		/* because its capture was, or is, still being made */
	int64_t busy_ms;		/* of one that somebody is at: mono, when it may have computed last; 0: never looked at */
	bool idle_told;
	bool had_neighbours;
	int64_t noted_ms;		/* mono of the last EV_MEASURED */
	struct run_progress progress;
	struct pace pace;		/* what that comes to */
	struct load_belief known;	/* what it does alone, as known before it ran */
	struct load_belief evidence;	/* what it showed in company before a restart */
};

/* What a GPU showed in one stretch, as sums over time. */
struct stretch { double gract_ms, smact_ms, dram_ms, ms, gract_seen_ms, dram_seen_ms; };

/* Since the set of tasks on a GPU changed: the steady stretch that lasts, and the longest before it. */
struct fleet_span {
	struct stretch lasts, longest;
	struct stretch recent[4];	/* the last samples, newest first: whether the level has moved */
	double told_ms;			/* how long a stretch was when inference was told of it last */
};

/* Memory of a GPU that no process is listed with: fleet_unlisted.c. */
#define UNLISTED_READINGS 3
struct unlisted {
	task_id alone;			/* whose GPU it was in the last readings; 0: nobody's, if there are any */
	unsigned n;
	uint64_t recent_mib[UNLISTED_READINGS];	/* as of them, the nth in [n % UNLISTED_READINGS] */
	bool before_known;
	uint64_t before_mib;		/* when nobody ran there last */
	task_id task;			/* who has more than that; 0: nobody is known to */
	uint64_t mib;
};

/* What the processes of one task held there in the snapshot being read. */
struct slot_seen { task_id task; uint64_t mib; };

struct slot {
	uint32_t number;		/* its place in fleet.slots */
	bool touched;			/* it is in fleet.touched: what placement sees may have changed, */
	bool touched_runs;		/* and not by a reading alone: what runs there may look different too */
	struct gpu_reading r;		/* the last one */
	int64_t read_ms;		/* mono of the last good reading */
	bool in_snapshot;		/* it was in the last one */
	bool drained;
	task_id kept_for;
	uint64_t weight_mib;		/* sum of its runs */
	task_id turn_task;		/* whose turn it is there, of which user; 0: nobody's */
	uid_t turn_uid;
	struct map_reserve *reserves;	/* in no order */
	size_t n_reserves, cap_reserves;
	struct window *window;
	struct ledger ledger;
	struct run **runs;		/* attempts whose processes run there */
	size_t n_runs, cap_runs;
	struct map_tenant *tenants;	/* they as the map sees them, since the slot was filled */
	size_t n_tenants, cap_tenants;
	double *speeds;			/* at which they ran up to speeds_ms (mono) */
	double *parts;			/* of each in what the GPU drew beyond idle then */
	struct share_task *solved;	/* the loads that both are of, */
	enum share_mode solved_mode;	/* shared so */
	size_t n_speeds, cap_speeds;
	int64_t speeds_ms;
	double energy_j;		/* of the reading before, NaN: none */
	double idle_w;			/* the least it was ever seen to draw; 0: never seen */
	uint64_t low_mib[2];		/* lowest free memory: of the interval before, of this one */
	int64_t low_interval;		/* counted from the clock's zero */
	struct slot_seen *seen;
	size_t n_seen, cap_seen;
	uint64_t foreign_mib, mps_mib;
	struct unlisted unlisted;
	struct core_claim *others;	/* what other daemons hold there: one a user */
	size_t n_others, cap_others;
	struct proc_reading *procs;	/* of the last snapshot, with `claimed` set to the owner */
	size_t n_procs, cap_procs;
	struct infer *infer;		/* what each does alone; NULL: nothing to be found out */
	struct fleet_span span;
	int64_t spoke_ms;		/* mono; up to here readings were taken into the span; 0: it begins with the next one */
	uint64_t version;		/* of the fleet when it moved last */
	struct slot *newer, *older;	/* by version */
};

struct fleet {
	const struct core_config *config;
	struct fleet_ops ops;
	struct fair *fair;
	struct slot **slots;
	size_t n_slots, cap_slots;
	struct idmap by_uuid;		/* hash of the UUID -> struct slot */
	struct idmap runs;		/* task_id -> struct run */
	enum core_mps mps;		/* which MPS servers can be had on this machine */
	bool was_read;
	size_t n_attended;		/* of the runs: somebody is at them */
	size_t n_cpu_tasks;		/* of the runs, too */
	bool may_move;			/* one may be booked on other GPUs, as of the last snapshot */
	bool slow_limits;		/* a task had a limit on its slow-down */
	int64_t note_due_ms;		/* mono; no attempt is to be noted in its log before */
	size_t note_at;			/* of a walk over those that are due: where it stands, 0: none is under way; */
	int64_t note_next_ms;		/* and when the first of those it went by is due */
	uint64_t cores_version;		/* that of the fleet when what runs need of cores moved last */
	uint64_t told;			/* moves when an attempt first tells when it will end */
	size_t n_present, n_unused;	/* unused: GPUs of the machine that are not ours, as of the last snapshot */
	uint64_t largest_mib;
	uint64_t usual_mib, usual_mean_mib;	/* as told last */
	char model[64];			/* of the first GPU that was read */
	bool models_differ;
	/* What placement sees: fleet_map.c. */
	bool predicts;			/* fleet_predicts, as of the last fleet_gpus */
	struct map_gpu *gpus;
	size_t n_gpus, cap_gpus;
	uint32_t *touched;
	size_t n_touched, cap_touched;
	struct slot *newest;		/* the slots by version, latest first */
	uint64_t version, shape;
	uint64_t reserves_version;
	size_t n_reserves;		/* of all slots */
	int64_t stale_due_ms;		/* mono; no slot goes stale by itself before */
	uint32_t *reading;		/* slot of each GPU of the snapshot being read, of the last one before it was */
	size_t n_reading, cap_reading;
};

#define FLEET_BUSY 0.01	/* SMACT of a GPU on which something is computed */

/* fleet_slot.c */
/* What placement sees of it may have changed. */
void fleet_touch_slot(struct fleet *f, struct slot *s);
void fleet_touch_all(struct fleet *f);
/* There is a new reading, and that is all: those who run there are the same, as warm as before. */
void fleet_touch_read(struct fleet *f, struct slot *s);
/* Here, since it is asked several times for each run at each sample. */
static inline struct slot_seen *fleet_seen(struct slot *s, task_id task)
{
	for (size_t i = 0; i < s->n_seen; i++)
		if (s->seen[i].task == task)
			return &s->seen[i];
	return NULL;
}

/* fleet_part.c */
/* What is held for an attempt on each of its GPUs, as its part goes by; above 0. */
uint64_t fleet_weight_mib(const struct fleet *f, const struct attempt *a);
/* The run, one of the slot's still or already, comes or goes. */
void fleet_part_join(struct fleet *f, struct slot *s, const struct run *r, int64_t mono_ms);
void fleet_part_leave(struct fleet *f, struct slot *s, const struct run *r, int64_t mono_ms);
struct fair_taken fleet_taken_by(const struct run *r);

/* fleet_idle.c */
/* After a snapshot: which of the attended runs may have computed. */
void fleet_note_idle(struct fleet *f, struct now now);

/* The cores that placement reckons with; 0: with none. */
static inline double fleet_cores_there(const struct fleet *f)
{
	return core_host_known(f->config->host_cpus) ? (double)f->config->host_cpus * f->config->max_cpu : 0;
}

/* A run came or goes, which may have no slot whose version would tell of it; or it is known to need other cores. */
static inline void fleet_cores_moved(struct fleet *f)
{
	if (fleet_cores_there(f) > 0)
		f->cores_version = ++f->version;
}

/* fleet_warm.c */
/* Whether its peak is believed from now on. `active`: a process of it is there; `mem_known`: its peak is what it was seen to
 * have. */
void fleet_note_warm(struct fleet *f, struct run *r, bool active, bool mem_known, struct now now);
/* Mono; when it gets warm by time alone, INT64_MAX: it is, or no time will do. */
int64_t fleet_warm_due_ms(const struct fleet *f, const struct run *r);
/* Its memory stood still for long enough that one that completes now was seen whole. */
bool fleet_stood_still(const struct run *r, struct now now);

/* fleet_infer.c */
/* Mono; when inference is told of the span that lasts, INT64_MAX: not by time alone. */
int64_t fleet_infer_due_ms(const struct fleet *f, const struct slot *s);
/* A task came to the slot (it is in its runs), or goes (it is not any more); the span was ended before. */
void fleet_infer_join(const struct fleet *f, struct slot *s, const struct run *r);
void fleet_infer_leave(const struct fleet *f, struct slot *s, const struct run *r);
/* Of a run there something else is known now; the span was ended before. */
void fleet_infer_again(const struct fleet *f, struct slot *s, const struct run *r);
/* A task there is not yet what it will be: what was seen since the set changed does not count. */
void fleet_infer_restart(const struct fleet *f, struct slot *s, struct now now);
/* The reading speaks for the time up to now. */
void fleet_infer_sample(struct fleet *f, struct slot *s, struct now now);
/* The set of tasks is about to change: what the span said is taken in, and the next begins. */
void fleet_infer_end_span(const struct fleet *f, struct slot *s, struct now now);

/* fleet_tenants.c */
/* What it is believed to do alone: measured so, by runs before it or itself; else inferred; else what was known before. */
struct load_belief fleet_belief(const struct fleet *f, const struct run *r);
/* What a run adds to a GPU's load until it was seen, by what is known of it. */
struct share_task fleet_expected(const struct fleet *f, const struct slot *s, struct share_task known);
/* Nothing is known of what the run does to its GPUs, and it was not there for long enough to be seen. */
bool fleet_unseen(const struct fleet *f, const struct run *r, struct now now);
/* How fast the run goes on that slot, relative to running alone, by what is known of those there. */
double fleet_speed(const struct fleet *f, struct slot *s, const struct run *r, struct now now);
/* Its part in what the GPU drew beyond idle; those of all runs there add up to 1. */
double fleet_power_part(const struct fleet *f, struct slot *s, const struct run *r, struct now now);
/* Brings s->tenants up to now, none if nobody wants to know; returns whether they changed. */
bool fleet_fill_tenants(const struct fleet *f, struct slot *s, struct now now);
/* What its meters say; fleet_measure adds what was inferred, which costs more. */
struct measured fleet_metered(const struct run *r);
struct measured fleet_measure(const struct fleet *f, const struct run *r);

/* fleet_unlisted.c */
/* All processes of the snapshot are booked: whoever has memory there that none of them is listed with gets it added. */
void fleet_note_unlisted(struct slot *s);

/* fleet_meter.c */
/* The lowest free memory in the last minute, UINT64_MAX: not known, as of a GPU that has fallen. `stood`: the reading is not of
 * this moment alone, it was so since the one before. */
uint64_t fleet_low_water(const struct slot *s, int64_t mono_ms);
void fleet_note_low_water(struct slot *s, int64_t mono_ms, bool stood);
/* One sample of one attempt, over all its GPUs. */
void fleet_meter_run(struct fleet *f, struct run *r, struct now now);
/* Where readings stand: its window, its low water and the meters of its runs come up to now. */
void fleet_advance(struct fleet *f, struct slot *s, struct now now);

/* fleet_pace.c */
/* What it has still to do by its own progress, as seconds alone; NaN: not known. */
double fleet_left_alone_s(const struct fleet *f, const struct run *r);

/* fleet_look.c */
/* Whose MPS server an attempt is a client of, as in map_gpu. */
int64_t fleet_mps_of(const struct run *r);
/* Whether tasks that come there are clients of the server for all users. */
bool fleet_mps_together(const struct fleet *f, const struct slot *s);

/* fleet_others.c */
/* After a reading: how much of what others hold is in what is seen to be used. */
void fleet_count_others(struct slot *s);

/* fleet.c */
/* Makes it if it is not known yet. */
struct slot *fleet_take_slot(struct fleet *f, const char *uuid);
struct run *fleet_run(const struct fleet *f, task_id id);
bool fleet_is_stale(const struct fleet *f, const struct slot *s, int64_t mono_ms);
/* The run comes to the slot, or goes; the caller keeps the run's own list. Extra: only what it is seen to have there is held.
 * Again for a slot where it is: only what is held changes. */
void fleet_join(struct fleet *f, struct slot *s, struct run *r, bool extra, struct now now);
void fleet_leave(struct fleet *f, struct slot *s, const struct run *r, struct now now);

/* fleet_move.c */
/* In the snapshot at hand a process of it is on a slot that it does not hold; after all processes, what that comes to. */
void fleet_note_astray(struct run *r, const struct slot *s);
void fleet_note_places(struct fleet *f, struct run *r, struct now now);
/* Whether it is there though it was not given that GPU. */
bool fleet_is_guest(const struct slot *s, const struct run *r);

#endif
