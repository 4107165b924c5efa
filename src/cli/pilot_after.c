/* SPDX-License-Identifier: MIT
 * See pilot_after.h. What a record says that it has ended is so, however old the look: so nothing begins too early, and at most
 * a look too late. A requeue of what had ended before holds nobody up who has begun.
 */
#include "cli/pilot_after.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/scope.h"
#include "base/text.h"
#include "submit/validate.h"

#include <stdio.h>
#include <string.h>

#define CHAIN 1000	/* of tasks that wait for each other, as far as it is looked through */

/* What the tasks that a dependency names have come to. */
static struct pilot_known_sum sum_of(const struct pilot_known *k, task_id id)
{
	const struct pilot_known_job *j = pilot_known_job(k, TASK_JOB(id));
	const struct pilot_known_task *t = j && TASK_INDEX(id) >= 0 ? pilot_known_find(k, id) : NULL;
	struct pilot_known_sum sum = { 0 };
	if (t)
		pilot_known_add(&sum, &t->record, 1);
	return j && TASK_INDEX(id) < 0 ? j->sum : sum;
}

static enum pilot_after one_is(const struct pilot_known_sum *sum, enum dependency_kind kind)
{
	bool ended = sum->ended == sum->n;
	if (!sum->n)	/* its folder was taken away by hand */
		return PILOT_DEPENDENCY_NEVER;
	switch (kind) {
	case DEP_AFTEROK: case DEP_AFTERCORR:
		return sum->completed == sum->n ? PILOT_READY : sum->ended > sum->completed ? PILOT_DEPENDENCY_NEVER : PILOT_DEPENDENCY;
	case DEP_AFTERNOTOK:
		return !ended ? PILOT_DEPENDENCY : sum->completed < sum->n ? PILOT_READY : PILOT_DEPENDENCY_NEVER;
	case DEP_AFTERANY:
		return ended ? PILOT_READY : PILOT_DEPENDENCY;
	case DEP_AFTER:
		return sum->begun == sum->n ? PILOT_READY : PILOT_DEPENDENCY;
	case DEPENDENCY_KIND_COUNT: break;
	}
	return PILOT_DEPENDENCY_NEVER;
}

static enum pilot_after dependencies(const struct pilot_known *k, struct pilot_known_job *of, task_id id, int depth,
				     const struct dependency **on);

/* The success of what itself waits in vain does not come either. */
static bool waits_in_vain(const struct pilot_known *k, task_id target, enum dependency_kind kind, int depth)
{
	const struct dependency *on;
	struct pilot_known_job *j = pilot_known_job(k, TASK_JOB(target));
	return (kind == DEP_AFTEROK || kind == DEP_AFTERCORR) && j && depth < CHAIN &&
	       dependencies(k, j, target, depth + 1, &on) == PILOT_DEPENDENCY_NEVER;
}

/* The first that can never be met, else the first that is not met yet. */
static void find_dependencies(const struct pilot_known *k, const struct spec *s, task_id id, int depth,
			      struct pilot_known_found *found)
{
	enum pilot_after is = PILOT_READY;
	for (size_t i = 0; i < s->n_deps && is != PILOT_DEPENDENCY_NEVER; i++) {
		task_id target = task_dependency_target(id, &s->deps[i]);
		struct pilot_known_sum sum = sum_of(k, target);
		enum pilot_after one = one_is(&sum, s->deps[i].kind);
		if (one == PILOT_DEPENDENCY && !sum.begun && waits_in_vain(k, target, s->deps[i].kind, depth))
			one = PILOT_DEPENDENCY_NEVER;
		if (one > is) {
			is = one;
			found->on = i;
		}
	}
	found->is = (int)is;
}

static enum pilot_after dependencies(const struct pilot_known *k, struct pilot_known_job *of, task_id id, int depth,
				     const struct dependency **on)
{
	struct pilot_known_task *t = spec_waits_by_element(of->spec) ? pilot_known_find(k, id) : NULL;
	struct pilot_known_found *found = t ? &t->found : &of->found;
	if (!of->spec->n_deps)
		return PILOT_READY;
	if (found->at != pilot_known_changes(k)) {
		/* Where files were changed by hand it may wait for itself. */
		*found = (struct pilot_known_found){ .at = pilot_known_changes(k), .is = PILOT_DEPENDENCY };
		find_dependencies(k, of->spec, id, depth, found);
	}
	*on = &of->spec->deps[found->on];
	return (enum pilot_after)found->is;
}

/* An earlier job of its name that has not ended; 0: none. Before the look after the one that found it this is not known: a
 * listing may hold a name and not the one that was made before it. */
static uint32_t find_earlier(const struct pilot_known *k, const struct pilot_known_job *of)
{
	size_t at = 0;
	if (!pilot_known_since(k, of))
		return of->number;
	for (const struct pilot_known_job *j; (j = pilot_known_next(k, &at));)
		if (j->number < of->number && j->sum.ended < j->sum.n && j->spec->name && of->spec->name &&
		    !strcmp(j->spec->name, of->spec->name))
			return j->number;
	return 0;
}

static uint32_t earlier(const struct pilot_known *k, struct pilot_known_job *of)
{
	if (of->earlier_at != pilot_known_changes(k))
		of->earlier = find_earlier(k, of);
	of->earlier_at = pilot_known_changes(k);
	return of->earlier;
}

/* Of an array that is a singleton one element runs at a time, as at radd. */
size_t pilot_after_limit(const struct spec *s)
{
	return !s->n_array ? 0 : s->singleton ? 1 : s->array_limit;
}

bool pilot_after_is_needed(const struct spec *s)
{
	return s->n_deps || s->singleton || pilot_after_limit(s);
}

static enum pilot_after say(enum pilot_after is, char why[SPOOL_TEXT], const char *text)
{
	if (why)
		text_printf(why, SPOOL_TEXT, "%s", text);
	return is;
}

enum pilot_after pilot_after(const struct pilot_known *k, const struct pilot_known_task *t, char why[SPOOL_TEXT])
{
	const struct spec *s = t->job->spec;
	const struct dependency *on = NULL;
	char text[SPOOL_TEXT], id[TASK_ID_TEXT], begin[CLOCK_ISO_LEN];
	uint32_t other = s->singleton ? earlier(k, t->job) : 0;
	enum pilot_after is = dependencies(k, t->job, t->id, 0, &on);
	size_t limit = pilot_after_limit(s);
	if (is != PILOT_READY) {
		text_printf(text, sizeof text, is == PILOT_DEPENDENCY_NEVER ? "%s:%s can no longer be met: cancel it, or requeue that one" :
			    "waits for %s:%s", dependency_kind_name(on->kind), task_id_text(on->task, id));
		return say(is, why, text);
	}
	if (other) {
		text_printf(text, sizeof text, "waits for task %u, which is of its name and earlier (singleton)", other);
		return say(PILOT_DEPENDENCY, why, text);
	}
	if (s->begin_s * 1000 > clock_wall_ms()) {
		text_printf(text, sizeof text, "begins at %s, as it asks (--begin)", clock_iso(s->begin_s * 1000, begin));
		return say(PILOT_BEGIN_TIME, why, text);
	}
	if (limit && t->job->sum.claimed >= limit) {
		text_printf(text, sizeof text, "%zu elements of its array run at once", limit);
		return say(PILOT_ARRAY_LIMIT, why, text);
	}
	return say(PILOT_READY, why, "");
}

/* ---- a submission ---- */

static int has(void *ctx, task_id id, bool *there, struct error *err)
{
	const struct spec *other = ctx;
	(void)err;
	*there = TASK_INDEX(id) < 0;
	for (size_t i = 0; i < other->n_array && !*there; i++)
		*there = other->array[i] == (uint32_t)TASK_INDEX(id);
	return 0;
}

int pilot_after_check(const struct spool *s, const struct spec *spec, struct error *err)
{
	char text[TASK_ID_TEXT];
	for (size_t i = 0; i < spec->n_deps; i++) {
		const struct dependency *d = &spec->deps[i];
		struct error why = ERROR_INIT;
		scoped_json *job = spool_job(s, TASK_JOB(d->task), false, &why);
		struct spec *other = job ? spec_from_json(json_object_get(job, "spec"), NULL, &why) : NULL;
		if (!other && why.code == ERR_NOT_FOUND)
			return error_set(err, ERR_NOT_FOUND, "dependency %s:%s: there is no such task in %s", dependency_kind_name(d->kind),
					 task_id_text(d->task, text), spool_dir(s));
		int failed = other ? submit_check_dependency(spec, d, has, other, err) : error_pass(err, &why);
		spec_unref(other);
		if (failed)
			return -1;
	}
	return 0;
}

struct pilot_known *pilot_after_open(const struct spool *s, struct error *err)
{
	struct pilot_known *k = pilot_known_create();
	for (int i = 0; i < 2; i++)
		if (pilot_known_look(k, s, err)) {
			pilot_known_destroy(k);
			return NULL;
		}
	return k;
}
