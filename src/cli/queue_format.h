/* SPDX-License-Identifier: MIT
 *
 * Lists of tasks in a form of one's own, in squeue's language: "%.18i %.8j %.8u %.2t %.10M %R".
 */
#ifndef RAD_CLI_QUEUE_FORMAT_H
#define RAD_CLI_QUEUE_FORMAT_H

#include "base/error.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

/* Refuses what stands for nothing here. */
int queue_format_check(const char *format, struct error *err);
/* What radd has to be asked of each task for it, beside id, name, user and state: fills the list and returns how many. */
#define QUEUE_FORMAT_MEMBERS 16
size_t queue_format_members(const char *format, const char *members[QUEUE_FORMAT_MEMBERS]);
/* A line of titles, unless not wanted, and one for each task; `gpus` is the member of radd's answer. */
void queue_format_print(const char *format, bool titles, const json_t *tasks, const json_t *gpus, FILE *out);

#endif
