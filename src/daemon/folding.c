/* SPDX-License-Identifier: MIT
 * Folding by rule: see folding.h. Each piece is part of a turn's transaction, so a failure is that turn's (doc/decisions/0003),
 * and a restart finds what was folded. There is a pause between two pieces: nobody waits for this, and everybody for the loop.
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

struct folding {
	uv_timer_t timer;
	struct store *store;
	const struct settings *config;
	struct store_folding at;
	enum { FOLDING_NOTHING, FOLDING_FOLDS, FOLDING_FORGETS } what;
};

static void folding_begin(struct folding *f)
{
	int64_t after = f->what == FOLDING_FOLDS ? f->config->fold_after_ms : f->config->forget_after_ms;
	f->at = (struct store_folding){ .before_ms = after ? clock_wall_ms() - after : 0, .forget = f->what == FOLDING_FORGETS };
}

static void on_time(uv_timer_t *timer)
{
	struct folding *f = timer->data;
	struct error err = ERROR_INIT;
	if (f->what == FOLDING_NOTHING) {
		f->what = FOLDING_FOLDS;
		folding_begin(f);
	}
	int rc = store_fold(f->store, &f->at, PIECE, &err);
	if (rc < 0)
		log_warn_limited("folding what ended long ago: %s", err.text);
	if (rc > 0 && f->what == FOLDING_FOLDS) {
		f->what = FOLDING_FORGETS;
		folding_begin(f);
		rc = 0;
	}
	if (rc)
		f->what = FOLDING_NOTHING;
	uv_timer_start(timer, on_time, rc ? EVERY_MS : PAUSE_MS, 0);
}

struct folding *folding_create(uv_loop_t *loop, struct store *store, const struct settings *config)
{
	struct folding *f = alloc_zero(sizeof *f);
	f->store = store;
	f->config = config;
	f->timer.data = f;
	uv_timer_init(loop, &f->timer);
	uv_timer_start(&f->timer, on_time, FIRST_MS, 0);
	return f;
}

static void on_closed(uv_handle_t *h)
{
	free(h->data);
}

void folding_destroy(struct folding *f)
{
	if (f)
		uv_close((uv_handle_t *)&f->timer, on_closed);
}
