/* SPDX-License-Identifier: MIT
 *
 * Means over time in bounded memory: some values of one GPU, kept in parts of equal length. When time passes the last part,
 * parts are joined in pairs, so a series of a minute and one of a month take the same room. Sums are exact: a part's mean is
 * the integral over it, divided by the time that is known. Pure.
 */
#ifndef RAD_ACCOUNT_SERIES_H
#define RAD_ACCOUNT_SERIES_H

#include "device/reading.h"

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#define SERIES_PARTS 480	/* at most; even */

/* radd keeps those before SERIES_KEPT; the others are of readings alone (`rad monitor`). */
enum series_value {
	SERIES_MEM_MIB, SERIES_SMACT, SERIES_GRACT, SERIES_POWER_W, SERIES_SMOCC, SERIES_DRAM, SERIES_PCIE_RX, SERIES_PCIE_TX,
	SERIES_KEPT,
	SERIES_TENSOR = SERIES_KEPT, SERIES_FP16, SERIES_FP32, SERIES_FP64, SERIES_NVLINK_RX, SERIES_NVLINK_TX, SERIES_SM_MHZ,
	SERIES_OF_GPUS,		/* those behind are of processes that were watched */
	SERIES_CORES = SERIES_OF_GPUS, SERIES_RSS_MIB, SERIES_READ, SERIES_WRITE, SERIES_NET_RX, SERIES_NET_TX,
	SERIES_VALUES
};

/* As members of JSON and columns of CSV: "mem_mib". */
const char *series_name(enum series_value value);
/* NaN: that reading does not tell it. */
void series_of_reading(const struct gpu_reading *r, double values[SERIES_VALUES]);

/* Zeroed memory is an empty one; freed by series_clear. */
struct series {
	int64_t origin_ms, step_ms;	/* of the first part; of each. 0: nothing was added yet */
	size_t n;
	struct series_part { double sum, ms; } *parts[SERIES_VALUES];	/* SERIES_PARTS of each; NULL: nothing is known of it */
};

/* These values stood from one time to the other; NaN: that one is not known. The first call sets the origin, and time before
 * it is left out. */
void series_add(struct series *s, int64_t from_ms, int64_t to_ms, const double values[SERIES_VALUES]);
/* NaN: not known. */
double series_mean(const struct series *s, size_t part, enum series_value value);
/* {"step_s", "mem_mib":[], "smact":[], "gract":[], "power_w":[]} and a list by name for each other value of which anything is
 * known: one value a part, null: not known. */
json_t *series_to_json(const struct series *s);
void series_clear(struct series *s);

#endif
