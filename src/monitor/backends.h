/* SPDX-License-Identifier: MIT
 * The backends behind the table of monitor.h. Private to this stage.
 */
#ifndef RAD_MONITOR_BACKENDS_H
#define RAD_MONITOR_BACKENDS_H

#include "monitor/monitor.h"

extern const struct monitor_backend simdev_backend, nvml_backend;

#endif
