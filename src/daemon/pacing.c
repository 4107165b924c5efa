/* SPDX-License-Identifier: MIT
 * See pacing.h. A record is one page of a file in our own folder, that was written seconds ago: 30 microseconds to
 * find and read. Where many run, each tick looks at some of them in turn, so that it holds up the loop for 2 milliseconds at
 * most.
 */
#include "daemon/pacing.h"

#include "base/alloc.h"
#include "daemon/now.h"

#include <stdlib.h>

#define LOOK_MS 2000
#define AT_ONCE 64

struct pacing {
	uv_timer_t timer;
	struct core *core;
	struct launch_home home;
	size_t at;	/* in the walk over running tasks */
};

void pacing_look(struct core *core, const struct launch_home *home, const struct task *t)
{
	struct progress_report r;
	uint64_t file;
	if (launch_progress(home, t, &r, &file))
		core_progress(core, t->id, &r, file, now_read());
}

static void on_look(uv_timer_t *timer)
{
	struct pacing *p = timer->data;
	for (unsigned i = 0; i < AT_ONCE; i++) {
		task_id id = core_next_running(p->core, &p->at);
		if (!id) {	/* the next round begins with the next tick */
			p->at = 0;
			return;
		}
		pacing_look(p->core, &p->home, core_task(p->core, id));
	}
}

struct pacing *pacing_create(uv_loop_t *loop, struct core *core, const struct launch_home *home)
{
	struct pacing *p = alloc_zero(sizeof *p);
	p->core = core;
	p->home = *home;
	uv_timer_init(loop, &p->timer);
	p->timer.data = p;
	uv_timer_start(&p->timer, on_look, LOOK_MS, LOOK_MS);
	return p;
}

static void on_closed(uv_handle_t *h)
{
	free(h->data);
}

void pacing_destroy(struct pacing *p)
{
	if (p)
		uv_close((uv_handle_t *)&p->timer, on_closed);
}
