/* SPDX-License-Identifier: MIT
 *
 * What processes take of the machine beside its GPUs: each with all that descend from it, by what /proc tells its reader of
 * them. For whoever watches (`rad monitor`); radd decides nothing by it.
 */
#ifndef RAD_MONITOR_USAGE_H
#define RAD_MONITOR_USAGE_H

#include "base/proc.h"

/* NaN: not known. Rates are means since the look before. */
struct usage_figures {
	double cores;				/* busy ones; also those of children that have ended in between */
	double rss_mib;				/* resident pages; those that processes share count once for each */
	double read_mib_s, write_mib_s;		/* of disks; of another user's processes nobody but root is told */
	/* Of all interfaces but the loopback that the process sees: Linux counts them for the machine or the container, not for
	 * a process. */
	double net_rx_mib_s, net_tx_mib_s;
};

struct usage;

struct usage *usage_create(void);
void usage_destroy(struct usage *u);	/* takes NULL */

/* A look at these processes; those of the look before that are not among them are forgotten. One that descends from another of
 * them counts for itself alone. Descendants are searched for twice a second at most, so that a look costs little. */
void usage_look(struct usage *u, const struct proc_id *processes, size_t n, int64_t mono_ms);
/* Of the last look. */
struct usage_figures usage_of(const struct usage *u, struct proc_id process);

#endif
