/* SPDX-License-Identifier: MIT
 * The filter: the questions of MAP_REASONS, asked of one GPU in that order. See map.h for the rules.
 *
 * All must be answered well, so their order is one for people: the first that fails is the reason that is told. What waiting
 * does not change stands first (drained, silent, another model), then whose GPU it is just now, then memory and load, which
 * change by themselves.
 */
#include "map/filter.h"

#include "task/constraint.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

/* Tasks of which nothing is known share a GPU where each may take such a part of it. Decisions 162 and 196. */
#define COLD_PART 3

void map_ask_init(struct map_ask *ask, const struct map_scene *s, const struct map_request *r)
{
	const struct map_policy *p = s->policy;
	bool alone = map_wants_alone(p, r);
	*ask = (struct map_ask){
		.row = map_row_of(p), .p = p, .r = r, .gpus = s->gpus, .n = s->n,
		.alone = alone,
		.idle_only = alone || r->start_alone,
		.unknown = !r->claim_mib,
		.predicts = map_predicts(p) || r->self.max_slowdown > 0,
		.claim_mib = map_claim_mib(p, r),
		.least_mib = r->need_mib ? r->need_mib : UINT64_MAX,
	};
}

static bool may_be_client(const struct map_policy *p, const struct map_request *r)
{
	return r->gpus == 1 || p->mps_multi_gpu;
}

/* Most tasks take any GPU, and this is asked of each. */
bool map_meets(const struct map_request *r, const struct map_gpu *g)
{
	return (!r->model || constraint_met(r->model, g->name, g->total_mib)) &&
	       (!r->constraint || constraint_met(r->constraint, g->name, g->total_mib));
}

bool map_kind_fits(const struct map_ask *ask, const struct map_gpu *g)
{
	enum share_mode wish = ask->r->share;
	if (g->mig)	/* a process sees one instance only, so a task of several GPUs cannot use them */
		return ask->r->gpus == 1 && (ask->alone || wish == SHARE_AUTO || wish == SHARE_MIG);
	if (wish == SHARE_MIG)
		return false;
	return wish != SHARE_MPS || ask->alone || (g->mps_capable && may_be_client(ask->p, ask->r));
}

uint64_t map_nth_capacity(const struct map_ask *ask, bool stale_too, const struct map_gpu **which)
{
	const struct map_gpu *top[SPEC_MAX_GPUS];
	unsigned want = ask->r->gpus <= SPEC_MAX_GPUS ? ask->r->gpus : 0, n = 0;
	for (size_t i = 0; i < ask->n; i++) {
		const struct map_gpu *g = &ask->gpus[i];
		if (!map_kind_fits(ask, g) || !map_meets(ask->r, g) || (g->stale && !stale_too) ||
		    (n == want && (!n || g->total_mib <= top[n - 1]->total_mib)))
			continue;
		unsigned at = n < want ? n++ : n - 1;
		for (; at > 0 && top[at - 1]->total_mib < g->total_mib; at--)
			top[at] = top[at - 1];
		top[at] = g;
	}
	if (!want || n < want)
		return 0;
	if (which)
		*which = top[n - 1];
	return top[n - 1]->total_mib;
}

enum share_mode map_first_mode(const struct map_policy *p, const struct map_request *r, bool alone, const struct map_gpu *g)
{
	if (g->mig)
		return SHARE_MIG;
	if (alone)
		return SHARE_NEVER;
	enum share_mode wish = r->share == SHARE_AUTO ? p->share : r->share;
	return wish == SHARE_MPS && g->mps_capable && may_be_client(p, r) ? SHARE_MPS : SHARE_STREAMS;
}

/* Modes are one a GPU at a time: whoever joins takes the mode of those who run there, or does not join. */
static enum map_reason map_join(const struct map_ask *ask, const struct map_gpu *g, enum share_mode *mode)
{
	enum share_mode wish = ask->r->share;
	*mode = g->mode;
	if (g->mode == SHARE_STREAMS)
		return wish == SHARE_MPS || g->one_process ? MAP_MODE : MAP_OK;
	if (g->mode != SHARE_MPS || !may_be_client(ask->p, ask->r) || (g->has_multi_gpu && !ask->p->mps_multi_gpu))
		return MAP_MODE;
	if (wish != SHARE_MPS && (wish != SHARE_AUTO || ask->p->share != SHARE_MPS))
		return MAP_MODE;
	return g->mps_uid == (g->mps_together ? MAP_MPS_ALL : (int64_t)ask->r->uid) ? MAP_OK : MAP_USER;
}

/* Whoever else starts there makes the one wait whose turn it is, in whatever mode. */
static bool is_others_turn(const struct map_ask *ask, const struct map_gpu *g)
{
	return g->turn_task && g->turn_task != ask->r->task && g->turn_uid != ask->r->uid;
}

/* An estimate may say more than any GPU has, or nothing at all: then an idle GPU that is as large as any it could have gives
 * what there is; beside processes that are not ours, which may stay for ever, where that is what the task needs. A declaration
 * is a promise and is not bent. */
static bool may_clamp(struct map_ask *ask, const struct map_gpu *g)
{
	if (map_foreign_runs(g) && (g->available_mib < ask->p->slack_mib || g->available_mib - ask->p->slack_mib < ask->least_mib))
		return false;
	if (ask->unknown || ask->r->claim_is_declared)
		return ask->unknown;
	if (!ask->nth_mib)
		ask->nth_mib = map_nth_capacity(ask, false, NULL);
	return map_is_as_large(g, ask->nth_mib);
}

static enum map_reason map_ask_memory(struct map_ask *ask, const struct map_gpu *g, struct map_answer *a)
{
	/* Slack is for those who share. On an idle GPU there is nobody to leave it to. */
	bool idle = map_is_idle(g);
	uint64_t slack = idle || ask->unknown ? 0 : ask->p->slack_mib;
	uint64_t want = ask->claim_mib > UINT64_MAX - slack ? UINT64_MAX : ask->claim_mib + slack;
	a->have = (double)g->available_mib;
	a->want = (double)want;
	if (g->available_mib >= want)
		return MAP_OK;
	if (map_is_vacant(g) && g->available_mib && may_clamp(ask, g)) {
		a->clamped = true;
		a->mode = g->mig ? SHARE_MIG : SHARE_NEVER;
		a->want = a->have;
		return MAP_OK;
	}
	bool empty_soon = !g->n_tasks && g->settling && !map_foreign_runs(g);
	return empty_soon && (g->total_mib >= ask->claim_mib || may_clamp(ask, g)) ? MAP_SETTLING : MAP_MEMORY;
}

/* A policy that predicts cannot where nothing is known yet of a task that has just started: there the limits on the load
 * decide, as under the others. */
static bool predicts_load(const struct map_row *row, const struct map_gpu *g)
{
	return row->for_load && !g->unseen;
}

/* Under MPS a wrong guess costs little, since tasks that join always bring something. In slices two tasks that fill a GPU gain
 * nothing for as long as both run; so where slices are the exception, and other GPUs may do better, it is waited for, but by
 * one who asked for slices. */
static bool waits_to_see(const struct map_ask *ask, const struct map_gpu *g, enum share_mode mode)
{
	bool asked_for = ask->r->share == SHARE_STREAMS || ask->r->planned;
	return g->n_tasks && g->unseen && !asked_for && g->mps_capable && map_slices_are_odd(ask->p, mode);
}

/* All that the limits ask of a load. */
enum load_side { SIDE_UNKNOWN, SIDE_WITHIN, SIDE_ABOVE };

static enum load_side load_side(bool known, double load, double limit)
{
	if (!known || !isfinite(load))
		return SIDE_UNKNOWN;
	return load > limit + MAP_EPSILON ? SIDE_ABOVE : SIDE_WITHIN;	/* no limit is NaN, above which nothing is */
}

/* Whether the limits keep one more task of that mode from a GPU, and which figure is beyond which. */
static enum map_reason load_refuses(const struct map_policy *p, const struct map_gpu *g, enum share_mode mode, double *have,
				    double *want)
{
	bool mps = mode == SHARE_MPS;
	double limit = mps ? p->max_smact : p->max_gract, load = mps ? g->load.smact : g->load.gract;
	enum load_side side = load_side(mps ? g->load.smact_known : g->load.gract_known, load, limit);
	if (side == SIDE_WITHIN)
		return MAP_OK;
	if (side == SIDE_ABOVE) {
		*have = load, *want = limit;
		return MAP_LOAD;
	}
	if (!p->max_tasks || g->n_tasks < p->max_tasks)
		return MAP_OK;
	*have = g->n_tasks, *want = p->max_tasks;
	return MAP_TASKS;
}

static bool is_planned(const struct map_request *r, const struct map_gpu *g)
{
	for (unsigned i = 0; r->planned && i < r->gpus; i++)
		if (r->planned[i] == g->slot)
			return true;
	return false;
}

/* Plans know nothing of feeds, and of two GPUs that are as good they take any. Under a policy that ranks by what is gained, it
 * may go to its feed's instead, where that ranks higher. */
static bool is_elsewhere(const struct map_ask *ask, const struct map_gpu *g)
{
	return ask->r->planned && !is_planned(ask->r, g) && !(ask->row->for_load && map_has_company(ask->r, g));
}

/* The plan has it start, and not yet: when others did, or beside fewer. */
static enum map_reason map_ask_plan(const struct map_ask *ask, const struct map_gpu *g, struct map_answer *a)
{
	unsigned among = is_planned(ask->r, g) ? ask->r->among : 0;
	if (among && g->n_tasks >= among) {
		a->have = g->n_tasks, a->want = among;
		return MAP_LATER;
	}
	if (!ask->r->planned || !ask->r->later)
		return MAP_OK;
	a->have = a->want = NAN;
	return MAP_LATER;
}

static enum map_reason map_ask_load(const struct map_ask *ask, const struct map_gpu *g, struct map_answer *a)
{
	if (!map_foreign_runs(g) && (!g->n_tasks || predicts_load(ask->row, g) || is_planned(ask->r, g)))
		return MAP_OK;
	return load_refuses(ask->p, g, a->mode, &a->have, &a->want);
}

bool map_load_admits(const struct map_policy *p, const struct map_gpu *g)
{
	double have, want;
	return !g->n_tasks || predicts_load(map_row_of(p), g) || !load_refuses(p, g, g->mode, &have, &want);
}

/* Whether a reservation keeps the request from that GPU now. *in_s: seconds until the reservation begins (0 or less: it has
 * begun); *left_s: until it ends. */
static bool is_reserved(const struct map_ask *ask, const struct map_gpu *g, double *in_s, double *left_s)
{
	const struct map_request *r = ask->r;
	double run_s = r->run_s > 0 ? r->run_s : (double)ask->p->reserve_lead_ms / 1000;
	for (unsigned i = 0; i < g->n_reserves; i++) {
		const struct map_reserve *v = &g->reserves[i];
		*in_s = (double)(v->begin_ms - r->now_ms) / 1000;
		*left_s = (double)(v->end_ms - r->now_ms) / 1000;
		if (v->uid != r->uid && *left_s > 0 && !(*in_s > 0 && run_s <= *in_s))
			return true;
	}
	return false;
}

static bool is_for_its_user(const struct map_gpu *g, const struct map_request *r)
{
	for (unsigned i = 0; i < g->n_reserves; i++) {
		const struct map_reserve *v = &g->reserves[i];
		if (v->uid == r->uid && v->begin_ms <= r->now_ms && r->now_ms < v->end_ms)
			return true;
	}
	return false;
}

static enum map_reason map_ask_reserves(const struct map_ask *ask, const struct map_gpu *g, struct map_answer *a)
{
	double in, left;
	if (ask->r->reserved && !is_for_its_user(g, ask->r))
		return MAP_RESERVED;
	if (!is_reserved(ask, g, &in, &left))
		return MAP_OK;
	a->have = in, a->want = in > 0 ? ask->r->run_s : left;
	return MAP_RESERVED;
}

/* What those that are not warm, and the request, will most likely not go beyond together. One takes `usual` at most, so does
 * each of n of one signature; what different ones take is independent, and spreads add up as squares: with k of a signature
 *	n mean + sqrt(sum of k^2) (usual - mean)		(decision 257) */
static double usual_together_mib(const struct map_ask *ask, const struct map_gpu *g)
{
	unsigned n = g->n_cold + 1, squares = 1;	/* sum of k^2: pairs that are alike, in either order and with itself */
	if (g->n_cold > MAP_COLD_MOST)
		return (double)n * (double)g->usual_mib;
	for (unsigned i = 0; i < g->n_cold; i++) {
		squares += 1 + 2 * (g->cold[i] == ask->r->signature_key);
		for (unsigned k = 0; k < i; k++)
			squares += 2 * (g->cold[i] == g->cold[k]);
	}
	double mean = (double)g->usual_mean_mib, spread = (double)g->usual_mib - mean;
	return n * mean + sqrt(squares) * spread;
}

/* What a task without an estimate will take is not known before it is warm. So it joins others that are not, where its part of
 * the GPU is left for each of them and for it; or what they usually take, of which min_free is held for each already. */
static bool is_cold(const struct map_ask *ask, const struct map_gpu *g)
{
	if (!g->n_cold || COLD_PART * g->available_mib >= (g->n_cold + 1) * g->total_mib)
		return false;
	return (double)(g->available_mib + g->n_cold * ask->p->min_free_mib) < usual_together_mib(ask, g);
}

/* Everything before memory and load. */
static enum map_reason map_ask_admission(const struct map_ask *ask, const struct map_gpu *g, struct map_answer *a)
{
	if (g->drained)
		return MAP_DRAINED;
	if (g->stale)
		return MAP_STALE;
	if (!map_meets(ask->r, g))
		return MAP_CONSTRAINT;
	if (g->kept_for && g->kept_for != ask->r->task && g->kept_for != ask->r->lent_by)
		return MAP_KEPT;
	if (g->n_reserves || ask->r->reserved) {
		enum map_reason why = map_ask_reserves(ask, g, a);
		if (why)
			return why;
	}
	if (is_elsewhere(ask, g))
		return MAP_ELSEWHERE;
	if (!map_kind_fits(ask, g))
		return MAP_MODE;
	if (is_others_turn(ask, g))
		return MAP_TURN;
	bool idle_wanted = ask->idle_only || g->mig;
	if (g->n_tasks && !idle_wanted) {
		enum map_reason why = map_join(ask, g, &a->mode);
		if (why)
			return why;
	}
	if (map_foreign_runs(g) && (idle_wanted || !ask->p->foreign_share)) {
		a->have = (double)g->foreign_mib, a->want = MAP_FOREIGN_MIB;
		return MAP_FOREIGN;
	}
	if (idle_wanted && g->n_tasks) {
		a->have = g->n_tasks, a->want = 0;
		return MAP_BUSY;
	}
	if (idle_wanted && g->settling)
		return MAP_SETTLING;
	if (g->capture_comes)
		return MAP_CAPTURE;
	return ask->unknown && is_cold(ask, g) ? MAP_COLD : MAP_OK;
}

void map_filter(struct map_ask *ask, const struct map_gpu *g, struct map_answer *a)
{
	a->clamped = false;
	a->gain = 1;
	a->mode = map_first_mode(ask->p, ask->r, ask->alone, g);
	a->have = a->want = NAN;
	a->reason = map_ask_admission(ask, g, a);
	if (!a->reason)
		a->reason = map_ask_memory(ask, g, a);
	if (!a->reason && waits_to_see(ask, g, a->mode))
		a->reason = MAP_UNSEEN, a->have = a->want = NAN;
	if (!a->reason)
		a->reason = map_ask_load(ask, g, a);
	if (!a->reason && g->n_tasks && (ask->predicts || g->has_limit))
		a->reason = map_forecast(ask, g, a);
	bool asked = ask->row->filter && !is_planned(ask->r, g) && (!ask->row->for_load || predicts_load(ask->row, g));
	if (!a->reason && g->n_tasks && asked)
		a->reason = ask->row->filter(ask, g, a);
	if (!a->reason && g->n_tasks && ask->r->cores.used_up) {
		a->have = ask->r->cores.gain, a->want = MAP_CORES_GAIN;
		a->reason = MAP_CORES;
	}
	if (!a->reason)
		a->reason = map_ask_plan(ask, g, a);
}

bool map_loads_alike(const struct map_policy *p, const struct load *a, const struct load *b)
{
	return load_side(a->smact_known, a->smact, p->max_smact) == load_side(b->smact_known, b->smact, p->max_smact) &&
	       load_side(a->gract_known, a->gract, p->max_gract) == load_side(b->gract_known, b->gract, p->max_gract);
}

/* As memory, so that a new member counts by itself. */
bool map_answers_alike(const struct map_policy *p, const struct map_gpu *a, const struct map_gpu *b)
{
	const size_t at = offsetof(struct map_gpu, load), after = at + sizeof a->load;
	if (memcmp(a, b, at) || memcmp((const char *)a + after, (const char *)b + after, sizeof *a - after))
		return false;
	bool asks_limits = !predicts_load(map_row_of(p), b) || map_foreign_runs(b);
	return !asks_limits || map_loads_alike(p, &a->load, &b->load);
}

bool map_waits_for_server(const struct map_scene *s, const struct map_request *r, const struct map_gpu *g)
{
	struct map_ask ask;
	struct map_answer a;
	map_ask_init(&ask, s, r);
	map_filter(&ask, g, &a);
	return a.reason == MAP_USER;
}

bool map_suits(const struct map_scene *s, const struct map_request *r, const struct map_gpu *g)
{
	struct map_ask ask;
	struct map_answer a;
	struct map_gpu idle = *g;
	idle.n_tasks = 0;
	idle.available_mib = g->total_mib > g->foreign_mib ? g->total_mib - g->foreign_mib : 0;
	idle.n_cold = 0;
	idle.capture_comes = false;
	idle.settling = false;
	idle.kept_for = idle.turn_task = 0;
	map_ask_init(&ask, s, r);
	map_filter(&ask, &idle, &a);
	return !a.reason;
}
