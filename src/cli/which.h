/* SPDX-License-Identifier: MIT
 *
 * Which tasks a verb means: those of a user, in some states, of a name, by their ids; all of what is said must hold.
 */
#ifndef RAD_CLI_WHICH_H
#define RAD_CLI_WHICH_H

#include "base/error.h"
#include "cli/format.h"
#include "cli/ids.h"
#include "task/task.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* Zeroed memory is everybody's tasks in no state. */
struct which {
	json_t *users;			/* their names as keys; NULL: everybody's */
	bool states[TASK_STATE_COUNT];
	bool ended;			/* some of them are terminal */
	const char *name;		/* a pattern as the shell's, or several with commas between them; NULL: any. Borrowed */
	struct ids ids;			/* none: all */
	bool fold;			/* elements of an array that wait for the same may come as one task ("elements", "count") */
};

/* Names or numbers with commas between them; "all" for everybody. NULL: the caller's own. */
int which_users(struct which *w, const char *user, struct error *err);
/* "PD,R", "running", "all". */
int which_states(struct which *w, const char *words, struct error *err);
int which_ids(struct which *w, char *const *words, size_t n, struct error *err);
void which_clear(struct which *w);

/* All that is known of the tasks that the words name, in their order: {"schema","tasks"}, a new reference. Those of a range or
 * a list that are not there are passed over, unless none is. A word that is no id: ERR_INVALID. */
json_t *which_show(char *const *words, size_t n, struct error *err);
/* The same over a connection that is there already, or is made (client_look_on). Of the elements of an array that is named as a
 * whole only these members, beside id, name, user and state (NULL: all): of thousands, all takes many times as long. */
json_t *which_show_on(int *fd, char *const *words, size_t n, const char *const *members, size_t n_members, struct error *err);
/* All of a task of which that told only some; the same where it is gone meanwhile. A new reference. */
json_t *which_show_whole(int *fd, json_t *task);

/* Whether a task object is meant; one with id, user, name and state is enough. */
bool which_has(const struct which *w, const json_t *task);

/* The tasks that are meant, as radd has them: running first, then in turn; where states of ended tasks are asked for, those too
 * that ended in the last day, and all by id. Of the living only those members (NULL: all), id, user, name and state.
 * {"schema","tasks","truncated"}, a new reference. ERR_NOT_FOUND when ids were named and none of them is there. */
json_t *which_fetch(const struct which *w, const char *const *members, size_t n_members, struct error *err);

/* Adds to the names what a list of GPUs names, as people are shown those of a task: "0-3,5", UUIDs too. */
void which_gpus(const char *list, json_t *names);

#endif
