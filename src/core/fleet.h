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
	/* Whose process that is; see core.h. */
	task_id (*owner)(void *ctx, const struct proc_reading *p);
	/* What the task will do alone on that model of GPU, by what is known before it runs there. */
	struct load_belief (*known_load)(void *ctx, const struct task *t, const char *gpu_name);
	/* How many units of its own progress a second they did alone there; 0: not known. */
	double (*known_pace)(void *ctx, const struct task *t, const char *gpu_name);
	/* How many cores it would want; above 0. */
	double (*known_cores)(void *ctx, const struct task *t);
	/* As core_ops. NULL: there are no other daemons. */
	bool (*claim)(void *ctx, const struct core_claim *claims, unsigned n);
};

/* `config` is the core's, and stays valid; so does `fair`, which is told whose the GPU time is. */
struct fleet *fleet_create(const struct core_config *config, const struct fleet_ops *ops, struct fair *fair);
/* Takes NULL. */
void fleet_destroy(struct fleet *f);

/* What it is told ----------------------------------------------------------------------------------------------------- */

/* A new snapshot; `mps`: which MPS servers can be had on this machine. */
void fleet_read(struct fleet *f, const struct snapshot *s, enum core_mps mps, struct now now);
/* The last attempt of a running task: placed just now, or found again after a restart. The task must outlive its run. */
void fleet_begin(struct fleet *f, struct task *t, struct now now);
/* What was measured of an attempt that ended, and what its GPUs showed. */
struct fleet_end {
	uint32_t slots[SPEC_MAX_GPUS];
	unsigned n_slots;
	int64_t placed_ms;		/* mono */
	bool had_neighbours, had_foreign;	/* at any time; when it ended */
	bool device_known;
	uint64_t device_total_mib, device_free_min_mib;	/* of the GPU that had least, in the last minute */
	uint64_t peak_mib;
	struct measured measured;
};
/* Its processes are gone: off its slots, where the ledger keeps its entry until a sample shows the memory free. Returns false
 * if no such attempt runs. */
bool fleet_finish(struct fleet *f, task_id id, struct now now, struct fleet_end *out);
/* A running attempt that is to be booked on other GPUs than it holds, since its processes were seen there for long enough to be
 * sure: those it holds from now on, n_extra of them (the last) only as far as it is seen to have memory there. UUIDs live as
 * long as the fleet. Returns 0 when there is none; the caller makes it an event, and then calls fleet_moved. */
struct fleet_move { const char *gpus[SPEC_MAX_GPUS]; unsigned n_gpus, n_extra; };
task_id fleet_next_move(const struct fleet *f, struct now now, struct fleet_move *out);
/* What it was seen to take of the machine's memory at most. */
void fleet_note_host_peak(struct fleet *f, task_id id, uint64_t mib);
/* What it took of the machine's CPUs so far; told every few seconds, whether it is new or not. */
void fleet_note_cpu(struct fleet *f, task_id id, const struct cpu_sums *sums);
/* The attempt's GPUs are others by its record. */
void fleet_moved(struct fleet *f, const struct task *t, struct now now);
/* How far a running attempt is by its own output, which goes into that file; told every few seconds, whether it is new or
 * not. */
void fleet_note_progress(struct fleet *f, task_id id, const struct progress_report *now, uint64_t file, struct now at);
/* Something of a running task changed that counts for others on its GPUs. */
void fleet_touch(struct fleet *f, task_id id);
/* Settings changed: every slot may look different. A task has a limit on its slow-down: so may it. */
void fleet_touch_all(struct fleet *f);
void fleet_watch_slowdown(struct fleet *f);
void fleet_drain(struct fleet *f, const char *uuid, bool drained);
/* As core_others and core_claims. */
void fleet_set_others(struct fleet *f, const struct core_claim *claims, size_t n);
size_t fleet_claims(const struct fleet *f, struct core_claim *out, size_t most);
/* Whether that may be placed there, as far as other daemons go; false: what is known of them has changed. */
bool fleet_may_place(struct fleet *f, const struct placement *where, uid_t uid, bool alone);
/* All the reservations that there are, instead of those before. */
void fleet_reserve(struct fleet *f, const struct core_reservation *list, size_t n);
/* Keeps a slot free for a task, on behalf of the pass; 0: no longer. */
void fleet_keep(struct fleet *f, uint32_t slot, task_id id);
/* It is the turn of that task there, of that user; 0: of nobody. */
void fleet_give_turn(struct fleet *f, uint32_t slot, task_id id, uid_t uid);
/* Where readings stand: windows, low water and meters of all slots come up to now. */
void fleet_advance_all(struct fleet *f, struct now now);

/* As placement sees it ------------------------------------------------------------------------------------------------ */

/* One map_gpu a slot, [i].slot == i, as of now; fleet_size of them, valid until the next call that is not const. Brings up to
 * date what was touched, so it costs what changed. */
const struct map_gpu *fleet_gpus(struct fleet *f, struct now now);
size_t fleet_size(const struct fleet *f);
/* Moves when something of a slot moved that a decision may hang on, as of the last fleet_gpus. */
uint64_t fleet_version(const struct fleet *f);
/* Moves when that concerns more than the slot itself: capacity, kind, or whether it answers. */
uint64_t fleet_shape(const struct fleet *f);
/* The slots that moved since that version, latest first, into `slots` (fleet_size of them). Returns how many. */
size_t fleet_moved_since(const struct fleet *f, uint64_t version, uint32_t *slots);
bool fleet_was_read(const struct fleet *f);
/* Whether any GPU is reserved, or will be; whether one is for that user at that moment. */
bool fleet_has_reserves(const struct fleet *f);
bool fleet_is_reserved_for(const struct fleet *f, uid_t uid, int64_t wall_ms);
/* Mono; when what is known of the slot next moves by time alone, though nothing happens: a run gets warm, loads are inferred.
 * INT64_MAX: never. */
int64_t fleet_ripens_ms(const struct fleet *f, const char *uuid);
/* As core_load_due_ms. */
int64_t fleet_load_due_ms(const struct fleet *f, const char *uuid);
/* Whether anybody wants to know what tasks do to each other: then tenants are filled in. */
bool fleet_predicts(const struct fleet *f);
task_id fleet_kept_for(const struct fleet *f, uint32_t slot);
task_id fleet_turn_of(const struct fleet *f, uint32_t slot);
/* Whether MPS can be had, from servers that serve one user each. */
bool fleet_mps_apart(const struct fleet *f);

/* Whether a running task is to be taken for gone. */
typedef bool fleet_gone(const void *ctx, task_id id);

/* Cores. All GPUs of a machine share them. A running task wants as many as it has threads that run or wait for a core, at most
 * all there are (what more it starts is its own affair). It needs somewhat less: the thread that launches kernels keeps its
 * core busy while it waits for the GPU, too, so a third of the first one is left out. What cores are short of slows all alike:
 *	need = sum of (wanted - 1/3)	speed = min(1, cores / need)	cores = max_cpu x host_cpus
 *	gain of one more, in tasks that run undisturbed = (n + 1) * speed with it - n * speed without it
 * At half a task or less it is better to wait for an idle GPU, or for an end. So nothing changes where cores are enough (gain
 * 1). A small task joins another that wants all there is, and no second one of those does. With max_cpu 1, six tasks that
 * launch are let onto four cores and three onto two; as shipped nine and four, since eight on four were found to lose nothing
 * that waiting gives back, and eight on two a third (decision 164). A task that was not seen yet counts by what runs of its
 * signature wanted, else as one core.
 *
 * What that comes to for one more that would want so many cores, those left out who are gone (NULL: nobody). Zeroed where the
 * machine's cores are not known, or not placed by. */
struct map_cores fleet_cores_room(const struct fleet *f, double wanted, fleet_gone *gone, const void *ctx);
/* The gain beside n others that need c->need, and whether cores are used up by that. */
void fleet_cores_judge(struct map_cores *c, double n);
bool fleet_places_by_cores(const struct fleet *f);
/* Moves when what running tasks need of cores did. */
uint64_t fleet_cores_version(const struct fleet *f);
/* A running task's cores of late, busy and waited for by its threads, and what it needs. NaN: not known, or not placed by. */
struct fleet_cores { double busy, waiting, need; };
struct fleet_cores fleet_cores_of(const struct fleet *f, task_id id);

/* What placement would see of that slot were some of those gone who run there. `tenants` has room for all that do, and lives as
 * long as *out. As of the last fleet_gpus. */
void fleet_gpu_without(const struct fleet *f, uint32_t slot, fleet_gone *gone, const void *ctx, struct now now,
		       struct map_tenant *tenants, struct map_gpu *out);

/* What a map_gpu says of the devices of the last snapshot themselves, whatever runs there: capacity, kind, index. Into `out`
 * (fleet_size of them); returns how many. Changes nothing, and needs no time. */
size_t fleet_devices(const struct fleet *f, struct map_gpu *out);

/* As people and plans see it ------------------------------------------------------------------------------------------ */

/* The only model of GPU there is; "": none was read, or there are several. */
const char *fleet_model(const struct fleet *f);
/* The first model that was read, "" before. */
const char *fleet_first_model(const struct fleet *f);
/* Of that slot, as its last reading has it. */
const char *fleet_model_of(const struct fleet *f, uint32_t slot);
/* Largest capacity that was ever read. */
uint64_t fleet_largest_mib(const struct fleet *f);
/* How many GPUs the last snapshot had. */
size_t fleet_present(const struct fleet *f);

struct fleet_gpu {
	const struct gpu_reading *reading;	/* the last one; the texts live as long as the fleet */
	bool present, stale;			/* present: in the last snapshot */
	bool drained, expected;			/* expected: its SMACT is what is expected after a change, not measured yet */
	struct load load;
	uint64_t held_mib, foreign_mib, available_mib;
	uint64_t leaving_mib;			/* of the held: of attempts that ended, soon to be free */
	unsigned n_tasks;
	enum share_mode mode;			/* of its tasks, if it has any */
	const char *mps_users;			/* of tasks that come under MPS: "together" or "apart"; NULL: none can */
	const struct core_claim *others;	/* what other daemons hold there; valid until that changes */
	size_t n_others;
	const struct proc_reading *procs;	/* of the last snapshot, `claimed` being the owner; valid until the next */
	size_t n_procs;
};
struct fleet_gpu fleet_look(const struct fleet *f, uint32_t slot, int64_t mono_ms);
/* The nth task on it, n below n_tasks, in no particular order. */
task_id fleet_task_on(const struct fleet *f, uint32_t slot, unsigned n);
/* Slots by index, a GPU before its instances; fleet_size of them. Free it. */
uint32_t *fleet_in_order(const struct fleet *f);
/* -1: no slot has that UUID. */
int64_t fleet_slot_of(const struct fleet *f, const char *uuid);

struct fleet_run {
	const struct task *task;
	const uint32_t *slots;
	unsigned n_slots;
	uint64_t held_mib;		/* largest on one slot */
	struct share_task load;		/* what it is taken to do alone; NaN: nobody wants to know */
	double work_s;			/* done so far, as seconds alone; NaN: not known */
	double left_s;			/* still to do by its own progress, as seconds alone; NaN: not known */
};
/* Walks the running attempts in no particular order: start with *at = 0; false at the end. */
bool fleet_next_run(const struct fleet *f, size_t *at, struct fleet_run *out);
/* The clocks of a running attempt (mono), kept with it for those who know what they mean: limits.c and timeslots.c set them. */
struct fleet_clock {
	struct task *task;
	int64_t began_ms;	/* when its program began; before that, when it was placed */
	int64_t timeslot_ms;	/* when its time slot began: with it, or when it was asked last */
	bool warned;		/* the signal before its time limit was sent */
	bool gone;		/* in the look of timeslots.c under way: its place is free */
};
/* NULL: none runs. Valid until it ends. */
struct fleet_clock *fleet_clock_of(const struct fleet *f, task_id id);
/* Walks them in no particular order: start with *at = 0; NULL at the end. */
struct fleet_clock *fleet_next_clock(const struct fleet *f, size_t *at);
/* Slots on which tasks of that feed of that user run, as many as there is room for, each once. */
struct map_company fleet_company(const struct fleet *f, uid_t uid, const char *feed);
/* Walks those tasks in no particular order: start with *at = 0; 0 at the end. */
task_id fleet_next_of_feed(const struct fleet *f, uid_t uid, const char *feed, size_t *at);
/* Slots of a running attempt, 0 if there is none. */
unsigned fleet_slots_of(const struct fleet *f, task_id id, const uint32_t **slots);
size_t fleet_count_runs(const struct fleet *f);
/* GPUs on which attempts run. */
size_t fleet_count_busy(const struct fleet *f);
/* Moves when a running attempt first tells by its progress when it will end. */
uint64_t fleet_told(const struct fleet *f);
/* What a running attempt was seen to use so far; false: none runs. */
bool fleet_measured(const struct fleet *f, task_id id, struct measured *out);
/* What a running attempt is believed to do alone; unknown: none runs, or nobody can say. */
struct load_belief fleet_load(const struct fleet *f, task_id id);
/* How far it says it is, left_s and spread_s as of now; false: nobody knows, or several print into its file. */
bool fleet_progress(const struct fleet *f, task_id id, int64_t mono_ms, struct progress_report *out);
/* Walks the running attempts, beginning with *at = 0, or wherever a walk ended while they were others; 0 at the end. */
task_id fleet_next_to_look(const struct fleet *f, size_t *at);
/* How long nothing was computed for certain by a running task that somebody is at; 0: it computes, or nobody can say. */
int64_t fleet_idle_ms(const struct fleet *f, task_id id, struct now now);
/* The next of these that has been so for `lease_idle`, each once until it computes again; 0: none. */
task_id fleet_idle_due(struct fleet *f, struct now now);
/* Once a minute what was measured of an attempt is to be noted in its log: the next one for which that is due, 0: none. */
task_id fleet_note_due(struct fleet *f, struct now now, struct measured *out);

/* "0", "GPU-..." or a unique beginning of a UUID, to the UUID; NULL with an error. */
const char *fleet_find(const struct fleet *f, const char *word, struct error *err);
/* The whole GPUs on which MPS works and that answer, as "UUID,UUID..." by index. */
void fleet_list_mps(const struct fleet *f, struct buf *out);
/* As core_mps_clients. */
unsigned fleet_mps_clients(const struct fleet *f, const char *gpu_uuid, int64_t uid);

/* Whether the invariants hold: every run on its slots, with an entry in their ledgers, and nothing else there. */
int fleet_check(const struct fleet *f, struct error *err);

#endif
