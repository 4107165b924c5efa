/* SPDX-License-Identifier: MIT
 * See pilot_after.h. What a record says that it has ended is so, however old the look: so nothing begins too early, and at most
 * a look too late. A requeue of what had ended before holds nobody up who has begun.
 */
#include "cli/pilot_after.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/scope.h"

#include <stdio.h>
#include <string.h>

#define CHAIN 100	/* of tasks that wait for each other, as far as it is looked through */

/* What the tasks that a dependency names have come to. */
struct after_sum { size_t n, begun, ended, completed; };

static struct after_sum sum_of(const struct pilot_known *k, task_id id)
{
	const struct pilot_known_job *j = pilot_known_job(k, TASK_JOB(id));
	struct after_sum sum = { 0 };
	for (size_t i = 0; j && i < j->n; i++) {
		const struct spool_record *r = &j->tasks[i].record;
		if (TASK_INDEX(id) >= 0 && j->tasks[i].id != id)
			continue;
		bool ended = r->state == SPOOL_ENDED;
		sum.n++;
		sum.ended += ended;
		sum.begun += ended || r->started;
		sum.completed += ended && r->end == TASK_COMPLETED;
	}
	return sum;
}

/* What the task's dependency is on: for the element of an array, the other array's of the same index. */
static task_id target_of(task_id id, const struct dependency *d)
{
	bool element = d->kind == DEP_AFTERCORR && TASK_INDEX(id) >= 0 && TASK_INDEX(d->task) < 0;
	return element ? TASK_ID(TASK_JOB(d->task), TASK_INDEX(id)) : d->task;
}

static enum pilot_after one_is(const struct after_sum *sum, enum dependency_kind kind)
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

/* The first that can never be met, else the first that is not met yet. */
static enum pilot_after dependencies(const struct pilot_known *k, const struct spec *s, task_id id, int depth,
				     const struct dependency **on)
{
	enum pilot_after is = PILOT_READY;
	for (size_t i = 0; i < s->n_deps; i++) {
		const struct dependency *d = &s->deps[i], *further;
		task_id target = target_of(id, d);
		struct after_sum sum = sum_of(k, target);
		enum pilot_after one = one_is(&sum, d->kind);
		const struct pilot_known_job *j = pilot_known_job(k, TASK_JOB(target));
		/* The success of what itself waits in vain does not come either. */
		if (one == PILOT_DEPENDENCY && (d->kind == DEP_AFTEROK || d->kind == DEP_AFTERCORR) && j && depth < CHAIN &&
		    !sum.begun && dependencies(k, j->spec, target, depth + 1, &further) == PILOT_DEPENDENCY_NEVER)
			one = PILOT_DEPENDENCY_NEVER;
		if (one > is) {
			is = one;
			*on = d;
		}
	}
	return is;
}

/* An earlier job of its name that has not ended; 0: none. Before the look after the one that found it this is not known: a
 * listing may hold a name and not the one that was made before it. */
static uint32_t earlier(const struct pilot_known *k, const struct pilot_known_job *of)
{
	size_t at = 0;
	if (!pilot_known_since(k, of))
		return of->number;
	for (const struct pilot_known_job *j; (j = pilot_known_next(k, &at));) {
		struct after_sum sum = { 0 };
		if (j->number < of->number && j->spec->name && of->spec->name && !strcmp(j->spec->name, of->spec->name))
			sum = sum_of(k, TASK_ID(j->number, -1));
		if (sum.ended < sum.n)
			return j->number;
	}
	return 0;
}

bool pilot_after_is_common(const struct spec *s)
{
	for (size_t i = 0; i < s->n_deps; i++)
		if (s->deps[i].kind == DEP_AFTERCORR)
			return false;
	return true;
}

/* Of an array that is a singleton one element runs at a time, as at radd. */
size_t pilot_after_limit(const struct spec *s)
{
	return !s->n_array ? 0 : s->singleton ? 1 : s->array_limit;
}

size_t pilot_after_claimed(const struct pilot_known_job *j)
{
	size_t n = 0;
	for (size_t i = 0; i < j->n; i++)
		n += j->tasks[i].record.state == SPOOL_CLAIMED;
	return n;
}

bool pilot_after_is_needed(const struct spec *s)
{
	return s->n_deps || s->singleton || pilot_after_limit(s);
}

static enum pilot_after say(enum pilot_after is, char why[SPOOL_TEXT], const char *text)
{
	if (why)
		snprintf(why, SPOOL_TEXT, "%s", text);
	return is;
}

enum pilot_after pilot_after(const struct pilot_known *k, const struct pilot_known_task *t, char why[SPOOL_TEXT])
{
	const struct spec *s = t->job->spec;
	const struct dependency *on = NULL;
	char text[SPOOL_TEXT], id[TASK_ID_TEXT], begin[CLOCK_ISO_LEN];
	uint32_t other = s->singleton ? earlier(k, t->job) : 0;
	enum pilot_after is = dependencies(k, s, t->id, 0, &on);
	size_t limit = pilot_after_limit(s);
	if (is != PILOT_READY) {
		snprintf(text, sizeof text, is == PILOT_DEPENDENCY_NEVER ? "%s:%s can no longer be met: cancel it, or requeue that one" :
			 "waits for %s:%s", dependency_kind_name(on->kind), task_id_text(on->task, id));
		return say(is, why, text);
	}
	if (other) {
		snprintf(text, sizeof text, "waits for task %u, which is of its name and earlier (singleton)", other);
		return say(PILOT_DEPENDENCY, why, text);
	}
	if (s->begin_s * 1000 > clock_wall_ms()) {
		snprintf(text, sizeof text, "begins at %s, as it asks (--begin)", clock_iso(s->begin_s * 1000, begin));
		return say(PILOT_BEGIN_TIME, why, text);
	}
	if (limit && pilot_after_claimed(t->job) >= limit) {
		snprintf(text, sizeof text, "%zu elements of its array run at once", limit);
		return say(PILOT_ARRAY_LIMIT, why, text);
	}
	return say(PILOT_READY, why, "");
}

/* ---- a submission ---- */

static bool has_element(const struct spec *s, int32_t index)
{
	for (size_t i = 0; i < s->n_array; i++)
		if (s->array[i] == (uint32_t)index)
			return true;
	return false;
}

static int check_elements(const struct spec *spec, const struct spec *other, const struct dependency *d, struct error *err)
{
	char text[TASK_ID_TEXT];
	bool there = true;
	if (TASK_INDEX(d->task) >= 0 && !has_element(other, TASK_INDEX(d->task)))
		return error_set(err, ERR_NOT_FOUND, "dependency %s:%s: there is no such task", dependency_kind_name(d->kind),
				 task_id_text(d->task, text));
	if (d->kind != DEP_AFTERCORR || TASK_INDEX(d->task) >= 0)
		return 0;
	if (!spec->n_array)
		return error_set(err, ERR_INVALID, "dependency aftercorr:%s: is between the elements of two arrays, and this is none: "
				 "use afterok", task_id_text(d->task, text));
	for (size_t i = 0; i < spec->n_array && there; i += spec->n_array > 1 ? spec->n_array - 1 : 1)
		there = has_element(other, (int32_t)spec->array[i]);
	return there ? 0 : error_set(err, ERR_NOT_FOUND, "dependency aftercorr:%s: that is no array with the indices of this one",
				     task_id_text(d->task, text));
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
		int failed = other ? check_elements(spec, other, d, err) : error_set(err, why.code, "%s", why.text);
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
