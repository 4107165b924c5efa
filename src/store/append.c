/* SPDX-License-Identifier: MIT
 * An event, and what follows from it: the row of its task, and what accounts tell once it has ended. All in the transaction of
 * the turn (store.c).
 */
#include "store/store_internal.h"

#include "base/scope.h"

/* `tasks` is an index of the logs, so that a start need not replay what has ended: it says which tasks live, and of whom. It is
 * written in the transaction of the event that it follows from, and can be made again from the events. */
int store_put_task(struct store *s, const struct task *t, bool live, struct error *err)
{
	if (store_change(s, err, STORE_PUT_TASK, "iiitii", (int64_t)t->id, (int64_t)t->spec->uid, (int64_t)live,
			 task_state_name(t->state), t->submit_ms, live ? (int64_t)0 : t->end_ms))
		return -1;
	return live ? 0 : store_put_account(s, t, err);
}

/* A clock that is set again and again must not fill the log of whoever waits. Two sets with nothing between them are one by the
 * sum of both, at the time of the second: the same times come of it. Looked for where there can be as many: it costs twice what
 * the event does. */
static bool store_join_clock_set(struct store *s, const struct event *ev, const struct task *after)
{
	return ev->kind == EV_CLOCK_SET && after->n_events > STORE_CLOCKS_KEPT &&
	       !store_change(s, NULL, STORE_JOIN_CLOCK_SET, "iiii", (int64_t)ev->task, ev->t_ms, ev->u.clock.by_ms,
			     (int64_t)STORE_CLOCKS_KEPT) && sqlite3_changes(s->db);
}

int store_append(struct store *s, const struct event *ev, const struct task *after, struct error *err)
{
	bool joined = store_join_clock_set(s, ev, after);
	scoped_free char *body = joined ? NULL : store_object_text(event_to_json(ev));
	if (!joined && !body)
		return store_doom(s, err, "the event");
	if (!joined && store_change(s, err, STORE_ADD_EVENT, "iitt", (int64_t)ev->task, ev->t_ms, event_kind_name(ev->kind), body))
		return -1;
	if (ev->kind == EV_REQUEUED && store_drop_account(s, ev->task, err))
		return -1;
	return store_put_task(s, after, !task_state_terminal(after->state), err);
}
