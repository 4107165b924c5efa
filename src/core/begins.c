/* SPDX-License-Identifier: MIT
 * See begins.h. A set that is walked when the first of its times has come: so often as there are times, and not as there are
 * tasks, since the elements of an array have one.
 */
#include "core/begins.h"

#include "base/alloc.h"
#include "base/idmap.h"

#include <stdlib.h>

struct begin { task_id task; int64_t at_ms; };

struct begins {
	struct idmap tasks;	/* task_id -> struct begin */
	int64_t next_ms;	/* none is due before; INT64_MAX: there is none */
};

struct begins *begins_create(void)
{
	struct begins *b = alloc_zero(sizeof *b);
	b->next_ms = INT64_MAX;
	return b;
}

void begins_destroy(struct begins *b)
{
	if (!b)
		return;
	idmap_free_all(&b->tasks);
	free(b);
}

bool begins_later(const struct task *t, int64_t wall_ms)
{
	return t->begin_s * 1000 > wall_ms;
}

/* Again for one that is here already is no error: a task that is restored and one that is queued again come this way. A
 * removal leaves next_ms as it is, which may then be too early and costs one walk for nothing; it is never too late. */
void begins_add(struct begins *b, const struct task *t)
{
	struct begin *one = idmap_get(&b->tasks, t->id);
	if (!one)
		idmap_put(&b->tasks, t->id, one = alloc_zero(sizeof *one));
	*one = (struct begin){ t->id, t->begin_s * 1000 };
	if (one->at_ms < b->next_ms)
		b->next_ms = one->at_ms;
}

void begins_remove(struct begins *b, task_id id)
{
	free(idmap_remove(&b->tasks, id));
}

/* They go on in this order: that of the map hangs on its size, and a simulation or a replay would queue them otherwise than
 * the daemon did. */
size_t begins_due(struct begins *b, int64_t wall_ms, task_id **ids)
{
	size_t n = 0, cap = 0, at = 0;
	*ids = NULL;
	if (wall_ms < b->next_ms)
		return 0;
	b->next_ms = INT64_MAX;
	for (struct begin *one; (one = idmap_next(&b->tasks, &at));) {
		if (one->at_ms <= wall_ms) {
			alloc_grow(*ids, n, cap);
			(*ids)[n++] = one->task;
		} else if (one->at_ms < b->next_ms) {
			b->next_ms = one->at_ms;
		}
	}
	for (size_t i = 0; i < n; i++)
		begins_remove(b, (*ids)[i]);
	if (n)
		qsort(*ids, n, sizeof **ids, task_id_compare);
	return n;
}

int64_t begins_next_ms(const struct begins *b)
{
	return b->next_ms;
}
