/* SPDX-License-Identifier: MIT
 *
 * One timer for what is due first.
 */
#ifndef RAD_DAEMON_TIMER_H
#define RAD_DAEMON_TIMER_H

#include "base/clock.h"

#include <stdint.h>
#include <uv.h>

#define TIMER_LOOK_MS 30000

/* Has on_time called at that moment, and at once where it is past. INT64_MAX: there is none. Both are of one clock. */
static inline void timer_set(uv_timer_t *timer, uv_timer_cb on_time, int64_t due_ms, int64_t now_ms)
{
	if (due_ms == INT64_MAX)
		uv_timer_stop(timer);
	else
		uv_timer_start(timer, on_time, due_ms > now_ms ? (uint64_t)(due_ms - now_ms) : 1, 0);
}

/* The same for a time of the wall clock, which may jump: on_time is called every half minute at the latest, and at the moment
 * itself while the clock goes as it should. */
static inline void timer_set_wall(uv_timer_t *timer, uv_timer_cb on_time, int64_t due_ms)
{
	int64_t now_ms = clock_wall_ms(), latest_ms = now_ms + TIMER_LOOK_MS;
	timer_set(timer, on_time, due_ms == INT64_MAX || due_ms < latest_ms ? due_ms : latest_ms, now_ms);
}

#endif
