/* SPDX-License-Identifier: MIT
 * Placement: the filter finds who may (filter.c), the rank picks the best of them. One pass over the GPUs, no allocation.
 */
#include "map/map.h"

#include "base/units.h"
#include "map/filter.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

struct map_policy map_policy_default(void)
{
	return (struct map_policy){
		.rank = RANK_GAIN,
		.share = SHARE_MPS,
		.max_smact = 0.80,
		.max_gract = 0.90,
		.min_free_mib = 5120,
		.slack_mib = 2048,
		.min_gain = 0.05,
		.max_tasks = 2,
		.foreign_share = false,
		.mps_multi_gpu = true,
		.ledger = true,
		.reserve_lead_ms = 4 * 3600 * INT64_C(1000),
	};
}

static int refuse_kind(const struct map_policy *p, const struct map_request *r, unsigned of_kind, struct error *err)
{
	if (r->share == SHARE_MIG && r->gpus > 1)
		return error_set(err, ERR_INVALID, "%u GPUs with share mig: a task can use one MIG instance only", r->gpus);
	if (r->share == SHARE_MPS && r->gpus > 1 && !p->mps_multi_gpu)
		return error_set(err, ERR_INVALID, "%u GPUs with share mps: the MPS servers here serve one GPU each "
				 "(mps-multi-gpu off); use share auto or streams", r->gpus);
	if (r->share == SHARE_MPS && of_kind)
		return error_set(err, ERR_INVALID, "%u GPUs with share mps, and only %u here can run an MPS server: ask for fewer, "
				 "or use share auto or streams", r->gpus, of_kind);
	if (r->share == SHARE_MIG)
		return error_set(err, ERR_INVALID, "share mig: there is no MIG instance here; an administrator creates them with "
				 "nvidia-smi, or use share auto");
	if (r->share == SHARE_MPS)
		return error_set(err, ERR_INVALID, "share mps: no GPU here can run an MPS server; use share auto or streams");
	return error_set(err, ERR_INVALID, "%u GPUs wanted, and there %s only %u that such a task can use: ask for fewer", r->gpus,
			 of_kind == 1 ? "is" : "are", of_kind);
}

static bool named_before(const struct map_gpu *gpus, size_t at)
{
	for (size_t i = 0; i < at; i++)
		if (gpus[i].total_mib == gpus[at].total_mib && !strcmp(gpus[i].name ? gpus[i].name : "", gpus[at].name ? gpus[at].name : ""))
			return true;
	return false;
}

/* With the models that there are, so that the next try is right. */
static int refuse_model(const struct map_gpu *gpus, size_t n, const struct map_request *r, unsigned of_model, struct error *err)
{
	char there[400] = "", size[32], count[12];
	for (size_t i = 0, len = 0; i < n && len + 1 < sizeof there; i++)
		if (!named_before(gpus, i))
			len += (size_t)snprintf(there + len, sizeof there - len, "%s%s (%s)", len ? ", " : "", gpus[i].name ? gpus[i].name : "?",
						units_format_mib((double)gpus[i].total_mib, size, sizeof size));
	snprintf(count, sizeof count, "%u", of_model);
	return error_set(err, ERR_INVALID, "%u GPU%s of '%s%s%s' wanted, and %s here %s that; there are: %s", r->gpus,
			 r->gpus > 1 ? "s" : "", r->model ? r->model : "", r->model && r->constraint ? "' and '" : "",
			 r->constraint ? r->constraint : "", of_model ? count : "none", of_model > 1 ? "are" : "is", there);
}

static int refuse_memory(const struct map_request *r, const struct map_gpu *last, struct error *err)
{
	char want[32], have[32], which[40] = "";
	if (!last->total_mib)
		return error_set(err, ERR_INVALID, "GPU %u: its memory cannot be read, so no task of known memory can be placed: see "
				 "`rad doctor`", last->index);
	if (r->gpus > 1)
		snprintf(which, sizeof which, "of the %u largest GPUs ", r->gpus);
	return error_set(err, ERR_INVALID, "%s of GPU memory wanted on each GPU: %sGPU %u has %s when empty%s: declare less, or use "
			 "a smaller batch", units_format_mib((double)r->claim_mib, want, sizeof want), which, last->index,
			 units_format_mib((double)last->total_mib, have, sizeof have), r->gpus > 1 ? "" : ", and none has more");
}

uint64_t map_largest_mib(const struct map_scene *s, const struct map_request *r)
{
	struct map_ask ask;
	map_ask_init(&ask, s, r);
	return map_nth_capacity(&ask, true, NULL);
}

int map_feasible(const struct map_scene *s, const struct map_request *r, struct error *err)
{
	const struct map_gpu *gpus = s->gpus;
	const size_t n = s->n;
	struct map_ask ask;
	map_ask_init(&ask, s, r);
	if (!r->gpus || r->gpus > SPEC_MAX_GPUS)
		return error_set(err, ERR_INVALID, "%u GPUs wanted: 1 to %d can be asked for", r->gpus, SPEC_MAX_GPUS);
	if (!n)
		return error_set(err, ERR_UNAVAILABLE, "no GPU is known here: see `rad gpus` and `rad doctor`");
	if (r->gpus > n)
		return error_set(err, ERR_INVALID, "%u GPUs wanted, and there %s only %zu: ask for fewer", r->gpus,
				 n == 1 ? "is" : "are", n);
	unsigned of_kind = 0, of_model = 0;
	for (size_t i = 0; i < n; i++)
		of_model += map_meets(r, &gpus[i]);
	if (of_model < r->gpus)
		return refuse_model(gpus, n, r, of_model, err);
	for (size_t i = 0; i < n; i++)
		of_kind += map_meets(r, &gpus[i]) && map_kind_fits(&ask, &gpus[i]);
	if (of_kind < r->gpus)
		return refuse_kind(s->policy, r, of_kind, err);
	const struct map_gpu *last = NULL;
	if (r->claim_is_declared && r->claim_mib > map_nth_capacity(&ask, true, &last))
		return refuse_memory(r, last, err);
	return 0;
}

/* A GPU that passed, with its place in the order; the lowest is taken first. */
struct pick {
	struct map_key key;
	uint32_t index, at;	/* shown index, position in the list */
	enum share_mode mode;
};

/* The best `want` of those that passed, best first. */
struct picks {
	unsigned want, n;
	size_t passed;
	struct pick best[SPEC_MAX_GPUS];
};

/* Candidates: GPUs where the claim fits, and those without tasks, where it may also be cut to fit. Several GPUs are taken in
 * one mode: `streams` are those on which the task would be time-sliced, idle ones included, should `fit`, the others, be too
 * few. */
struct choice {
	struct picks fit, streams, vacant;
	bool any_clamped;
	size_t rr_next;		/* where turns have come to */
};

static bool pick_before(const struct pick *a, const struct pick *b)
{
	const struct map_key *x = &a->key, *y = &b->key;
	if (x->first < y->first || x->first > y->first)
		return x->first < y->first;
	if (x->then < y->then || x->then > y->then)
		return x->then < y->then;
	return a->index != b->index ? a->index < b->index : a->at < b->at;
}

static bool is_full(const struct picks *s) { return s->n && s->n == s->want; }
static const struct pick *last_of(const struct picks *s) { return &s->best[s->n - 1]; }

static void picks_keep(struct picks *s, const struct pick *k)
{
	s->passed++;
	if (!s->want || (is_full(s) && !pick_before(k, last_of(s))))
		return;
	unsigned at = s->n < s->want ? s->n++ : s->n - 1;
	for (; at > 0 && pick_before(k, &s->best[at - 1]); at--)
		s->best[at] = s->best[at - 1];
	s->best[at] = *k;
}

/* Whether the answer cannot matter: it is shared and short by far, */
static bool is_short(const struct map_ask *ask, const struct map_gpu *g)
{
	return g->n_tasks && g->available_mib < ask->claim_mib;
}

/* or it would not be among the best. */
static bool is_behind(const struct choice *c, const struct pick *k)
{
	return is_full(&c->fit) && !pick_before(k, last_of(&c->fit));
}

static void keep_fitting(const struct map_ask *ask, struct choice *c, struct pick *k, bool idle)
{
	bool one = ask->r->gpus == 1;
	if (one || k->mode != SHARE_STREAMS)
		picks_keep(&c->fit, k);
	if (!one && (k->mode == SHARE_STREAMS || (idle && k->mode == SHARE_MPS && ask->r->share == SHARE_AUTO))) {
		k->mode = SHARE_STREAMS;
		picks_keep(&c->streams, k);
	}
}

/* Ranks one GPU, and asks it if it may be among the best. */
static void map_consider(struct map_ask *ask, size_t at, struct choice *c, struct map_finding *finding)
{
	const struct map_gpu *g = &ask->gpus[at];
	bool idle = map_is_idle(g);
	struct pick k = { .key = ask->row->key(ask, at, c->rr_next, idle), .index = g->index, .at = (uint32_t)at };
	struct map_answer a;
	bool company = ask->row->company && map_has_company(ask->r, g);
	if (company)
		ask->row->company(g, &k.key);
	if (!finding && is_behind(c, &k))
		return;
	map_filter(ask, g, &a);
	if (finding)
		*finding = (struct map_finding){ g->slot, a.reason, a.mode, a.have, a.want };
	if (a.reason)
		return;
	k.mode = a.mode;
	if (ask->row->answered) {
		ask->row->answered(&a, &k.key);
		if (company)
			ask->row->company(g, &k.key);
	}
	if (map_is_vacant(g))
		picks_keep(&c->vacant, &k);
	if (!a.clamped)
		keep_fitting(ask, c, &k, idle);
	c->any_clamped |= a.clamped;
}

/* By index, whatever the policy took first: so people name several GPUs, and so tasks are given them elsewhere. */
static void list_by_index(const struct picks *s, const struct map_gpu *gpus, uint32_t at[SPEC_MAX_GPUS])
{
	for (unsigned i = 0; i < s->n; i++) {
		unsigned to = i;
		for (; to && gpus[at[to - 1]].index > s->best[i].index; to--)
			at[to] = at[to - 1];
		at[to] = s->best[i].at;
	}
}

static void map_fill_placement(struct placement *out, const struct map_ask *ask, const struct picks *s, bool clamped)
{
	uint32_t at[SPEC_MAX_GPUS];
	assert(s->n && s->n == ask->r->gpus);	/* all or none: a task is never placed on some of its GPUs */
	list_by_index(s, ask->gpus, at);
	out->n = s->n;
	/* Beside a GPU where the claim is cut, the others are had alone too; MIG instances are never taken several at once. */
	out->mode = clamped && s->best[0].mode != SHARE_MIG ? SHARE_NEVER : s->best[0].mode;
	out->claim_mib = ask->claim_mib;
	for (unsigned i = 0; i < s->n; i++) {
		const struct map_gpu *g = &ask->gpus[at[i]];
		out->slots[i] = g->slot;
		if (clamped && g->available_mib < out->claim_mib)
			out->claim_mib = g->available_mib;
	}
}

/* Nobody is placed, so nobody fits: those that passed lack company. */
static void mark_too_few(struct map_finding *findings, size_t n, size_t passed, unsigned want)
{
	for (size_t i = 0; findings && i < n; i++) {
		if (findings[i].reason)
			continue;
		findings[i].reason = MAP_TOO_FEW;
		findings[i].have = (double)passed;
		findings[i].want = want;
	}
}

static bool is_among(const struct picks *s, uint32_t at)
{
	for (unsigned i = 0; i < s->n; i++)
		if (s->best[i].at == at)
			return true;
	return false;
}

/* Of a refusal: nothing was full, so the picks are all that passed. */
static void map_list_few(const struct choice *c, struct map_few *few)
{
	const struct picks *const all[] = { &c->fit, &c->streams, &c->vacant };
	few->n = 0;
	for (size_t k = 0; k < sizeof all / sizeof *all; k++)
		for (unsigned i = 0; i < all[k]->n; i++) {
			uint32_t at = all[k]->best[i].at;
			if ((k > 0 && is_among(all[0], at)) || (k > 1 && is_among(all[1], at)))
				continue;
			if (few->n < MAP_FEW)
				few->at[few->n] = at;
			few->n++;
		}
}

static void choice_begin(struct choice *c, const struct map_scene *s, const struct map_request *r)
{
	c->fit.want = c->streams.want = c->vacant.want = r->gpus <= SPEC_MAX_GPUS ? r->gpus : 0;
	c->fit.n = c->streams.n = c->vacant.n = 0;
	c->fit.passed = c->streams.passed = c->vacant.passed = 0;
	c->any_clamped = false;
	c->rr_next = s->n ? *s->rr_next % s->n : 0;
}

/* Those in `only`, or all if that is NULL. */
static void consider_all(struct map_ask *ask, const uint32_t *only, size_t n_only, struct choice *c,
			 struct map_finding *findings)
{
	size_t n = only ? n_only : ask->n;
	for (size_t i = 0; i < n; i++) {
		size_t at = only ? only[i] : i;
		if (findings || !is_short(ask, &ask->gpus[at]))
			map_consider(ask, at, c, findings ? &findings[i] : NULL);
	}
}

/* Once all were considered. *passed: of how many GPUs a refusal is. */
static bool map_choose(const struct map_scene *in, const struct map_ask *ask, const struct choice *c, struct placement *out,
		       size_t *passed)
{
	unsigned want = c->fit.want;
	const struct picks *s = c->fit.n < want && c->streams.passed > c->fit.passed ? &c->streams : &c->fit;
	bool clamped = c->any_clamped && s->n < want;
	*passed = s->passed;
	if (clamped)
		s = &c->vacant;
	*passed = s->passed > *passed ? s->passed : *passed;
	if (!want || s->n < want)
		return false;
	map_fill_placement(out, ask, s, clamped);
	if (ask->row->turns)
		*in->rr_next = (uint32_t)((s->best[s->n - 1].at + 1) % in->n);
	return true;
}

bool map_place(const struct map_scene *s, const struct map_request *r, struct placement *out, struct map_finding *findings)
{
	struct map_ask ask;
	struct choice c;
	size_t passed;
	map_ask_init(&ask, s, r);
	choice_begin(&c, s, r);
	consider_all(&ask, NULL, 0, &c, findings);
	if (map_choose(s, &ask, &c, out, &passed))
		return true;
	mark_too_few(findings, s->n, passed, r->gpus);
	return false;
}

bool map_place_among(const struct map_scene *s, const struct map_request *r, const uint32_t *only, size_t n_only,
		     struct placement *out, struct map_few *few)
{
	struct map_ask ask;
	struct choice c;
	size_t passed;
	assert(n_only <= s->n);
	map_ask_init(&ask, s, r);
	choice_begin(&c, s, r);
	consider_all(&ask, only, n_only, &c, NULL);
	if (map_choose(s, &ask, &c, out, &passed))
		return true;
	map_list_few(&c, few);
	return false;
}
