/* SPDX-License-Identifier: MIT
 *
 * Time. Monotonic time measures, wall time tells people. Both are milliseconds in int64_t; names end in _ms.
 * Pure stages never call these: they are given the time.
 */
#ifndef RAD_BASE_CLOCK_H
#define RAD_BASE_CLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

int64_t clock_mono_ms(void);
int64_t clock_mono_us(void);
int64_t clock_boot_ms(void);	/* as monotonic, and goes on while the machine is suspended */
int64_t clock_wall_ms(void);

#define CLOCK_ISO_LEN 25
/* "2026-11-20T16:36:07.123Z"; "" for 0 (unknown) and before 1970. Returns buf. */
char *clock_iso(int64_t wall_ms, char buf[CLOCK_ISO_LEN]);
/* Whether its month has that day: timegm makes the 30th of February the 2nd of March. */
bool clock_is_day(const struct tm *tm);
/* Reads that form, with or without a fraction of up to three digits, and with "Z" or without (taken as UTC). Returns 0, or -1
 * if it is not one. */
int clock_parse_iso(const char *text, int64_t *wall_ms);

#endif
