/* SPDX-License-Identifier: MIT
 *
 * `rad submit --radt exp.csv`: the experiments that radT runs, as tasks. Columns by name: Experiment, Workload, Name, Status,
 * Run, Devices, Collocation, Listeners, File, Params; File and Workload are needed.
 *
 *	rows of one Experiment and Workload	run together; the next workload's when all of these have ended
 *	Devices			how many GPUs ("1+2": two); radd chooses which. Rows that name one share them
 *	Collocation		MPS: share=mps; a MIG profile: an instance of that profile; - or nothing: time slicing beside rows of its
 *				Devices, else the GPUs alone
 *	File, Params		python in the file's folder, parameters cut at blanks, as radT does
 *	Experiment		MLFLOW_EXPERIMENT_ID in the task's environment
 *	Status			a workload whose rows all finished or failed is passed over
 *	Run, Listeners		mean nothing here: what runs is radd's to note, and it samples the GPUs itself
 */
#ifndef RAD_CLI_SUBMIT_RADT_H
#define RAD_CLI_SUBMIT_RADT_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

struct submit_radt_row {
	size_t line;		/* in the file */
	char *group;		/* "0+2": experiment and workload */
	char *experiment, *name, *folder;
	char **options;		/* as on a command line of rad submit, without what runs; owned words, NULL-terminated */
	char **words;		/* what runs; the same */
};

struct submit_radt {
	struct submit_radt_row *rows;	/* to be submitted, workload by workload in the order of their first rows */
	size_t n, cap;
	size_t passed_over;		/* rows of workloads that are done */
	char **notes;			/* what of the file has no meaning here; NULL-terminated; NULL: nothing */
	size_t n_notes;
};

/* Reads it, relative to the current folder. An error names the file, the line and the column. Clear it after a failure, too. */
int submit_radt_read(struct submit_radt *r, const char *path, struct error *err);
void submit_radt_clear(struct submit_radt *r);

#endif
