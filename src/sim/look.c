/* SPDX-License-Identifier: MIT
 * When GPUs are looked at though nothing happens there. A daemon looks every second, so such looks are at whole seconds.
 */
#include "sim/look.h"

#include "base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECOND_MS 1000

static int64_t second_from(int64_t t_ms)
{
	return (t_ms + SECOND_MS - 1) / SECOND_MS * SECOND_MS;
}

static int64_t second_after(int64_t t_ms)
{
	return (t_ms / SECOND_MS + 1) * SECOND_MS;
}

static void earliest(int64_t *next, int64_t t_ms, int64_t after_ms)
{
	if (t_ms > after_ms && t_ms < *next)
		*next = t_ms;
}

static bool state_of(task_id id, enum task_state *state, void *ctx) { (void)id, (void)state, (void)ctx; return false; }
static void on_trouble(void *ctx, const char *text) { (void)ctx; log_error("%s", text); }

struct core_ops look_ops(void *ctx)
{
	return (struct core_ops){ .ctx = ctx, .state_of = state_of, .trouble = on_trouble };
}

struct exit_report look_exit(const struct world_task *refused)
{
	struct exit_report r = { .have_record = true };
	if (refused) {
		r.exit_code = 1;
		r.output.kind = SCAN_GPU_OOM;
		r.output.oom_seen = 1;
		r.output.held_mib = refused->mem_mib;
		r.output.tried_mib = refused->mem_mib ? world_refused_mib(refused) : 0;
		snprintf(r.output.source, sizeof r.output.source, "PyTorch");
		snprintf(r.output.line, sizeof r.output.line, "CUDA out of memory");
	}
	return r;
}

/* UUIDs end in the device's place in the list. */
uint32_t look_place(const char *uuid)
{
	return (uint32_t)strtoul(strrchr(uuid, '-') + 1, NULL, 16);
}

int64_t look_next(const struct sim_options *o, const struct core *core, const struct world_gpu *g, int64_t now_ms)
{
	const struct core_config *c = &o->core;
	int64_t next = INT64_MAX, now = now_ms;
	int64_t ripens_ms = core_ripens_ms(core, g->uuid);
	int64_t settle_ms = c->window.settle_ms < c->window.span_ms ? c->window.settle_ms : c->window.span_ms;
	settle_ms = settle_ms > 0 ? settle_ms : 1;	/* one sample settles it, as in window.c */
	if (g->changed_ms != INT64_MIN)
		earliest(&next, second_from(g->changed_ms + settle_ms), now);
	if (g->left_ms != INT64_MIN)
		earliest(&next, second_after(g->left_ms), now);
	if (ripens_ms != INT64_MAX)
		earliest(&next, second_from(ripens_ms - LOOK_MONO_MS), now);
	for (size_t i = 0; i < g->n && map_minds_unseen(&c->map, g->tasks[i]->mode); i++)
		earliest(&next, second_from(g->tasks[i]->start_ms + c->window.settle_ms), now);
	for (size_t i = 0; i < g->n && o->progress_lines; i++)
		earliest(&next, second_from(g->tasks[i]->start_ms + LOOK_PROGRESS_MS), now);
	/* A task made it busier or calmer: the mean moves until the window holds nothing older. What each task there says of its
	 * progress meanwhile counts from word to word. */
	if (g->drift_ms != INT64_MIN && now < g->drift_ms + c->window.span_ms) {
		int64_t due_ms = core_load_due_ms(core, g->uuid);
		if (o->progress_lines)
			earliest(&next, second_after(now), now);
		else if (due_ms != INT64_MAX)
			earliest(&next, due_ms - LOOK_MONO_MS, now);
	}
	return next;
}
