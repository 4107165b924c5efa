/* SPDX-License-Identifier: MIT
 *
 * The fields of a task that lists can have as columns, a row each, by the names that squeue and sacct have for them.
 */
#ifndef RAD_CLI_COLUMN_FIELDS_H
#define RAD_CLI_COLUMN_FIELDS_H

#include <jansson.h>
#include <stddef.h>

/* Whose form values have: squeue's ("5:00", N/A) or sacct's ("00:05:00", Unknown). */
enum column_form { COLUMN_SQUEUE, COLUMN_SACCT };

#define COLUMN_MEMBERS 3

struct column_field {
	char letter;		/* squeue's; 0: none */
	const char *name;	/* sacct's, or where it has none squeue's long one, or ours */
	const char *also;	/* other names for it, blanks between them; NULL: none */
	const char *title;	/* in the form of squeue */
	unsigned width;		/* in the form of sacct */
	/* Of a task as radd tells it; `gpus` is the member of that name of its answer. Free it. */
	char *(*value)(const json_t *task, const json_t *gpus, enum column_form form);
	/* What it is sorted by; NULL: its text. */
	double (*number)(const json_t *task);
	/* What radd is asked for it beside id, name, user and state; NULL: nothing. */
	const char *members[COLUMN_MEMBERS];
};

/* NULL where nothing has that name (its case does not count), or that letter. */
const struct column_field *column_fields_find(const char *name);
const struct column_field *column_fields_letter(char letter);
/* The row after this one, of all (NULL: the first); NULL at the end. */
const struct column_field *column_fields_next(const struct column_field *f);
/* The name nearest to a mistyped one; NULL: none is near. */
const char *column_fields_near(const char *name);

#endif
