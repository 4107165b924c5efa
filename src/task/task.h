/* SPDX-License-Identifier: MIT
 *
 * The task record, its states and its events. A task *is* its event log: task_apply is the only code that changes a
 * task, and it serves live running, restart and simulation alike. No I/O, no clock: events carry their time.
 */
#ifndef RAD_TASK_TASK_H
#define RAD_TASK_TASK_H

#include "base/error.h"
#include "base/proc.h"
#include "task/load.h"
#include "task/pace.h"
#include "task/spec.h"
#include "task/wants.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* "12" is job 12; "12_3" is element 3 of array job 12. One number, so that ids sort and compare; of 52 bits,
 * so that a double, which columns and JavaScript sort by, holds each one exactly. */
typedef int64_t task_id;
#define TASK_INDEX_BITS 20
#define TASK_ID(job, index) (((task_id)(job) << TASK_INDEX_BITS) | ((task_id)(index) + 1))
#define TASK_JOB(id) ((uint32_t)((id) >> TASK_INDEX_BITS))
#define TASK_INDEX(id) ((int32_t)((id) & ((1 << TASK_INDEX_BITS) - 1)) - 1)	/* -1: no array */
#define TASK_ID_TEXT 24

char *task_id_text(task_id id, char buf[TASK_ID_TEXT]);
/* Returns 0, or -1 with an error that shows the two forms. */
int task_id_parse(const char *text, task_id *id, struct error *err);
/* Of two ids, for qsort and bsearch. */
int task_id_compare(const void *a, const void *b);
/* Sorts ids and keeps each once. Returns how many are left. */
size_t task_ids_sort(task_id *ids, size_t n);
/* The task or job that a dependency of that task is on. Under aftercorr, an element of an array depends on the element of the
 * same index of the other array. */
task_id task_dependency_target(task_id id, const struct dependency *d);

/* name, long word, short code, terminal */
#define TASK_STATES(X) \
	X(TASK_PENDING, "PENDING", "PD", false) \
	X(TASK_HELD, "HELD", "H", false) \
	X(TASK_RUNNING, "RUNNING", "R", false) \
	X(TASK_COMPLETED, "COMPLETED", "CD", true) \
	X(TASK_FAILED, "FAILED", "F", true) \
	X(TASK_OUT_OF_MEMORY, "OUT_OF_MEMORY", "OOM", true) \
	X(TASK_CANCELLED, "CANCELLED", "CA", true) \
	X(TASK_TIMEOUT, "TIMEOUT", "TO", true) \
	X(TASK_LOST, "LOST", "LO", true)

enum task_state {
#define X(name, word, code, terminal) name,
	TASK_STATES(X)
#undef X
	TASK_STATE_COUNT
};

/* Of TASK_STATE_COUNT too, a state that a newer release has: "?", and no end. */
const char *task_state_name(enum task_state s);
const char *task_state_code(enum task_state s);
bool task_state_terminal(enum task_state s);
/* Word or code, any case. Returns 0 or -1. */
int task_state_parse(const char *word, enum task_state *s);

/* Why an attempt ended (stage `recover` decides it). */
#define VERDICTS(X) \
	X(VERDICT_NONE, "none") \
	X(VERDICT_OK, "ok") \
	X(VERDICT_OOM, "oom")			/* GPU memory */ \
	X(VERDICT_HOST_OOM, "host_oom") \
	X(VERDICT_FAILED, "failed") \
	X(VERDICT_TIMEOUT, "timeout") \
	X(VERDICT_CANCELLED, "cancelled") \
	X(VERDICT_NEIGHBOUR, "neighbour")	/* another client's fault took it down */ \
	X(VERDICT_LOST, "lost")			/* nobody knows: no exit record */ \
	X(VERDICT_LAUNCH, "launch")		/* it never began: our side or the MPS server failed */ \
	X(VERDICT_SLOT, "slot")			/* its time slot was over: it saved what it did, and goes on later */

enum verdict {
#define X(name, word) name,
	VERDICTS(X)
#undef X
	VERDICT_COUNT
};

const char *verdict_name(enum verdict v);
/* Returns 0 or -1. */
int verdict_parse(const char *word, enum verdict *v);

/* Where a task goes when an attempt has ended. */
enum task_next {
	NEXT_DONE,	/* to a terminal state */
	NEXT_QUEUE,	/* back into the main queue, at its old place */
	NEXT_RECOVER,	/* into the recovery queue */
};

/* Which queue a pending task stands in. */
enum task_queue { QUEUE_MAIN, QUEUE_RECOVERY };

#define GPU_UUID_LEN 64

/* What an estimator said (stage `estimate`). All MiB, per GPU; 0: unknown. */
struct estimate {
	char estimator[16];	/* "declared", "history", ..., "none" */
	uint64_t need_mib;	/* smallest cap that works */
	uint64_t comfort_mib;	/* what it takes when memory is free */
	uint64_t claim_mib;	/* what placement holds for it; 0: unknown, place by min_free */
	bool fenced;		/* claim may be enforced by an MPS limit */
	bool enforced_for_life;	/* declared, history or fenced: the hold does not shrink to what is seen */
	char *note;		/* from what, in words; NULL: not said. A task owns its own */
	struct load_belief prior;	/* what it will do to a GPU, before any run told; zeroed: not said */
};

/* What all processes of an attempt took of the machine's CPUs since it began, as sums over their threads. */
struct cpu_sums {
	int64_t ran_ms;		/* how long the attempt had run by then; 0: nothing is known */
	int64_t cpu_ms;		/* in which threads ran */
	int64_t wait_ms;	/* in which threads were ready to run, and others had the cores; -1: the kernel does not tell */
};

/* What was measured of one attempt so far. NaN: not known. */
struct measured {
	uint64_t peak_mib;	/* largest on one GPU; 0: not known */
	double mean_smact;	/* over its life, mean over its GPUs; 0..1 */
	double mean_smocc, mean_dram, mean_pcie_rx_mib_s, mean_pcie_tx_mib_s;	/* the same; the traffic to a GPU and from it */
	double alone_s;		/* time without a neighbour on any of its GPUs */
	double energy_j;	/* its part: of what its GPUs drew idle, an equal one; of the rest, by share/power.h */
	bool warm;		/* ran long enough for the peak to mean something */
	/* Mean loads of its GPUs while it was alone there and active: what it adds to a GPU. NaN: never seen so. */
	double alone_gract, alone_smact, alone_dram, alone_watts;
	struct load_belief inferred;	/* what it does alone, from what its GPUs showed in company: this attempt's evidence only */
	double work_s;		/* what it did so far would have taken this long alone, by the model of sharing */
	struct pace pace;	/* what it printed of its own progress */
	double begin_s;		/* from its placement to the first progress it printed */
	uint64_t host_peak_mib;	/* of the machine's memory, all its processes together; 0: not known */
	struct cpu_sums cpu;
};

struct attempt {
	int64_t placed_ms, start_ms, end_ms;	/* wall; 0: not yet */
	int64_t moved_ms;			/* how far they were moved since, because the wall clock was set (EV_CLOCK_SET) */
	char (*gpus)[GPU_UUID_LEN];		/* n_gpus UUIDs, owned */
	uint32_t n_gpus;
	uint32_t n_extra;			/* the last n_extra of these are more than it asked for: there, only what it uses is held */
	char (*given)[GPU_UUID_LEN];		/* the GPUs that it was placed on, if it was seen on others; owned; NULL: `gpus` */
	uint32_t n_given;
	uint32_t n_moves;			/* how often it was booked on other GPUs (EV_MOVED) */
	enum share_mode mode;			/* SHARE_NEVER: had its GPUs alone */
	uint64_t claim_mib;			/* held on each GPU */
	uint64_t fence_mib;			/* what MPS let it take of each; 0: no limit */
	bool together;				/* under MPS: a client of the server for all users; false: of its user's own */
	struct proc_id shim;			/* pid 0: not started yet */
	unsigned slot_asks;			/* how often it was asked to make place, because its time slot was over */
	int64_t slot_asked_ms;			/* when it was last asked (wall) */
	bool warned;				/* of the end of its time limit, as that is now */
	unsigned warnings;			/* how often, of that end and of others that it had before */
	int exit_code, signal;			/* signal 0: exited by itself; exit_code -1: nobody knows how */
	enum verdict verdict;
	char *evidence;				/* one line for people: why this verdict; owned, may be NULL */
	struct measured seen;
};

/* What it could take of each of its GPUs: up to its fence; without one, what is held for it. */
static inline uint64_t attempt_limit_mib(const struct attempt *a)
{
	return a->fence_mib ? a->fence_mib : a->claim_mib;
}

/* The events: name, word in the store, meaning. */
#define TASK_EVENTS(X) \
	X(EV_SUBMITTED, "submitted")	/* the task exists; held if its spec says so, waiting if it has dependencies */ \
	X(EV_HELD, "held")		/* a person holds it */ \
	X(EV_RELEASED, "released") \
	X(EV_ELIGIBLE, "eligible")	/* its dependencies are met, and its time has come */ \
	X(EV_UPDATED, "updated")	/* `rad update`: what of `updated` is set */ \
	X(EV_ESTIMATED, "estimated")	/* what it is expected to need; of a running task what its capture, that came late, says */ \
	X(EV_PLACED, "placed")		/* GPUs are chosen and held; committed before anything is started */ \
	X(EV_STARTED, "started")	/* the shim runs: pid and start time */ \
	X(EV_STOP_ASKED, "stop_asked")	/* cancel, time limit or requeue: the stop sequence began */ \
	X(EV_MEASURED, "measured")	/* peak and activity so far, so that a restart does not forget them */ \
	X(EV_ENDED, "ended")		/* the attempt is over: verdict, and what comes next */ \
	X(EV_CANCELLED, "cancelled")	/* a task that does not run is cancelled */ \
	X(EV_REQUEUED, "requeued")	/* a finished task is put back by a person */ \
	X(EV_SLOT_ASKED, "slot_asked")	/* its time slot is over and others wait: it gets its signal */ \
	X(EV_MOVED, "moved")		/* its processes use other GPUs than it held until now */ \
	X(EV_SUSPENDED, "suspended")	/* a person has its processes stopped; it stays where it is */ \
	X(EV_RESUMED, "resumed") \
	X(EV_CLOCK_SET, "clock_set")	/* the wall clock was: what the task has of moments moves along */ \
	X(EV_WARNED, "warned")		/* its time limit is near: it gets the signal that it asked for */

enum event_kind {
#define X(name, word) name,
	TASK_EVENTS(X)
#undef X
	EVENT_KIND_COUNT
};

const char *event_kind_name(enum event_kind k);

/* GIVEN_BACK: of a process that we did not start; it goes on, and is no task any more. */
enum stop_reason { STOP_NONE, STOP_CANCEL, STOP_TIME_LIMIT, STOP_REQUEUE, STOP_GIVEN_BACK };

struct event {
	enum event_kind kind;
	task_id task;
	int64_t t_ms;		/* wall time */
	union {
		struct { int64_t by_ms; } clock;	/* EV_CLOCK_SET: forward; below 0: back */
		struct {	/* EV_HELD, EV_RELEASED, EV_CANCELLED, EV_REQUEUED, EV_SUSPENDED, EV_RESUMED */
			uint32_t uid;
			struct dependency unmet;	/* of EV_CANCELLED: nobody did it, but this could no longer be met; task 0: not so */
		} by;
		struct {
			bool set_priority, set_time_limit, set_gpu_mem, set_max_slowdown, set_array_limit, set_begin;
			bool set_gpus, set_host_mem, set_retries, set_deps;
			int64_t priority, time_limit_s, array_limit, begin_s, gpus, retries;
			uint64_t gpu_mem_mib, host_mem_mib;
			double max_slowdown;
			struct dependency *deps;	/* borrowed by task_apply */
			size_t n_deps;
			char *name;		/* borrowed by task_apply; NULL: unchanged */
			bool by_known;		/* false: an earlier release noted it */
			uint32_t uid;
		} updated;
		struct estimate estimate;	/* EV_ESTIMATED; `note` is borrowed by task_apply */
		struct {
			char (*gpus)[GPU_UUID_LEN];	/* borrowed by task_apply */
			uint32_t n_gpus;
			enum share_mode mode;
			uint64_t claim_mib, fence_mib;
			bool together;
		} placed;
		struct { struct proc_id shim; } started;
		struct {
			char (*gpus)[GPU_UUID_LEN];	/* borrowed by task_apply; all that it holds from now on */
			uint32_t n_gpus, n_extra;
		} moved;
		struct { enum stop_reason reason; uint32_t uid; } stop;
		struct measured measured;
		struct {
			enum verdict verdict;
			int exit_code, signal;
			char *evidence;			/* borrowed by task_apply */
			struct measured seen;
			enum task_next next;
			enum task_state state;		/* with NEXT_DONE: the terminal state */
			uint64_t next_claim_mib;	/* otherwise: claim of the next attempt; 0: unchanged */
			bool next_exclusive;		/* the next attempt starts alone on its GPUs */
			uint64_t next_host_mem_mib;	/* what the next attempt asks for of the machine's memory; 0: unchanged */
			int64_t next_delay_s;		/* a retry: it waits so long, and then behind those that wait; 0: none */
		} ended;
	} u;
};

struct task {
	task_id id;
	struct spec *spec;		/* one reference */

	enum task_state state;
	enum task_queue queue;		/* while pending */
	bool waiting_for_deps;		/* or for its time (begin_s) */
	bool retrying;			/* while it waits: for nothing but begin_s, before a retry */
	bool delayed;			/* begin_s is the end of the delay before a retry, no word of a person: it moves with the clock */
	struct dependency unmet;	/* cancelled because this could no longer be met; task 0: it was not */
	enum stop_reason stopping;	/* while running */
	bool suspended;			/* while running: its processes are stopped */
	int64_t suspended_at_ms;	/* since when (wall) */
	int64_t suspended_ms;		/* for how long they were stopped before, in this attempt */
	uint32_t suspended_uid;		/* who stopped them last */

	/* Changeable copies of what the spec asked for. */
	char *renamed;			/* owned; NULL: the spec's name holds, see task_name */
	int64_t priority, time_limit_s;
	unsigned gpus, retries;
	struct dependency *deps;	/* owned; NULL: the spec's hold, see task_deps */
	size_t n_deps;
	uint64_t gpu_mem_mib;
	uint64_t host_mem_mib;			/* of the machine, for all its processes; 0: did not say */
	double max_slowdown;
	uint32_t array_limit;		/* elements of its array that may run at once, itself one of them; 0: all */
	int64_t begin_s;		/* wall: it does not start before (--begin, or a retry's delay); 0: at once */
	bool array_limit_set;		/* it was changed: of elements that differ, those with this are right */

	bool estimated;
	struct estimate estimate;
	int64_t estimated_ms;		/* wall; when `estimate` was made, or before that where the clock was set since */
	uint64_t claim_floor_mib;	/* from an out-of-memory: no later claim below it; 0: none */
	bool exclusive_next;		/* the recovery attempt starts alone */
	unsigned recoveries;		/* attempts that ended out of memory */

	struct attempt *attempts;	/* owned */
	uint32_t n_attempts;
	uint32_t n_earlier;		/* of these, the first so many were before a person last queued it again */

	/* The attempts that ended with their time slot, since the task was submitted or a person queued it again. */
	unsigned n_slots;
	int64_t slot_ran_ms;			/* how long they ran: the time limit is for all of them together */
	int64_t slot_lost_ms;			/* what slots cost: from each signal to the exit, and from a start to progress again */
	double slot_work_s;			/* the work they did, in seconds that it takes alone; NaN: not known of one of them */

	int64_t submit_ms, start_ms, end_ms;	/* start: of the first attempt */
	int64_t queued_ms;			/* when it last entered its queue */
	/* Time is booked when the state changes: [0] waiting, [1] held or waiting for others, [2] running, [3] suspended. */
	int64_t booked_ms[4];
	int64_t booked_until_ms;
	int64_t lost_ms;			/* running time of attempts that did not count, without that in which they were suspended */

	uint32_t n_events;
	uint32_t n_changes;			/* events that a person asked for, but for cancelling */
};

/* A task before its first event. Takes over one reference of `spec`. */
struct task *task_create(task_id id, struct spec *spec);
/* Takes NULL. */
void task_destroy(struct task *t);

/* Applies one event. Returns 0; or -1 and leaves the task as it was, with an error naming event and state, when the
 * event does not belong in that state (a corrupt log, or a bug of the caller). Copies what it keeps. */
int task_apply(struct task *t, const struct event *ev, struct error *err);

/* The signal that asks it to save its work. */
int task_signal(const struct task *t);

/* Whether that event is legal in that state: the transition table, which rad(7) prints and a test walks. */
bool task_event_allowed(enum task_state s, enum event_kind k);

/* Figures of which none is known. */
struct measured task_measured_nothing(void);
/* The load that the task has alone, for answers: measured, else inferred, else null. */
json_t *task_show_load(const struct measured *m);
/* Sets the members mean_* of that attempt. */
void task_show_means(json_t *attempt, const struct measured *m);

/* The task's name; "": it has none. Valid until an event changes it, or the task is freed. */
const char *task_name(const struct task *t);

/* The spec with what may change as it is now, `ev` applied too (an EV_UPDATED, or NULL): to be asked what a submission is.
 * A view: its pointers are those of the task's spec, and nothing of it is to be freed. */
struct spec task_as_submitted(const struct task *t, const struct event *ev);
/* That of its spec, as long as it asks for as many GPUs as that: with others it is another program. NULL: none. */
const char *task_signature(const struct task *t);
/* Equal for tasks of one signature; those that have none are alike, too. */
uint64_t task_signature_key(const struct task *t);
/* As spec_cpus, for the GPUs that it asks for now. */
unsigned task_cpus(const struct task *t);

/* What it depends on, *n of them; valid as task_name is. */
const struct dependency *task_deps(const struct task *t, size_t *n);
/* Whether it waits for these apart from the other elements of its array. */
bool task_waits_alone(const struct task *t);

/* The running or last attempt; NULL before the first. */
struct attempt *task_attempt(const struct task *t);

/* How many of its retries it has used since it was submitted, or a person queued it again. */
unsigned task_retries_used(const struct task *t);

/* Times as of `now_ms` (wall), in seconds; the invariant jct = wait + held + run + suspended holds to the millisecond. */
struct task_times { double wait_s, held_s, run_s, suspended_s, lost_s, jct_s; };
struct task_times task_times(const struct task *t, int64_t now_ms);
/* When the time limit of a running task ends (wall); INT64_MAX: it has none, or is suspended. Time in earlier time slots counts
 * against the same limit. */
int64_t task_limit_ends_ms(const struct task *t);
/* How long the running or last attempt was suspended in all, as of `now_ms` (wall). */
int64_t task_suspended_ms(const struct task *t, int64_t now_ms);

/* Whether a person caused the event, and who. */
bool event_actor(const struct event *ev, uint32_t *uid);
/* The event's body as the store keeps it. A new reference. */
json_t *event_to_json(const struct event *ev);
/* The event for people: {"time","event","data"}. A new reference. */
json_t *event_told(const struct event *ev);
/* Fills ev->u; what it allocates is freed by event_clear. Returns 0 or -1. */
int event_from_json(enum event_kind kind, const json_t *body, struct event *ev, struct error *err);
void event_clear(struct event *ev);

/* UUIDs as a list. */
json_t *task_uuids_json(char (*uuids)[GPU_UUID_LEN], uint32_t n);

/* The member `estimate` of the task object. */
json_t *task_estimate_json(const struct estimate *e);

/* The task object of the contract (`rad show --json`), all members but `shared_with`, `reason`, `reason_text`, which only
 * the daemon knows. `log_path` is expanded. */
json_t *task_to_json(const struct task *t, int64_t now_ms);
/* Only those that are wanted, and `id`. */
json_t *task_to_json_some(const struct task *t, int64_t now_ms, const struct task_wants *w);
/* The limit on the machine's memory for the task's processes: what it asks for, and what its feed's loader may take, which any
 * task of the feed may come to run. 0: no limit. */
#define TASK_HOST_LIMIT_MIB (1u << 30)
uint64_t task_host_limit_mib(const struct task *t);
/* Sets `slowdown` and `slowdown_source` by what was measured of the attempt that counts (NULL: nothing was). */
void task_show_slowdown(json_t *o, const struct measured *m);

#endif
