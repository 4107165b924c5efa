/* SPDX-License-Identifier: MIT
 *
 * Means over time in bounded memory: some values of one GPU, kept in parts of equal length. When time passes the last part,
 * parts are joined in pairs, so a series of a minute and one of a month take the same room. Sums are exact: a part's mean is
 * the integral over it, divided by the time that is known. Pure.
 */
#ifndef RAD_ACCOUNT_SERIES_H
#define RAD_ACCOUNT_SERIES_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#define SERIES_PARTS 480	/* at most; even */

enum series_value { SERIES_MEM_MIB, SERIES_SMACT, SERIES_GRACT, SERIES_POWER_W, SERIES_VALUES };

/* Zeroed memory is an empty one; freed by series_clear. */
struct series {
	int64_t origin_ms, step_ms;	/* of the first part; of each */
	size_t n;
	struct series_part { double sum[SERIES_VALUES], ms[SERIES_VALUES]; } *parts;
};

/* These values stood from one time to the other; NaN: that one is not known. The first call sets the origin, and time before
 * it is left out. */
void series_add(struct series *s, int64_t from_ms, int64_t to_ms, const double values[SERIES_VALUES]);
/* NaN: not known. */
double series_mean(const struct series *s, size_t part, enum series_value value);
/* {"step_s", "mem_mib":[], "smact":[], "gract":[], "power_w":[]}: one value a part, null: not known. */
json_t *series_to_json(const struct series *s);
void series_clear(struct series *s);

#endif
