/* SPDX-License-Identifier: MIT
 *
 * Task ids as people write them and as `rad queue` prints them: 12, 12_3, 12_[4-7,9], 4-9, and lists of these with commas.
 */
#ifndef RAD_CLI_IDS_H
#define RAD_CLI_IDS_H

#include "base/error.h"
#include "cli/cli.h"
#include "task/task.h"

#include <stdbool.h>
#include <stddef.h>

#define IDS_MAX 10000	/* at once: what radd takes in one message */

struct ids {
	task_id *list;	/* owned; each once, ascending */
	size_t n, cap;
	bool several;	/* written as a range or a list: some of them may not be there */
};

/* Adds what one word says; zeroed memory is none. Steps ("12_[4-9:2]") and the limit that Slurm prints behind an array's ranges
 * ("12_[4-9%2]") are read, the limit says nothing here. Returns 0; or -1, and what is in *ids stays to be cleared. */
int ids_add(const char *word, struct ids *ids, struct error *err);
void ids_clear(struct ids *ids);
/* For a verb whose words are ids: whether it has one, and `max` at most, and each can be read; asked before anything is done.
 * False: it was told, and c->rc says that the verb was used wrongly. */
bool ids_want(struct cli_call *c, size_t max);
/* The same of a word that is to be the id of one task. */
bool ids_want_one(struct cli_call *c, const char *word);
/* Takes out what scontrol's users write around ids: a "job" in front, "JobId=12,13". Returns how many words are left. */
size_t ids_bare_words(char **words, size_t n);
/* Whether the task is one of them: itself, or as an element of an array that is there as a whole. */
bool ids_have(const struct ids *ids, task_id id);

#endif
