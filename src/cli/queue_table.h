/* SPDX-License-Identifier: MIT
 *
 * The table of tasks of `rad queue` and `rad top`: a line a task, but one for all elements of an array that wait for the same.
 */
#ifndef RAD_CLI_QUEUE_TABLE_H
#define RAD_CLI_QUEUE_TABLE_H

#include "base/buf.h"
#include "cli/table.h"
#include "cli/term.h"
#include "task/task.h"

#include <jansson.h>
#include <stddef.h>
#include <stdio.h>

/* What radd is asked of each task for the table, beside id, name, user and state. */
#define QUEUE_TABLE_MEMBERS 9
extern const char *const queue_table_members[QUEUE_TABLE_MEMBERS];

/* A line: one task, or elements of one array in the order of their indices. */
struct queue_row { json_t **tasks; size_t n; };
struct queue_rows { json_t **list; size_t n_tasks; struct queue_row *rows; size_t n; };

/* Of task objects in the order of the queue; borrows them. Rows may be put into another order. `each`: a row for each
 * element. */
struct queue_rows queue_table_rows(const json_t *tasks, bool each);
void queue_table_clear(struct queue_rows *r);

/* The same of tasks of one array that are in the same state for the same reason, whichever lie between them: by job, then
 * by state. */
struct queue_rows queue_table_groups(const json_t *tasks);

/* "12_[3-7,9%4]" for elements of one array in the order of their indices, as Slurm writes it: with the limit, while they wait;
 * "12" for a task. Free it. */
char *queue_table_ids(json_t *const *first, size_t n);
/* Appends "3-7,9" for elements of one array, as Slurm writes them. */
void queue_table_add_elements(struct buf *out, json_t *const *tasks, size_t n);

/* How many tasks are in each state; the last is for what is none. */
void queue_table_count(const json_t *tasks, size_t counts[TASK_STATE_COUNT + 1]);

/* `gpus`: that member of the answer to `gpus`. Destroy it with table_destroy. */
struct table *queue_table_create(const struct queue_rows *rows, const json_t *gpus);
/* `bare`: without titles. */
void queue_table_print(const json_t *tasks, const json_t *gpus, bool bare, bool each, const struct term *term, FILE *out);

#endif
