/* SPDX-License-Identifier: MIT
 *
 * A process that is there already, as a task: what `rad adopt` and `rad lease` say of it to radd.
 */
#ifndef RAD_CLI_PROCESS_H
#define RAD_CLI_PROCESS_H

#include "base/args.h"
#include "base/error.h"
#include "task/spec.h"

/* A spec about that process, named by its command line; NULL if there is none of that number. */
struct spec *process_spec(pid_t pid, struct error *err);
/* "123": a pid. 0 or -1. */
int process_parse_pid(const char *word, pid_t *pid, struct error *err);

/* Options of submissions that go with a process, by the rows of the table that all of them share: the value that was given,
 * NULL for none. Sets them in the spec. */
struct process_option { const char *name, *value; };
int process_set(struct spec *s, const struct process_option *options, size_t n, struct error *err);

#endif
