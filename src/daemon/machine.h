/* SPDX-License-Identifier: MIT
 *
 * What this machine, or the part of it that the daemon is given, has of memory and CPUs.
 */
#ifndef RAD_DAEMON_MACHINE_H
#define RAD_DAEMON_MACHINE_H

#include "core/core.h"
#include "settings/settings.h"

struct device;

/* The config with `auto` capacities of the host replaced by what is there; 0 where that cannot be read. Nobody is placed by the
 * cores that tasks are seen to take where the kernel does not tell how long threads wait for one, nor, unless host_cpus is set,
 * beside devices that are made up: what stands in for trainings there takes next to nothing. And no GPU counts as silent
 * between two samples. */
struct core_config machine_fill(const struct settings *config, const struct device *device);

/* The log says whether, and by how many. */
void machine_tell_cores(const struct core_config *filled);

/* Has the kernel limit what each task takes of the machine's memory to what it asked for, where that can be had; the log says
 * whether. */
void machine_take_memory(void);

#endif
