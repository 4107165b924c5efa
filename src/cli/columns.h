/* SPDX-License-Identifier: MIT
 *
 * Lists of tasks in a form of one's own: in squeue's language of letters ("%.18i %.8j %R"), or by names as sacct and squeue's
 * --Format have them ("JobID,State%20,Elapsed", "jobid:8,name:.20"). And in an order of one's own.
 */
#ifndef RAD_CLI_COLUMNS_H
#define RAD_CLI_COLUMNS_H

#include "base/error.h"
#include "cli/column_fields.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

struct column_set;

/* Refuses what stands for nothing here, with what is near and what there is. NULL: that. */
struct column_set *columns_parse(const char *text, enum column_form form, struct error *err);
void columns_destroy(struct column_set *c);
/* No widths: `delimiter` between the columns, and behind the last one if `behind`. */
void columns_delimit(struct column_set *c, const char *delimiter, bool behind);

/* What radd has to be asked of each task for it, beside id, name, user and state: fills the list and returns how many. */
#define COLUMNS_MEMBERS 32
size_t columns_members(const struct column_set *c, const char *members[COLUMNS_MEMBERS]);
/* Lines of titles, unless not wanted, and one for each task; `gpus` is the member of radd's answer. */
void columns_print(const struct column_set *c, bool titles, const json_t *tasks, const json_t *gpus, FILE *out);
/* The names of all fields, four in a line, as sacct's --helpformat has them. */
void columns_list(FILE *out);

/* Sorts a list of tasks by fields with commas between them, letters of squeue's or names, '-' in front of one that goes down;
 * what is alike stays in its order. Members of all of them are added to the list of what is asked for. */
int columns_sort_check(const char *keys, struct error *err);
size_t columns_sort_members(const char *keys, const char *members[COLUMNS_MEMBERS], size_t n);
void columns_sort(json_t *tasks, const char *keys, const json_t *gpus);

#endif
