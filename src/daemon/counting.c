/* SPDX-License-Identifier: MIT
 * See counting.h. Sums since this radd began, as Prometheus counts: they only rise, and begin at nothing with each start, which
 * its rate() knows. What is to outlive a start is in the store.
 */
#include "daemon/counting.h"

#include "base/json.h"

/* From "at once" to a day, each some times the one before, since waits are either of the loop, of a task, or of a night.
 * Cumulative when they are told (le, "at most"), as histograms of Prometheus are. */
static const int wait_limits_s[COUNTING_WAITS] = { 1, 10, 60, 300, 1800, 7200, 28800, 86400 };

/* Of first attempts alone: how long people wait, not how long recoveries do. What was booked as waiting is without the time
 * on hold. */
static void note_wait(struct counting *c, const struct task *t)
{
	double s = (double)t->booked_ms[0] / 1000;
	size_t i = 0;
	while (i < COUNTING_WAITS && s > wait_limits_s[i])
		i++;
	c->waits[i]++;
	c->wait_s += s;
}

void counting_note(struct counting *c, const struct event *ev, const struct task *t)
{
	switch (ev->kind) {
	case EV_SUBMITTED:
		c->submitted++;
		break;
	case EV_PLACED:
		c->started++;
		if (t->n_attempts == 1)
			note_wait(c, t);
		break;
	case EV_ENDED:
		c->verdicts[ev->u.ended.verdict]++;
		__attribute__((fallthrough));
	case EV_CANCELLED:
		if (task_state_terminal(t->state))
			c->states[t->state]++;
		break;
	default:
		break;
	}
}

json_t *counting_json(const struct counting *c)
{
	json_t *states = json_object(), *verdicts = json_object(), *waits = json_array();
	uint64_t n = 0;
	for (unsigned i = 0; i < TASK_STATE_COUNT; i++)
		if (task_state_terminal((enum task_state)i))
			json_object_set_new(states, task_state_name((enum task_state)i), json_integer((json_int_t)c->states[i]));
	for (unsigned i = VERDICT_NONE + 1; i < VERDICT_COUNT; i++)
		json_object_set_new(verdicts, verdict_name((enum verdict)i), json_integer((json_int_t)c->verdicts[i]));
	for (size_t i = 0; i <= COUNTING_WAITS; i++) {
		n += c->waits[i];
		json_array_append_new(waits, json_pack("{so, sI}", "le_s", json_int_or_null(i < COUNTING_WAITS ? wait_limits_s[i] : 0,
								i < COUNTING_WAITS), "n", (json_int_t)n));
	}
	return json_pack("{sI, sI, so, so, so, so}", "submitted", (json_int_t)c->submitted, "started", (json_int_t)c->started,
		"ended", states, "verdicts", verdicts, "waits", waits, "wait_s", json_round3(c->wait_s));
}
