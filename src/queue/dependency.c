/* SPDX-License-Identifier: MIT
 *
 * When a task may be considered at all: Slurm's afterok, afterany and afternotok.
 */
#include "queue/queue.h"

/* 1 met, 0 not yet, -1 never. */
static int one_dependency(enum dependency_kind kind, enum task_state state)
{
	if (!task_state_terminal(state))
		return 0;
	switch (kind) {
	case DEP_AFTERANY: return 1;
	case DEP_AFTEROK: return state == TASK_COMPLETED ? 1 : -1;
	case DEP_AFTERNOTOK: return state == TASK_COMPLETED ? -1 : 1;
	}
	return -1;
}

int queue_dependencies(const struct spec *s, bool (*state_of)(task_id id, enum task_state *state, void *ctx), void *ctx)
{
	int all = 1;

	for (size_t i = 0; i < s->n_deps; i++) {
		enum task_state state;
		int one = state_of(s->deps[i].task, &state, ctx) ? one_dependency(s->deps[i].kind, state) : -1;

		if (one < 0)
			return -1;
		if (one == 0)
			all = 0;
	}
	return all;
}
