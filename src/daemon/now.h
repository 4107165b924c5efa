/* SPDX-License-Identifier: MIT
 *
 * The time that the core is told, from both clocks.
 */
#ifndef RAD_DAEMON_NOW_H
#define RAD_DAEMON_NOW_H

#include "base/clock.h"
#include "core/core.h"

static inline struct now now_read(void)
{
	return (struct now){ clock_mono_ms(), clock_wall_ms() };
}

#endif
