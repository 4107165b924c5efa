/* SPDX-License-Identifier: MIT
 * The log of what happened: see chronicle.h. A name that the user database has not told yet is a number here: a line is not
 * worth waiting for, and the store keeps who it was.
 */
#include "daemon/chronicle.h"

#include "base/json.h"
#include "base/log.h"
#include "base/scope.h"
#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

/* A user's own daemon has no administrator but its user. */
static const char *who(struct names *names, uid_t uid, uid_t owner, char text[128])
{
	const char *name;
	bool admin = uid != owner && (uid == 0 || uid == geteuid());
	names_of(names, uid, &name);
	text_printf(text, 128, "%.90s%s", name, admin ? " (administrator)" : "");
	return text;
}

static const char *what(const struct event *ev)
{
	switch (ev->kind) {
	case EV_HELD: return "held";
	case EV_RELEASED: return "released";
	case EV_CANCELLED: return "cancelled";
	case EV_REQUEUED: return "put back into the queue";
	case EV_SUSPENDED: return "suspended";
	case EV_RESUMED: return "resumed";
	case EV_UPDATED: return "changed";
	case EV_STOP_ASKED: return ev->u.stop.reason == STOP_REQUEUE ? "asked to stop and to be run again" : "asked to stop";
	default: return event_kind_name(ev->kind);
	}
}

/* With all that is in it: what was estimated, measured, asked for. */
static void tell_whole(const char *id, const struct event *ev)
{
	scoped_json *data = log_writes(LOG_DEBUG) ? event_to_json(ev) : NULL;
	scoped_free char *text = data ? json_dumps(data, JSON_COMPACT) : NULL;
	if (text)
		log_debug("task %s: %s %s", id, event_kind_name(ev->kind), text);
}

/* Placements, moves and ends, and what people did: that is what an administrator reads back after a complaint. Events of
 * the machinery alone are in the store, where `rad events` tells them, and here at the level of debug. */
void chronicle_event(struct names *names, const struct event *ev, const struct task *t)
{
	char id[TASK_ID_TEXT], by[128];
	uint32_t uid;
	task_id_text(t->id, id);
	tell_whole(id, ev);
	if (ev->kind == EV_PLACED && !ev->u.placed.n_gpus)
		log_info("task %s: attempt %u: placed on the host alone, without a GPU", id, t->n_attempts);
	else if (ev->kind == EV_PLACED)
		log_info("task %s: attempt %u: placed on %s%s, %s, %llu MiB held", id, t->n_attempts, ev->u.placed.gpus[0],
			 ev->u.placed.n_gpus > 1 ? " and others" : "", share_mode_name(ev->u.placed.mode),
			 (unsigned long long)ev->u.placed.claim_mib);
	else if (ev->kind == EV_MOVED)
		log_warn("task %s: attempt %u: was given %s%s, and its processes are on %s%s", id, t->n_attempts,
			 task_attempt(t)->n_given ? task_attempt(t)->given[0] : "no GPU", task_attempt(t)->n_given > 1 ? " and others" : "",
			 ev->u.moved.n_gpus ? ev->u.moved.gpus[0] : "none any more", ev->u.moved.n_gpus > 1 ? " and others" : "");
	else if (ev->kind == EV_ENDED)
		log_info("task %s: attempt %u: %s: %s%s", id, t->n_attempts, verdict_name(ev->u.ended.verdict),
			 ev->u.ended.evidence ? ev->u.ended.evidence : "", ev->u.ended.next == NEXT_DONE ? "" : "; it runs again");
	else if (ev->kind == EV_CANCELLED && ev->u.by.unmet.task)
		log_info("task %s of %s: cancelled, since what it waited for can no longer happen", id, t->spec->user ? t->spec->user : "?");
	else if (event_actor(ev, &uid))
		log_info("task %s of %s: %s by %s", id, t->spec->user ? t->spec->user : "?", what(ev), who(names, uid, t->spec->uid, by));
}

/* What is acted on is nobody's, a GPU say: so whoever may do it as an administrator is always named as one. */
void chronicle_act(struct names *names, uid_t uid, const char *fmt, ...)
{
	char text[600], by[128];
	va_list ap;
	va_start(ap, fmt);
	text_vprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	log_info("%s: %s", who(names, uid, (uid_t)-1, by), text);
}
