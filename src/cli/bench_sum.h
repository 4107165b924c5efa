/* SPDX-License-Identifier: MIT
 *
 * What the rows of a bench come to. Pure.
 */
#ifndef RAD_CLI_BENCH_SUM_H
#define RAD_CLI_BENCH_SUM_H

#include "cli/bench.h"

/* The work for which `energy_j` is told: what each task does alone in so many seconds. */
#define BENCH_WORK_S 60

/* A list with an object for each mode and degree (of serial: for each command), in the order of the modes; means over its rows:
 *	mode degree tasks[{name steps_s relative slowdown}] stp delta gract smact smocc dram pcie_rx_mib_s pcie_tx_mib_s power_w
 *	energy_j mem_used_mib repeats spread
 * relative: steps a second against those of the command alone (serial); slowdown is one over it. stp: their sum.
 * delta: equation 4.1 of Tabrizian's thesis, sum of 1 / steps_s alone over the largest 1 / steps_s of them together.
 * energy_j: power_w * BENCH_WORK_S * degree / stp: until all have done that work, at their mean pace.
 * spread: of STP between the repeats, (largest - smallest) / mean; null of one.
 * Where it could not be measured: mode degree error. Members that are not known are null. */
json_t *bench_sum(const json_t *rows);

#endif
