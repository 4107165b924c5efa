/* SPDX-License-Identifier: MIT
 *
 * Ended tasks as sacct lists them: by jobs, states, users and names, in columns of one's own.
 */
#ifndef RAD_CLI_ACCT_LIST_H
#define RAD_CLI_ACCT_LIST_H

#include "cli/cli.h"

#include <jansson.h>
#include <stdbool.h>

struct acct_list {
	const char *format, *delimiter, *jobs, *states, *name, *users;	/* as given; NULL: not */
	bool brief, bare, parsable, parsable2, fields, allocations;
};

#define ACCT_LIST_OPTIONS(l) \
	{ "format", 'o', "FIELDS", "a line a task, in columns as sacct has them: JobID,JobName%20,State,Elapsed,MaxRSS", \
	  .value = &(l).format }, \
	{ "brief", 'b', NULL, "the same with JobID,State,ExitCode", .flag = &(l).brief }, \
	{ "jobs", 'j', "LIST", "only these, however long ago: 12,14_[0-3]; ids may stand alone, too", .value = &(l).jobs }, \
	{ "state", 's', "LIST", "only tasks that ended so: CD,F,OOM,CA,TO,LO", .words = "CD F OOM CA TO LO all", \
	  .value = &(l).states }, \
	{ "name", 0, "PATTERN", "only tasks of this name, or one of these: *, ? and [...] as in the shell", .value = &(l).name }, \
	{ "noheader", 'n', NULL, "no titles above the columns", .flag = &(l).bare }, \
	{ "parsable2", 'P', NULL, "columns with | between them, and no widths", .flag = &(l).parsable2 }, \
	{ "parsable", 'p', NULL, "the same, and one more behind the last", .flag = &(l).parsable }, \
	{ "delimiter", 0, "TEXT", "with these, in the place of |", .value = &(l).delimiter }, \
	{ "helpformat", 'e', NULL, "names the fields there are", .flag = &(l).fields }, \
	{ "allocations", 'X', NULL, "one line a task, as always: there are no steps", .flag = &(l).allocations }

/* Whether any of these was given, or a word that names a task: then tasks are listed, and not summed up. */
bool acct_list_wanted(const struct acct_list *l, const struct cli_call *c);
/* `request`: to `acct`, with its span and user; its reference is taken over. Returns the exit code. */
int acct_list_print(struct cli_call *c, const struct acct_list *l, json_t *request, bool json);

#endif
