/* SPDX-License-Identifier: MIT
 * See pilot_known.h. A look costs a listing and a stat(2) a job; what a folder's time of change does not show (two changes in
 * one tick of the server's clock, an attribute that the client remembers) is found by reading it anyhow now and then.
 */
#include "cli/pilot_known.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/idmap.h"
#include "base/json.h"
#include "base/scope.h"

#include <errno.h>
#include <stdlib.h>

#define ANYHOW_MS 15000

struct pilot_known {
	struct idmap jobs;	/* number -> struct pilot_known_job */
	const struct spool *s;	/* of the look that goes on */
	unsigned looks, changes;
	bool partial;		/* the last look could not read some job */
	size_t unread;
	struct error err;
};

struct pilot_known *pilot_known_create(void)
{
	struct pilot_known *k = alloc_zero(sizeof *k);
	k->changes = 1;
	return k;
}

static void job_destroy(struct pilot_known_job *j)
{
	spec_unref(j->spec);
	free(j->tasks);
	free(j);
}

void pilot_known_destroy(struct pilot_known *k)
{
	size_t at = 0;
	if (!k)
		return;
	for (struct pilot_known_job *j; (j = idmap_next(&k->jobs, &at));)
		job_destroy(j);
	idmap_free(&k->jobs);
	free(k);
}

struct pilot_known_job *pilot_known_job(const struct pilot_known *k, uint32_t number)
{
	return idmap_get(&k->jobs, number);
}

struct pilot_known_job *pilot_known_next(const struct pilot_known *k, size_t *at)
{
	return idmap_next(&k->jobs, at);
}

size_t pilot_known_unread(const struct pilot_known *k)
{
	return k->unread;
}

unsigned pilot_known_changes(const struct pilot_known *k)
{
	return k->changes;
}

void pilot_known_add(struct pilot_known_sum *sum, const struct spool_record *r, int by)
{
	bool ended = r->state == SPOOL_ENDED;
	size_t one = (size_t)by;	/* of a size_t that is taken away too */
	sum->n += one;
	sum->begun += ended || r->started ? one : 0;
	sum->claimed += r->state == SPOOL_CLAIMED ? one : 0;
	sum->ended += ended ? one : 0;
	sum->completed += ended && r->end == TASK_COMPLETED ? one : 0;
}

static void count_change(struct pilot_known *k)
{
	k->changes += k->changes + 1 ? 1 : 2;
}

bool pilot_known_since(const struct pilot_known *k, const struct pilot_known_job *j)
{
	return k->looks > j->first_look && !k->partial;
}

/* Comes in ascending order of elements, without gaps, for most arrays, but `--array=3,1` is one too. */
struct pilot_known_task *pilot_known_find(const struct pilot_known *k, task_id id)
{
	struct pilot_known_job *j = idmap_get(&k->jobs, TASK_JOB(id));
	int64_t guess = j ? (int64_t)TASK_INDEX(id) - TASK_INDEX(j->tasks[0].id) : -1;
	if (guess >= 0 && (size_t)guess < j->n && j->tasks[guess].id == id)
		return &j->tasks[guess];
	for (size_t i = 0; j && i < j->n; i++)
		if (j->tasks[i].id == id)
			return &j->tasks[i];
	return NULL;
}

void pilot_known_set(struct pilot_known *k, task_id id, const struct spool_record *r)
{
	struct pilot_known_task *t = pilot_known_find(k, id);
	if (!t || r->version < t->record.version)
		return;
	if (r->version != t->record.version || r->state != t->record.state)
		count_change(k);
	pilot_known_add(&t->job->sum, &t->record, -1);
	t->record = *r;
	t->record.task = NULL;
	pilot_known_add(&t->job->sum, &t->record, 1);
}

/* ---- a look ---- */

/* NULL: it is listed and not there yet; or damaged, which who asks for it is told. */
static struct pilot_known_job *open_job(struct pilot_known *k, uint32_t number, struct error *err)
{
	scoped_json *o = spool_job(k->s, number, false, err);
	struct spec *spec = o ? spec_from_json(json_object_get(o, "spec"), NULL, err) : NULL;
	if (!spec)
		return NULL;
	struct pilot_known_job *j = alloc_zero(sizeof *j);
	j->number = number;
	j->first_look = k->looks;
	j->spec = spec;
	j->n = spec->n_array ? spec->n_array : 1;
	j->tasks = alloc_zero(j->n * sizeof *j->tasks);
	for (size_t i = 0; i < j->n; i++) {
		struct pilot_known_task *t = &j->tasks[i];
		t->job = j;
		t->id = TASK_ID(number, spec->n_array ? (int32_t)spec->array[i] : -1);
		t->record.state = spec->hold ? SPOOL_HELD : SPOOL_PENDING;
		pilot_known_add(&j->sum, &t->record, 1);
	}
	count_change(k);
	idmap_put(&k->jobs, number, j);
	return j;
}

struct pilot_known_task *pilot_known_read(struct pilot_known *k, const struct spool *s, task_id id, struct error *err)
{
	struct pilot_known_task *t = pilot_known_find(k, id);
	struct spool_record r;
	k->s = s;
	if (!t && open_job(k, TASK_JOB(id), err))	/* it ended, or is listed no more */
		t = pilot_known_find(k, id);
	if (!t || spool_read(s, id, t->record.version, &r, err))
		return NULL;
	pilot_known_set(k, id, &r);
	spool_record_clear(&r);
	return t;
}

static void note_version(void *ctx, task_id id, unsigned version)
{
	struct pilot_known *k = ctx;
	struct pilot_known_task *t = pilot_known_find(k, id);
	struct spool_record r;
	if (!t || version <= t->record.version || spool_read(k->s, id, version, &r, &k->err))
		return;
	pilot_known_set(k, id, &r);
	spool_record_clear(&r);
}

static struct pilot_known_job *read_job(struct pilot_known *k, uint32_t number)
{
	struct pilot_known_job *j = idmap_get(&k->jobs, number);
	int64_t now = clock_mono_ms();
	uint64_t stamp = spool_stamp(k->s, number);
	struct error why = ERROR_INIT;
	/* What cannot be read for once may be what another one waits for. */
	bool unseen = !stamp && errno != ENOENT;
	if (!j)
		j = open_job(k, number, &why);
	k->partial = k->partial || unseen || why.code == ERR_SYSTEM || why.code == ERR_UNAVAILABLE;
	k->unread += unseen || (!j && why.code != ERR_NOT_FOUND && !spool_is_damage(&why));
	if (j && unseen)
		return j;
	if (!j || !stamp)	/* its folder was taken away by hand: it is forgotten, and read anew should it come back */
		return NULL;
	if (stamp == j->stamp && now - j->looked_ms < ANYHOW_MS)
		return j;
	if (spool_versions(k->s, number, note_version, k, &k->err))
		return j;
	j->stamp = stamp;
	j->looked_ms = now;
	return j;
}

static void look_at_job(void *ctx, uint32_t number)
{
	struct pilot_known *k = ctx;
	struct pilot_known_job *j = read_job(k, number);
	if (j)
		j->live = true;
}

/* What others wait for is looked at though it has ended, and is on no list any more. */
static void look_at_needed(struct pilot_known *k)
{
	scoped_free struct pilot_known_job **list = alloc_zero((k->jobs.n + 1) * sizeof *list);
	size_t at = 0, n = 0;
	for (struct pilot_known_job *j; (j = idmap_next(&k->jobs, &at));)
		if (j->live)
			list[n++] = j;
	for (size_t i = 0; i < n; i++)
		for (size_t d = 0; d < list[i]->spec->n_deps; d++) {
			uint32_t number = TASK_JOB(list[i]->spec->deps[d].task);
			struct pilot_known_job *j = idmap_get(&k->jobs, number);
			if (!j || (!j->live && !j->needed))	/* once, however many wait for it */
				j = read_job(k, number);
			if (j)
				j->needed = true;
		}
}

static unsigned ended_with(void *ctx, task_id id)
{
	const struct pilot_known *k = ctx;
	struct pilot_known_job *j = idmap_get(&k->jobs, TASK_JOB(id));
	unsigned least = 0;
	for (size_t i = 0; j && i < j->n; i++) {
		const struct spool_record *r = &j->tasks[i].record;
		if (TASK_INDEX(id) >= 0 && j->tasks[i].id != id)
			continue;
		if (r->state != SPOOL_ENDED)
			return 0;
		least = !least || r->version < least ? r->version : least;
	}
	return least;
}

static bool has_ended(const struct pilot_known_job *j)
{
	return j->sum.ended == j->sum.n;
}

/* Forgets what has ended or is listed no more. */
static void forget(struct pilot_known *k)
{
	scoped_free struct pilot_known_job **gone = alloc_zero((k->jobs.n + 1) * sizeof *gone);
	size_t at = 0, n = 0;
	for (struct pilot_known_job *j; (j = idmap_next(&k->jobs, &at));)
		if (!j->live || has_ended(j))
			gone[n++] = j;
	for (size_t i = 0; i < n; i++) {
		if (gone[i]->live)
			spool_tidy(k->s, gone[i]->number, ended_with, k);
		if (gone[i]->needed)
			continue;
		idmap_remove(&k->jobs, gone[i]->number);
		count_change(k);
		job_destroy(gone[i]);
	}
}

void pilot_known_doubt(struct pilot_known *k)
{
	size_t at = 0;
	for (struct pilot_known_job *j; (j = idmap_next(&k->jobs, &at));)
		j->stamp = 0;
}

int pilot_known_look(struct pilot_known *k, const struct spool *s, struct error *err)
{
	size_t at = 0;
	k->s = s;
	k->err = ERROR_INIT;
	for (struct pilot_known_job *j; (j = idmap_next(&k->jobs, &at));)
		j->live = j->needed = false;
	k->looks++;
	k->partial = false;
	k->unread = 0;
	count_change(k);
	if (spool_live(s, look_at_job, k, err))
		return -1;
	look_at_needed(k);
	forget(k);
	if (k->err.code)
		*err = k->err;
	return k->err.code ? -1 : 0;
}

/* ---- in their order ---- */

void pilot_known_each(struct pilot_known *k, void (*each)(void *ctx, struct pilot_known_task *t), void *ctx)
{
	size_t at = 0;
	for (struct pilot_known_job *j; (j = idmap_next(&k->jobs, &at));)
		for (size_t i = 0; i < j->n; i++)
			if (j->tasks[i].record.state != SPOOL_ENDED)
				each(ctx, &j->tasks[i]);
}

static int by_turn(const void *x, const void *y)
{
	const struct pilot_known_task *a = *(struct pilot_known_task *const *)x, *b = *(struct pilot_known_task *const *)y;
	int64_t pa = a->job->spec->priority, pb = b->job->spec->priority;
	return pa != pb ? (pb > pa) - (pb < pa) : (a->id > b->id) - (a->id < b->id);
}

size_t pilot_known_pending(struct pilot_known *k, struct pilot_known_task ***list)
{
	struct pilot_known_task **found = NULL;
	size_t n = 0, cap = 0, at = 0;
	for (struct pilot_known_job *j; (j = idmap_next(&k->jobs, &at));)
		for (size_t i = 0; i < j->n; i++)
			if (j->tasks[i].record.state == SPOOL_PENDING) {
				alloc_grow(found, n, cap);
				found[n++] = &j->tasks[i];
			}
	if (n)
		qsort(found, n, sizeof *found, by_turn);
	*list = found;
	return n;
}
