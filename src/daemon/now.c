/* SPDX-License-Identifier: MIT
 * Two clocks: see now.h.
 */
#include "daemon/now.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/scope.h"

#include <stdlib.h>

#define SET_MS 1000	/* less, all steps together, is a clock that is brought into step */
#define HELD_UP_MS 50	/* between two readings of clocks: then they do not belong together */

static struct {
	struct store *store;
	void (*set)(void *ctx, int64_t by_ms);
	void *ctx;
	int64_t ahead_ms;
} watch;

/* The wall clock before the time since boot. */
static int64_t now_ahead_ms(void)
{
	int64_t before, wall;
	do {
		before = clock_boot_ms();
		wall = clock_wall_ms();
	} while (clock_boot_ms() - before > HELD_UP_MS);
	return wall - before;
}

static void now_note(int64_t ahead_ms)
{
	struct error err = ERROR_INIT;
	scoped_free char *text = alloc_printf("%lld", (long long)ahead_ms);
	watch.ahead_ms = ahead_ms;
	if (store_set_meta(watch.store, "clock", text, &err))
		log_error("the offset of the wall clock cannot be stored: %s", err.text);
}

static void now_look(void)
{
	int64_t ahead_ms = now_ahead_ms(), by_ms = ahead_ms - watch.ahead_ms;
	if (llabs(by_ms) < SET_MS)	/* and is not forgotten: small steps add up, here as they do to a restart */
		return;
	log_warn("the wall clock was set %s by %.1f s: times of tasks move along", by_ms > 0 ? "forward" : "back",
		 (double)llabs(by_ms) / 1000);
	now_note(ahead_ms);	/* first: `set` asks for the time, too */
	watch.set(watch.ctx, by_ms);
}

struct now now_read(void)
{
	if (watch.store)
		now_look();
	return (struct now){ clock_mono_ms(), clock_wall_ms() };
}

int64_t now_set_since(struct store *s)
{
	scoped_free char *text = store_get_meta(s, "clock");
	int64_t by_ms = text ? now_ahead_ms() - strtoll(text, NULL, 10) : 0;
	return llabs(by_ms) < SET_MS ? 0 : by_ms;
}

void now_watch(struct store *s, void (*set)(void *ctx, int64_t by_ms), void *ctx)
{
	watch.store = s;
	watch.set = set;
	watch.ctx = ctx;
	if (s)
		now_note(now_ahead_ms());
}
