/* SPDX-License-Identifier: MIT
 *
 * A simulation as a report: what the devices showed is collected while it runs, tasks and sums come after it.
 */
#ifndef RAD_CLI_SIMULATION_REPORT_H
#define RAD_CLI_SIMULATION_REPORT_H

#include "sim/sim.h"

struct report;
struct report_run;

/* One run, called by its placement, with the devices known. Free it by report_destroy. */
struct report *simulation_report_create(const struct sim_options *o, struct report_run **run);
/* Tasks and sums, and all of it to that file (cli/report_save.h). */
int simulation_report_save(struct report *r, struct report_run *run, const struct sim_options *o,
			   const struct sim_result *result, const char *path, struct error *err);

#endif
