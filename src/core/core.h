/* SPDX-License-Identifier: MIT
 *
 * The core: tasks, GPUs and the decisions about them. It joins the pure stages (queue, estimate, window, ledger, map,
 * recover, account) and is itself free of I/O: time and readings come in as arguments, changes go out as events. The daemon
 * and the simulator are two wirings of it, so a policy that was simulated is the policy that ships.
 *
 *	in:	requests of people, snapshots of the GPUs, starts and ends of attempts, time
 *	out:	ops->event for every change (the wiring stores it, then acts on EV_PLACED and EV_STOP_ASKED)
 */
#ifndef RAD_CORE_CORE_H
#define RAD_CORE_CORE_H

#include "base/buf.h"
#include "base/error.h"
#include "estimate/estimate.h"
#include "estimate/history.h"
#include "map/map.h"
#include "device/reading.h"
#include "monitor/window.h"
#include "parse/progress.h"
#include "queue/allowance.h"
#include "queue/fair.h"
#include "recover/recover.h"
#include "task/task.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct core;

/* name, word, meaning */
#define CORE_ORDERS(X) \
	X(ORDER_FIFO, "fifo", "a task that does not fit yet has GPUs kept; later ones start where that puts it off no further") \
	X(ORDER_BACKFILL, "backfill", "later tasks that fit may pass it, for a while") \
	X(ORDER_PLAN, "plan", "as is expected to get all done soonest; none is passed over for long") \
	X(ORDER_STRICT, "strict", "nothing passes a task that does not fit yet")

enum core_order {
#define X(name, word, help) name,
	CORE_ORDERS(X)
#undef X
	CORE_ORDER_COUNT
};

const char *core_order_name(enum core_order order);

struct core_config {
	struct map_policy map;
	enum core_order order;	/* of the main queue; recovering tasks have their own rule in both */
	struct fair_config fair;	/* whose turn it is, by what users had lately; on, 7 days */
	struct allowance allowance;	/* what each user may have at one time, unless ops->allowance says; nothing is limited */
	int64_t pass_max_ms;	/* 1 h: how long the first in line may be passed before GPUs are kept for it */
	struct recover_policy recover;
	struct window_config window;
	int64_t warm_ms;	/* 30 s: activity a task must have shown before its memory is believed; also a full window */
	int64_t stale_ms;	/* 10 s: an older reading of a GPU is none */
	int64_t cohort_ms;	/* 5 s: MPS clients that die this close together are one cohort */
	uint64_t host_mem_mib, host_cpus;	/* that tasks get in all (core/host.h); 0 or CORE_HOST_AUTO: not placed by */
	double max_cpu;		/* 1.5: part of host_cpus that tasks may need together (core/fleet.h); 0: not placed by */
	int64_t slot_ms;	/* 0: none; the time slot of tasks that do not say (core/timeslots.h) */
	int64_t slot_grace_ms;	/* 5 min: in which one that was asked to make place is expected to have saved and gone */
	int64_t lease_idle_ms;	/* 30 min: after which a place that is held and not used is told; 0: never */
	bool fence;		/* give MPS tasks with a trusted claim a memory limit */
	bool mps_together;	/* one MPS server for all users, where the machine can do that; else each has his own */
	const struct estimator *estimators;	/* the table `auto` goes through; NULL: the one of estimate.h */
	const struct estimator *estimator;	/* the only one asked, instead of `auto`; NULL: `auto` */
	/* A reading stands until the next one of that GPU, as of simulated devices that are read at every change. Snapshots
	 * then name the GPUs that changed, and no reading grows stale. Otherwise a reading speaks for the time before it, and
	 * a snapshot that does not name a GPU says that it is gone. */
	bool readings_stand;
};

/* "auto": the daemon puts what its machine has in place of it. */
#define CORE_HOST_AUTO UINT64_MAX
static inline bool core_host_known(uint64_t capacity) { return capacity && capacity != CORE_HOST_AUTO; }

struct core_config core_config_default(void);

struct now { int64_t mono_ms, wall_ms; };

/* What one user's tasks hold on a GPU, of ours or of another daemon of this machine. */
struct core_claim {
	char uuid[GPU_UUID_LEN];
	uid_t uid;			/* of the tasks; -1: of tasks that ended, whoever's they were */
	uint64_t held_mib;		/* all of the GPU's where one of them has it to itself */
	uint64_t observed_mib;		/* of that, what their processes were seen to use */
	unsigned n_tasks;
};

struct core_ops {
	void *ctx;
	/* A task changed. Called after task_apply; `t` may be freed after the call when its state is terminal. */
	void (*event)(void *ctx, const struct event *ev, const struct task *t);
	/* Send the running task this signal (the warning before its time limit). */
	void (*signal)(void *ctx, const struct task *t, int signal);
	/* The state of a task or of a whole job (the worst of its elements) that may have finished long ago. False: no such. */
	bool (*state_of)(task_id id, enum task_state *state, void *ctx);
	/* Nothing was computed by that task, which somebody is at, for config.lease_idle_ms. NULL: nobody wants to know. */
	void (*idle)(void *ctx, const struct task *t);
	/* Whose process that is: a task now running, or 0 for a foreign one. NULL: its claim is believed. */
	task_id (*owner)(void *ctx, const struct proc_reading *p);
	/* What the start of a placed task waits for, in words; NULL: for nothing. NULL as a function: never. */
	const char *(*start_waits)(void *ctx, const struct task *t);
	/* May a task be placed there, holding that (one row a GPU), as far as other daemons go? False: they hold more there
	 * than core_others said so far, which has been called meanwhile. NULL: there are no others. */
	bool (*claim)(void *ctx, const struct core_claim *claims, unsigned n);
	/* Has a slow row asked elsewhere, and answers by core_estimated, not from within this call. What the context points at
	 * is for the time of the call. NULL: slow rows are asked in place. */
	void (*estimate)(void *ctx, int64_t question, const struct estimator *row, struct spec *spec, uint64_t declared_mib,
			 const struct estimate_context *c);
	/* Whether the running task was asked to make place, and none of its processes has a handler for its signal: it was sent
	 * to nobody. NULL: never. */
	bool (*slot_unheard)(void *ctx, const struct task *t);
	/* An event that a task's state does not allow, or an invariant that does not hold: a bug of ours, in words for the
	 * log. */
	void (*trouble)(void *ctx, const char *text);
	/* What that user may have at one time. NULL: as the config says. */
	struct allowance (*allowance)(void *ctx, uid_t uid);
	/* Where that limit of his stands, in words: "user:ada in /etc/rad/rad.conf:12". NULL: nothing is said. */
	const char *(*allowance_source)(void *ctx, uid_t uid, enum allowance_kind kind);
	/* Something was learnt: to be kept for core_remember after a restart. NULL: nobody keeps it. */
	void (*outcome)(void *ctx, const struct outcome *o);
};

struct core *core_create(const struct core_config *config, const struct core_ops *ops);
void core_destroy(struct core *c);
const struct core_config *core_get_config(const struct core *c);
/* Takes over the settings that may change while tasks run: all but `window`, the estimators and `readings_stand`. */
void core_reconfigure(struct core *c, const struct core_config *config);
/* Where readings stand: when (mono) that GPU is to be shown again though nothing happened there, since something that is known
 * of it ripens by time. INT64_MAX: never. */
int64_t core_ripens_ms(const struct core *c, const char *uuid);
/* The same for the mean of its load, which goes on moving after a change of its reading until the window holds nothing older:
 * the next whole second (mono) at which that makes a difference. INT64_MAX: none, as long as the reading stands. */
int64_t core_load_due_ms(const struct core *c, const char *uuid);
/* Whether the invariants hold: every running attempt has a claim on each of its GPUs and every claim an attempt, counts are
 * those of the tasks, each task stands where it belongs, GPUs are kept for tasks that wait. -1 with the first that does not.
 * Looks at everything; with -Dchecks=true it is asserted after every event. */
int core_check(const struct core *c, struct error *err);

/* Tasks ------------------------------------------------------------------------------------------------------------- */

/* Whether GPUs of this server could ever run it. */
int core_feasible(const struct core *c, const struct spec *spec, struct error *err);
/* Makes the task, or all elements of its array. Takes over one reference of `spec`. Returns how many tasks. */
size_t core_submit(struct core *c, uint32_t job, struct spec *spec, struct now now);
/* Makes the task of a process that is there already, and places it on those GPUs, where it is, or is going to be by another's
 * word (`announced`), `spec->gpus` of them; its claim is the declared memory. Takes over one reference of `spec`. */
void core_adopt(struct core *c, uint32_t job, struct spec *spec, char (*gpus)[GPU_UUID_LEN], uint32_t n_gpus, struct now now);
/* Which of what that user may have he has more of, as after an adoption: then none of his starts until he has less.
 * ALLOWANCE_COUNT: nothing. */
enum allowance_kind core_over_allowance(const struct core *c, uid_t uid);
/* Takes over a task replayed from the store. Running ones hold their GPUs from now on. */
void core_restore(struct core *c, struct task *t, struct now now);

/* These return 0, or -1 with a text that says why that task cannot (state, not found). `uid` goes into the log. */
int core_hold(struct core *c, task_id id, uint32_t uid, struct now now, struct error *err);
/* Stops the processes of a running task, which keeps all it holds, and lets them go on. Its time limit stands still. Its owner
 * may not where another user has a reservation there (ERR_CONFLICT), nor resume what another user, so an administrator,
 * suspended (ERR_DENIED). */
int core_suspend(struct core *c, task_id id, uint32_t uid, struct now now, struct error *err);
int core_resume(struct core *c, task_id id, uint32_t uid, struct now now, struct error *err);
int core_release(struct core *c, task_id id, uint32_t uid, struct now now, struct error *err);
/* Pending: ends it. Running: EV_STOP_ASKED, the wiring ends its processes. */
int core_cancel(struct core *c, task_id id, uint32_t uid, struct now now, struct error *err);
/* `ev->u.updated` says what; kind and task are set here. */
int core_update(struct core *c, task_id id, struct event *ev, struct now now, struct error *err);
/* The process of that task goes on, and is no task any more: EV_STOP_ASKED, or EV_CANCELLED where it waits. */
int core_give_back(struct core *c, task_id id, uint32_t uid, struct now now, struct error *err);
/* Running: stops it and queues it again. (A finished one is restored from the store first.) */
int core_requeue(struct core *c, task_id id, uint32_t uid, struct now now, struct error *err);

/* The answer of ops->estimate. A row that did not answer (it knows nothing, failed, or took too long) says why in its note, and
 * the next one is asked. */
void core_estimated(struct core *c, int64_t question, bool spoke, const struct estimate_result *said, struct now now);
/* What an attempt taught, as ops->outcome told it in an earlier life; in the same order. */
void core_remember(struct core *c, const struct outcome *o);

struct task *core_task(const struct core *c, task_id id);
/* Calls for every live task, running ones first, then in the order of the queue, then held and waiting ones. */
void core_each_task(const struct core *c, void (*each)(void *ctx, const struct task *t), void *ctx);
size_t core_count(const struct core *c, enum task_state state);
/* How many live tasks that user has, and how large what he submitted for them is. */
size_t core_user_tasks(const struct core *c, uid_t uid, size_t *bytes);
/* Every user of whom something is known: those who have tasks in the queue first, in the order of their turns. Returns how
 * many; free *list. */
struct core_user {
	struct fair_standing standing;
	size_t live;		/* unfinished tasks */
	unsigned turn;		/* from 1; 0: none of his waits, or too many are before it */
	task_id next;		/* whose turn that is */
};
size_t core_users(struct core *c, struct core_user **list);
/* What a user had used at that time, as core_users told it in an earlier life. Before core_restore. */
void core_remember_used(struct core *c, uid_t uid, double used_s, int64_t wall_ms, struct now now);
/* What users may have changed. */
void core_reconsider(struct core *c);
/* Whether it waits for other tasks in vain: see tasks_waits_in_vain. */
bool core_waits_in_vain(const struct core *c, const struct task *t);
/* The live elements of an array job (or the one task), in order of index. Free *ids. */
size_t core_job_tasks(const struct core *c, uint32_t job, task_id **ids);
/* Whether a task that waits depends on that one, or on its job. */
bool core_is_waited_for(const struct core *c, task_id id);
/* A job's state, as of its live elements, as far as the least advanced of them: PENDING, HELD or RUNNING. False: none lives. */
bool core_job_state(const struct core *c, uint32_t job, enum task_state *state);

/* Attempts ---------------------------------------------------------------------------------------------------------- */

/* The shim of a placed task runs. */
void core_started(struct core *c, task_id id, struct proc_id shim, struct now now);
/* The attempt ended: `r` as launch_result filled it (or never_began). The core adds what the device showed. The verdict may
 * come up to cohort_ms later, when MPS neighbours have had time to die of the same cause. */
void core_exited(struct core *c, task_id id, const struct exit_report *r, struct now now);

/* How far the running attempt is by its own output, which goes into a file of that number. Told of each every few seconds,
 * new or not; what cannot be is left aside. */
void core_progress(struct core *c, task_id id, const struct progress_report *r, uint64_t file, struct now now);
/* What a running task was seen to take of the machine's memory at most; less than before changes nothing. */
void core_host_peak(struct core *c, task_id id, uint64_t mib);
/* What its processes took of the CPUs so far, told every few seconds, new or not. */
void core_cpu(struct core *c, task_id id, const struct cpu_sums *sums);
/* Whether the running task was asked to make place (EV_SLOT_ASKED) and still has time to go. */
bool core_is_leaving(const struct core *c, const struct task *t, struct now now);
/* Walks the running attempts, beginning with *at = 0; 0 at the end. They may change during a walk: none is then told twice in
 * a row, and one that was left out comes in the next. */
task_id core_next_running(const struct core *c, size_t *at);

/* GPUs -------------------------------------------------------------------------------------------------------------- */

/* Which MPS servers can be had on a machine: none, for one user each, and for all users. */
enum core_mps { CORE_MPS_NONE, CORE_MPS_APART, CORE_MPS_TOGETHER };

/* A new snapshot. */
void core_snapshot(struct core *c, const struct snapshot *s, enum core_mps mps, struct now now);
/* What other daemons hold, all of it; in the place of what was said before. */
void core_others(struct core *c, const struct core_claim *claims, size_t n);
/* What ours hold, at most so many rows; one for each GPU and user. Returns how many. */
size_t core_claims(const struct core *c, struct core_claim *out, size_t most);
/* A GPU that has not been read yet, after a start, will be known by its UUID. */
void core_drain(struct core *c, const char *uuid, bool drained);
/* The wall clock was set, forward by so much; below 0: back. What tasks have of moments moves along, so that times between them
 * stay what they were; what is to begin or end at a moment that a person named stays there. */
void core_clock_set(struct core *c, int64_t by_ms, struct now now);
/* GPUs that are for one user's tasks in a span of time (wall): no task of others starts there that may run into it, and his go
 * before others'. Nobody is ended for it. */
struct core_reservation {
	uint32_t id;
	uid_t uid;
	int64_t begin_ms, end_ms;
	unsigned n_gpus;
	char (*gpus)[GPU_UUID_LEN];
};
/* All that there are, instead of those before. To be told again whenever one comes, goes, or begins. */
void core_reserve(struct core *c, const struct core_reservation *list, size_t n);
/* Chooses want->n_gpus GPUs that are in none of the others in that span, those with the fewest tasks that may still run then
 * first, into want->gpus (room for SPEC_MAX_GPUS); `given`: those that stand there already, which are checked. ERR_CONFLICT
 * when there are too few. */
int core_pick_reserved(struct core *c, const struct core_reservation *others, size_t n, struct core_reservation *want,
		       bool given, struct now now, struct error *err);
/* Tasks of others on its GPUs that run when it begins, or may: [{"task","user","gpus","end_time"}]; end_time null: nobody
 * knows. */
json_t *core_overlaps_json(struct core *c, const struct core_reservation *r, struct now now);
/* "0", "GPU-..." or a unique beginning of a UUID, to the UUID; NULL with an error. Valid while the core lives. */
const char *core_find_gpu(const struct core *c, const char *word, struct error *err);
size_t core_gpu_count(const struct core *c);

/* Walks the processes that the last snapshot saw, GPU by GPU: begin with zeroes. False at the end. What is pointed at lives
 * until the next snapshot; `claimed` is the task that it belongs to. */
struct core_process { const struct gpu_reading *gpu; const struct proc_reading *process; };
struct core_process_at { uint32_t slot; size_t n; };
bool core_next_process(const struct core *c, struct core_process_at *at, struct core_process *out);

/* One GPU of a running attempt, for the launcher. Returns how many. */
struct core_gpu_ref { const char *uuid; uint32_t index; bool mig; };
size_t core_task_gpus(const struct core *c, task_id id, struct core_gpu_ref out[SPEC_MAX_GPUS]);
/* The whole GPUs on which MPS works and that answer, as "UUID,UUID..." by index. */
void core_mps_gpus(const struct core *c, struct buf *out);
/* How many of our tasks there are clients of that user's MPS server; of the one for all: MAP_MPS_ALL. */
unsigned core_mps_clients(const struct core *c, const char *gpu_uuid, int64_t uid);

/* Deciding ---------------------------------------------------------------------------------------------------------- */

/* Time limits, late verdicts, placements: everything that is due. Returns when to call again at the latest (mono), or
 * INT64_MAX. Costs what has changed since the last call. */
int64_t core_turn(struct core *c, struct now now);

/* Views ------------------------------------------------------------------------------------------------------------- */

/* The task object with reason, reason_text and shared_with. */
json_t *core_task_json(struct core *c, const struct task *t, struct now now);
/* Only its brief members (task_to_json_brief) and its reason. */
json_t *core_task_brief_json(struct core *c, const struct task *t, struct now now);
/* The word of its reason; NULL: there is none. */
const char *core_task_reason(struct core *c, const struct task *t, struct now now);
/* {"schema":1,"gpus":[...]} */
json_t *core_gpus_json(struct core *c, struct now now);
/* {"schema":1,"task","state","reason","reason_text","claim_mib","gpus":[{"index","uuid","reason","text",...}]} */
json_t *core_why_json(struct core *c, task_id id, struct now now, struct error *err);
/* When tasks that wait are expected to start, in the order of the queue, the first 500: {"schema":1,"truncated",
 * "starts":[{"id","start_time","in_s","source"}]}, null where nobody knows. source: plan; progress (what running tasks say of
 * themselves), runs (what runs like them took), limit (time limits: at the latest), begin (--begin: no
 * sooner). */
json_t *core_starts_json(struct core *c, struct now now);
/* How this machine's host was found to be (estimate/hostpace.h): {"pace","tasks"}; null: by no task yet. */
json_t *core_host_pace_json(const struct core *c);
/* A task that is not submitted: {"schema":1,"dry_run":true,"fits_now","estimate":{...},"gpus":[as above]}. */
json_t *core_preview_json(struct core *c, struct spec *spec, struct now now);

#endif
