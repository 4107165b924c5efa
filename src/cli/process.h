/* SPDX-License-Identifier: MIT
 *
 * A process that is there already, as a task: what `rad adopt` and `rad lease` say of it to radd.
 */
#ifndef RAD_CLI_PROCESS_H
#define RAD_CLI_PROCESS_H

#include "base/args.h"
#include "base/error.h"
#include "cli/cli.h"
#include "task/spec.h"

/* A spec about that process, named by its command line; NULL if there is none of that number. */
struct spec *process_spec(pid_t pid, struct error *err);
/* Whether a word is a pid. False: it was told, and c->rc says that the verb was used wrongly. */
bool process_want_pid(struct cli_call *c, const char *word, pid_t *pid);

/* Options of submissions that go with a process, by the rows of the table that all of them share: the value that was given,
 * NULL for none. Sets them in the spec. */
struct process_option { const char *name, *value; };
int process_set(struct spec *s, const struct process_option *options, size_t n, struct error *err);

#endif
