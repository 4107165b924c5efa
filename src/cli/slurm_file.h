/* SPDX-License-Identifier: MIT
 *
 * What a script says to sbatch, and what it says to radd alone: for rad sbatch, which hands it to Slurm.
 */
#ifndef RAD_CLI_SLURM_FILE_H
#define RAD_CLI_SLURM_FILE_H

/* The partitions of a job of that script whose command line names none: SBATCH_PARTITION, else its #SBATCH lines (the last
 * one). NULL: Slurm's default one. Free it. */
char *slurm_file_partition(const char *script);

/* Options in its #RAD lines, and keys of a .rad file, by which radd starts a task when and how it is to, and of which Slurm is
 * not told: "--time, --priority". NULL: there are none. Free it. */
char *slurm_file_idle(const char *path);

#endif
