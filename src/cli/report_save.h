/* SPDX-License-Identifier: MIT
 *
 * Reports to files.
 */
#ifndef RAD_CLI_REPORT_SAVE_H
#define RAD_CLI_REPORT_SAVE_H

#include "account/report.h"
#include "base/error.h"

enum report_form { REPORT_BY_NAME, REPORT_TASKS_CSV, REPORT_SERIES_CSV };

/* Writes the report whole or not at all; "-" is stdout. By name: F.json gets JSON, F.csv the tasks as CSV, any other the
 * page. */
int report_save(const struct report *r, const char *path, enum report_form form, struct error *err);

#endif
