/* SPDX-License-Identifier: MIT
 *
 * The host's ledger: how much of the machine's memory and how many of its CPUs running tasks have asked for (`--mem`,
 * `--cpus-per-task`), so that no more is given than there is:
 *	free = capacity - sum of what running tasks asked for
 * A task that asks for nothing takes nothing, as ever: what it really uses is not counted, and what is free here may be in use.
 * (Cores that are used decide in core/fleet.h who shares a GPU, whatever was asked for.)
 * What tasks of one user ask for the loader of one feed (`--feed-cpus`, `--feed-mem`) is one ask, the largest of them: it is
 * held from when the first of them begins until the last has ended, whichever of them runs the loader.
 */
#ifndef RAD_CORE_HOST_H
#define RAD_CORE_HOST_H

#include "core/core.h"

struct host;

struct host_room { uint64_t mem_mib; unsigned cpus; };

/* `config` is the core's, and stays valid: capacities are read from it each time. */
struct host *host_create(const struct core_config *config);
/* Takes NULL. */
void host_destroy(struct host *h);

/* Its attempt was placed, or found again after a restart; it ended. */
void host_begin(struct host *h, const struct task *t);
void host_end(struct host *h, task_id id);
/* Nobody else gets what that task asks for, until it begins, another one is named, or it is given up. */
void host_keep(struct host *h, const struct task *t);
void host_give_up(struct host *h, task_id id);

/* Whether there is room, were `more` free as well; else in which way not, with the arithmetic in `why` (NULL: not wanted). */
#define HOST_TEXT 200
enum host_lack { HOST_FITS, HOST_LACKS_MEMORY, HOST_LACKS_CPUS };
enum host_lack host_asks(const struct host *h, const struct task *t, struct host_room more, char why[HOST_TEXT]);
/* What running tasks asked for in sum, and one of them, its feed's left out; zeroed: nothing. */
struct host_room host_held(const struct host *h);
struct host_room host_held_by(const struct host *h, task_id id);
/* Whether this machine could ever give that task what it asks for, `mem_mib` for itself; -1 with why not. */
int host_feasible(const struct core_config *config, const struct spec *spec, uint64_t mem_mib, struct error *err);

#endif
