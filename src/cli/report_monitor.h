/* SPDX-License-Identifier: MIT
 *
 * What `rad monitor` wrote, as a run of a report.
 */
#ifndef RAD_CLI_REPORT_MONITOR_H
#define RAD_CLI_REPORT_MONITOR_H

#include "account/report.h"

/* Adds the CSV as a run of that name: its GPUs with what they showed, and each process that had a line as a task that ran from
 * its first line to its last. ERR_INVALID, with the line, where it is not such a file. */
int report_monitor_add(struct report *r, const char *name, const char *path, struct error *err);

#endif
