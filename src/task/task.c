/* SPDX-License-Identifier: MIT
 * The task record and the one function that changes it. What each event may do in which state stands in `allowed`;
 * what it does stands in one small function per event. No I/O, no clock.
 *
 * Live running, restart and simulation go through the same task_apply, so whatever it does must follow from the record and the
 * event alone: no setting, no reading, no "now". A log that was written by an older version is replayed by this one: a case may
 * be added, but what an event did to a task must stay what it did.
 */
#include "task/task.h"

#include "base/alloc.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/scope.h"
#include "base/words.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define BIT(state) (1u << (state))
#define TERMINAL_STATES (BIT(TASK_COMPLETED) | BIT(TASK_FAILED) | BIT(TASK_OUT_OF_MEMORY) | BIT(TASK_CANCELLED) \
			 | BIT(TASK_TIMEOUT) | BIT(TASK_LOST))
#define WAITING_STATES (BIT(TASK_PENDING) | BIT(TASK_HELD))

/* The transition table: in which states an event may come. */
static const unsigned allowed[EVENT_KIND_COUNT] = {
	[EV_SUBMITTED] = BIT(TASK_PENDING),	/* and only as the first event */
	[EV_HELD] = BIT(TASK_PENDING),
	[EV_RELEASED] = BIT(TASK_HELD),
	[EV_ELIGIBLE] = WAITING_STATES,
	[EV_UPDATED] = WAITING_STATES | BIT(TASK_RUNNING),
	[EV_ESTIMATED] = WAITING_STATES | BIT(TASK_RUNNING),
	[EV_PLACED] = BIT(TASK_PENDING),
	[EV_STARTED] = BIT(TASK_RUNNING),
	[EV_STOP_ASKED] = BIT(TASK_RUNNING),
	[EV_MEASURED] = BIT(TASK_RUNNING),
	[EV_ENDED] = BIT(TASK_RUNNING),
	[EV_CANCELLED] = WAITING_STATES,
	[EV_REQUEUED] = TERMINAL_STATES,
	[EV_SLOT_ASKED] = BIT(TASK_RUNNING),
	[EV_MOVED] = BIT(TASK_RUNNING),
	[EV_SUSPENDED] = BIT(TASK_RUNNING),
	[EV_RESUMED] = BIT(TASK_RUNNING),
	[EV_CLOCK_SET] = WAITING_STATES | BIT(TASK_RUNNING),
	[EV_WARNED] = BIT(TASK_RUNNING),
};

bool task_event_allowed(enum task_state s, enum event_kind k)
{
	return allowed[k] & BIT(s);
}

/* What `rad update` may change is copied out of the spec: the spec stays what was asked for, and elements of an array share
 * it. */
struct task *task_create(task_id id, struct spec *spec)
{
	struct task *t = alloc_zero(sizeof *t);
	t->id = id;
	t->spec = spec;
	t->priority = spec->priority;
	t->time_limit_s = spec->time_limit_s;
	t->gpu_mem_mib = spec->gpu_mem_mib;
	t->max_slowdown = spec->max_slowdown;
	t->array_limit = spec->array_limit;
	t->begin_s = spec->begin_s;
	t->host_mem_mib = spec->host_mem_mib;
	t->gpus = spec->gpus;
	t->retries = spec->retries;
	return t;
}

void task_destroy(struct task *t)
{
	if (!t)
		return;
	for (uint32_t i = 0; i < t->n_attempts; i++) {
		free(t->attempts[i].gpus);
		free(t->attempts[i].given);
		free(t->attempts[i].evidence);
	}
	free(t->attempts);
	free(t->estimate.note);
	free(t->renamed);
	free(t->deps);
	spec_unref(t->spec);
	free(t);
}

const char *task_name(const struct task *t)
{
	return t->renamed ? t->renamed : t->spec->name ? t->spec->name : "";
}

struct spec task_as_submitted(const struct task *t, const struct event *ev)
{
	struct spec s = *t->spec;
	s.gpus = t->gpus;
	s.gpu_mem_mib = t->gpu_mem_mib;
	s.host_mem_mib = t->host_mem_mib;
	s.max_slowdown = t->max_slowdown;
	s.retries = t->retries;
	if (ev && ev->u.updated.set_gpus)
		s.gpus = (unsigned)ev->u.updated.gpus;
	if (ev && ev->u.updated.set_gpu_mem)
		s.gpu_mem_mib = ev->u.updated.gpu_mem_mib;
	if (ev && ev->u.updated.set_host_mem)
		s.host_mem_mib = ev->u.updated.host_mem_mib;
	if (ev && ev->u.updated.set_max_slowdown)
		s.max_slowdown = ev->u.updated.max_slowdown;
	if (ev && ev->u.updated.set_retries)
		s.retries = (unsigned)ev->u.updated.retries;
	return s;
}

uint64_t task_signature_key(const struct task *t)
{
	const char *signature = task_signature(t);
	return signature ? (uint64_t)hash_key(signature) : 0;
}

const char *task_signature(const struct task *t)
{
	return t->gpus == t->spec->gpus ? t->spec->signature : NULL;
}

unsigned task_cpus(const struct task *t)
{
	if (t->gpus == t->spec->gpus)
		return spec_cpus(t->spec);
	const struct spec s = task_as_submitted(t, NULL);
	return spec_cpus(&s);
}

const struct dependency *task_deps(const struct task *t, size_t *n)
{
	*n = t->deps ? t->n_deps : t->spec->n_deps;
	return t->deps ? t->deps : t->spec->deps;
}

bool task_waits_alone(const struct task *t)
{
	return t->deps || spec_waits_by_element(t->spec);
}

struct attempt *task_attempt(const struct task *t)
{
	return t->n_attempts ? &t->attempts[t->n_attempts - 1] : NULL;
}

/* Whether the attempt before the last one ended with its time slot, so that this one goes on where that one stopped. */
static bool task_resumes(const struct task *t)
{
	return t->n_attempts > 1 && t->n_slots && t->attempts[t->n_attempts - 2].verdict == VERDICT_SLOT;
}

enum bucket { BUCKET_WAIT, BUCKET_HELD, BUCKET_RUN, BUCKET_SUSPENDED, BUCKET_NONE };

/* To which account the time from now on is booked. */
static enum bucket bucket_of(const struct task *t)
{
	if (task_state_terminal(t->state) || !t->submit_ms)
		return BUCKET_NONE;
	if (t->state == TASK_RUNNING)
		return t->suspended ? BUCKET_SUSPENDED : BUCKET_RUN;
	return t->state == TASK_HELD || t->waiting_for_deps ? BUCKET_HELD : BUCKET_WAIT;
}

/* Books the time since the last event to the state that is about to end. A wall clock that was set back books nothing; of one
 * that had ended, which is not told of clocks (EV_CLOCK_SET), time begins anew. */
static void task_book(struct task *t, int64_t now_ms)
{
	enum bucket b = bucket_of(t);
	if (now_ms < t->booked_until_ms && b != BUCKET_NONE)
		return;
	if (b != BUCKET_NONE)
		t->booked_ms[b] += now_ms - t->booked_until_ms;
	t->booked_until_ms = now_ms;
}

/* The log's first event: from its time on time is booked. */
static void apply_submitted(struct task *t, const struct event *ev)
{
	t->submit_ms = t->queued_ms = t->booked_until_ms = ev->t_ms;
	t->state = t->spec->hold ? TASK_HELD : TASK_PENDING;
	t->waiting_for_deps = spec_waits(t->spec, ev->t_ms);
}

/* A time that a person said was over when the task first started, and the delay's was nobody's word. */
static void task_end_delay(struct task *t)
{
	if (t->delayed)
		t->begin_s = 0;
	t->retrying = t->delayed = false;
}

/* Whether they are met already is the core's to say, by EV_ELIGIBLE. A retry that is to wait for others does so in place of its
 * delay. */
static void apply_deps(struct task *t, const struct event *ev)
{
	size_t n = ev->u.updated.n_deps;
	free(t->deps);
	t->deps = alloc_zero((n + 1) * sizeof *t->deps);
	t->n_deps = n;
	if (n)
		memcpy(t->deps, ev->u.updated.deps, n * sizeof *t->deps);
	if (n)
		task_end_delay(t);
	if (!t->retrying)
		t->waiting_for_deps = n || t->begin_s * 1000 > ev->t_ms;
}

/* A warning of an end that now lies further ahead than it did was none. */
static void apply_time_limit(struct task *t, int64_t limit_s, int64_t now_ms)
{
	struct attempt *a = task_attempt(t);
	t->time_limit_s = limit_s;
	if (a && now_ms < task_limit_ends_ms(t) - t->spec->signal_before_s * 1000)
		a->warned = false;
}

/* Another declaration, or another number of GPUs, makes the estimate void, so that it is asked for again; other changes do not
 * touch it. */
static void apply_updated(struct task *t, const struct event *ev)
{
	if (ev->u.updated.set_priority)
		t->priority = ev->u.updated.priority;
	if (ev->u.updated.set_time_limit)
		apply_time_limit(t, ev->u.updated.time_limit_s, ev->t_ms);
	if (ev->u.updated.set_max_slowdown)
		t->max_slowdown = ev->u.updated.max_slowdown;
	if (ev->u.updated.set_array_limit) {
		t->array_limit = (uint32_t)ev->u.updated.array_limit;
		t->array_limit_set = true;
	}
	if (ev->u.updated.set_begin) {	/* the other way it is EV_ELIGIBLE that ends the wait */
		t->begin_s = ev->u.updated.begin_s;
		t->delayed = false;
		t->waiting_for_deps = t->waiting_for_deps || t->begin_s * 1000 > ev->t_ms;
	}
	if (ev->u.updated.set_host_mem)
		t->host_mem_mib = ev->u.updated.host_mem_mib;
	if (ev->u.updated.set_retries)
		t->retries = (unsigned)ev->u.updated.retries;
	if (ev->u.updated.set_deps)
		apply_deps(t, ev);
	if (ev->u.updated.set_gpus) {
		t->gpus = (unsigned)ev->u.updated.gpus;
		t->estimated = false;
	}
	if (ev->u.updated.set_gpu_mem) {
		t->gpu_mem_mib = ev->u.updated.gpu_mem_mib;
		t->estimated = false;
	}
	if (ev->u.updated.name) {
		free(t->renamed);
		t->renamed = alloc_string(ev->u.updated.name);
	}
}

/* One that began with nothing known claims what is known of it since. */
static void apply_estimated(struct task *t, const struct event *ev)
{
	uint64_t claim_mib = ev->u.estimate.claim_mib;
	if (t->state == TASK_RUNNING && claim_mib)
		task_attempt(t)->claim_mib = claim_mib > t->claim_floor_mib ? claim_mib : t->claim_floor_mib;
	free(t->estimate.note);
	t->estimate = ev->u.estimate;
	t->estimate.note = alloc_string_or_null(ev->u.estimate.note);
	t->estimated = true;
	t->estimated_ms = ev->t_ms;
}

struct measured task_measured_nothing(void)
{
	return (struct measured){ .mean_smact = NAN, .mean_smocc = NAN, .mean_dram = NAN, .mean_pcie_rx_mib_s = NAN,
				  .mean_pcie_tx_mib_s = NAN, .alone_s = NAN, .energy_j = NAN, .alone_gract = NAN, .alone_smact = NAN,
				  .alone_dram = NAN, .alone_watts = NAN, .inferred = load_unknown(), .work_s = NAN, .begin_s = NAN };
}

/* From here on the attempt exists, though nothing runs yet: after a crash between this event and the start, the restart
 * finds an attempt without a shim, and starts it. start_ms is a placeholder until EV_STARTED, so that run time is never
 * negative. */
static void apply_placed(struct task *t, const struct event *ev)
{
	size_t bytes = ev->u.placed.n_gpus * sizeof *ev->u.placed.gpus;
	t->attempts = alloc_resize(t->attempts, t->n_attempts + 1, sizeof *t->attempts);
	struct attempt *a = &t->attempts[t->n_attempts++];
	*a = (struct attempt){
		.placed_ms = ev->t_ms, .start_ms = ev->t_ms, .n_gpus = ev->u.placed.n_gpus, .mode = ev->u.placed.mode,
		.claim_mib = ev->u.placed.claim_mib, .fence_mib = ev->u.placed.fence_mib,
		.together = ev->u.placed.together, .gpus = alloc_zero(bytes), .seen = task_measured_nothing(),
	};
	if (bytes)
		memcpy(a->gpus, ev->u.placed.gpus, bytes);
	t->state = TASK_RUNNING;
	t->stopping = STOP_NONE;
	t->suspended = false;
	t->suspended_ms = 0;
	if (!t->start_ms)
		t->start_ms = ev->t_ms;
}

/* What it was given first is kept: that is what it was told, and what people are told it left. */
static void apply_moved(struct task *t, const struct event *ev)
{
	struct attempt *a = task_attempt(t);
	size_t bytes = ev->u.moved.n_gpus * sizeof *a->gpus;
	if (a->given) {
		free(a->gpus);
	} else {
		a->given = a->gpus;
		a->n_given = a->n_gpus;
	}
	a->gpus = alloc_zero(bytes);
	if (bytes)
		memcpy(a->gpus, ev->u.moved.gpus, bytes);
	a->n_gpus = ev->u.moved.n_gpus;
	a->n_extra = ev->u.moved.n_extra;
	a->n_moves++;
}

/* The end is never before the last booking, or jct would be less than the sum of its parts when the wall clock was set back. */
static void task_finish(struct task *t, enum task_state state, int64_t now_ms)
{
	t->state = state;
	t->end_ms = now_ms > t->booked_until_ms ? now_ms : t->booked_until_ms;
	t->exclusive_next = false;
}

static void task_enqueue(struct task *t, enum task_queue queue, int64_t now_ms)
{
	const struct attempt *a = task_attempt(t);
	t->state = TASK_PENDING;
	t->queue = queue;
	t->end_ms = 0;
	/* A task that goes back to the main queue keeps its place, but for one whose time slot is over, which made place for those
	 * that wait, and one that failed: others are not to wait for what may fail again. The recovery queue is served in the order of
	 * failing. */
	if (queue == QUEUE_RECOVERY || t->retrying || (a && a->verdict == VERDICT_SLOT))
		t->queued_ms = now_ms;
}

/* Whole seconds, so never sooner than that. */
static void task_delay(struct task *t, int64_t delay_s, int64_t now_ms)
{
	t->retrying = t->delayed = t->waiting_for_deps = true;
	t->begin_s = (now_ms + 999) / 1000 + delay_s;
}

unsigned task_retries_used(const struct task *t)
{
	unsigned failed = 0;
	for (uint32_t i = t->n_earlier; i < t->n_attempts; i++)
		failed += t->attempts[i].verdict == VERDICT_FAILED;
	return failed < t->retries ? failed : t->retries;	/* after the last one it is over */
}

int64_t task_suspended_ms(const struct task *t, int64_t now_ms)
{
	bool lasts = t->suspended && now_ms > t->suspended_at_ms;
	return t->suspended_ms + (lasts ? now_ms - t->suspended_at_ms : 0);
}

/* Twice the same changes nothing. */
static void apply_suspended(struct task *t, bool suspended, uint32_t uid, int64_t now_ms)
{
	if (!suspended)
		t->suspended_ms = task_suspended_ms(t, now_ms);
	if (!t->suspended && suspended)
		t->suspended_at_ms = now_ms, t->suspended_uid = uid;
	t->suspended = suspended;
}

/* What slots cost, and what of an attempt's time did not count: all of it, unless it completed or went back with its slot, when
 * it is what the slots cost. */
static void task_book_end(struct task *t, const struct attempt *a)
{
	bool slot = a->verdict == VERDICT_SLOT, counts = slot || a->verdict == VERDICT_OK;
	int64_t ran_ms = a->end_ms - a->start_ms - t->suspended_ms, cost_ms = 0;
	ran_ms = ran_ms > 0 ? ran_ms : 0;
	if (task_resumes(t) && a->seen.begin_s > 0)
		cost_ms = (int64_t)fmin(a->seen.begin_s * 1000, (double)ran_ms);
	if (slot && a->slot_asked_ms && a->end_ms > a->slot_asked_ms)
		cost_ms += a->end_ms - a->slot_asked_ms;
	cost_ms = cost_ms < ran_ms ? cost_ms : ran_ms;
	t->slot_lost_ms += cost_ms;
	t->lost_ms += counts ? cost_ms : ran_ms;
	if (!slot)
		return;
	t->slot_work_s = (t->n_slots++ ? t->slot_work_s : 0) + a->seen.work_s;
	t->slot_ran_ms += ran_ms;
}

/* The attempt's end is `booked_until_ms`, which task_book has just moved to the event's time unless the clock went back. */
static void apply_ended(struct task *t, const struct event *ev)
{
	struct attempt *a = task_attempt(t);
	a->end_ms = t->booked_until_ms;
	apply_suspended(t, false, t->suspended_uid, a->end_ms);
	a->verdict = ev->u.ended.verdict;
	a->exit_code = ev->u.ended.exit_code;
	a->signal = ev->u.ended.signal;
	a->evidence = alloc_string_or_null(ev->u.ended.evidence);
	a->seen = ev->u.ended.seen;
	if (a->verdict == VERDICT_OOM)
		t->recoveries++;
	task_book_end(t, a);
	t->stopping = STOP_NONE;
	if (ev->u.ended.next_claim_mib)
		t->claim_floor_mib = ev->u.ended.next_claim_mib;
	if (ev->u.ended.next_host_mem_mib)
		t->host_mem_mib = ev->u.ended.next_host_mem_mib;
	if (ev->u.ended.next == NEXT_DONE)
		return task_finish(t, ev->u.ended.state, ev->t_ms);
	t->exclusive_next = ev->u.ended.next_exclusive;
	if (ev->u.ended.next_delay_s)
		task_delay(t, ev->u.ended.next_delay_s, ev->t_ms);
	task_enqueue(t, ev->u.ended.next == NEXT_RECOVER ? QUEUE_RECOVERY : QUEUE_MAIN, ev->t_ms);
}

/* A person's decision, so the counters of what went wrong begin anew, and so does the estimate. The time since the end is
 * nobody's: it is skipped, not booked. What is known of it stays: the history has the memory of the GPU that was too little,
 * and the memory of the machine that it asks for is as it grew, since the kernel ended it for less. */
static void apply_requeued(struct task *t, const struct event *ev)
{
	t->unmet = (struct dependency){ 0 };
	t->n_earlier = t->n_attempts;
	t->recoveries = t->n_slots = 0;
	t->slot_ran_ms = 0;
	t->claim_floor_mib = 0;
	t->estimated = false;
	if (t->delayed)	/* it was cancelled in its delay */
		t->waiting_for_deps = false;
	task_end_delay(t);
	t->queued_ms = ev->t_ms;
	task_enqueue(t, QUEUE_MAIN, ev->t_ms);
}

/* What the table of states cannot say. The id is put into words where something is wrong alone: that was a twelfth of all that
 * the core takes for a burst of submissions. */
static int check_event(const struct task *t, const struct event *ev, struct error *err)
{
	const char *name = ev->kind < EVENT_KIND_COUNT ? event_kind_name(ev->kind) : "?";
	char id[TASK_ID_TEXT];
	if (ev->kind >= EVENT_KIND_COUNT)
		return error_set(err, ERR_CORRUPT, "task %s: unknown event %d", task_id_text(t->id, id), (int)ev->kind);
	if ((ev->kind == EV_SUBMITTED) != (t->n_events == 0))
		return error_set(err, ERR_CORRUPT, "task %s: event '%s' as number %u of its log", task_id_text(t->id, id), name,
				 t->n_events + 1);
	if (!task_event_allowed(t->state, ev->kind))
		return error_set(err, ERR_CORRUPT, "task %s: event '%s' cannot happen while %s", task_id_text(t->id, id), name,
				 task_state_name(t->state));
	if (ev->kind == EV_UPDATED && t->state == TASK_RUNNING && (ev->u.updated.set_gpus || ev->u.updated.set_deps))
		return error_set(err, ERR_CORRUPT, "task %s: its GPUs or dependencies were changed while it ran", task_id_text(t->id, id));
	bool may_have_none = !t->gpus;
	if (ev->kind == EV_PLACED && (ev->u.placed.n_gpus > SPEC_MAX_GPUS || (!ev->u.placed.n_gpus && !may_have_none)))
		return error_set(err, ERR_CORRUPT, "task %s: placed on %u GPUs", task_id_text(t->id, id), ev->u.placed.n_gpus);
	if (ev->kind == EV_MOVED && (ev->u.moved.n_gpus > SPEC_MAX_GPUS || ev->u.moved.n_extra + !may_have_none > ev->u.moved.n_gpus))
		return error_set(err, ERR_CORRUPT, "task %s: moved to %u GPUs, %u of them extra", task_id_text(t->id, id),
				 ev->u.moved.n_gpus, ev->u.moved.n_extra);
	if (ev->kind == EV_ENDED && ev->u.ended.next == NEXT_DONE && !task_state_terminal(ev->u.ended.state))
		return error_set(err, ERR_CORRUPT, "task %s: ended into %s, which is no end", task_id_text(t->id, id),
				 task_state_name(ev->u.ended.state));
	return 0;
}

static void move_moment(int64_t *ms, int64_t by_ms)
{
	if (*ms)
		*ms += by_ms;
}

/* All of them, so that each is told by the clock as it is now, and times between them stay what they were. A time that a person
 * said (--begin) is one of the clock, and stays. */
static void apply_clock_set(struct task *t, int64_t by_ms)
{
	int64_t *const moments[] = { &t->submit_ms, &t->start_ms, &t->queued_ms, &t->booked_until_ms, &t->suspended_at_ms };
	for (size_t i = 0; i < COUNT_OF(moments); i++)
		move_moment(moments[i], by_ms);
	if (by_ms < 0)	/* never past what was learnt since, which keeps its time */
		move_moment(&t->estimated_ms, by_ms);
	if (t->delayed)
		t->begin_s += by_ms / 1000;
	for (size_t i = 0; i < t->n_attempts; i++) {
		struct attempt *a = &t->attempts[i];
		int64_t *const its[] = { &a->placed_ms, &a->start_ms, &a->end_ms, &a->slot_asked_ms };
		for (size_t k = 0; k < COUNT_OF(its); k++)
			move_moment(its[k], by_ms);
		a->moved_ms += by_ms;
	}
}

/* Checks first and changes then, so that an event that does not belong leaves the task as it was. */
int task_apply(struct task *t, const struct event *ev, struct error *err)
{
	if (check_event(t, ev, err))
		return -1;
	if (ev->kind == EV_CLOCK_SET)
		apply_clock_set(t, ev->u.clock.by_ms);
	task_book(t, ev->t_ms);
	switch (ev->kind) {
	case EV_SUBMITTED: apply_submitted(t, ev); break;
	case EV_HELD: t->state = TASK_HELD; break;
	case EV_RELEASED: t->state = TASK_PENDING; break;
	case EV_ELIGIBLE:
		t->waiting_for_deps = false;
		task_end_delay(t);
		break;
	case EV_UPDATED: apply_updated(t, ev); break;
	case EV_ESTIMATED: apply_estimated(t, ev); break;
	case EV_PLACED: apply_placed(t, ev); break;
	case EV_STARTED:
		task_attempt(t)->shim = ev->u.started.shim;
		task_attempt(t)->start_ms = ev->t_ms;
		task_attempt(t)->warned = false;	/* its time begins anew */
		break;
	case EV_STOP_ASKED: t->stopping = ev->u.stop.reason; break;
	case EV_MEASURED: task_attempt(t)->seen = ev->u.measured; break;
	case EV_ENDED: apply_ended(t, ev); break;
	case EV_CANCELLED:
		t->unmet = ev->u.by.unmet;
		task_finish(t, TASK_CANCELLED, ev->t_ms);
		break;
	case EV_REQUEUED: apply_requeued(t, ev); break;
	case EV_SLOT_ASKED:
		task_attempt(t)->slot_asks++;
		task_attempt(t)->slot_asked_ms = ev->t_ms;
		break;
	case EV_MOVED: apply_moved(t, ev); break;
	case EV_SUSPENDED: case EV_RESUMED: apply_suspended(t, ev->kind == EV_SUSPENDED, ev->u.by.uid, ev->t_ms); break;
	case EV_WARNED:
		task_attempt(t)->warned = true;
		task_attempt(t)->warnings++;
		break;
	case EV_CLOCK_SET: case EVENT_KIND_COUNT: break;
	}
	t->n_events++;
	t->n_changes += ev->kind == EV_HELD || ev->kind == EV_RELEASED || ev->kind == EV_UPDATED || ev->kind == EV_REQUEUED ||
			ev->kind == EV_SUSPENDED || ev->kind == EV_RESUMED;
	return 0;
}

/* What was booked, and what has passed since in the state that lasts. In milliseconds up to here, so that the sum is exact. */
struct task_times task_times(const struct task *t, int64_t now_ms)
{
	int64_t ms[BUCKET_NONE];
	enum bucket b = bucket_of(t);
	memcpy(ms, t->booked_ms, sizeof ms);
	if (b != BUCKET_NONE && now_ms > t->booked_until_ms)
		ms[b] += now_ms - t->booked_until_ms;
	return (struct task_times){
		.wait_s = (double)ms[BUCKET_WAIT] / 1000, .held_s = (double)ms[BUCKET_HELD] / 1000,
		.run_s = (double)ms[BUCKET_RUN] / 1000, .suspended_s = (double)ms[BUCKET_SUSPENDED] / 1000,
		.lost_s = (double)t->lost_ms / 1000,
		.jct_s = (double)(ms[BUCKET_WAIT] + ms[BUCKET_HELD] + ms[BUCKET_RUN] + ms[BUCKET_SUSPENDED]) / 1000,
	};
}

int64_t task_limit_ends_ms(const struct task *t)
{
	const struct attempt *a = task_attempt(t);
	if (!t->time_limit_s || t->suspended)
		return INT64_MAX;
	return (a->start_ms ? a->start_ms : a->placed_ms) + t->time_limit_s * 1000 - t->slot_ran_ms + t->suspended_ms;
}

uint64_t task_host_limit_mib(const struct task *t)
{
	uint64_t limit = t->host_mem_mib ? t->host_mem_mib + t->spec->feed_mem_mib : 0;
	return limit < TASK_HOST_LIMIT_MIB ? limit : TASK_HOST_LIMIT_MIB;
}

int task_signal(const struct task *t)
{
	return t->spec->signal ? t->spec->signal : SIGUSR1;
}
