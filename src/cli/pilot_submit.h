/* SPDX-License-Identifier: MIT
 *
 * `rad pilot --submit`: as many allocations as the queue has work for.
 */
#ifndef RAD_CLI_PILOT_SUBMIT_H
#define RAD_CLI_PILOT_SUBMIT_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pilot_submit {
	const char *queue;
	int64_t most, each;		/* allocations at one time; waiting tasks for which one is asked */
	const char *time, *idle;	/* as sbatch has it; of each pilot. NULL: not said */
	char **sbatch;			/* further options of sbatch's; ends with NULL */
	bool json;
};

/* Asks once. Returns the exit code. */
int pilot_submit_once(const struct pilot_submit *s, struct error *err);

#endif
