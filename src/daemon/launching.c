/* SPDX-License-Identifier: MIT
 * Launches in threads: see launching.h. A thread sees nothing but its job, which holds copies; what it found is told in the
 * loop.
 */
#include "daemon/launching.h"

#include "base/alloc.h"

#include <stdlib.h>

struct launching {
	uv_work_t work;
	struct launching_line *line;	/* NULL: it is gone */
	struct launching *next;
	struct launch *launch;
	launching_done done;		/* NULL: nobody wants to know */
	void *ctx;
	int rc;
	struct proc_id shim;
	struct error err;
};

/* The first one is under way. */
struct launching_line { uv_loop_t *loop; struct launching *first, **last; };

static void run_there(uv_work_t *work)
{
	struct launching *l = work->data;
	l->rc = launch_run(l->launch, &l->shim, &l->err);
}

static void launching_free(struct launching *l)
{
	launch_destroy(l->launch);
	free(l);
}

static void on_run(uv_work_t *work, int status);

/* One at a time in the thread pool: two there would begin in any order. */
static void launching_go_on(struct launching_line *line)
{
	if (line->first)
		uv_queue_work(line->loop, &line->first->work, run_there, on_run);
	else
		line->last = &line->first;
}

/* The next one is begun before this one is told, so that a callback that takes its time, or adds to the line, keeps no launch
 * waiting. */
static void on_run(uv_work_t *work, int status)
{
	struct launching *l = work->data;
	(void)status;		/* it is never cancelled */
	if (l->line) {
		l->line->first = l->next;
		launching_go_on(l->line);
	}
	if (l->done)
		l->done(l->ctx, l->rc, l->shim, &l->err);
	launching_free(l);
}

struct launching *launching_start(struct launching_line *line, struct launch *launch, launching_done done, void *ctx)
{
	struct launching *l = alloc_zero(sizeof *l);
	bool idle = !line->first;
	*l = (struct launching){ .work.data = l, .line = line, .launch = launch, .done = done, .ctx = ctx, .err = ERROR_INIT };
	*line->last = l;
	line->last = &l->next;
	if (idle)
		launching_go_on(line);
	return l;
}

/* It stays in the line, as a thread may be at it: only who would be told is forgotten. */
void launching_leave(struct launching *l)
{
	if (l)
		l->done = NULL;
}

struct launching_line *launching_line_create(uv_loop_t *loop)
{
	struct launching_line *line = alloc_zero(sizeof *line);
	line->loop = loop;
	line->last = &line->first;
	return line;
}

/* Those that have not begun are found as placed by the next radd. The one that is under way in its thread cannot be called
 * back: it finds no line any more when it returns. */
void launching_line_destroy(struct launching_line *line)
{
	if (!line)
		return;
	for (struct launching *l = line->first ? line->first->next : NULL, *next; l; l = next) {
		next = l->next;
		launching_free(l);
	}
	if (line->first)
		line->first->line = NULL;
	free(line);
}
