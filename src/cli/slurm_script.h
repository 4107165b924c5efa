/* SPDX-License-Identifier: MIT
 *
 * What the `#RAD` lines of a script ask for, as slurmctld's plugin needs it: read with nothing but the C library, and in one
 * pass, since slurmctld waits.
 */
#ifndef RAD_CLI_SLURM_SCRIPT_H
#define RAD_CLI_SLURM_SCRIPT_H

#include "cli/slurm_conf.h"

/* Fills claim_mib, gpus and exclusive. False: it says nothing of memory, or a value is none: that is the client's to refuse. */
bool slurm_script_wish(const char *script, struct slurm_wish *w);

#endif
