/* SPDX-License-Identifier: MIT
 * Folding by rule: see folding.h. One step after the other, each in pieces. Each piece is part of a turn's
 * transaction, so a failure is that turn's (doc/decisions/0003), and a restart finds what was done. There is a pause
 * between two pieces: nobody waits for this, and everybody for the loop.
 */
#include "daemon/folding.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"

#include <stdlib.h>

#define FIRST_MS (5 * 60 * 1000)
#define EVERY_MS (24 * 60 * 60 * 1000)
#define PAUSE_MS 100
#define PIECE 32	/* tasks */
#define PAGES 64	/* of the file, given back in one piece */
/* What was taught by one signature: some thousand runs say no more than their sums, and estimates rest on few. */
#define TAUGHT_BY_ONE 2000

struct folding {
	uv_timer_t timer;
	struct store *store;
	const struct core *core;
	const struct settings *config;
	struct store_folding at;
	struct store_trimming trimming;
	enum { FOLDING_FOLDS, FOLDING_FORGETS, FOLDING_KEEPS, FOLDING_TRIMS, FOLDING_SHRINKS, FOLDING_STEPS } what;
	bool begun;		/* with that step */
};

bool folding_named(void *core, task_id id)
{
	return core_is_waited_for(core, id);
}

/* Until when tasks are concerned by the step. */
static int64_t folding_before(const struct folding *f)
{
	int64_t after = f->what == FOLDING_FOLDS ? f->config->fold_after_ms : f->config->forget_after_ms;
	if (f->what == FOLDING_KEEPS)
		return f->config->keep_tasks ? store_kept_from(f->store, f->config->keep_tasks) : 0;
	return after ? clock_wall_ms() - after : 0;
}

static int folding_piece(struct folding *f, struct error *err)
{
	if (f->what == FOLDING_SHRINKS)
		return store_shrink(f->store, PAGES, err);
	if (f->what == FOLDING_TRIMS)
		return store_trim_outcomes(f->store, &f->trimming, clock_wall_ms() - FOLDING_TAUGHT_MS, TAUGHT_BY_ONE,
					   FOLDING_TAUGHT_MOST, err);
	if (!f->begun)
		f->at = (struct store_folding){ .before_ms = folding_before(f), .forget = f->what == FOLDING_FORGETS,
						.purge = f->what == FOLDING_KEEPS, .named = folding_named, .ctx = (void *)f->core };
	f->begun = true;
	return store_fold(f->store, &f->at, PIECE, err);
}

static void on_time(uv_timer_t *timer)
{
	struct folding *f = timer->data;
	struct error err = ERROR_INIT;
	int rc = folding_piece(f, &err);
	if (rc < 0)
		log_warn_limited("folding what ended long ago: %s", err.text);
	if (rc) {	/* also after an error: the other steps have their own */
		store_trimming_clear(&f->trimming);
		f->what = (f->what + 1) % FOLDING_STEPS;
		f->begun = false;
	}
	uv_timer_start(timer, on_time, rc && f->what == FOLDING_FOLDS ? EVERY_MS : PAUSE_MS, 0);
}

struct folding *folding_create(uv_loop_t *loop, struct store *store, const struct core *core, const struct settings *config)
{
	struct folding *f = alloc_zero(sizeof *f);
	f->store = store;
	f->core = core;
	f->config = config;
	f->timer.data = f;
	uv_timer_init(loop, &f->timer);
	uv_timer_start(&f->timer, on_time, FIRST_MS, 0);
	return f;
}

static void on_closed(uv_handle_t *h)
{
	struct folding *f = h->data;
	store_trimming_clear(&f->trimming);
	free(f);
}

void folding_destroy(struct folding *f)
{
	if (f)
		uv_close((uv_handle_t *)&f->timer, on_closed);
}
