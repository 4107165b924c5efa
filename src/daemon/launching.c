/* SPDX-License-Identifier: MIT
 * Launches in threads: see launching.h. A thread sees nothing but its job, which holds copies; what it found is told in the
 * loop.
 */
#include "daemon/launching.h"

#include "base/alloc.h"

#include <stdlib.h>

struct launching {
	uv_work_t work;
	struct launch *launch;
	launching_done done;	/* NULL: nobody wants to know */
	void *ctx;
	int rc;
	struct proc_id shim;
	struct error err;
};

static void run_there(uv_work_t *work)
{
	struct launching *l = work->data;
	l->rc = launch_run(l->launch, &l->shim, &l->err);
}

static void on_run(uv_work_t *work, int status)
{
	struct launching *l = work->data;
	(void)status;		/* it is never cancelled */
	if (l->done)
		l->done(l->ctx, l->rc, l->shim, &l->err);
	launch_destroy(l->launch);
	free(l);
}

struct launching *launching_start(uv_loop_t *loop, struct launch *launch, launching_done done, void *ctx)
{
	struct launching *l = alloc_zero(sizeof *l);
	*l = (struct launching){ .work.data = l, .launch = launch, .done = done, .ctx = ctx, .err = ERROR_INIT };
	uv_queue_work(loop, &l->work, run_there, on_run);
	return l;
}

void launching_leave(struct launching *l)
{
	if (l)
		l->done = NULL;
}

struct forgetting {
	uv_work_t work;
	char *state_dir;
	task_id task;
	uint32_t attempt;
};

static void forget_there(uv_work_t *work)
{
	const struct forgetting *f = work->data;
	launch_forget(f->state_dir, f->task, f->attempt);
}

static void on_forgotten(uv_work_t *work, int status)
{
	struct forgetting *f = work->data;
	(void)status;
	free(f->state_dir);
	free(f);
}

void launching_forget(uv_loop_t *loop, const char *state_dir, task_id task, uint32_t attempt)
{
	struct forgetting *f = alloc_zero(sizeof *f);
	*f = (struct forgetting){ .work.data = f, .state_dir = alloc_string(state_dir), .task = task, .attempt = attempt };
	uv_queue_work(loop, &f->work, forget_there, on_forgotten);
}
