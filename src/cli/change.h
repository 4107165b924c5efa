/* SPDX-License-Identifier: MIT
 *
 * Changing tasks: sending one request for each word of ids, or one for all that a selection found, which is asked about first.
 */
#ifndef RAD_CLI_CHANGE_H
#define RAD_CLI_CHANGE_H

#include "cli/cli.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* What cancel, hold, release, suspend, resume and requeue take beside ids. */
struct change_selection {
	const char *user, *name, *states;	/* as given; NULL: not */
	const char *default_states;		/* of tasks that the verb is for */
	bool all;				/* one's own, without any of these */
	bool yes;				/* do not ask */
	bool json;
	bool force;				/* of a requeue in a queue of files */
	int signal;				/* to be sent, and nothing else done; 0: none */
};

#define CHANGE_OPTIONS(s) \
	{ "user", 'u', "USER", "this user's tasks (name or uid; all: everybody's)", .value = &(s).user }, \
	{ "name", 'n', "PATTERN", "tasks of this name, or one of these: *, ? and [...] as in the shell", .value = &(s).name }, \
	{ "state", 't', "LIST", "tasks in these states, by code or word: PD,R,F", .words = CLI_STATES, .value = &(s).states }, \
	{ "yes", 'y', NULL, "do not ask before changing what was selected", .flag = &(s).yes }, \
	{ "json", 0, NULL, "print JSON", .flag = &(s).json }

/* For each word, one request (a copy of `request`) with what it names; goes on after one that failed, and tells. Returns the
 * exit code. */
int change_words(struct cli_call *c, const json_t *request, bool json);
/* One request for all that the words name together. */
int change_at_once(struct cli_call *c, const json_t *request, bool json);
/* The words where nothing is selected, else what is: the caller's own tasks unless a user is given, and those among the words
 * if there are any. On a terminal the person is asked. */
int change_selected(struct cli_call *c, const struct change_selection *s);

#endif
