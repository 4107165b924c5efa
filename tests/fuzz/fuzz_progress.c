/* SPDX-License-Identifier: MIT
 * Readers of progress, fed arbitrary output in pieces, a second apart: what they say stays within its bounds, and is a number.
 */
#include "fuzz.h"

#include "parse/progress.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

static bool between(double v, double least, double most)
{
	return isfinite(v) && v >= least && v <= most;
}

static void check_report(const struct progress_report *r, int64_t now_ms)
{
	FUZZ_HOLDS(r->source < PROGRESS_SOURCE_COUNT && r->t_ms >= 0 && r->t_ms <= now_ms);
	FUZZ_HOLDS(r->done >= 0 && r->total >= 0 && r->done <= r->total && r->total <= PROGRESS_MOST);
	FUZZ_HOLDS(r->epochs >= 0 && r->epochs <= PROGRESS_MOST + 1 && r->epoch >= 0 && (!r->epochs || r->epoch <= r->epochs));
	FUZZ_HOLDS(r->fraction == -1 || between(r->fraction, 0, 1));
	FUZZ_HOLDS((r->left_s == -1 && r->spread_s == -1) || (r->left_s >= 0 && between(r->spread_s, 0, r->left_s)));
	FUZZ_HOLDS(between(r->per_s, 0, 1e30) && between(r->whole_units, 0, 1e30) && between(r->advanced, 0, 1e30));
	FUZZ_HOLDS(r->stands_ms >= 0 && r->series >= 0);
	FUZZ_HOLDS(memchr(r->unit, 0, sizeof r->unit));
	for (const char *u = r->unit; *u; u++)
		FUZZ_HOLDS(*u >= 'a' && *u <= 'z');
	FUZZ_HOLDS(r->source != PROGRESS_NONE || (r->fraction == -1 && !r->total));
}

static void feed(const uint8_t *data, size_t size, size_t piece, int64_t hint)
{
	struct progress *p = progress_create(hint);
	struct progress_report r;
	int64_t now_ms = 1000;
	for (size_t at = 0; at < size; at += piece, now_ms += 1000) {
		progress_feed(p, (const char *)data + at, piece < size - at ? piece : size - at, now_ms);
		progress_read(p, &r);
		check_report(&r, now_ms);
		if (at % 7 == 6)
			progress_skip(p);
	}
	progress_destroy(p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	bool named = false;
	int64_t epochs = 0;
	feed(data, size, 7, 0);
	feed(data, size, 120, 3);
	feed(data, size, 4096, -1);
	progress_epochs_word((const char *)data, size, &named, &epochs);
	FUZZ_HOLDS(epochs >= -1 && epochs <= PROGRESS_MOST);
	return 0;
}
