/* SPDX-License-Identifier: MIT
 *
 * The GPUs: what they said last, windows of load, ledgers of memory, and the attempts that run there with their meters. A GPU
 * or MIG instance has a slot: a number that stays, also when the device goes away.
 *
 * The fleet is told (readings, attempts that begin and end, what people drain, what the pass keeps) and asked. What placement
 * may see of a slot has a version, so that whoever asked before looks only at what moved since.
 */
#ifndef RAD_CORE_FLEET_H
#define RAD_CORE_FLEET_H

#include "core/core.h"
#include "parse/progress.h"
#include "queue/fair.h"

struct fleet;

struct fleet_ops {
	void *ctx;
	/* As in core_ops, but never NULL. */
	task_id (*owner)(void *ctx, const struct proc_reading *p);
	/* As estimates_load, estimates_pace, estimates_cores and estimates_comes_late. */
	struct load_belief (*known_load)(void *ctx, const struct task *t, const char *gpu_name);
	double (*known_pace)(void *ctx, const struct task *t, const char *gpu_name);
	double (*known_cores)(void *ctx, const struct task *t);
	bool (*capture_comes)(void *ctx, const struct task *t);
	/* As in core_ops. NULL: there are no other daemons. */
	bool (*claim)(void *ctx, const struct core_claim *claims, unsigned n);
};

/* `config` is the core's, and stays valid; so does `fair`, which is told whose the GPU time is. */
struct fleet *fleet_create(const struct core_config *config, const struct fleet_ops *ops, struct fair *fair);
/* Takes NULL. */
void fleet_destroy(struct fleet *f);

/* What it is told ----------------------------------------------------------------------------------------------------- */

/* A new snapshot; `mps`: which MPS servers the machine can run. */
void fleet_read(struct fleet *f, const struct snapshot *s, enum core_mps mps, struct now now);
/* The running task is estimated anew: by its capture, without which it had begun. */
void fleet_estimated(struct fleet *f, const struct task *t, struct now now);
/* The last attempt of a running task was placed just now, or found again after a restart. The task must outlive its run. */
void fleet_begin(struct fleet *f, struct task *t, struct now now);
/* What was measured of an attempt that ended, and what its GPUs showed. */
struct fleet_end {
	uint32_t slots[SPEC_MAX_GPUS];
	unsigned n_slots;
	int64_t placed_ms;		/* mono */
	bool had_neighbours;		/* at any time, another task was on one of its GPUs */
	bool had_foreign;		/* when it ended, foreign processes had memory there */
	bool device_known;		/* the next two are */
	uint64_t device_total_mib, device_free_min_mib;	/* of the GPU that had least free, in the last minute */
	struct measured measured;
};
/* The attempt's processes are gone: takes it off its slots, where the ledger keeps its entry until a sample shows the memory
 * free. Returns false if no such attempt runs. */
bool fleet_finish(struct fleet *f, task_id id, struct now now, struct fleet_end *out);
/* The next running attempt whose processes were seen on other GPUs than it holds, for long enough to be sure; 0: none. *out:
 * the GPUs that it is to hold instead; on the last n_extra of them, only as much as it is seen to have there. The UUIDs live
 * as long as the fleet. The caller makes it an event, and then calls fleet_moved. */
struct fleet_move { const char *gpus[SPEC_MAX_GPUS]; unsigned n_gpus, n_extra; };
task_id fleet_next_move(const struct fleet *f, struct now now, struct fleet_move *out);
/* The attempt's record names other GPUs than before: EV_MOVED was applied. */
void fleet_moved(struct fleet *f, const struct task *t, struct now now);
/* As core_host_peak, core_cpu and core_progress. */
void fleet_note_host_peak(struct fleet *f, task_id id, uint64_t mib);
void fleet_note_cpu(struct fleet *f, task_id id, const struct cpu_sums *sums);
void fleet_note_progress(struct fleet *f, task_id id, const struct progress_report *now, uint64_t file, struct now at);
/* Something changed of a running task that counts for others on its GPUs. */
void fleet_touch(struct fleet *f, task_id id);
/* Settings changed, so every slot may look different. */
void fleet_reconsider(struct fleet *f);
/* What a task of which nothing is known will most likely not go beyond, and what such tasks take in the mean. To be told before
 * the first GPU comes. */
void fleet_set_usual(struct fleet *f, uint64_t most_mib, uint64_t mean_mib);
/* A live task has a limit on its slow-down: from now on, what tasks do to each other is predicted. */
void fleet_watch_slowdown(struct fleet *f);
/* As core_drain, core_others, core_claims and core_reserve. */
void fleet_drain(struct fleet *f, const char *uuid, bool drained);
void fleet_set_others(struct fleet *f, const struct core_claim *claims, size_t n);
size_t fleet_claims(const struct fleet *f, struct core_claim *out, size_t most);
void fleet_reserve(struct fleet *f, const struct core_reservation *list, size_t n);
/* Whether other daemons leave room for that placement. False: what is known of them has changed. */
bool fleet_may_place(struct fleet *f, const struct placement *where, uid_t uid, bool alone);
/* The pass keeps the slot free for that task; 0: for none any more. */
void fleet_keep(struct fleet *f, uint32_t slot, task_id id);
/* It is that user's turn at the MPS server there, with that task; 0: nobody's. */
void fleet_give_turn(struct fleet *f, uint32_t slot, task_id id, uid_t uid);
/* With `readings_stand`: brings windows, lowest free memory and meters of all slots up to now. */
void fleet_advance_all(struct fleet *f, struct now now);

/* As placement sees it ------------------------------------------------------------------------------------------------ */

/* One map_gpu for each slot ([i].slot == i), fleet_size of them, as of now; valid until the next call that is not const. Brings
 * up to date what was touched, so it costs what changed. */
const struct map_gpu *fleet_gpus(struct fleet *f, struct now now);
size_t fleet_size(const struct fleet *f);
/* Moves when something of a slot on which a decision may depend moved, as of the last fleet_gpus, or what tasks need of
 * cores. */
uint64_t fleet_version(const struct fleet *f);
/* Moves when that matters beyond the slot itself: capacity, kind, whether the GPU answers or is drained; and with settings and
 * reservations. */
uint64_t fleet_shape(const struct fleet *f);
/* The slots that moved since that version, latest first, into `slots` (room for fleet_size). Returns how many. */
size_t fleet_moved_since(const struct fleet *f, uint64_t version, uint32_t *slots);
/* Whether there was a snapshot yet. */
bool fleet_was_read(const struct fleet *f);
/* Whether any GPU is reserved, now or later. */
bool fleet_has_reserves(const struct fleet *f);
/* Whether a GPU is reserved for that user at that moment. */
bool fleet_is_reserved_for(const struct fleet *f, uid_t uid, int64_t wall_ms);
/* As core_ripens_ms: when (mono) a run of the slot gets warm, or loads are inferred, by time alone. */
int64_t fleet_ripens_ms(const struct fleet *f, const char *uuid);
/* As core_load_due_ms. */
int64_t fleet_load_due_ms(const struct fleet *f, const char *uuid);
/* Whether a policy, a plan or a task's limit asks what tasks do to each other: only then tenants are filled in. */
bool fleet_predicts(const struct fleet *f);
/* The task for which the pass keeps the slot; 0: none. */
task_id fleet_kept_for(const struct fleet *f, uint32_t slot);
/* The task whose turn it is at the MPS server there; 0: none. */
task_id fleet_turn_of(const struct fleet *f, uint32_t slot);
/* Whether there are MPS servers, and each serves one user. */
bool fleet_mps_apart(const struct fleet *f);

/* Whether a running task is to be treated as gone. */
typedef bool fleet_gone(const void *ctx, task_id id);

/* Cores, which all GPUs of a machine share. A running task wants as many as it has threads that run or wait for a core, at most
 * all there are. It needs a third of a core less, since the thread that launches kernels keeps its core busy while it waits for
 * the GPU, too. Where cores are short, all tasks are slowed alike:
 *	need = sum of (wanted - 1/3)	speed = min(1, cores / need)	cores = max_cpu x host_cpus
 *	gain of one more, in tasks that run undisturbed = (n + 1) * speed with it - n * speed without it
 * With a gain of half a task or less, it is better to wait for an idle GPU, or for an end. So nothing changes where there are
 * enough cores (gain 1). A small task joins one that wants all the cores; a second task that wants all of them does not. With
 * max_cpu 1, six tasks that each want a core are let onto four cores and three onto two; as shipped nine and four, since eight
 * on four were found to lose nothing that waiting gives back, and eight on two a third (decision 164). A task that was not seen
 * yet wants what runs of its signature wanted, else what its capture says of its loaders, else one core; until it is warm, for
 * two minutes at most, no less than what is known so.
 *
 * fleet_cores_room: that arithmetic for one more task that would want so many cores, without the running tasks that are gone
 * (`gone` NULL: none is). Zeroed where the machine's cores are not known, or placement does not look at them. */
struct map_cores fleet_cores_room(const struct fleet *f, double wanted, fleet_gone *gone, const void *ctx);
/* Sets c->gain beside n others that together need c->need, and c->used_up. */
void fleet_cores_judge(struct map_cores *c, double n);
bool fleet_places_by_cores(const struct fleet *f);
/* The version of the fleet when what running tasks need of cores moved last. */
uint64_t fleet_cores_version(const struct fleet *f);
/* The cores of a running task of late: busy, waited for by its threads, and needed. NaN: not known, or not looked at. */
struct fleet_cores { double busy, waiting, need; };
struct fleet_cores fleet_cores_of(const struct fleet *f, task_id id);

/* What placement would see of that slot if some of the tasks there were gone, and the memory of attempts that ended at
 * `ended_ms` (mono) or later were seen to be free. `tenants` has room for all that run there, and must live as long as *out. As
 * of the last fleet_gpus. */
void fleet_gpu_without(const struct fleet *f, uint32_t slot, fleet_gone *gone, const void *ctx, int64_t ended_ms,
		       struct now now, struct map_tenant *tenants, struct map_gpu *out);

/* The GPUs of the last snapshot as if nothing ran there: capacity, kind, index. Into `out` (room for fleet_size); returns how
 * many. Changes nothing, and needs no time. */
size_t fleet_devices(const struct fleet *f, struct map_gpu *out);

/* As people and plans see it ------------------------------------------------------------------------------------------ */

/* The model of all GPUs; "": none was read yet, or there are several. */
const char *fleet_model(const struct fleet *f);
/* The first model that was read; "": none was. */
const char *fleet_first_model(const struct fleet *f);
/* The model of that slot, by its last reading. */
const char *fleet_model_of(const struct fleet *f, uint32_t slot);
/* The largest capacity that was ever read. */
uint64_t fleet_largest_mib(const struct fleet *f);
/* How many GPUs the last snapshot had. */
size_t fleet_present(const struct fleet *f);
/* The same with those of the machine that this radd does not use. */
size_t fleet_of_machine(const struct fleet *f);

struct fleet_gpu {
	const struct gpu_reading *reading;	/* the last one; the texts live as long as the fleet */
	bool present, stale;			/* present: in the last snapshot */
	bool drained, expected;			/* expected: its SMACT is what is expected after a change, not measured yet */
	struct load load;
	uint64_t held_mib, foreign_mib, available_mib;
	uint64_t leaving_mib;			/* part of held_mib: of attempts that ended, soon to be free */
	unsigned n_tasks;
	enum share_mode mode;			/* of its tasks, if it has any */
	const char *mps_users;			/* how users' tasks would be MPS clients: "together" or "apart"; NULL: not at all */
	const struct core_claim *others;	/* what other daemons hold there; valid until that changes */
	size_t n_others;
	const struct proc_reading *procs;	/* of the last snapshot, `claimed` being the owner; valid until the next */
	size_t n_procs;
};
struct fleet_gpu fleet_look(const struct fleet *f, uint32_t slot, int64_t mono_ms);
/* The nth task on the slot, n below n_tasks, in no particular order. */
task_id fleet_task_on(const struct fleet *f, uint32_t slot, unsigned n);
/* All slots in order of index, a GPU before its instances; fleet_size of them. The caller frees it. */
uint32_t *fleet_in_order(const struct fleet *f);
/* -1: no slot has that UUID. */
int64_t fleet_slot_of(const struct fleet *f, const char *uuid);

struct fleet_run {
	const struct task *task;
	const uint32_t *slots;
	unsigned n_slots;
	uint64_t held_mib;		/* largest on one slot */
	struct share_task load;		/* what it is believed to do alone; NaN: not known, or not asked for (fleet_predicts) */
	double work_s;			/* done so far, in seconds that it would take alone; NaN: not known */
	double left_s;			/* still to do by its own progress, likewise; NaN: not known */
};
/* Walks the running attempts in no particular order: start with *at = 0; false at the end. */
bool fleet_next_run(const struct fleet *f, size_t *at, struct fleet_run *out);
/* The clocks of a running attempt (mono): kept here, and set by limits.c and timeslots.c, which know what they mean. */
struct fleet_clock {
	struct task *task;
	int64_t began_ms;	/* when its program began; before that, when it was placed */
	int64_t timeslot_ms;	/* when its time slot began: with the attempt, or when it was last asked to make place */
	bool gone;		/* timeslots.c takes it for gone, in the look that is under way */
	bool vain;		/* it would have to go, and will not, likewise */
	bool unheard;		/* when it was last asked to make place, none of its processes had a handler for that */
	bool stays;		/* it was asked in this attempt and had one, was waited for, and did not go */
};
/* NULL: no such attempt runs. Valid until the attempt ends. */
struct fleet_clock *fleet_clock_of(const struct fleet *f, task_id id);
/* Walks the clocks in no particular order: start with *at = 0; NULL at the end. */
struct fleet_clock *fleet_next_clock(const struct fleet *f, size_t *at);
/* The slots on which tasks of that feed of that user run, each once, MAP_FEW at most. */
struct map_company fleet_company(const struct fleet *f, uid_t uid, const char *feed);
/* Walks those tasks in no particular order: start with *at = 0; 0 at the end. */
task_id fleet_next_of_feed(const struct fleet *f, uid_t uid, const char *feed, size_t *at);
/* The slots of a running attempt, valid until it moves or ends. Returns how many; 0: no such attempt runs, or it has none. */
unsigned fleet_slots_of(const struct fleet *f, task_id id, const uint32_t **slots);
size_t fleet_count_runs(const struct fleet *f);
/* Whether a task runs that asked for GPUs. */
bool fleet_is_used(const struct fleet *f);
/* GPUs on which attempts run. */
size_t fleet_count_busy(const struct fleet *f);
/* Moves when the progress of a running attempt first tells when it will end. */
uint64_t fleet_told(const struct fleet *f);
/* What a running attempt was seen to use so far; false: no such attempt runs. */
bool fleet_measured(const struct fleet *f, task_id id, struct measured *out);
/* What a running attempt is believed to do alone; LOAD_UNKNOWN: not known, or no such attempt runs. */
struct load_belief fleet_load(const struct fleet *f, task_id id);
/* How far a running attempt is by its own output, left_s and spread_s as of now. False: not known, or several tasks print into
 * its file. */
bool fleet_progress(const struct fleet *f, task_id id, int64_t mono_ms, struct progress_report *out);
/* As core_next_running. */
task_id fleet_next_to_look(const struct fleet *f, size_t *at);
/* How long a running attended task has certainly computed nothing; 0: it computes, or that cannot be told. */
int64_t fleet_idle_ms(const struct fleet *f, task_id id, struct now now);
/* The next attended task that has been idle for `lease_idle`, each once until it computes again; 0: none. */
task_id fleet_idle_due(struct fleet *f, struct now now);
/* What was measured of an attempt is noted in its log once a minute: the next attempt for which that is due; 0: none. */
task_id fleet_note_due(struct fleet *f, struct now now, struct measured *out);

/* As core_find_gpu, core_mps_gpus and core_mps_clients. */
const char *fleet_find(const struct fleet *f, const char *word, struct error *err);
void fleet_list_mps(const struct fleet *f, struct buf *out);
unsigned fleet_mps_clients(const struct fleet *f, const char *gpu_uuid, int64_t uid);

/* Checks the invariants: every run is on its slots and in their ledgers, and nothing else is there. 0, or -1 with the first
 * that is broken. */
int fleet_check(const struct fleet *f, struct error *err);

#endif
