/* SPDX-License-Identifier: MIT
 *
 * The filter of placement, shared by map.c and explain.c: one request, reduced once, asked of every GPU. Private to the stage.
 */
#ifndef RAD_MAP_FILTER_H
#define RAD_MAP_FILTER_H

#include "map/map.h"

#define MAP_EPSILON 1e-9	/* loads and predictions are sums of rounded numbers: so much above a limit is not above it */

/* A GPU's place in the order of a policy; the lowest is taken first. Ties go to the lowest index. */
struct map_key { double first, then; };

struct map_ask;
struct map_answer;

/* One policy: all that is special about it. Functions that are NULL are not asked. */
struct map_row {
	/* Its order. `at`: position in the list; `rr_next`: where turns have come to; `idle`: nothing of ours is there. */
	struct map_key (*key)(const struct map_ask *ask, size_t at, size_t rr_next, bool idle);
	/* Its own question, the last one asked of a GPU that is shared, which must not look at g->load: a change there alone is
	 * none to it. And its order by the answer, known only then: before it, a GPU counts as `key` says, so that must not put it
	 * behind where the answer may. */
	enum map_reason (*filter)(const struct map_ask *ask, const struct map_gpu *g, struct map_answer *a);
	void (*answered)(const struct map_answer *a, struct map_key *key);
	/* Where company counts (struct map_company): better by its part of what `key` can range over there. */
	void (*company)(const struct map_gpu *g, struct map_key *key);
	bool alone;		/* idle GPUs only, and nobody joins */
	bool turns;		/* moves rr_next */
	bool predicts;		/* asks the model of sharing, so loads of tenants are wanted */
	bool for_load;		/* its filter stands in for the limits on the load, where the loads of tenants were seen */
	bool by_load;		/* its order goes by g->load */
};

const struct map_row *map_row_of(const struct map_policy *p);
/* Whether a GPU shared in that mode is time-sliced though the policy shares by MPS: by a task that asked for it, or one of
 * several GPUs that cannot be a client. */
bool map_slices_are_odd(const struct map_policy *p, enum share_mode mode);

struct map_ask {
	const struct map_row *row;
	const struct map_policy *p;
	const struct map_request *r;
	const struct map_gpu *gpus;
	size_t n;
	bool alone;		/* has its GPUs alone for life */
	bool idle_only;		/* alone, or starts alone */
	bool unknown;		/* no estimate */
	bool predicts;		/* slow-down or gain count on every GPU that is shared */
	uint64_t claim_mib;	/* the estimate, or min_free */
	uint64_t least_mib;	/* to which the claim may be cut where processes that are not ours run */
	uint64_t nth_mib;	/* see map_nth_capacity; 0: not asked yet */
};

struct map_answer {
	enum map_reason reason;
	enum share_mode mode;	/* in which it would run there */
	double gain;		/* of joining those there, once that was asked; else 1 */
	bool clamped;		/* the claim is more than there is, and is cut to that: it must run alone */
	double have, want;	/* as in map_finding */
};

void map_ask_init(struct map_ask *ask, const struct map_scene *s, const struct map_request *r);
/* Asks one GPU. */
void map_filter(struct map_ask *ask, const struct map_gpu *g, struct map_answer *a);

/* Whether the GPU is of a model that the request takes. */
bool map_meets(const struct map_request *r, const struct map_gpu *g);
/* Whether tasks like this could run on a GPU like that, whatever runs there now. */
bool map_kind_fits(const struct map_ask *ask, const struct map_gpu *g);
/* Capacity of the smallest of the `r->gpus` largest GPUs of that kind; 0 if there are fewer. *which (may be NULL): that GPU.
 * Stale GPUs count if `stale_too`. */
uint64_t map_nth_capacity(const struct map_ask *ask, bool stale_too, const struct map_gpu **which);

/* Whether tasks that share a loader with the one of the request run there. Here, since it is asked of each GPU. */
static inline bool map_has_company(const struct map_request *r, const struct map_gpu *g)
{
	for (unsigned i = 0; i < r->company.n; i++)
		if (r->company.slots[i] == g->slot)
			return true;
	return false;
}
/* Slow-down of joining the tasks there, and what that gains: a->gain (forecast.c). */
enum map_reason map_forecast(const struct map_ask *ask, const struct map_gpu *g, struct map_answer *a);

#endif
