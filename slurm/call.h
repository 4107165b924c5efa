/* SPDX-License-Identifier: MIT
 *
 * A program of ours, run from within one of Slurm's: slurmstepd, sbatch, srun. It has a deadline, and is killed at its end, so
 * that nothing of ours hangs there, and no library of ours is loaded there.
 */
#ifndef RAD_SLURM_CALL_H
#define RAD_SLURM_CALL_H

#include <stddef.h>
#include <stdint.h>

#define CALL_LATE (-1)		/* it was killed at its deadline */
#define CALL_FAILED (-2)	/* it could not be run, or was killed by somebody */

/* Runs argv[0], looked for in PATH if it is no path, with no more of the environment than `environ` (NULL: the caller's); its
 * standard output goes into out, cut and ended by a NUL beyond *n bytes. to_stderr 0: its messages go nowhere. Returns its exit
 * code, or one of the above, a second after the deadline at the latest. */
int call_run(char *const argv[], char *const environ[], int64_t limit_ms, int to_stderr, char *out, size_t size, size_t *n);

#endif
