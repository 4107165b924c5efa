/* SPDX-License-Identifier: MIT
 *
 * The tasks of `rad top`: those of a user, those that hold a text, in an order, with one of them chosen.
 */
#ifndef RAD_CLI_TOP_LIST_H
#define RAD_CLI_TOP_LIST_H

#include "cli/queue_table.h"
#include "task/task.h"

#include <stdbool.h>

#define TOP_LIST_WORD 80

/* Zeroed memory shows everything in the order of the queue. */
struct top_list {
	char user[TOP_LIST_WORD];	/* whose; "": everybody's */
	char find[TOP_LIST_WORD];	/* in the id, the name, the user or the reason; "": any */
	unsigned by;			/* what it is sorted by */
	bool reverse;
	/* The rest is its own. */
	json_t *some;			/* of the tasks */
	struct queue_rows rows;
	struct table *table;
	char id[TASK_ID_TEXT];		/* the chosen one stays so when others come and go */
	size_t at, first;		/* its row; the first row that is shown */
};

/* Anew, after other tasks came or what is looked for was changed. Keeps references. */
void top_list_update(struct top_list *l, const json_t *tasks, const json_t *gpus);
void top_list_clear(struct top_list *l);
/* The next thing that it can be sorted by, or the one before. */
void top_list_sort(struct top_list *l, int step);
/* The title of that column; NULL: the order of the queue. */
const char *top_list_order(const struct top_list *l);
/* Chooses the row so many further down (up where negative); it stops at the ends. */
void top_list_move(struct top_list *l, long by);
/* The id of the chosen task, of an array its first element that is there; NULL: there is none. */
const char *top_list_chosen(const struct top_list *l);
/* All tasks of the chosen row: the first (borrowed), and their ids as people write them ("12_[3-7]"; free it). NULL: there is
 * none. */
const json_t *top_list_chosen_row(const struct top_list *l, char **ids);
/* In so many lines, titles included. Returns how many were written. */
unsigned top_list_print(struct top_list *l, unsigned lines, const struct term *term, FILE *out);

#endif
