/* SPDX-License-Identifier: MIT
 *
 * Reading and printing what people type: sizes, durations, whole numbers.
 */
#ifndef RAD_BASE_UNITS_H
#define RAD_BASE_UNITS_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

#define MIB ((uint64_t)1 << 20)
#define UNITS_TEN_YEARS_S ((int64_t)10 * 366 * 86400)	/* what is asked to take longer is a slip of the pen */

/* "20G", "512M", "1.5GiB", "40960" (MiB): binary, as NVML counts. Suffixes K M G T, with or without B/iB, any case.
 * Result in MiB, rounded up. Refuses negative, zero-length, trailing text, and more than 1 PiB. */
int units_parse_mib(const char *text, uint64_t *mib, struct error *err);

/* Slurm's forms: "MM", "MM:SS", "HH:MM:SS", "D-HH", "D-HH:MM", "D-HH:MM:SS"; also "90s", "15m", "1h30m", "2h", "1d".
 * The first number may be any ("90:00", "0-48"), those behind a ':' go to 59. Result in seconds, in [min_s, max_s]. */
int units_parse_duration(const char *text, int64_t min_s, int64_t max_s, int64_t *seconds, struct error *err);

/* A whole decimal number in [min, max], nothing else around it. */
int units_parse_int(const char *text, int64_t min, int64_t max, int64_t *value, struct error *err);

/* A finite decimal number in [min, max]. */
int units_parse_double(const char *text, double min, double max, double *value, struct error *err);

/* "19.5G", "512M": short, for tables. Returns buf. */
char *units_format_mib(double mib, char *buf, size_t size);

/* "1-02:03:04" or "02:03:04", "03:04": as Slurm's tables. Returns buf. */
char *units_format_duration(int64_t seconds, char *buf, size_t size);

#endif
