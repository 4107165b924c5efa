/* SPDX-License-Identifier: MIT
 * Long lists in pieces: see walk.h.
 */
#include "daemon/walk.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "daemon/daemon.h"
#include "daemon/listing.h"

#include <stdlib.h>

struct walk {
	task_id *ids;
	size_t n, at;
	bool living;
	struct listing list;
};

struct walk *walk_create(task_id *ids, size_t n, bool living)
{
	struct walk *w = alloc_zero(sizeof *w);
	*w = (struct walk){ .ids = ids, .n = n, .living = living };
	return w;
}

void walk_destroy(struct walk *w)
{
	if (!w)
		return;
	listing_clear(&w->list);
	free(w->ids);
	free(w);
}

static int walk_tell(struct walk *w, struct daemon *d, task_id id, struct error *err)
{
	const struct task *t = core_task(d->core, id);
	struct task *old = t || w->living ? NULL : store_load_task(d->store, id, err);
	if (t || old)
		listing_add(&w->list, core_task_json(d->core, t ? t : old, daemon_now()));
	task_destroy(old);
	return t || old || w->living ? 0 : -1;
}

int walk_step(struct walk *w, struct daemon *d, int64_t until_us, struct error *err)
{
	while (w->at < w->n && !w->list.truncated) {
		if (walk_tell(w, d, w->ids[w->at++], err))
			return -1;
		if (clock_mono_us() >= until_us)
			break;
	}
	return w->at == w->n || w->list.truncated;
}

struct buf walk_finish(struct walk *w)
{
	return listing_finish(&w->list, NULL);
}
