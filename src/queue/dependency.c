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

const struct dependency *queue_open_dependency(const struct spec *s, queue_state_of state_of, void *ctx, bool *never)
{
	const struct dependency *open = NULL;

	*never = false;
	for (size_t i = 0; i < s->n_deps; i++) {
		enum task_state state;
		int one = state_of(s->deps[i].task, &state, ctx) ? one_dependency(s->deps[i].kind, state) : -1;

		if (one < 0) {
			*never = true;
			return &s->deps[i];
		}
		if (!one && !open)
			open = &s->deps[i];
	}
	return open;
}

int queue_dependencies(const struct spec *s, queue_state_of state_of, void *ctx)
{
	bool never;
	const struct dependency *open = queue_open_dependency(s, state_of, ctx, &never);

	return never ? -1 : !open;
}
