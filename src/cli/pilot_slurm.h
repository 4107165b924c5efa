/* SPDX-License-Identifier: MIT
 *
 * What a pilot asks Slurm, by its commands: they are there wherever jobs run, of whatever release, and bind us to no library.
 */
#ifndef RAD_CLI_PILOT_SLURM_H
#define RAD_CLI_PILOT_SLURM_H

#include "base/buf.h"
#include "base/error.h"
#include "cli/pilot.h"

#include <jansson.h>

/* Fills job, cluster, restarts and host of *who from the environment of a job; job "" outside of one. */
void pilot_slurm_who(struct pilot_who *who);
/* How long this job has left; INT64_MAX: no limit; -1: Slurm does not say. */
int64_t pilot_slurm_left_ms(const char *job);

enum pilot_slurm_fate {
	PILOT_SLURM_LIVES,	/* or may: it runs, or is being ended */
	PILOT_SLURM_GONE,	/* all its processes have ended, by Slurm's word */
	PILOT_SLURM_UNKNOWN,	/* no Slurm here, another cluster, or no answer */
};
/* What has become of the allocation of that pilot; *word: Slurm's own for it. */
enum pilot_slurm_fate pilot_slurm_fate(const struct pilot_who *who, const char *cluster, char word[40]);
/* The same from what `scontrol show job -o` printed, and whether it succeeded. */
enum pilot_slurm_fate pilot_slurm_fate_of(const char *text, bool succeeded, const struct pilot_who *who, char word[40]);

/* Runs a command, its input from `input` (NULL: none), for at most `seconds`. The exit code; -1: not there, too slow, or this
 * process heard a signal meanwhile, which is not to wait for Slurm. Output and errors together, bounded. */
int pilot_slurm_run(char *const argv[], const char *input, int seconds, struct buf *out);

/* "1-02:03:04", "UNLIMITED": as squeue prints what is left. -1: neither. */
int64_t pilot_slurm_parse_left_ms(const char *text);
/* The same of that job's line, of `squeue -h -o "%A %L"`. */
int64_t pilot_slurm_parse_left_of(const char *text, const char *job);

/* Jobs at Slurm; of these, those that have not begun, and which (a list of numbers): what `squeue -h -o "%t %A"` printed is
 * added. */
struct pilot_slurm_jobs { long there, waiting; json_t *which; };
void pilot_slurm_parse_jobs(const char *text, struct pilot_slurm_jobs *jobs);

#endif
