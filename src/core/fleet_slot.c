/* SPDX-License-Identifier: MIT
 * What all files of the fleet do with a slot; below them all.
 */
#include "core/fleet_private.h"

#include "base/alloc.h"

void fleet_touch_read(struct fleet *f, struct slot *s)
{
	if (s->touched)
		return;
	s->touched = true;
	alloc_grow(f->touched, f->n_touched, f->cap_touched);
	f->touched[f->n_touched++] = s->number;
}

void fleet_touch_slot(struct fleet *f, struct slot *s)
{
	s->touched_runs = true;
	fleet_touch_read(f, s);
}
