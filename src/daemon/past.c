/* SPDX-License-Identifier: MIT
 * States of tasks that may have ended long ago: see past.h. The core has those that live; of a job that it does not have, all
 * elements are in the store, and what waits for the job waits for all of them.
 */
#include "daemon/past.h"

struct worst { enum task_state state; bool any; };

/* Those that failed weigh more than completed ones. One that its log leaves open (the log cannot be read) keeps the others
 * waiting. */
static int note_state(void *ctx, task_id id, enum task_state state)
{
	struct worst *w = ctx;
	(void)id;
	bool open = !task_state_terminal(state), worst_open = w->any && !task_state_terminal(w->state);
	if (!w->any || (open && !worst_open) || (!open && !worst_open && w->state == TASK_COMPLETED))
		w->state = state;
	w->any = true;
	return 0;
}

static bool living_state(const struct core *core, task_id id, enum task_state *state)
{
	const struct task *t = TASK_INDEX(id) >= 0 ? core_task(core, id) : NULL;
	if (t)
		*state = t->state;
	return t || (TASK_INDEX(id) < 0 && core_job_state(core, TASK_JOB(id), state));
}

/* From the core as long as anything of the job lives there. The history is read in the loop, where one submission may ask for
 * thousands: so rows of an index, and never a task with all that was submitted for it. */
bool past_state(const struct core *core, struct store *store, task_id id, enum task_state *state)
{
	struct worst w = { .any = false };
	if (living_state(core, id, state))
		return true;
	if (store_states(store, id, note_state, &w, NULL) || !w.any)
		return false;
	*state = w.state;
	return true;
}
