/* SPDX-License-Identifier: MIT
 *
 * What `rad monitor` shows people: a table of now, renewed in its place, and at a command's end a table of means.
 */
#ifndef RAD_CLI_WATCH_TABLE_H
#define RAD_CLI_WATCH_TABLE_H

#include "device/reading.h"
#include "monitor/rows.h"

#include <stddef.h>

/* Over what it drew the last time, of which *lines is how many there were, 0 at first. */
void watch_table_draw(const struct snapshot *s, const struct rows_process *processes, size_t n, unsigned *lines);

/* Means over the whole time. */
struct watch_table_means;
struct watch_table_means *watch_table_means_create(void);
void watch_table_means_destroy(struct watch_table_means *m);	/* takes NULL */
/* The readings, as they come; each speaks for the time since the one before. */
void watch_table_means_add(struct watch_table_means *m, const struct snapshot *s);
/* On stderr, since stdout is the command's. */
void watch_table_means_print(const struct watch_table_means *m);

#endif
