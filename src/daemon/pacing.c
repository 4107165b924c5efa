/* SPDX-License-Identifier: MIT
 * See pacing.h. A record is one page of a file in our own folder, that was written seconds ago: 30 microseconds to
 * find and read. Where many run, each tick looks at some of them in turn, so that it holds up the loop for 2 milliseconds at
 * most.
 */
#include "daemon/pacing.h"

#include "base/alloc.h"
#include "base/idmap.h"
#include "daemon/now.h"

#include <stdlib.h>

#define LOOK_MS 2000
#define AT_ONCE 64

struct pacing {
	uv_timer_t timer;
	struct core *core;
	struct launch_home home;
	pacing_near near;
	void *ctx;
	struct idmap told;	/* tasks that came near what they asked for -> the number of the attempt, in place of a pointer */
	size_t at;	/* in the walk over running tasks */
};

uint64_t pacing_look(struct core *core, const struct launch_home *home, const struct task *t)
{
	struct launch_told told;
	task_id id = t->id;	/* core_progress may end in an event and that in the end of the task */
	if (!launch_progress(home, t, &told))
		return 0;
	if (told.progress.source != PROGRESS_NONE)
		core_progress(core, id, &told.progress, told.file, now_read());
	core_host_peak(core, id, told.host_mib);
	core_cpu(core, id, &told.cpu);
	return told.host_mib;
}

/* At nine tenths, once in each attempt. core_progress may end in an event and that in the end of the task, so it is looked
 * for anew. */
static void look_and_tell(struct pacing *p, task_id id)
{
	const struct task *t = core_task(p->core, id);
	uint64_t host_mib = pacing_look(p->core, &p->home, t);
	t = core_task(p->core, id);
	if (!t || !t->host_mem_mib || host_mib * 10 < task_host_limit_mib(t) * 9)
		return;
	if ((uintptr_t)idmap_get(&p->told, id) == t->n_attempts)
		return;
	idmap_put(&p->told, id, (void *)(uintptr_t)t->n_attempts);
	p->near(p->ctx, t, host_mib);
}

/* Of those that ended nothing is kept; one a round will do. */
static void forget_one(struct pacing *p)
{
	size_t at = 0;
	while (idmap_next(&p->told, &at))
		if (!core_task(p->core, p->told.keys[at - 1])) {
			idmap_remove(&p->told, p->told.keys[at - 1]);
			return;
		}
}

static void on_look(uv_timer_t *timer)
{
	struct pacing *p = timer->data;
	for (unsigned i = 0; i < AT_ONCE; i++) {
		task_id id = core_next_running(p->core, &p->at);
		if (!id) {	/* the next round begins with the next tick */
			p->at = 0;
			forget_one(p);
			return;
		}
		look_and_tell(p, id);
	}
}

struct pacing *pacing_create(uv_loop_t *loop, struct core *core, const struct launch_home *home, pacing_near near, void *ctx)
{
	struct pacing *p = alloc_zero(sizeof *p);
	p->core = core;
	p->home = *home;
	p->near = near;
	p->ctx = ctx;
	uv_timer_init(loop, &p->timer);
	p->timer.data = p;
	uv_timer_start(&p->timer, on_look, LOOK_MS, LOOK_MS);
	return p;
}

static void on_closed(uv_handle_t *h)
{
	struct pacing *p = h->data;
	idmap_free(&p->told);
	free(p);
}

void pacing_destroy(struct pacing *p)
{
	if (p)
		uv_close((uv_handle_t *)&p->timer, on_closed);
}
