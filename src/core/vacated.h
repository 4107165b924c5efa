/* SPDX-License-Identifier: MIT
 *
 * For whom others make place, and where: nobody else starts there. timeslots.c finds who that is, the pass keeps the list and
 * the GPUs (pass_vacate), and the host sees there what to keep of its memory and CPUs.
 */
#ifndef RAD_CORE_VACATED_H
#define RAD_CORE_VACATED_H

#include "task/task.h"

/* A task that waits. `awaited`: not all have gone yet, or one of its GPUs settles. */
struct vacated { const struct task *task; uint32_t slots[SPEC_MAX_GPUS]; unsigned n; bool awaited; };
struct vacated_list { struct vacated *list; size_t n, cap; };

#endif
