/* SPDX-License-Identifier: MIT
 *
 * How far running tasks are: their shims say it in the attempts' records, a few seconds old; here it is read and told to the
 * core. So is what they take of the machine's memory, of those that said what they need: who comes near that is to be told.
 */
#ifndef RAD_DAEMON_PACING_H
#define RAD_DAEMON_PACING_H

#include "core/core.h"
#include "launch/launch.h"

#include <uv.h>

struct pacing;

/* The task took nine tenths of the host memory that it asked for, or more. Once for each attempt, as long as radd runs. */
typedef void (*pacing_near)(void *ctx, const struct task *t, uint64_t host_mib);

/* `core` and what `home` points at outlive it. */
struct pacing *pacing_create(uv_loop_t *loop, struct core *core, const struct launch_home *home, pacing_near near, void *ctx);
/* Its memory goes when the loop has closed its timer. Takes NULL. */
void pacing_destroy(struct pacing *p);

/* Looks at one task now. Returns what it was seen to take of the machine's memory, in MiB; 0: not known. */
uint64_t pacing_look(struct core *core, const struct launch_home *home, const struct task *t);

#endif
