/* SPDX-License-Identifier: MIT
 *
 * The policies, one row each: an order among the GPUs that pass the filter, and what else is special about it. A new one is a
 * line in MAP_RANKS, its functions and its row here, and its test; nothing outside of this file asks which policy is in force,
 * only what its row says.
 */
#include "map/filter.h"

#include <math.h>

static double available(const struct map_ask *ask, size_t at)
{
	return (double)ask->gpus[at].available_mib;
}

static struct map_key most_available(const struct map_ask *ask, size_t at, size_t rr_next, bool idle)
{
	(void)rr_next, (void)idle;
	return (struct map_key){ -available(ask, at), 0 };
}

static struct map_key next_in_turn(const struct map_ask *ask, size_t at, size_t rr_next, bool idle)
{
	(void)idle;
	return (struct map_key){ (double)(at >= rr_next ? at - rr_next : at + ask->n - rr_next), 0 };
}

/* What runs there takes this much: unknown counts as full. */
static double load_of(const struct map_gpu *g)
{
	if (!g->n_tasks && !map_foreign_runs(g))
		return 0;
	if (g->load.smact_known && isfinite(g->load.smact))
		return g->load.smact;
	return g->load.gract_known && isfinite(g->load.gract) ? g->load.gract : 1;
}

static struct map_key least_loaded(const struct map_ask *ask, size_t at, size_t rr_next, bool idle)
{
	(void)rr_next, (void)idle;
	return (struct map_key){ load_of(&ask->gpus[at]), ask->gpus[at].n_tasks };
}

/* Section 6.3.3 takes best fit, the least available memory, for "most utilized" (doc/decisions/0013). */
static struct map_key best_fit(const struct map_ask *ask, size_t at, size_t rr_next, bool idle)
{
	(void)rr_next;
	return (struct map_key){ idle, available(ask, at) };
}

/* In MiB, of that GPU. */
static void more_available(const struct map_gpu *g, struct map_key *key)
{
	key->first -= MAP_COMPANY * (double)g->total_mib;
}

static void less_available(const struct map_gpu *g, struct map_key *key)
{
	key->then -= MAP_COMPANY * (double)g->total_mib;
}

/* Loads and gains are fractions. */
static void less_loaded_or_more_gained(const struct map_gpu *g, struct map_key *key)
{
	(void)g;
	key->first -= MAP_COMPANY;
}

static struct map_key first_in_list(const struct map_ask *ask, size_t at, size_t rr_next, bool idle)
{
	(void)ask, (void)at, (void)rr_next, (void)idle;
	return (struct map_key){ 0, 0 };
}

/* What joining a GPU gains is known when it was asked; an idle one gains 1, the most there is. */
static struct map_key perhaps_all(const struct map_ask *ask, size_t at, size_t rr_next, bool idle)
{
	(void)rr_next, (void)idle;
	return (struct map_key){ -1, -available(ask, at) };
}

static void by_gain(const struct map_answer *a, struct map_key *key)
{
	key->first = -a->gain;
}

static enum map_reason enough_gain(const struct map_ask *ask, const struct map_gpu *g, struct map_answer *a)
{
	(void)g;
	if (a->gain >= ask->p->min_gain - MAP_EPSILON)
		return MAP_OK;
	a->have = a->gain, a->want = ask->p->min_gain;
	return MAP_GAIN;
}

static const struct map_row rows[] = {
	[RANK_MAGM] = { .key = most_available, .company = more_available },
	[RANK_RR] = { .key = next_in_turn, .turns = true },
	[RANK_LUG] = { .key = least_loaded, .company = less_loaded_or_more_gained, .by_load = true },
	[RANK_MUG] = { .key = best_fit, .company = less_available },
	[RANK_FF] = { .key = first_in_list },
	[RANK_GAIN] = { .key = perhaps_all, .filter = enough_gain, .answered = by_gain, .company = less_loaded_or_more_gained,
			.predicts = true, .for_load = true },
	[RANK_EXCLUSIVE] = { .key = first_in_list, .alone = true },
};
_Static_assert(sizeof rows / sizeof *rows == MAP_RANK_COUNT, "a row for each policy");

const struct map_row *map_row_of(const struct map_policy *p)
{
	return &rows[p->rank];
}

const char *map_rank_name(enum map_rank r)
{
	static const char *const names[] = {
#define X(name, word, help) [name] = word,
		MAP_RANKS(X)
#undef X
	};
	return r < MAP_RANK_COUNT ? names[r] : "?";
}

bool map_gives_alone(const struct map_policy *p)
{
	return map_row_of(p)->alone || p->share == SHARE_NEVER;
}

bool map_wants_alone(const struct map_policy *p, const struct map_request *r)
{
	return r->exclusive || r->share == SHARE_NEVER || map_gives_alone(p);
}

bool map_predicts(const struct map_policy *p)
{
	return map_row_of(p)->predicts || p->max_slowdown > 0;
}

bool map_minds_load(const struct map_policy *p)
{
	return map_row_of(p)->by_load;
}

bool map_slices_are_odd(const struct map_policy *p, enum share_mode mode)
{
	return mode == SHARE_STREAMS && p->share == SHARE_MPS;
}

bool map_minds_unseen(const struct map_policy *p, enum share_mode mode)
{
	return map_row_of(p)->for_load || map_slices_are_odd(p, mode);
}
