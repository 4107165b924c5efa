/* SPDX-License-Identifier: MIT
 *
 * All options of Slurm's sbatch, a row each: what it comes to on one machine without accounts and partitions.
 */
#ifndef RAD_SUBMIT_SBATCH_H
#define RAD_SUBMIT_SBATCH_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum sbatch_kind {
	SBATCH_OBEYED,	/* it is an option of ours: `said` is its name in submit_options */
	SBATCH_COUNTED,	/* a number that others are multiplied by, see sbatch_sum */
	SBATCH_IDLE,	/* it means nothing here: `said` is why */
	SBATCH_REFUSED,	/* without it the script would do something else than it says: `said` is what to do instead */
};

struct sbatch_option {
	const char *name;	/* without dashes */
	char letter;		/* 0: none */
	char value;		/* '=': needs one; '?': may have one, joined with "="; 0: a flag */
	enum sbatch_kind kind;
	const char *said;
};

/* By its long name, or the beginning of one alone, as getopt_long finds it. NULL: sbatch has none. */
const struct sbatch_option *sbatch_find(const char *name);
const struct sbatch_option *sbatch_find_letter(char letter);
/* The long name nearest to a mistyped one; NULL: none is near. */
const char *sbatch_near(const char *name);

/* Why a value of this option cannot be obeyed here though others can ("--nodes=2"). 0, or -1. */
int sbatch_check(const struct sbatch_option *o, const char *value, struct error *err);
/* Whether a value of an obeyed option means nothing ("--exclusive=user"). */
bool sbatch_is_idle(const struct sbatch_option *o, const char *value);

/* What the counted ones of a script say; 0 and NULL: nothing. Texts are borrowed. */
struct sbatch_counts {
	int64_t ntasks, ntasks_per_node, cpus_per_gpu, mincpus;
	uint64_t mem_per_cpu_mib, mem_per_gpu_mib;
	char gpu_type[64];	/* of --gpus-per-task */
	int64_t gpus_per_task;
};
/* Notes one of them. 0, or -1 with what is wrong with the value. */
int sbatch_count(struct sbatch_counts *c, const struct sbatch_option *o, const char *value, struct error *err);

/* sbatch starts a script once, with the GPUs, CPUs and memory of all its tasks. `gpus` and `cpus_per_task`: what the script
 * says by itself, 0: nothing. Each sum is 0 where nothing of it is said by counts. */
struct sbatch_sum { int64_t gpus, cpus; uint64_t mem_mib; };
struct sbatch_sum sbatch_sum(const struct sbatch_counts *c, int64_t gpus, int64_t cpus_per_task);

#endif
