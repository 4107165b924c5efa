/* SPDX-License-Identifier: MIT
 *
 * The host's ledger: how much of the machine's memory and how many of its CPUs running tasks have asked for (`--mem`,
 * `--cpus-per-task`), so that no more is given than there is:
 *	free = capacity - sum of what running tasks asked for
 * What tasks really use is not counted: a task that asks for nothing holds nothing, and what is free here may be in use. But a
 * CPU task holds a CPU at least: its GPUs do not bound how many run, and it is there to compute.
 * (Which tasks share a GPU also depends on the cores that are really used: core/fleet.h.)
 *
 * What one user's tasks ask for the loader of one feed (`--feed-cpus`, `--feed-mem`) counts once, the largest of their
 * requests: it is held from when the first of them begins until the last has ended, whichever of them runs the loader.
 */
#ifndef RAD_CORE_HOST_H
#define RAD_CORE_HOST_H

#include "core/core.h"
#include "core/vacated.h"

struct host;

struct host_room { uint64_t mem_mib; unsigned cpus; };

/* `config` is the core's, and stays valid: capacities are read from it each time. */
struct host *host_create(const struct core_config *config);
/* Takes NULL. */
void host_destroy(struct host *h);

/* The task's attempt was placed, or found again after a restart. */
void host_begin(struct host *h, const struct task *t);
/* The task's attempt has ended. */
void host_end(struct host *h, task_id id);
/* Keeps what the task asks for from all others until it begins or host_give_up is called for it; nothing where it is kept for
 * another task already, or where it is the other kind's turn, of which one was refused before. */
void host_keep(struct host *h, const struct task *t);
/* Returns whether anything was kept for it. */
bool host_give_up(struct host *h, task_id id);
/* The first CPU task that nobody may pass: what is kept for another one is not. */
void host_give_way(struct host *h, task_id first);
/* Tasks of that kind were asked: if it was their turn, and none took it, it is over. */
enum host_kind { HOST_ANY, HOST_GPU_TASKS, HOST_CPU_TASKS };
void host_end_turn(struct host *h, enum host_kind kind);

/* What the tasks of that list ask for is kept from all others, as it is each time; while there are any, host_keep keeps nothing
 * for others. The list stays valid. */
void host_keep_vacated(struct host *h, const struct vacated_list *for_whom);

/* The ledger as timeslots.h looks at it: `gone` is given back, and those who come before have taken `taken`, in place of what
 * is kept for whom others make place. */
struct host_look { struct host_room gone, taken; };
/* The task takes what it asks for. */
void host_look_take(const struct host *h, struct host_look *look, const struct task *t);

/* Whether there is room for the task, in the look where one is given; if not, what is lacking, with the arithmetic in `why`
 * (NULL: not wanted). */
#define HOST_TEXT 200
enum host_lack { HOST_FITS, HOST_LACKS_MEMORY, HOST_LACKS_CPUS };
enum host_lack host_asks(const struct host *h, const struct task *t, const struct host_look *look, char why[HOST_TEXT]);
/* What all running tasks hold, loaders of feeds included. */
struct host_room host_held(const struct host *h);
/* What one running task holds, without its feed's loader; zeroed: nothing. */
struct host_room host_held_by(const struct host *h, task_id id);
/* Whether this machine could ever give the task what it asks for, `mem_mib` being its own memory. 0, or -1 with why not. */
int host_feasible(const struct core_config *config, const struct spec *spec, uint64_t mem_mib, struct error *err);

#endif
