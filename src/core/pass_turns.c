/* SPDX-License-Identifier: MIT
 *
 * Turns at MPS servers, where each user has his own. A GPU serves one user at a time, and a stream of one user's tasks, each
 * joining those before it, would keep it his for good. So the first task of each user that was tried and found another's
 * server in its way takes its turn on as many GPUs as it asks for: until it starts or goes, nobody of another user's who comes
 * after it in the order starts there. It starts at the latest when those that ran there then have ended; and whoever goes
 * before it in the order goes before it there too, since a pass begins without turns and they are taken as it comes to each
 * task.
 *
 * Which GPUs a user waits for is remembered from pass to pass: were it chosen anew each time, the one that is left for another
 * would fill again.
 */
#include "core/pass_private.h"

#include "base/alloc.h"

static void turns_clear_slots(const struct pass *p, task_id id)
{
	for (uint32_t i = 0; i < fleet_size(p->fleet); i++)
		if (fleet_turn_of(p->fleet, i) && (!id || fleet_turn_of(p->fleet, i) == id))
			fleet_give_turn(p->fleet, i, 0, 0);
}

/* Slots are chosen again in the order of this pass, and `taken` says in the next one who still waited in this. */
void pass_begin_turns(struct pass *p)
{
	if (!p->n_turns)
		return;
	turns_clear_slots(p, 0);
	size_t kept = 0;
	for (size_t i = 0; i < p->n_turns; i++)
		if (p->turns[i].taken)	/* its user still waited in the last pass */
			p->turns[kept++] = p->turns[i];
	p->n_turns = kept;
	for (size_t i = 0; i < kept; i++)
		p->turns[i].taken = false;
}

void pass_end_turn(struct pass *p, task_id id)
{
	for (size_t i = p->n_turns; i-- > 0;)
		if (p->turns[i].task == id) {
			p->turns[i] = p->turns[--p->n_turns];
			turns_clear_slots(p, id);
		}
}

void pass_forget_turns(struct pass *p)
{
	if (p->n_turns)
		turns_clear_slots(p, 0);
	p->n_turns = 0;
}

static struct turn *turn_of_user(struct pass *p, uid_t uid)
{
	for (size_t i = 0; i < p->n_turns; i++)
		if (p->turns[i].uid == uid)
			return &p->turns[i];
	return NULL;
}

static bool waited_for(const struct turn *t, uint32_t slot)
{
	for (unsigned i = 0; t && i < t->n; i++)
		if (t->slots[i] == slot)
			return true;
	return false;
}

/* Whether it can only be another's server, or what his tasks there left, that keeps the task from that GPU. */
static bool turn_helps(const struct pass *p, const struct map_scene *s, const struct map_request *r, const struct turn *before,
		       uint32_t slot)
{
	const struct map_gpu *g = &s->gpus[slot];
	if (fleet_turn_of(p->fleet, slot))
		return false;
	if (!g->n_tasks)
		return waited_for(before, slot) && map_suits(s, r, g) && (!g->kept_for || g->kept_for == r->task);
	return g->mode == SHARE_MPS && g->mps_uid != (int64_t)r->uid && map_waits_for_server(s, r, g) && map_suits(s, r, g);
}

/* The GPU it waits for already, else the one with the fewest tasks, else the lowest. -1: none would help. */
static int64_t best_slot(const struct pass *p, const struct map_scene *s, const struct map_request *r,
			 const struct turn *before)
{
	int64_t best = -1;
	for (uint32_t i = 0; i < s->n; i++) {
		if (!turn_helps(p, s, r, before, i))
			continue;
		if (waited_for(before, i))
			return i;
		if (best < 0 || s->gpus[i].n_tasks < s->gpus[best].n_tasks)
			best = i;
	}
	return best;
}

void pass_take_turn(struct pass *p, const struct task *t, const struct map_request *r, struct now now)
{
	struct turn *before = turn_of_user(p, r->uid), next = { .task = t->id, .uid = r->uid, .taken = true };
	int64_t slot;
	if (!fleet_mps_apart(p->fleet) || r->later || (before && before->taken))
		return;
	const struct map_scene s = pass_scene(p, now);
	while (next.n < r->gpus && (slot = best_slot(p, &s, r, before)) >= 0) {
		fleet_give_turn(p->fleet, (uint32_t)slot, t->id, r->uid);
		next.slots[next.n++] = (uint32_t)slot;
	}
	if (!next.n)
		return;
	if (!before) {
		alloc_grow(p->turns, p->n_turns, p->cap_turns);
		before = &p->turns[p->n_turns++];
	}
	*before = next;
}
