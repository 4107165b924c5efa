/* SPDX-License-Identifier: MIT
 * Placement over random situations: whatever is decided, no GPU gives more than it has and no rule of sharing is broken; and
 * what is refused, no GPU could have taken.
 */
#include "base/scope.h"
#include "map/map.h"

#include <math.h>
#include <string.h>
#include <stdarg.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

/* A generator of our own, so that a failure can be seen again everywhere. */
static uint64_t draw(uint64_t *seed, uint64_t below)
{
	*seed = *seed * 6364136223846793005u + 1442695040888963407u;
	return (*seed >> 33) % below;
}

static bool chance(uint64_t *seed, unsigned percent) { return draw(seed, 100) < percent; }

static struct map_tenant tenants[6][4];

static struct map_tenant any_tenant(uint64_t *s)
{
	double gract = (double)draw(s, 101) / 100;
	return (struct map_tenant){ { gract, gract * (double)draw(s, 101) / 100 }, chance(s, 15) ? 1 + (double)draw(s, 30) / 10 : 0 };
}

static struct map_gpu any_gpu(uint64_t *s, uint32_t i)
{
	static const uint64_t totals[] = { 40448, 40440, 81408, 9728 };
	struct map_gpu g = { .slot = 10 + i, .index = i, .uuid = "GPU-1111", .total_mib = totals[draw(s, 4)] };
	g.n_tasks = chance(s, 60) ? (unsigned)draw(s, 4) : 0;
	g.available_mib = g.n_tasks ? draw(s, g.total_mib + 1) : g.total_mib;
	g.mode = (enum share_mode[]){ SHARE_MPS, SHARE_STREAMS, SHARE_NEVER }[draw(s, 3)];
	g.mps_uid = 1000 + (uid_t)chance(s, 20);
	g.mps_capable = (g.n_tasks && g.mode == SHARE_MPS) || chance(s, 80);
	g.mig = chance(s, 10);
	g.has_multi_gpu = g.n_tasks && chance(s, 20);
	g.foreign_mib = chance(s, 20) ? draw(s, chance(s, 50) ? 3000 : 30000) : 0;
	g.settling = chance(s, 10);
	if (!g.n_tasks && g.available_mib > g.foreign_mib)
		g.available_mib -= g.foreign_mib;
	g.load = (struct load){ (double)draw(s, 101) / 100, (double)draw(s, 101) / 100, chance(s, 80), chance(s, 80) };
	g.drained = chance(s, 5);
	g.stale = chance(s, 5);
	g.usual_mib = 1 + draw(s, 40000);
	g.usual_mean_mib = draw(s, g.usual_mib + 1);
	g.n_cold = g.n_tasks && chance(s, 20) ? 1 + (unsigned)draw(s, g.n_tasks) : 0;
	for (unsigned k = 0; k < g.n_cold; k++)
		g.cold[k] = draw(s, 3);
	g.kept_for = chance(s, 10) ? TASK_ID(1 + draw(s, 2), -1) : 0;
	g.capture_comes = g.n_tasks && chance(s, 5);
	g.unseen = g.n_tasks && chance(s, 10);
	for (unsigned k = 0; k < g.n_tasks; k++)
		g.has_limit |= (tenants[i][k] = any_tenant(s)).max_slowdown > 0;
	g.tenants = tenants[i];
	return g;
}

static void any_request(uint64_t *s, struct map_policy *p, struct map_request *r)
{
	static const enum share_mode wishes[] = { SHARE_AUTO, SHARE_AUTO, SHARE_NEVER, SHARE_STREAMS, SHARE_MPS, SHARE_MIG };
	*p = map_policy_default();
	p->rank = (enum map_rank)draw(s, MAP_RANK_COUNT);
	p->share = (enum share_mode[]){ SHARE_MPS, SHARE_MPS, SHARE_STREAMS, SHARE_NEVER }[draw(s, 4)];
	p->foreign_share = chance(s, 30);
	p->mps_multi_gpu = chance(s, 70);
	p->max_slowdown = chance(s, 20) ? 1 + (double)draw(s, 20) / 10 : 0;
	if (chance(s, 20))
		p->max_smact = p->max_gract = NAN;
	*r = (struct map_request){
		.task = TASK_ID(1, -1), .gpus = chance(s, 30) ? 2 + (unsigned)draw(s, 2) : 1, .uid = 1000,
		.claim_mib = chance(s, 20) ? 0 : 1 + draw(s, 100000), .claim_is_declared = chance(s, 50),
		.exclusive = chance(s, 10), .start_alone = chance(s, 10), .share = wishes[draw(s, COUNT_OF(wishes))],
		.self = any_tenant(s),
	};
	r->need_mib = chance(s, 70) ? draw(s, r->claim_mib + 1) : 0;
}

/* The limits that they would not keep to together, said of the speeds themselves; and what the newcomer brings. */
static const char *broken_forecast(const struct map_policy *p, const struct map_gpu *g, const struct map_request *r,
				   enum share_mode mode)
{
	struct share_task all[5];
	double before[5] = { 0 }, after[5], gained = 0;
	size_t n = g->n_tasks;
	for (size_t i = 0; i < n; i++)
		all[i] = g->tenants[i].load;
	all[n] = r->self.load;
	share_speeds(all, n, mode, before);
	share_speeds(all, n + 1, mode, after);
	for (size_t i = 0; i <= n; i++) {
		double own = i < n ? g->tenants[i].max_slowdown : r->self.max_slowdown, limit = own > 0 ? own : p->max_slowdown;
		double load = fmax(mode == SHARE_MPS ? all[i].smact : all[i].gract, 0.01);
		if (limit > 0 && after[i] * limit < 1 - 1e-6)
			return "slower than allowed";
		gained += (after[i] - before[i]) * load;
	}
	double least = p->min_gain * fmax(mode == SHARE_MPS ? r->self.load.smact : r->self.load.gract, 0.01);
	if (p->rank != RANK_GAIN || !n)
		return NULL;
	bool known = mode == SHARE_MPS ? g->load.smact_known : g->load.gract_known;
	double load = mode == SHARE_MPS ? g->load.smact : g->load.gract, limit = mode == SHARE_MPS ? p->max_smact : p->max_gract;
	if (g->unseen)
		return known && load > limit + 1e-6 ? "too busy for one that was not seen" : NULL;
	return gained < least - 1e-6 ? "too little gained" : NULL;
}

/* It has less than it wanted of one of its GPUs: of its claim, or of the slack beside processes that are not ours. */
static bool is_cut(const struct map_policy *p, const struct map_gpu *g, const struct map_request *r,
		   const struct placement *out)
{
	if (out->claim_mib < (r->claim_mib ? r->claim_mib : p->min_free_mib))
		return true;
	for (unsigned i = 0; r->claim_mib && i < out->n; i++) {
		const struct map_gpu *one = &g[out->slots[i] - 10];
		if (!one->n_tasks && one->foreign_mib > 1024 && out->claim_mib + p->slack_mib > one->available_mib)
			return true;
	}
	return false;
}

/* What must hold of every GPU that is taken, said in other words than the code. */
static const char *broken_rule(const struct map_policy *p, const struct map_gpu *g, const struct map_request *r,
			       const struct placement *out, bool cut)
{
	bool alone = r->exclusive || r->share == SHARE_NEVER || p->share == SHARE_NEVER || p->rank == RANK_EXCLUSIVE;
	bool empty = !g->n_tasks && !g->settling && g->foreign_mib <= 1024;
	if (out->claim_mib > g->available_mib)
		return "more than available";
	if (g->drained || g->stale || (g->kept_for && g->kept_for != r->task))
		return "not to be used";
	bool beside_others = p->foreign_share && !g->n_tasks && !g->settling && !alone && !r->start_alone && !g->mig;
	if ((alone || r->start_alone || cut || g->mig || out->mode == SHARE_NEVER) && !empty && !beside_others)
		return "not idle";
	if (g->mig != (out->mode == SHARE_MIG) || (g->mig && r->gpus > 1))
		return "MIG";
	if (!g->mig && (alone || cut) && out->mode != SHARE_NEVER)
		return "not alone";
	if (g->n_tasks && out->mode != g->mode)
		return "two modes on one GPU";
	bool third = 3 * g->available_mib >= (g->n_cold + 1) * g->total_mib;
	bool mean = g->available_mib + g->n_cold * p->min_free_mib >= (g->n_cold + 1) * g->usual_mean_mib;
	bool one = g->available_mib + g->n_cold * p->min_free_mib >= g->usual_mib;
	if (!r->claim_mib && g->n_cold && !third && !(mean && one))
		return "less than a third for each of those of which nothing is known, the mean of what is usual, or the most for one";
	if (g->capture_comes)
		return "beside one whose capture is to come";
	if (g->unseen && g->mode == SHARE_STREAMS && r->share != SHARE_STREAMS && p->share == SHARE_MPS && g->mps_capable)
		return "in slices, with one that was not seen";
	if (out->mode == SHARE_MPS && ((r->gpus > 1 && !p->mps_multi_gpu) || !g->mps_capable || (g->n_tasks && g->mps_uid != r->uid)))
		return "MPS";
	if (!alone && !cut && r->share != SHARE_AUTO && r->share != out->mode)
		return "not what was insisted on";
	if (r->claim_is_declared && r->claim_mib && cut)
		return "a declaration was cut";
	if (g->foreign_mib > 1024 && !p->foreign_share)
		return "foreign";
	uint64_t least = out->mode == SHARE_NEVER && r->need_mib && !r->claim_is_declared ? r->need_mib : r->claim_mib;
	if (!empty && r->claim_mib && g->available_mib < least + p->slack_mib)
		return "no slack, or cut beside others below what it needs";
	return NULL;
}

struct situation {
	struct map_policy p;
	struct map_request r;
	struct map_gpu g[6];
	size_t n;
	uint32_t turn;
};

/* It, with turns that have come to *turn. */
#define IN(s, turn) (&(struct map_scene){ &(s)->p, (s)->g, (s)->n, (turn) })

static unsigned again_placed, loads_moved, loads_alike;

/* GPUs may be passed over when nobody wants the findings, but nothing is decided otherwise. */
static void check_quick(const struct situation *s, bool placed, uint32_t turn, const struct placement *out)
{
	struct placement quick;
	uint32_t at = s->turn;
	assert_int_equal(map_place(IN(s, &at), &s->r, &quick, NULL), placed);
	assert_int_equal(at, turn);
	if (!placed)
		return;
	assert_memory_equal(quick.slots, out->slots, out->n * sizeof *out->slots);
	assert_true(quick.mode == out->mode && quick.claim_mib == out->claim_mib);
}

/* Where it was refused and GPUs changed since, asking those and the few that had fitted decides as asking all does. */
static void check_again(const struct situation *s, const struct map_few *few, uint64_t *seed)
{
	struct situation now = *s;
	struct placement all, some;
	uint32_t only[6], n_only = 0, turn = s->turn, at = s->turn;
	bool changed[6] = { false };
	for (uint32_t i = 0; i < s->n; i++)
		if ((changed[i] = chance(seed, 40))) {
			struct map_gpu g = any_gpu(seed, i);
			bool same_shape = g.total_mib == s->g[i].total_mib && g.stale == s->g[i].stale && g.mig == s->g[i].mig &&
				     g.mps_capable == s->g[i].mps_capable;
			now.g[i] = same_shape ? g : now.g[i];
			only[n_only++] = i;
		}
	for (unsigned i = 0; i < few->n; i++)
		if (!changed[few->at[i]])
			only[n_only++] = few->at[i];
	bool placed = map_place(IN(&now, &turn), &now.r, &all, NULL);
	assert_int_equal(map_place_among(IN(&now, &at), &now.r, only, n_only, &some, &(struct map_few){ 0 }), placed);
	assert_int_equal(at, turn);
	again_placed += placed && now.r.gpus > 1;
	if (placed)
		assert_memory_equal(some.slots, all.slots, all.n * sizeof *all.slots);
	if (placed)
		assert_true(some.mode == all.mode && some.claim_mib == all.claim_mib);
}

/* Where only the load changed: what counts as alike is answered alike. */
static void check_load(const struct situation *s, uint64_t *seed)
{
	struct map_gpu was, is;
	memcpy(&was, &s->g[0], sizeof was);
	memcpy(&is, &was, sizeof is);
	is.load.smact = (double)draw(seed, 101) / 100;
	is.load.gract = (double)draw(seed, 101) / 100;
	is.load.smact_known = chance(seed, 80);
	bool alike = map_answers_alike(&s->p, &was, &is);
	struct map_finding before, after;
	struct placement out;
	uint32_t turn = 0;
	map_place(&(struct map_scene){ &s->p, &was, 1, &turn }, &s->r, &out, &before);
	map_place(&(struct map_scene){ &s->p, &is, 1, &turn }, &s->r, &out, &after);
	loads_moved += before.reason != after.reason;
	loads_alike += alike;
	assert_true(!alike || (before.reason == after.reason && before.mode == after.mode));
	is.available_mib++;
	assert_false(map_answers_alike(&s->p, &was, &is));
}

/* No GPU hides another: for claims that are not cut by comparison, one that fits by itself is enough. */
static void check_each(const struct situation *s, bool placed)
{
	unsigned fit = 0;
	if (s->r.gpus > 1 || (s->r.claim_mib && !s->r.claim_is_declared))
		return;
	for (size_t i = 0; i < s->n; i++) {
		uint32_t turn = 0;
		struct placement one;
		fit += map_place(&(struct map_scene){ &s->p, &s->g[i], 1, &turn }, &s->r, &one, NULL);
	}
	assert_int_equal(placed, fit > 0);
}

/* Returns for how many GPUs it was placed. */
static unsigned check_situation(const struct situation *s, uint64_t *seed)
{
	struct map_finding f[6];
	struct placement out;
	uint32_t turn = s->turn;
	unsigned ok = 0, taken = 0;
	bool placed = map_place(IN(s, &turn), &s->r, &out, f);
	for (size_t i = 0; i < s->n; i++)
		ok += f[i].reason == MAP_OK;
	assert_int_equal(placed, ok >= s->r.gpus);
	assert_true(turn == s->turn || (placed && s->p.rank == RANK_RR));
	check_quick(s, placed, turn, &out);
	check_each(s, placed);
	check_load(s, seed);
	if (!placed) {
		struct map_few few;
		uint32_t at = s->turn;
		assert_int_equal(ok, 0);
		assert_false(map_place_among(IN(s, &at), &s->r, NULL, 0, &out, &few));
		check_again(s, &few, seed);
		return 0;
	}
	assert_int_equal(map_feasible(IN(s, NULL), &s->r, NULL), 0);
	assert_int_equal(out.n, s->r.gpus);
	for (unsigned k = 0; k < out.n; k++) {
		uint32_t i = out.slots[k] - 10;
		const char *broken = broken_rule(&s->p, &s->g[i], &s->r, &out, is_cut(&s->p, s->g, &s->r, &out));
		if (!broken)
			broken = broken_forecast(&s->p, &s->g[i], &s->r, out.mode);
		if (broken)
			fail_msg("GPU %u: %s", i, broken);
		assert_false(taken & (1u << i));
		taken |= 1u << i;
		assert_int_equal(f[i].reason, MAP_OK);
	}
	return out.n;
}

static void any_situation(void **state)
{
	(void)state;
	uint64_t seed = 42;
	unsigned seen[4] = { 0 };
	for (int round = 0; round < 60000; round++) {
		struct situation s = { .turn = (uint32_t)draw(&seed, 9), .n = 1 + draw(&seed, 6) };
		any_request(&seed, &s.p, &s.r);
		for (size_t i = 0; i < s.n; i++)
			s.g[i] = any_gpu(&seed, (uint32_t)i);
		seen[check_situation(&s, &seed)]++;
	}
	/* The dice were fair: each outcome was seen often. */
	for (size_t i = 0; i < COUNT_OF(seen); i++)
		assert_true(seen[i] > 300);
	assert_true(again_placed > 50 && loads_moved > 100 && loads_alike > 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(any_situation) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
