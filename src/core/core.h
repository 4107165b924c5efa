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
	enum core_order order;	/* of the main queue; the recovery queue has a rule of its own (core/pass.h) */
	struct fair_config fair;	/* whose turn it is, by what users had lately; on, 7 days */
	struct allowance allowance;	/* what each user may have at one time, unless ops->allowance says; nothing is limited */
	int64_t pass_max_ms;	/* 1 h: how long the first in line may be passed before GPUs are kept for it */
	struct recover_policy recover;
	struct window_config window;
	int64_t warm_ms;	/* 30 s: how long a task must have been active before its peak is believed (core/fleet_warm.c) */
	int64_t stale_ms;	/* 10 s: a GPU whose last reading is older counts as silent */
	int64_t cohort_ms;	/* 5 s: MPS clients that die this close together are one cohort */
	/* What all tasks together may ask for of the machine's memory and CPUs (core/host.h). 0 or CORE_HOST_AUTO: placement does
	 * not look at it. */
	uint64_t host_mem_mib, host_cpus;
	double max_cpu;		/* 1.5: tasks may together need this many times host_cpus (core/fleet.h); 0: not looked at */
	int64_t slot_ms;	/* 0: the time slot of tasks that do not name one (core/timeslots.h); 0: they have none */
	int64_t slot_grace_ms;	/* 5 min: how long a task that was asked to make place may take to save and exit */
	int64_t lease_idle_ms;	/* 30 min: a place that is held and unused for so long is reported; 0: never */
	bool kill_invalid_dep;	/* tasks that wait in vain are cancelled, where they do not say (--kill-on-invalid-dep) */
	bool fence;		/* give MPS tasks with a trusted claim a memory limit */
	bool mps_together;	/* one MPS server for all users, where the machine can do that; else one for each user */
	const struct estimator *estimators;	/* the table `auto` goes through; NULL: the one of estimate.h */
	const struct estimator *estimator;	/* the only one asked, instead of `auto`; NULL: `auto` */
	/* True for simulated devices, which are read at every change: a reading holds until the next one of that GPU, so it never
	 * grows stale, and a snapshot lists only the GPUs that changed. False for real ones: a reading speaks for the time before
	 * it, and a GPU that a snapshot does not list is gone. */
	bool readings_stand;
};

/* "auto". The daemon replaces it by what its machine has. */
#define CORE_HOST_AUTO UINT64_MAX
static inline bool core_host_known(uint64_t capacity) { return capacity && capacity != CORE_HOST_AUTO; }

struct core_config core_config_default(void);

/* One moment on both clocks. Durations are measured on the monotonic one; the wall clock may be set. */
struct now { int64_t mono_ms, wall_ms; };

/* What one user's tasks hold on a GPU: tasks of this daemon, or of another one on this machine. */
struct core_claim {
	char uuid[GPU_UUID_LEN];
	uid_t uid;			/* of the tasks; -1: tasks of any user that have ended, whose memory is not free yet */
	uint64_t held_mib;		/* the whole GPU where one of them has it to itself */
	uint64_t observed_mib;		/* of that, what their processes were seen to use */
	unsigned n_tasks;
};

struct core_ops {
	void *ctx;
	/* A task changed. Called after task_apply; `t` may be freed after the call when its state is terminal. */
	void (*event)(void *ctx, const struct event *ev, const struct task *t);
	/* The state of a task, or of a whole job (the worst of its elements), that may have finished long ago. False: there is
	 * none of that id. */
	bool (*state_of)(task_id id, enum task_state *state, void *ctx);
	/* An attended task (HACKING.md) has computed nothing for config.lease_idle_ms. NULL: it is not reported. */
	void (*idle)(void *ctx, const struct task *t);
	/* The running task that the process belongs to, 0 for a foreign process. NULL: p->claimed is believed. */
	task_id (*owner)(void *ctx, const struct proc_reading *p);
	/* In words, what a placed task's start waits for; NULL: it waits for nothing. NULL as a function: none ever waits. */
	const char *(*start_waits)(void *ctx, const struct task *t);
	/* Whether other daemons of this machine leave room for these claims (one row for each GPU of a placement). False: they hold
	 * more than was known; core_others has been called from within this call. NULL: there are no other daemons. */
	bool (*claim)(void *ctx, const struct core_claim *claims, unsigned n);
	/* Asks a slow estimator outside of the core. The answer comes by core_estimated, later and never from within this call.
	 * What `c` points at is valid during the call only. NULL: slow estimators are asked in place. */
	void (*estimate)(void *ctx, int64_t question, const struct estimator *row, struct spec *spec, uint64_t declared_mib,
			 const struct estimate_context *c);
	/* Whether a process of the running task has a handler for the signal that asks it to make place. NULL: always. */
	bool (*slot_hears)(void *ctx, const struct task *t);
	/* A bug of ours, in words for the log: an event that a task's state does not allow, or an invariant that does not hold. */
	void (*trouble)(void *ctx, const char *text);
	/* What the user may have at one time. NULL: what the config says. */
	struct allowance (*allowance)(void *ctx, uid_t uid);
	/* Where that limit of the user is set, in words: "user:ada in /etc/rad/rad.conf:12". NULL: nothing is said. */
	const char *(*allowance_source)(void *ctx, uid_t uid, enum allowance_kind kind);
	/* An ended attempt taught something; keep it for core_remember after a restart. NULL: nobody keeps it. */
	void (*outcome)(void *ctx, const struct outcome *o);
};

/* Copies both. `ops->event`, `state_of` and `trouble` must be set. */
struct core *core_create(const struct core_config *config, const struct core_ops *ops);
/* Takes NULL. */
void core_destroy(struct core *c);
const struct core_config *core_get_config(const struct core *c);
/* Takes over the settings that may change while tasks run: all but `window`, the estimators and `readings_stand`. */
void core_reconfigure(struct core *c, const struct core_config *config);
/* With `readings_stand`: when (mono) to show that GPU again even if nothing happens there, because what is known of it changes
 * by time alone. INT64_MAX: never. */
int64_t core_ripens_ms(const struct core *c, const char *uuid);
/* The same for the mean of its load, which moves on after a change of its reading until the window holds nothing older: the
 * next whole second (mono) at which that makes a difference. INT64_MAX: none, until the reading changes. */
int64_t core_load_due_ms(const struct core *c, const char *uuid);
/* Checks the invariants: every running attempt has a claim on each of its GPUs and every claim an attempt, counts are those of
 * the tasks, each task stands where it belongs, GPUs are kept only for tasks that wait. Returns 0, or -1 with the first one
 * that does not hold. Looks at everything; builds with -Dchecks=true assert it after every event. */
int core_check(const struct core *c, struct error *err);

/* Tasks ------------------------------------------------------------------------------------------------------------- */

/* Whether GPUs of this server could ever run it. */
int core_feasible(const struct core *c, const struct spec *spec, struct error *err);
/* Makes the task, or all elements of its array. Takes over one reference of `spec`. Returns how many tasks. */
size_t core_submit(struct core *c, uint32_t job, struct spec *spec, struct now now);
/* Makes a task of a process that runs already, and places it on the GPUs that it uses, or that somebody announced for it
 * (`spec->announced`). n_gpus equals spec->gpus; the claim is the declared memory. Takes over one reference of `spec`. */
void core_adopt(struct core *c, uint32_t job, struct spec *spec, char (*gpus)[GPU_UUID_LEN], uint32_t n_gpus, struct now now);
/* Which limit the user exceeds, as may be after an adoption: none of the user's tasks starts until that is over.
 * ALLOWANCE_COUNT: none. */
enum allowance_kind core_over_allowance(const struct core *c, uid_t uid);
/* As tasks_spec_grew. */
void core_spec_grew(struct core *c, uint32_t job, size_t bytes);
/* Takes over a task replayed from the store. Running ones hold their GPUs from now on. */
void core_restore(struct core *c, struct task *t, struct now now);

/* These return 0, or -1 with an error: ERR_NOT_FOUND, or ERR_CONFLICT where the task's state does not allow it. `uid` is who
 * asks; it goes into the event log. */
int core_hold(struct core *c, task_id id, uint32_t uid, struct now now, struct error *err);
/* Stop the processes of a running task, which keeps all that it holds, and let them go on. Its time limit stands still
 * meanwhile. The task's owner may not suspend it where another user has a reservation (ERR_CONFLICT), nor resume it after
 * somebody else, so an administrator, suspended it (ERR_DENIED). */
int core_suspend(struct core *c, task_id id, uint32_t uid, struct now now, struct error *err);
int core_resume(struct core *c, task_id id, uint32_t uid, struct now now, struct error *err);
int core_release(struct core *c, task_id id, uint32_t uid, struct now now, struct error *err);
/* Pending: ends it. Running: EV_STOP_ASKED, the wiring ends its processes. */
int core_cancel(struct core *c, task_id id, uint32_t uid, struct now now, struct error *err);
/* `ev->u.updated` says what to change; kind, task and time of *ev are set here. What would change nothing makes no event. */
int core_update(struct core *c, task_id id, struct event *ev, struct now now, struct error *err);
/* Whether these tasks may depend on that: 0, or -1 where one of them would wait for itself. */
int core_check_deps(struct core *c, const task_id *ids, size_t n, const struct dependency *deps, size_t n_deps,
		    struct error *err);
/* Of an adopted task or a lease: ends the task, while its process goes on. EV_STOP_ASKED, or EV_CANCELLED if it still waits. */
int core_give_back(struct core *c, task_id id, uint32_t uid, struct now now, struct error *err);
/* Running: stops it and queues it again. (A finished one is restored from the store first.) */
int core_requeue(struct core *c, task_id id, uint32_t uid, struct now now, struct error *err);

/* The answer to ops->estimate. !spoke: the estimator knows nothing, failed, or took too long; said->note says why, and the next
 * estimator is asked. */
void core_estimated(struct core *c, int64_t question, bool spoke, const struct estimate_result *said, struct now now);
/* After a restart: what attempts taught, in the order in which ops->outcome told it. */
void core_remember(struct core *c, const struct outcome *o);

/* NULL: there is no live task of that id. Valid until an event ends the task. */
struct task *core_task(const struct core *c, task_id id);
/* Calls `each` for every live task: running ones first, then the queue in its order, then held and waiting ones. */
void core_each_task(const struct core *c, void (*each)(void *ctx, const struct task *t), void *ctx);
/* As tasks_jobs_named. */
size_t core_jobs_named(const struct core *c, uid_t uid, const char *name, size_t most, uint32_t **jobs);
size_t core_count(const struct core *c, enum task_state state);
/* How many live tasks the user has; the size of what was submitted for them. */
size_t core_user_tasks(const struct core *c, uid_t uid);
size_t core_user_bytes(const struct core *c, uid_t uid);
/* Every user of whom something is known: those with tasks in the queue first, in the order of their turns. Returns how many;
 * the caller frees *list. */
struct core_user {
	struct fair_standing standing;
	size_t live;		/* unfinished tasks */
	unsigned turn;		/* from 1; 0: none of the user's tasks waits, or too many others are before it */
	task_id next;		/* the task whose turn that is */
};
size_t core_users(struct core *c, struct core_user **list);
/* After a restart, before core_restore: what a user had used by then, as core_users told it. */
void core_remember_used(struct core *c, uid_t uid, double used_s, int64_t wall_ms, struct now now);
/* The same: when the user's last attempt began. */
void core_remember_start(struct core *c, uid_t uid, int64_t wall_ms, struct now now);
/* Allowances have changed, or whether a task may begin before its capture: what was decided by them is decided anew. */
void core_reconsider(struct core *c);
/* Whether the task waits for other tasks in vain: see tasks_waits_in_vain. */
bool core_waits_in_vain(const struct core *c, const struct task *t);
/* The live elements of an array job (or the one task), in order of index. The caller frees *ids. */
size_t core_job_tasks(const struct core *c, uint32_t job, task_id **ids);
/* Whether a waiting task depends on that task, or on its job. */
bool core_is_waited_for(const struct core *c, task_id id);
/* The state of the job's least advanced live element: PENDING, HELD or RUNNING. False: none is live. */
bool core_job_state(const struct core *c, uint32_t job, enum task_state *state);

/* Attempts ---------------------------------------------------------------------------------------------------------- */

/* The shim of a placed task runs. */
void core_started(struct core *c, task_id id, struct proc_id shim, struct now now);
/* The attempt ended: `r` as launch_result filled it (or never_began). The core adds what the device showed. The verdict may
 * come up to cohort_ms later, when MPS neighbours have had time to die of the same cause. */
void core_exited(struct core *c, task_id id, const struct exit_report *r, struct now now);

/* How far the running attempt is by its own output; `file`: a number for the file that it prints into. Call it every few
 * seconds, whether anything is new or not; impossible reports are ignored. */
void core_progress(struct core *c, task_id id, const struct progress_report *r, uint64_t file, struct now now);
/* The most of the machine's memory that a running task was seen to take; a smaller figure than before changes nothing. */
void core_host_peak(struct core *c, task_id id, uint64_t mib);
/* What the running task's processes took of the CPUs so far. Call it every few seconds, whether anything is new or not. */
void core_cpu(struct core *c, task_id id, const struct cpu_sums *sums);
/* Whether the running task was asked to make place (EV_SLOT_ASKED) and still has time to do so. */
bool core_is_leaving(const struct core *c, const struct task *t, struct now now);
/* Walks the running attempts: begin with *at = 0; returns 0 at the end. Attempts may come and go during a walk: one that is
 * missed is met in the next walk, and none is returned twice in a row. */
task_id core_next_running(const struct core *c, size_t *at);

/* GPUs -------------------------------------------------------------------------------------------------------------- */

/* Which MPS servers the machine can run: none, one for each user, or one for all users. */
enum core_mps { CORE_MPS_NONE, CORE_MPS_APART, CORE_MPS_TOGETHER };

/* A new snapshot, and which MPS servers the machine can run. */
void core_snapshot(struct core *c, const struct snapshot *s, enum core_mps mps, struct now now);
/* All that other daemons of this machine hold; replaces what was said before. */
void core_others(struct core *c, const struct core_claim *claims, size_t n);
/* What our tasks hold: a row for each GPU and user, at most `most` of them; where there are more, several users of a GPU count
 * as one of them. Returns how many. */
size_t core_claims(const struct core *c, struct core_claim *out, size_t most);
/* The GPU may be one that was not read yet since the start: it is known by its UUID once it is. */
void core_drain(struct core *c, const char *uuid, bool drained);
/* The wall clock was set forward by by_ms (below 0: back). The moments in tasks' records move along, so that the times between
 * them stay what they were. A moment that a person named (--begin, a reservation) stays where it is. */
void core_clock_set(struct core *c, int64_t by_ms, struct now now);
/* GPUs that are for one user's tasks during a span of time (wall). A task of another user does not start there if it may run
 * into the span, and in it the user's tasks go before others'. No running task is ended for it. */
struct core_reservation {
	uint32_t id;
	uid_t uid;
	int64_t begin_ms, end_ms;
	unsigned n_gpus;
	char (*gpus)[GPU_UUID_LEN];
};
/* All reservations; replaces those before. Call it again whenever one comes, goes, or begins. */
void core_reserve(struct core *c, const struct core_reservation *list, size_t n);
/* Chooses want->n_gpus GPUs that no other reservation has in that span, first those with the fewest tasks that may still run
 * then, into want->gpus (room for SPEC_MAX_GPUS). `given`: want->gpus names them already, and they are only checked. Returns 0,
 * or -1: ERR_CONFLICT, too few are free. */
int core_pick_reserved(struct core *c, const struct core_reservation *others, size_t n, struct core_reservation *want,
		       bool given, struct now now, struct error *err);
/* Tasks of other users on its GPUs that may still run when it begins: [{"task","user","gpus","end_time"}]; end_time null: not
 * known. */
json_t *core_overlaps_json(struct core *c, const struct core_reservation *r, struct now now);
/* "0", "GPU-..." or a unique beginning of a UUID, to the UUID; NULL with an error. Valid while the core lives. */
const char *core_find_gpu(const struct core *c, const char *word, struct error *err);
size_t core_gpu_count(const struct core *c);
size_t core_gpus_of_machine(const struct core *c);	/* those that this radd does not use, too */

/* Walks the processes of the last snapshot, GPU by GPU: begin with *at zeroed; false at the end. *out points at what lives
 * until the next snapshot; process->claimed is the task that the process belongs to. */
struct core_process { const struct gpu_reading *gpu; const struct proc_reading *process; };
struct core_process_at { uint32_t slot; size_t n; };
bool core_next_process(const struct core *c, struct core_process_at *at, struct core_process *out);

/* The GPUs of a running attempt, for the launcher. Returns how many; 0: no attempt runs. UUIDs live as long as the core. */
struct core_gpu_ref { const char *uuid; uint32_t index; bool mig; };
size_t core_task_gpus(const struct core *c, task_id id, struct core_gpu_ref out[SPEC_MAX_GPUS]);
/* The whole GPUs that answer and on which MPS works, as "UUID,UUID..." in order of index. */
void core_mps_gpus(const struct core *c, struct buf *out);
/* How many of our tasks on that GPU are clients of the MPS server of user `uid`, or of the one for all users (MAP_MPS_ALL). */
unsigned core_mps_clients(const struct core *c, const char *gpu_uuid, int64_t uid);

/* Deciding ---------------------------------------------------------------------------------------------------------- */

/* Does everything that is due: time limits, late verdicts, placements. Returns when to call again at the latest (mono), or
 * INT64_MAX. Costs in proportion to what has changed since the last call. */
int64_t core_turn(struct core *c, struct now now);

/* Views ------------------------------------------------------------------------------------------------------------- */

/* The task object with reason, reason_text and shared_with: what of it is wanted (NULL: all), `id`, and of one that runs what
 * hangs on the moment. */
json_t *core_task_json(struct core *c, const struct task *t, struct now now, const struct task_wants *w);
/* The word of the task's reason; NULL: it has none. */
const char *core_task_reason(struct core *c, const struct task *t, struct now now);
/* {"schema":1,"gpus":[...]} */
json_t *core_gpus_json(struct core *c, struct now now);
/* {"schema":1,"task","state","reason","reason_text","claim_mib","gpus":[{"index","uuid","reason","text",...}]} */
json_t *core_why_json(struct core *c, task_id id, struct now now, struct error *err);
/* When waiting tasks are expected to start: the first 500, in the order of the queue. {"schema":1,"truncated",
 * "starts":[{"id","start_time","in_s","source"}]}; null: not known. source, what the time rests on: "plan"; "progress" (output
 * of running tasks); "runs" (earlier runs of the same signature); "capture" (steps that captures counted); "limit" (time
 * limits: at the latest then); "begin" (--begin: no sooner). */
json_t *core_starts_json(struct core *c, struct now now);
/* The pace of this machine's host, by so many tasks (estimate/hostpace.h): {"pace","tasks"}; null: no task has told yet. */
json_t *core_host_pace_json(const struct core *c);
/* Of a task that is not submitted: {"schema":1,"dry_run":true,"fits_now","estimate":{...},"gpus":[as above]}. */
json_t *core_preview_json(struct core *c, struct spec *spec, struct now now);

#endif
