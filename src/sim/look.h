/* SPDX-License-Identifier: MIT
 *
 * What simulations tell the core: the time, how attempts end, and when a GPU is to be shown to it again.
 */
#ifndef RAD_SIM_LOOK_H
#define RAD_SIM_LOOK_H

#include "sim/sim.h"
#include "sim/world.h"

#define LOOK_MONO_MS 1000000		/* at 0 of the simulation's clock; the core takes 0 for "never" */
#define LOOK_WALL_MS 1700000000000
#define LOOK_PROGRESS_MS 20000		/* a task that prints its progress is known to after so long: load, three steps, a look */

static inline struct now look_now(int64_t now_ms)
{
	return (struct now){ LOOK_MONO_MS + now_ms, LOOK_WALL_MS + now_ms };
}

/* All but `event` and `estimate`: nobody warns tasks of limits here, and none waits for another. */
struct core_ops look_ops(void *ctx);
/* What the shim of an attempt would report that ended by itself (NULL), or of this one that ran out of memory. One whose
 * context was refused tells no size. */
struct exit_report look_exit(const struct world_task *refused);
/* The place of the device with that UUID in the list of devices. */
uint32_t look_place(const char *uuid);
/* When looking at that GPU may next show the core something new, if nothing happens there until then; INT64_MAX: never. */
int64_t look_next(const struct sim_options *o, const struct core *core, const struct world_gpu *g, int64_t now_ms);

#endif
