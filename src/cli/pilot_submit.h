/* SPDX-License-Identifier: MIT
 *
 * `rad pilot --submit`: as many allocations as the queue has work for.
 */
#ifndef RAD_CLI_PILOT_SUBMIT_H
#define RAD_CLI_PILOT_SUBMIT_H

#include "base/error.h"

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pilot_submit {
	const char *queue;
	int64_t most, each;		/* allocations at one time; waiting tasks for which one is asked */
	const char *time, *idle;	/* as sbatch has it; of each pilot. NULL: not said */
	char **sbatch;			/* further options of sbatch's; ends with NULL */
	bool json;
	int64_t every_ms;		/* between two rounds of who stays */
};

/* Asks once: 0; -1. */
int pilot_submit_once(const struct pilot_submit *s, struct error *err);
/* Asks until it is told to end; gives up allocations that have not begun and that nothing waits for any more. The first round
 * may fail as pilot_submit_once does; later ones are tried again. */
int pilot_submit_stay(const struct pilot_submit *s, const volatile sig_atomic_t *told_to_end, struct error *err);

#endif
