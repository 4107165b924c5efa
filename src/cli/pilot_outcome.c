/* SPDX-License-Identifier: MIT
 * See pilot_outcome.h.
 */
#include "cli/pilot_outcome.h"

#include "base/text.h"
#include "cli/member.h"
#include "cli/pilot_node.h"

#include <stdio.h>

#define CUTS 3		/* as often a task is begun anew that was cut off and had saved nothing; then a person decides */

struct spool_record pilot_outcome_cut_off(const struct spool_record *r, const struct spec *spec, const char *by,
					  const char *why)
{
	struct spool_record next = spool_record_next(r, "returned", by);
	next.cuts++;
	next.state = SPOOL_PENDING;
	next.started = false;
	next.wish = SPOOL_WISH_NONE;
	text_printf(next.text, sizeof next.text, "%.300s", why);
	if (r->wish == SPOOL_WISH_CANCEL || !spec->requeue) {
		next.state = SPOOL_ENDED;
		next.end = r->wish == SPOOL_WISH_CANCEL ? TASK_CANCELLED : TASK_LOST;
		snprintf(next.event, sizeof next.event, "ended");
	} else if (next.cuts >= CUTS) {
		next.state = SPOOL_HELD;
		snprintf(next.event, sizeof next.event, "held");
		text_printf(next.text, sizeof next.text, "%u times in a row it was begun and cut off without having saved (%.200s): let it "
			    "save when it is told to (rad-pilot(1), SAVING), or ask for longer allocations; then rad release", next.cuts, why);
	}
	return next;
}

static struct spool_record saved(const struct spool_record *r, const char *by)
{
	struct spool_record next = spool_record_next(r, "saved", by);
	next.state = r->wish == SPOOL_WISH_HOLD ? SPOOL_HELD : SPOOL_PENDING;
	next.started = false;
	next.wish = SPOOL_WISH_NONE;
	next.cuts = 0;
	snprintf(next.text, sizeof next.text, "the allocation ended, and it had saved");
	return next;
}

/* It was ended by us: why. */
static struct spool_record stopped(const struct pilot *p, const struct pilot_handed *h, const struct pilot_known_task *t,
				   const json_t *local)
{
	const struct spool_record *r = &t->record;
	const char *by = p->who.name;
	struct spool_record next = spool_record_next(r, "ended", by);
	bool began = json_array_size(json_object_get(local, "attempts"));
	next.state = SPOOL_ENDED;
	next.end = TASK_CANCELLED;
	if (r->wish == SPOOL_WISH_CANCEL)
		return next;
	if (r->wish != SPOOL_WISH_NONE || !began) {
		next = spool_record_next(r, r->wish == SPOOL_WISH_HOLD ? "held" : r->wish == SPOOL_WISH_REQUEUE ? "requeued" : "returned",
				by);
		next.state = r->wish == SPOOL_WISH_HOLD ? SPOOL_HELD : SPOOL_PENDING;
		next.started = false;
		next.wish = SPOOL_WISH_NONE;
		if (!began)
			snprintf(next.text, sizeof next.text, "it had not begun");
		return next;
	}
	/* It may have begun while it was being taken back for the end; and a full disk keeps no marks. */
	if (p->shared->ending || pilot_node_has_mark(p, h, "cut"))
		return pilot_outcome_cut_off(r, t->job->spec, by, "the allocation ended");
	snprintf(next.text, sizeof next.text, "at the pilot's radd");
	return next;
}

struct spool_record pilot_outcome(const struct pilot *p, const struct pilot_handed *h, const struct pilot_known_task *t,
				  const json_t *local)
{
	enum task_state state = member_state(local);
	bool asked = pilot_node_has_mark(p, h, "asked"), coded = json_is_integer(json_object_get(local, "exit_code"));
	if (asked && coded && member_int(local, "exit_code") == h->code && t->record.wish != SPOOL_WISH_CANCEL)
		return saved(&t->record, p->who.name);
	if (state == TASK_CANCELLED)
		return stopped(p, h, t, local);
	if (state == TASK_LOST)
		return pilot_outcome_cut_off(&t->record, t->job->spec, p->who.name, "its processes were ended from outside");
	struct spool_record next = spool_record_next(&t->record, "ended", p->who.name);
	next.state = SPOOL_ENDED;
	next.end = state;
	return next;
}
