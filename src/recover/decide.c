/* SPDX-License-Identifier: MIT
 *
 * What follows a verdict: the recovery queue with a larger claim or with GPUs of its own (sections 6.2.3 and 7.2), the main
 * queue again, or the end. Only what was not the task's doing, and lack of GPU memory, is run again unasked; what failed by
 * itself, as often as --retries says.
 *
 * Every way back ends: attempts are counted by verdict, each count has a bound of its own, and nothing but a person's requeue
 * begins one anew. So a task that fails in ever new ways runs at most a handful of times. A task that wrote half of its
 * results before it ended will write them again: who cannot have that says --no-requeue, which is asked wherever the task had
 * begun, except after an out-of-memory, where it asked for memory and did not get it. What runs at somebody's
 * terminal is never run again.
 */
#include "recover/recover.h"

#define LEFT_MIN_MIB 1024	/* a device with more than this free was not what stopped a task at its own limit */
#define CONTEXT_MIB 640		/* on an H100 CUDA's context takes 514 of its limit, with PyTorch's first tensor 611 */
#define RETRY_FIRST_S 10
#define RETRY_MOST_S 600

struct recover_policy recover_policy_default(void)
{
	return (struct recover_policy){ .mode = RECOVER_EXCLUSIVE, .max_attempts = 4, .keep_max_ms = 30 * 60 * 1000,
					.grow_step_mib = 5 * 1024 };
}

/* How many attempts ended so since a person last queued the task. The one that is being judged has no verdict yet. */
static unsigned attempts_with(const struct task *t, enum verdict v)
{
	unsigned n = 0;

	for (uint32_t i = t->n_earlier; i < t->n_attempts; i++)
		n += t->attempts[i].verdict == v;
	return n;
}

/* It ran into its own MPS limit, not into the end of the device. */
static bool stopped_by_fence(const struct exit_report *r)
{
	if (!r->fenced || !r->claim_mib)
		return false;
	if (r->device_known)
		return r->device_free_min_mib > LEFT_MIN_MIB;
	return recover_held_mib(r) >= r->claim_mib / 10 * 9;
}

/* What it would have had with what it was refused, by its own words; 0: it told nothing, or more than any GPU has. */
static uint64_t wanted_mib(const struct exit_report *r, uint64_t empty_gpu_mib)
{
	uint64_t tried = r->output.tried_mib, held = recover_held_mib(r);
	if (!tried || !empty_gpu_mib || tried > empty_gpu_mib || held > empty_gpu_mib)
		return 0;
	return held + tried;
}

/* At a fence half as much again the first time, for most claims are nearly right. Who is at it again was wrong by more than
 * that: four times as much, but no further than half of a GPU, beyond which it is given the whole. */
static uint64_t beyond_fence(const struct task *t, uint64_t claim_mib, uint64_t empty_gpu_mib)
{
	uint64_t mild = claim_mib + claim_mib / 2, bold = claim_mib * 4;

	if (!t->recoveries)
		return mild;
	if (bold > empty_gpu_mib / 2)
		bold = empty_gpu_mib / 2;
	return bold > mild ? bold : mild;
}

/* Without a fence section 7.2: what it had or could have had, and a step. So, too, where the fence was below what CUDA takes
 * before a program has anything: that says nothing of the program. Never less than what it asked for, and a quarter: programs
 * ask for more after that. */
static uint64_t larger_claim(const struct recover_policy *p, const struct task *t, const struct exit_report *r,
			     uint64_t empty_gpu_mib)
{
	bool no_context = r->claim_mib < CONTEXT_MIB && !recover_held_mib(r);
	uint64_t available = r->peak_mib + (r->device_known ? r->device_free_min_mib : 0);
	uint64_t wanted = wanted_mib(r, empty_gpu_mib), next;

	if (stopped_by_fence(r))
		next = no_context ? r->claim_mib + p->grow_step_mib : beyond_fence(t, r->claim_mib, empty_gpu_mib);
	else
		next = (available > r->claim_mib ? available : r->claim_mib) + p->grow_step_mib;
	return wanted + wanted / 4 > next ? wanted + wanted / 4 : next;
}

/* Alone on an unfenced GPU it had all there is: final, unless a larger GPU exists. A claim that reaches an empty GPU's
 * capacity means the whole GPU, alone and without a fence. */
static void decide_oom(const struct recover_policy *p, const struct task *t, const struct exit_report *r,
		       uint64_t empty_gpu_mib, struct recover_next *out)
{
	bool fence = stopped_by_fence(r);
	bool whole_gpu = !r->fenced && !r->had_neighbours;
	bool larger_exists = r->device_known && empty_gpu_mib > r->device_total_mib;
	/* A claim that was wrong all along is not trusted with the last attempt: that one has its GPUs to itself, unfenced. */
	bool last_chance = t->recoveries + 2 >= p->max_attempts;

	if (p->mode == RECOVER_OFF || t->recoveries + 1 >= p->max_attempts || (whole_gpu && !larger_exists))
		return;
	out->next = NEXT_RECOVER;
	out->claim_mib = larger_claim(p, t, r, empty_gpu_mib);
	/* Nor with most of a GPU, once it was wrong twice. */
	bool most_of_gpu = t->recoveries && fence && out->claim_mib > empty_gpu_mib / 2;
	out->exclusive = last_chance || most_of_gpu || (p->mode == RECOVER_EXCLUSIVE && !fence);
	if (whole_gpu)
		out->claim_mib = empty_gpu_mib;
	if (empty_gpu_mib && out->claim_mib >= empty_gpu_mib) {
		out->claim_mib = empty_gpu_mib;
		out->exclusive = true;
	}
}

/* Alone it cannot be a neighbour's victim again: then a second time is its own fault. Where it could not be kept alone, it may
 * have been another's. */
static void decide_neighbour(const struct recover_policy *p, const struct task *t, const struct exit_report *r,
			     struct recover_next *out)
{
	unsigned before = attempts_with(t, VERDICT_NEIGHBOUR);

	if (!t->spec->requeue || (before && !r->had_neighbours) || before + 1 >= p->max_attempts)
		return;
	out->next = NEXT_RECOVER;
	out->exclusive = true;
}

/* What never began may begin again; what met a dead MPS server does so without one the second time. */
static void decide_launch(const struct recover_policy *p, const struct task *t, const struct exit_report *r,
			  struct recover_next *out)
{
	unsigned before = attempts_with(t, VERDICT_LAUNCH);

	if (before + 1 >= p->max_attempts || (!r->never_began && !t->spec->requeue))
		return;
	out->next = NEXT_QUEUE;
	out->exclusive = !r->never_began && before > 0;
}

/* The limit was its own word, so a larger one may do; without a limit it met the machine's end, which will be there again. */
static void decide_host_oom(const struct recover_policy *p, const struct task *t, const struct exit_report *r,
			    struct recover_next *out)
{
	uint64_t asked = r->host_asked_mib, next = asked + asked / 2;

	if (!t->spec->requeue || !asked || !r->cgroup_oom || attempts_with(t, VERDICT_HOST_OOM) + 1 >= p->max_attempts)
		return;
	if (r->host_mem_mib && next > r->host_mem_mib)
		next = r->host_mem_mib;
	if (next <= asked)
		return;
	out->next = NEXT_QUEUE;
	out->host_mem_mib = next;
}

/* Each retry waits twice as long as the one before: what fails at once is not started all the time, and what was out of order
 * for minutes, a file system or a network, is tried again when it may be back. */
static void decide_failed(const struct task *t, struct recover_next *out)
{
	unsigned before = task_retries_used(t);

	if (!t->spec->requeue || before >= t->retries)
		return;
	out->next = NEXT_QUEUE;
	out->delay_s = RETRY_FIRST_S;
	for (unsigned i = 0; i < before && out->delay_s < RETRY_MOST_S; i++)
		out->delay_s *= 2;
	if (out->delay_s > RETRY_MOST_S)
		out->delay_s = RETRY_MOST_S;
}

/* host_oom, failed, neighbour (when not run again) and launch are FAILED to people; the verdict says more. */
static enum task_state final_state(enum verdict v)
{
	switch (v) {
	case VERDICT_OK: return TASK_COMPLETED;
	case VERDICT_OOM: return TASK_OUT_OF_MEMORY;
	case VERDICT_CANCELLED: return TASK_CANCELLED;
	case VERDICT_TIMEOUT: return TASK_TIMEOUT;
	case VERDICT_LOST: return TASK_LOST;
	default: return TASK_FAILED;
	}
}

void recover_decide(const struct recover_policy *p, const struct task *t, const struct exit_report *r, enum verdict v,
		    uint64_t empty_gpu_mib, struct recover_next *out)
{
	*out = (struct recover_next){ .next = NEXT_DONE, .state = final_state(v) };
	if (spec_is_attended(t->spec))
		return;
	if (v == VERDICT_OOM)
		decide_oom(p, t, r, empty_gpu_mib, out);
	else if (v == VERDICT_NEIGHBOUR)
		decide_neighbour(p, t, r, out);
	else if (v == VERDICT_HOST_OOM)
		decide_host_oom(p, t, r, out);
	else if (v == VERDICT_LAUNCH)
		decide_launch(p, t, r, out);
	else if (v == VERDICT_FAILED)
		decide_failed(t, out);
	else if (v == VERDICT_SLOT || (v == VERDICT_CANCELLED && r->stopping == STOP_REQUEUE))
		out->next = NEXT_QUEUE;
}
