/* SPDX-License-Identifier: MIT
 *
 * What the files of rad-slurm share.
 */
#ifndef RAD_SLURM_HELPER_H
#define RAD_SLURM_HELPER_H

#include "base/args.h"
#include "base/error.h"

#include <jansson.h>

#define HELPER_NOT_NOW 75	/* no place now */
#define HELPER_NEVER 74		/* nor later, as it was asked for */

/* Each a command: the exit code, or with an error -1, or minus the exit code. */
int helper_announce(int argc, char **argv, struct error *err);
int helper_depart(int argc, char **argv, struct error *err);
int helper_recover(int argc, char **argv, struct error *err);

/* Reads options. 0; 1: help was printed, and that is all; -1. */
int helper_options(int argc, char **argv, const struct args_option *options, struct error *err);

/* What the job's comment says of a run, and reads from it: "rad: oom: peak 39.2G of 40.0G (...) [restarts=0]"; of
 * several GPUs how many, too. */
#define COMMENT_MAX 400
void comment_write(char out[COMMENT_MAX], const json_t *task, const char *restarts, const char *node);
/* If it says that the run with so many restarts before it ended out of GPU memory: how many GPUs that had; else 0. */
unsigned comment_oom_gpus(const char *comment, long restarts);

#endif
