/* SPDX-License-Identifier: MIT
 * See limits.h. The clock of every running attempt is set, since a limit may be given to one that had none.
 *
 * Limits run on the monotonic clock: a wall clock that is set a day ahead would end every task that has one. All are looked at
 * when the first may be due, which is rarer than anything else that happens to tasks; `due_ms` may be too early (that one
 * ended, or was given more), never too late. So whatever makes a limit shorter has to lower it: limits_begin and
 * limits_changed.
 */
#include "core/limits.h"

#include "base/alloc.h"

#include <stdlib.h>

struct limits {
	struct core_ops ops;
	struct tasks *tasks;
	struct fleet *fleet;
	int64_t due_ms;		/* mono; nothing is due before */
};

struct limits *limits_create(const struct core_ops *ops, struct tasks *ts, struct fleet *f)
{
	struct limits *l = alloc_zero(sizeof *l);
	l->ops = *ops;
	l->tasks = ts;
	l->fleet = f;
	l->due_ms = INT64_MAX;
	return l;
}

void limits_destroy(struct limits *l)
{
	free(l);
}

/* Of a task that has one. What ran in earlier slots is of the same limit; while it was suspended, that stood still. */
static int64_t limit_ends_ms(const struct fleet_clock *c)
{
	const struct task *t = c->task;
	return c->began_ms + t->time_limit_s * 1000 - t->slot_ran_ms + t->suspended_ms;
}

static int64_t limit_warns_ms(const struct fleet_clock *c)
{
	return limit_ends_ms(c) - c->task->spec->signal_before_s * 1000;
}

/* It is looked at when it may be due itself: of the others nothing has changed. */
void limits_begin(struct limits *l, const struct task *t, struct now now)
{
	struct fleet_clock *c = fleet_clock_of(l->fleet, t->id);
	c->began_ms = now.mono_ms - (now.wall_ms - task_attempt(t)->start_ms);
	if (t->time_limit_s && limit_warns_ms(c) < l->due_ms)
		l->due_ms = limit_warns_ms(c);
}

void limits_changed(struct limits *l, struct now now)
{
	l->due_ms = now.mono_ms;
}

/* When the limit is next of interest (mono); acts when it is now. */
static int64_t limits_look_at(struct limits *l, struct fleet_clock *c, struct now now)
{
	struct task *t = c->task;
	/* What delays its start is not its time; EV_STARTED begins anew. */
	bool delayed = !task_attempt(t)->shim.pid && l->ops.start_waits && l->ops.start_waits(l->ops.ctx, t);
	if (!t->time_limit_s || t->stopping || t->suspended || delayed)
		return INT64_MAX;
	int64_t end = limit_ends_ms(c), warn = limit_warns_ms(c);
	bool to_warn = t->spec->signal && !task_attempt(t)->warned;
	if (now.mono_ms >= end) {
		struct event ev = { .kind = EV_STOP_ASKED, .t_ms = now.wall_ms, .u.stop = { STOP_TIME_LIMIT, 0 } };
		tasks_emit(l->tasks, t, &ev, now.wall_ms);
		return INT64_MAX;
	}
	if (to_warn && now.mono_ms >= warn) {
		struct event ev = { .kind = EV_WARNED, .t_ms = now.wall_ms };
		tasks_emit(l->tasks, t, &ev, now.wall_ms);
		to_warn = false;
	}
	return to_warn ? warn : end;
}

int64_t limits_turn(struct limits *l, struct now now)
{
	int64_t due = INT64_MAX;
	size_t at = 0;
	if (now.mono_ms < l->due_ms)
		return l->due_ms;
	for (struct fleet_clock *c; (c = fleet_next_clock(l->fleet, &at));) {
		int64_t next = limits_look_at(l, c, now);
		due = next < due ? next : due;
	}
	return l->due_ms = due;
}
