/* SPDX-License-Identifier: MIT
 * What all files of the fleet do with a slot; below them all.
 */
#include "core/fleet_private.h"

#include "base/alloc.h"

void fleet_touch_slot(struct fleet *f, struct slot *s)
{
	if (s->touched)
		return;
	s->touched = true;
	alloc_grow(f->touched, f->n_touched, f->cap_touched);
	f->touched[f->n_touched++] = s->number;
}

struct slot_seen *fleet_seen(struct slot *s, task_id task)
{
	for (size_t i = 0; i < s->n_seen; i++)
		if (s->seen[i].task == task)
			return &s->seen[i];
	return NULL;
}
