/* SPDX-License-Identifier: MIT
 * One client's wait: see awaiting.h. It is asked after every turn in which a task changed, by every client that waits, so it
 * remembers how far it came, and one task that is not over.
 */
#include "daemon/awaiting.h"

#include "base/alloc.h"
#include "base/scope.h"

#include <stdlib.h>
#include <string.h>

struct awaiting {
	struct core *core;
	struct store *store;
	task_id *ids;
	size_t n, n_over;	/* the first n_over of them are over */
	task_id open;		/* a task of ids[n_over] that is not over; 0: not looked for yet */
	enum awaiting_until until;
};

struct awaiting *awaiting_create(struct core *core, struct store *store, const task_id *ids, size_t n,
				 enum awaiting_until until)
{
	struct awaiting *w = alloc_zero(sizeof *w);
	*w = (struct awaiting){ .core = core, .store = store, .n = n, .until = until };
	w->ids = alloc_resize(NULL, n, sizeof *ids);
	memcpy(w->ids, ids, n * sizeof *ids);
	return w;
}

void awaiting_destroy(struct awaiting *w)
{
	if (!w)
		return;
	free(w->ids);
	free(w);
}

/* What is not alive is over: that it ever was has been asked when the wait began. One that waits in vain for others counts
 * too, or its client would wait for ever. */
static bool awaiting_task_over(const struct awaiting *w, task_id id)
{
	const struct task *t = core_task(w->core, id);
	return !t || (w->until != AWAITING_END && t->state == TASK_RUNNING) || (w->until == AWAITING_ESTIMATE && t->estimated) ||
	       core_waits_in_vain(w->core, t);
}

/* A task that this id stands for and that is not over: the last one of an array, since it will probably last longest.
 * 0: there is none. */
static task_id awaiting_find_open(const struct awaiting *w, task_id id)
{
	scoped_free task_id *ids = NULL;
	if (core_task(w->core, id) || TASK_INDEX(id) >= 0)
		return awaiting_task_over(w, id) ? 0 : id;
	for (size_t i = core_job_tasks(w->core, TASK_JOB(id), &ids); i-- > 0;)
		if (!awaiting_task_over(w, ids[i]))
			return ids[i];
	return 0;
}

/* In the order of the ids: what is over stays over, so nothing is looked at twice. */
bool awaiting_is_over(struct awaiting *w)
{
	if (w->open && !awaiting_task_over(w, w->open))
		return false;
	for (; w->n_over < w->n; w->n_over++)
		if ((w->open = awaiting_find_open(w, w->ids[w->n_over])))
			return false;
	return true;
}

struct walk *awaiting_walk(const struct awaiting *w)
{
	struct walk *walk = walk_create(w->core, w->store);
	for (size_t i = 0; i < w->n; i++)
		walk_add(walk, w->ids[i]);
	return walk;
}

size_t awaiting_bytes(const struct awaiting *w)
{
	return w ? w->n * sizeof *w->ids : 0;
}
