/* SPDX-License-Identifier: MIT
 *
 * What was refused, so that a pass asks only what it does not know.
 *
 * A request that did not fit is remembered by its kind. Until the fleet changes its shape, another of that kind can only fit on
 * slots that moved since: whether one GPU fits hangs on that GPU, the request and the policy. A task of several GPUs needs
 * several that fit at once, so for it those that fitted before are asked again with the ones that moved.
 *
 * And of a task it is remembered which kind its request was. Passes go by the same hundred tasks behind a head again and again
 * while one GPU or none moved; to make each one's request anew only to find its kind refused was most of what they did. A
 * request hangs on the task's record, on what was learnt of its signature and on the settings, so it is the same while these
 * are. What else may come into it (a promise it may use, a plan, turns at MPS servers) is not remembered: such a task is asked.
 */
#include "core/pass_private.h"

#include "base/hash.h"

#include <string.h>

/* By what a user may have --------------------------------------------------------------------------------------------- */

struct allowance pass_allowance(const struct pass *p, uid_t uid)
{
	return p->ops->allowance ? p->ops->allowance(p->ops->ctx, uid) : p->config->allowance;
}

struct fair_taken pass_would_take(const struct pass *p, const struct map_request *r)
{
	return (struct fair_taken){ 1, r->gpus, map_claim_mib(&p->config->map, r) * r->gpus };
}

enum allowance_kind pass_refused(const struct pass *p, const struct map_request *r, bool *never)
{
	const struct allowance a = pass_allowance(p, r->uid);
	const struct fair_taken taken = fair_taken_of(p->fair, r->uid), more = pass_would_take(p, r);
	return allowance_refuses(&a, &taken, &more, never);
}

/* By kind ------------------------------------------------------------------------------------------------------------- */

static uint64_t text_hash(uint64_t hash, const char *text)
{
	return text ? hash_bytes(hash, text, strlen(text) + 1) : hash_bytes(hash, "", 1);
}

static void kind_of(const struct map_request *r, struct kind *k)
{
	memset(k, 0, sizeof *k);	/* kinds are compared as memory */
	k->claim_mib = r->claim_mib;
	k->need_mib = r->need_mib;
	k->signature_key = r->signature_key;
	k->run_s = r->run_s;
	k->self.load.gract = r->self.load.gract;
	k->self.load.smact = r->self.load.smact;
	k->self.load.kernels = r->self.load.kernels;
	k->self.max_slowdown = r->self.max_slowdown;
	k->gpus = r->gpus;
	k->share = r->share;
	k->uid = r->uid;
	k->claim_is_declared = r->claim_is_declared;
	k->exclusive = r->exclusive;
	k->cores_used_up = r->cores.used_up;
	k->models = text_hash(text_hash(HASH_SEED, r->model), r->constraint);
}

/* Word by word, not byte by byte as base/hash.h does: it is made for every request that is tried. */
static size_t kind_place(const struct kind *k)
{
	uint64_t words[sizeof *k / sizeof(uint64_t)], h = 0;
	memcpy(words, k, sizeof words);
	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		h = (h ^ words[i]) * 0x9e3779b97f4a7c15u, h ^= h >> 29;
	return h & (REFUSED_PLACES - 1);
}

/* The entry of that kind as of the fleet's shape; a new one says that nothing was asked yet (version 0), and takes the place of
 * the one that was not asked for longest. */
struct refused *pass_refused_kind(struct pass *p, const struct map_request *r)
{
	struct kind kind;
	kind_of(r, &kind);
	struct refused *set = p->refused[kind_place(&kind)], *e = set;
	uint64_t shape = fleet_shape(p->fleet);
	for (size_t i = 0; i < REFUSED_WAYS; i++) {
		if (set[i].shape == shape && !memcmp(&set[i].kind, &kind, sizeof kind))
			return &set[i];
		if (set[i].version < e->version)
			e = &set[i];
	}
	*e = (struct refused){ .shape = shape, .serial = ++p->n_kinds, .feasible = FEASIBLE_NOT_ASKED };
	memcpy(&e->kind, &kind, sizeof kind);
	return e;
}

/* By GPUs that are out of use ----------------------------------------------------------------------------------------- */

static bool lacks_gpus(struct pass *p, const struct map_request *asked, struct now now)
{
	const struct map_scene s = pass_scene(p, now);
	struct map_request r = *asked;
	unsigned n = 0;
	r.planned = NULL;
	r.later = false;
	for (uint32_t i = 0; i < s.n && n < r.gpus; i++) {
		struct map_gpu g = s.gpus[i];
		g.foreign_mib = g.claimed_mib = 0;
		n += map_suits(&s, &r, &g);
	}
	return n < r.gpus;
}

/* Who lacks GPUs lacks them until the fleet's shape or what is known of tasks moves, or, where there are reservations, time
 * goes on. Neither version ever goes back, so their sum is another one whenever either moves. */
void pass_note_out_of_use(struct pass *p, struct now now)
{
	const struct map_scene s = pass_scene(p, now);
	const uint64_t mark = 1 + fleet_shape(p->fleet) + estimates_version(p->estimates);
	p->some_out_of_use = false;
	p->all_out_of_use = true;
	for (uint32_t i = 0; i < s.n; i++) {
		bool gone = s.gpus[i].drained || s.gpus[i].stale;
		p->some_out_of_use = p->some_out_of_use || gone || s.gpus[i].n_reserves;
		p->all_out_of_use = p->all_out_of_use && gone;
	}
	p->aside = p->some_out_of_use && !fleet_has_reserves(p->fleet) ? mark : 0;
}

/* Remembered by kind, since many who are alike may wait for GPUs that are out of use. */
static bool lacks_as_its_kind(struct pass *p, const struct map_request *r, struct now now)
{
	if (!p->aside || r->start_alone)
		return lacks_gpus(p, r, now);
	struct refused *e = pass_refused_kind(p, r);
	if (e->asked != p->aside) {
		e->lacks = lacks_gpus(p, r, now);
		e->asked = p->aside;
	}
	return e->lacks;
}

/* Memory of others may be given back at any moment, and is waited for. Where all GPUs are in use, as they mostly are, a task
 * that lacks some can never run here (pass_hopeless). */
bool pass_lacks_gpus(struct pass *p, const struct map_request *r, struct now now)
{
	bool lacks = p->some_out_of_use && lacks_as_its_kind(p, r, now);
	if (lacks)
		pass_let_go(p, r->task);
	return lacks;
}

void pass_walk_begin(const struct pass *p, struct queue_walk *w)
{
	queue_walk_begin_past(w, tasks_queue(p->tasks), QUEUE_RECOVERY, p->aside);
}

/* By task ------------------------------------------------------------------------------------------------------------- */

static struct tried *tried_place(struct pass *p, const struct task *t)
{
	return &p->tried[((uint64_t)t->id >> TASK_INDEX_BITS ^ (uint64_t)t->id) & (TRIED_PLACES - 1)];
}

/* Where another request of the same task would be the same only by chance. */
static bool pass_remembers(const struct pass *p, const struct task *t)
{
	bool planned = p->config->order == ORDER_PLAN && p->plan.n_waiting;
	return t->queue == QUEUE_MAIN && !planned && !fleet_mps_apart(p->fleet);
}

void pass_note_refused(struct pass *p, const struct task *t, const struct map_request *r, struct now now)
{
	int64_t told_ms = estimates_told_ms(p->estimates, t);
	if (!pass_remembers(p, t) || told_ms == now.wall_ms)	/* more may yet be learnt in this millisecond */
		return;
	struct refused *e = pass_refused_kind(p, r);
	*tried_place(p, t) = (struct tried){ .task = t->id, .n_events = t->n_events, .told_ms = told_ms, .kind = e,
					     .learnt = estimates_version(p->estimates), .serial = e->serial,
					     .cores = fleet_cores_version(p->fleet),
					     .asks = pass_would_take(p, r) };
}

/* Nothing was learnt of its like; asked by name only where anything was learnt at all. */
static bool learnt_nothing(struct pass *p, struct tried *k, const struct task *t)
{
	uint64_t version = estimates_version(p->estimates);
	if (k->learnt != version && k->told_ms != estimates_told_ms(p->estimates, t))
		return false;
	k->learnt = version;
	return true;
}

static bool user_may(const struct pass *p, const struct task *t, const struct fair_taken *asks)
{
	const struct allowance a = pass_allowance(p, t->spec->uid);
	bool never;
	if (!allowance_limits(&a))
		return true;
	const struct fair_taken taken = fair_taken_of(p->fair, t->spec->uid);
	return allowance_refuses(&a, &taken, asks, &never) == ALLOWANCE_COUNT;
}

bool pass_is_refused_still(struct pass *p, const struct task *t, struct now now)
{
	struct tried *k = tried_place(p, t);
	if (k->task != t->id || k->n_events != t->n_events || k->kind->serial != k->serial || !pass_remembers(p, t))
		return false;
	fleet_gpus(p->fleet, now);	/* what was touched has moved from here on */
	return k->cores == fleet_cores_version(p->fleet) && k->kind->version == fleet_version(p->fleet) &&
	       k->kind->shape == fleet_shape(p->fleet) && learnt_nothing(p, k, t) &&
	       !pass_keeps_anything_for(p, t->id) && !pass_ends_in_time(p, t, now) && user_may(p, t, &k->asks);
}
