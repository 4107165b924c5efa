/* SPDX-License-Identifier: MIT
 * A list for each user and name, ascending by id, with room at both ends: most tasks come last and go first.
 */
#include "core/named.h"

#include "base/alloc.h"
#include "base/hash.h"
#include "base/idmap.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Names that nobody made up to collide are alone in theirs; others cost a look more. */
struct namesakes {
	const struct task **list;
	size_t from, end, cap;	/* list[from] to list[end - 1] */
};

struct named {
	struct idmap by_key;	/* of user and name -> struct namesakes */
};

struct named *named_create(void)
{
	return alloc_zero(sizeof(struct named));
}

static void namesakes_destroy(struct namesakes *s)
{
	if (s)
		free(s->list);
	free(s);
}

void named_destroy(struct named *x)
{
	size_t at = 0;
	if (!x)
		return;
	for (struct namesakes *s; (s = idmap_next(&x->by_key, &at));)
		namesakes_destroy(s);
	idmap_free(&x->by_key);
	free(x);
}

static int64_t key_of(uid_t uid, const char *name)
{
	uint64_t hash = hash_bytes(hash_bytes(HASH_SEED, &uid, sizeof uid), name, strlen(name));
	return (int64_t)(hash ? hash : 1);
}

/* The place of that task, or where it would go. */
static size_t place_of(const struct namesakes *s, task_id id)
{
	size_t low = s->from, high = s->end;
	while (low < high) {
		size_t middle = (low + high) / 2;
		if (s->list[middle]->id < id)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

void named_add(struct named *x, const struct task *t)
{
	int64_t key = key_of(t->spec->uid, task_name(t));
	struct namesakes *s = idmap_get(&x->by_key, key);
	if (!s)
		idmap_put(&x->by_key, key, s = alloc_zero(sizeof *s));
	if (s->end == s->cap && s->from > s->cap / 2) {	/* what went first made the room */
		memmove(s->list, s->list + s->from, (s->end - s->from) * sizeof *s->list);
		s->end -= s->from;
		s->from = 0;
	}
	if (s->end == s->cap)	/* most names are one task's */
		s->list = alloc_resize(s->list, s->cap = s->cap ? s->cap * 2 : 1, sizeof *s->list);
	size_t at = place_of(s, t->id);
	memmove(&s->list[at + 1], &s->list[at], (s->end++ - at) * sizeof *s->list);
	s->list[at] = t;
}

void named_remove(struct named *x, const struct task *t)
{
	int64_t key = key_of(t->spec->uid, task_name(t));
	struct namesakes *s = idmap_get(&x->by_key, key);
	assert(s);
	size_t at = place_of(s, t->id), before = at - s->from, behind = s->end - at - 1;
	assert(at < s->end && s->list[at] == t);
	if (before < behind)
		memmove(&s->list[s->from + 1], &s->list[s->from], before * sizeof *s->list), s->from++;
	else
		memmove(&s->list[at], &s->list[at + 1], behind * sizeof *s->list), s->end--;
	if (s->from == s->end)
		namesakes_destroy(idmap_remove(&x->by_key, key));
}

size_t named_jobs(const struct named *x, uid_t uid, const char *name, size_t most, uint32_t **jobs)
{
	const struct namesakes *s = idmap_get(&x->by_key, key_of(uid, name));
	size_t n = 0, cap = 0;
	*jobs = NULL;
	for (size_t at = s ? s->from : 0; s && n < most && at < s->end;) {
		const struct task *t = s->list[at];
		bool other = t->spec->uid != uid || strcmp(task_name(t), name);
		if (!other) {
			alloc_grow(*jobs, n, cap);
			(*jobs)[n++] = TASK_JOB(t->id);
		}
		at = other ? at + 1 : place_of(s, TASK_ID(TASK_JOB(t->id) + 1, -1));
	}
	return n;
}
