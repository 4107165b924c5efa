/* SPDX-License-Identifier: MIT
 *
 * Who may stop a running task where it is, and let it go on. What a suspended task holds stays held, its GPU memory before
 * all: the driver gives it to nobody else. So its owner may not put it in the way of a reservation, which goes by when tasks
 * end; and as under Slurm, what an administrator stopped goes on by an administrator's word alone, or the owner would undo it
 * at once. He is known by being another user than the task's; the wiring has seen to it that nobody else asks.
 */
#include "core/private.h"

#include "base/clock.h"

/* The reservation of somebody else, not over yet, that the task stands in the way of; NULL: none. */
static const struct map_reserve *suspend_meets(struct core *c, const struct task *t, struct now now, uint32_t *index)
{
	const struct map_gpu *gpus = fleet_gpus(c->fleet, now);
	const uint32_t *slots;
	unsigned n = fleet_slots_of(c->fleet, t->id, &slots);
	for (unsigned i = 0; i < n; i++)
		for (unsigned k = 0; k < gpus[slots[i]].n_reserves; k++) {
			const struct map_reserve *r = &gpus[slots[i]].reserves[k];
			*index = gpus[slots[i]].index;
			if (r->uid != t->spec->uid && r->end_ms > now.wall_ms)
				return r;
		}
	return NULL;
}

static int suspend_may_stop(struct core *c, const struct task *t, uint32_t uid, struct now now, struct error *err)
{
	const struct map_reserve *r;
	char text[TASK_ID_TEXT], begin[CLOCK_ISO_LEN];
	uint32_t gpu;
	task_id_text(t->id, text);
	if (t->suspended)
		return error_set(err, ERR_CONFLICT, "task %s: is suspended already", text);
	if (t->stopping || !task_attempt(t)->shim.pid)
		return error_set(err, ERR_CONFLICT, "task %s: is being %s; it cannot be suspended now", text,
				 t->stopping ? "ended" : "started");
	if (uid == t->spec->uid && (r = suspend_meets(c, t, now, &gpu)))
		return error_set(err, ERR_CONFLICT, "task %s: GPU %u is reserved for another user from %s on, and a suspended task keeps "
				 "its GPU memory: let it run, or give its place away with 'rad requeue'", text, gpu,
				 clock_iso(r->begin_ms, begin));
	return 0;
}

static int suspend_may_go_on(const struct task *t, uint32_t uid, struct error *err)
{
	char text[TASK_ID_TEXT];
	task_id_text(t->id, text);
	if (!t->suspended)
		return error_set(err, ERR_CONFLICT, "task %s: is not suspended", text);
	if (uid == t->spec->uid && t->suspended_uid != uid)
		return error_set(err, ERR_DENIED, "task %s: was suspended by an administrator, and goes on by an administrator's word: ask "
				 "him, or cancel it", text);
	return 0;
}

/* All is asked before the event: its record and its GPUs say who may, and the wiring stops the processes after the commit. */
int core_suspend(struct core *c, task_id id, uint32_t uid, struct now now, struct error *err)
{
	struct task *t = tasks_find_for(c->tasks, id, EV_SUSPENDED, "suspended", err);
	c->now = now;
	if (!t || suspend_may_stop(c, t, uid, now, err))
		return -1;
	core_emit(c, t, EV_SUSPENDED, uid);
	return 0;
}

int core_resume(struct core *c, task_id id, uint32_t uid, struct now now, struct error *err)
{
	struct task *t = tasks_find_for(c->tasks, id, EV_RESUMED, "resumed", err);
	c->now = now;
	if (!t || suspend_may_go_on(t, uid, err))
		return -1;
	core_emit(c, t, EV_RESUMED, uid);
	return 0;
}
