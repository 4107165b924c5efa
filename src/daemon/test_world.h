/* SPDX-License-Identifier: MIT
 *
 * What the tests of this folder share: a folder of their own with a store, a core whose events go into it, two made-up GPUs,
 * and a loop. The test makes the turns.
 */
#ifndef RAD_DAEMON_TEST_WORLD_H
#define RAD_DAEMON_TEST_WORLD_H

#include "base/alloc.h"
#include "base/io.h"
#include "base/json.h"
#include "base/scope.h"
#include "core/core.h"
#include "settings/settings.h"
#include "daemon/now.h"
#include "daemon/past.h"
#include "store/store.h"

#include <ftw.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

#include <cmocka.h>

#define WORLD_PATIENCE_MS 100000
#define WORLD_MAX_EVENTS 200

struct world {
	char dir[32], *state_dir;
	uv_loop_t loop;
	uv_timer_t patience;
	struct settings config;
	struct store *store;
	struct core *core;
	/* Every event, and who else is to hear of it. */
	struct { enum event_kind kind; task_id task; } events[WORLD_MAX_EVENTS];
	size_t n_events;
	void (*also)(void *part, const struct event *ev, const struct task *t);
	void *part;
};

static inline void world_out_of_patience(uv_timer_t *t)
{
	(void)t;
	fail_msg("nothing came in %d s", WORLD_PATIENCE_MS / 1000);
}

static inline void world_event(void *ctx, const struct event *ev, const struct task *t)
{
	struct world *w = ctx;
	store_append(w->store, ev, t, NULL);
	if (w->n_events < WORLD_MAX_EVENTS) {
		w->events[w->n_events].kind = ev->kind;
		w->events[w->n_events++].task = t->id;
	}
	if (w->also)
		w->also(w->part, ev, t);
}

static inline void world_trouble(void *ctx, const char *text)
{
	(void)ctx;
	fail_msg("%s", text);
}

static inline bool world_state_of(task_id id, enum task_state *state, void *ctx)
{
	const struct world *w = ctx;
	return past_state(w->core, w->store, id, state);
}

/* In a folder whose name is made of `dir` (mkdtemp(3)); `ops` has its ctx from here. */
static inline void world_open_with(struct world *w, const char *dir, struct core_ops ops)
{
	struct error err = ERROR_INIT;
	ops.ctx = w;
	*w = (struct world){ .config = settings_default() };
	snprintf(w->dir, sizeof w->dir, "%s", dir);
	assert_non_null(mkdtemp(w->dir));
	w->state_dir = alloc_printf("%s/state", w->dir);
	w->store = store_open(w->state_dir, &err);
	if (!w->store)
		fail_msg("%s", err.text);
	w->core = core_create(&w->config.core, &ops);
	signal(SIGPIPE, SIG_IGN);
	uv_loop_init(&w->loop);
	uv_timer_init(&w->loop, &w->patience);
	uv_timer_start(&w->patience, world_out_of_patience, WORLD_PATIENCE_MS, 0);
}

static inline void world_open(struct world *w)
{
	world_open_with(w, "/tmp/rad-daemon.XXXXXX", (struct core_ops){ .event = world_event, .state_of = world_state_of,
									   .trouble = world_trouble });
}

static inline int world_remove(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st, (void)type, (void)ftw;
	return remove(path);
}

/* The parts were destroyed: what they had in the loop ends, and nothing is left. */
static inline void world_close(struct world *w)
{
	uv_close((uv_handle_t *)&w->patience, NULL);
	uv_run(&w->loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&w->loop), 0);
	core_destroy(w->core);
	store_close(w->store);
	settings_clear(&w->config);
	nftw(w->dir, world_remove, 16, FTW_DEPTH | FTW_PHYS);
	assert_int_not_equal(access(w->dir, F_OK), 0);	/* a program that a test left running may write there still */
	free(w->state_dir);
}

static inline void world_commit(struct world *w)
{
	struct error err = ERROR_INIT;
	if (store_commit(w->store, &err))
		fail_msg("%s", err.text);
}

/* The transaction of this turn can no longer be committed. */
static inline void world_doom(struct world *w)
{
	struct spec *s = spec_create();
	assert_int_equal(store_add_job(w->store, 1000000, s, 0, NULL), 0);
	assert_int_equal(store_add_job(w->store, 1000000, s, 0, NULL), -1);
	spec_unref(s);
}

/* `script` NULL: `true`. */
static inline struct spec *world_spec(const struct world *w, const char *script)
{
	struct spec *s = spec_create();
	s->uid = getuid();
	s->gid = getgid();
	s->umask = 022;
	s->user = alloc_printf("%u", (unsigned)s->uid);
	s->gpu_mem_mib = 1000;
	free(s->name);
	s->name = alloc_string("task");
	free(s->cwd);
	s->cwd = alloc_string(w->dir);
	free(s->output);
	s->output = alloc_printf("%s/log", w->dir);
	free(s->script);
	s->script = alloc_string(script ? script : "true\n");
	return s;
}

/* Not committed. */
static inline task_id world_submit(struct world *w, struct spec *s)
{
	uint32_t job = store_next_job(w->store);
	struct now now = now_read();
	assert_int_equal(store_add_job(w->store, job, s, now.wall_ms, NULL), 0);
	core_submit(w->core, job, s, now);
	return TASK_ID(job, -1);
}

static inline task_id world_submit_held(struct world *w)
{
	struct spec *s = world_spec(w, NULL);
	s->hold = true;
	return world_submit(w, s);
}

/* What the GPUs say: two empty ones of 40 GiB. */
static inline void world_snapshot(struct world *w)
{
	struct now now = now_read();
	struct snapshot s = { .mono_ms = now.mono_ms, .wall_ms = now.wall_ms };
	for (unsigned i = 0; i < 2; i++) {
		struct gpu_reading *g = snapshot_add_gpu(&s);
		snprintf(g->uuid, sizeof g->uuid, "GPU-%u", i);
		snprintf(g->name, sizeof g->name, "Made-up");
		g->index = i;
		g->valid = GPU_MEM_TOTAL | GPU_MEM_USED | GPU_PROCS | GPU_PROC_MEM | GPU_SMACT | GPU_GRACT;
		g->mem_total_mib = 40960;
	}
	core_snapshot(w->core, &s, CORE_MPS_NONE, now);
	snapshot_clear(&s);
}

static inline bool world_saw(const struct world *w, enum event_kind kind, task_id task)
{
	for (size_t i = 0; i < w->n_events; i++)
		if (w->events[i].kind == kind && w->events[i].task == task)
			return true;
	return false;
}

#endif
