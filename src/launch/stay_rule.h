/* SPDX-License-Identifier: MIT
 *
 * What CUDA_VISIBLE_DEVICES is to be in a task that was given some GPUs and sets it itself. Scripts count from 0, as if they
 * had the machine, or just the GPUs that they asked for: that is what a number means in a container, and is to mean here.
 * Pure; allocates nothing.
 */
#ifndef RAD_LAUNCH_STAY_RULE_H
#define RAD_LAUNCH_STAY_RULE_H

#include <stdbool.h>
#include <stddef.h>

#define STAY_BYTES 4096		/* most of a list, with its end: 64 MIG instances by UUID fit */

/* `given`: what radd set, n entries, indices or UUIDs; `value`: what it is set to now. True: it is to be *out instead. False:
 * it stays as it is, and *out is worth nothing. Of the value counts what CUDA reads (tried out, and told in
 * device/nvml_choice.c): the numbers up to the first word that is none, so "0\r" and "0,-1" are 0.
 *  - Each number is one of `given`: stays. Who chooses among the GPUs that he found means these (Ray, accelerate). So a number
 *    that can be read in two ways, "1" of given "1,2", names the machine's GPU 1, as it would without this rule.
 *  - Else, if all are below n, they count among the given ones. If one is not below n, the first given ones are taken, as many
 *    as there are numbers.
 *  - Where none was given, nothing is left, not even a UUID.
 *  - All else stays: nothing or "-1" (no GPU), UUIDs (whoever writes one means that GPU), more numbers than were given (who
 *    takes more than he asked for would fail in strange ways with fewer), one twice (CUDA refuses that, and is to), and what is
 *    too long.
 * What it makes stays, so to apply it again changes nothing. */
bool stay_rule(const char *given, const char *value, char out[STAY_BYTES]);

#endif
