/* SPDX-License-Identifier: MIT
 *
 * What this machine, or the part of it that the daemon is given, has of memory and CPUs.
 */
#ifndef RAD_DAEMON_MACHINE_H
#define RAD_DAEMON_MACHINE_H

#include "core/core.h"

/* The config with `auto` capacities of the host replaced by what is there; 0 where that cannot be read. */
struct core_config machine_fill(const struct core_config *config);

/* Has the kernel limit what each task takes of the machine's memory to what it asked for, where that can be had; the log says
 * whether. */
void machine_take_memory(void);

#endif
