/* SPDX-License-Identifier: MIT
 *
 * Members of the daemon's objects, with "unknown" in one form each.
 */
#ifndef RAD_CLI_MEMBER_H
#define RAD_CLI_MEMBER_H

#include "task/task.h"

#include <jansson.h>

/* A string member; "" when absent or null. Borrowed. */
const char *member_text(const json_t *o, const char *key);
/* A number member; NaN when absent or null. */
double member_number(const json_t *o, const char *key);
json_int_t member_int(const json_t *o, const char *key);
/* A time as ms since 1970; `unknown` when absent or null. */
int64_t member_ms(const json_t *o, const char *key, int64_t unknown);
/* Its member "id"; 0 when that is none. */
task_id member_id(const json_t *task);
/* The member of a member, "estimate.claim_mib", whether radd told it so (wire `list`) or within its object; of a list, of its
 * last. NULL: there is none. Borrowed. */
const json_t *member_deep(const json_t *o, const char *path);
double member_deep_number(const json_t *o, const char *path);
/* The state; TASK_STATE_COUNT if it is a word we do not know. */
enum task_state member_state(const json_t *task);
/* The last attempt; NULL when there is none. */
json_t *member_last_attempt(const json_t *task);
/* A number of each attempt: their sum, or the largest; NaN where none of them has it. */
double member_over_attempts(const json_t *task, const char *key, bool sum);
/* Has radd's answer say only these members of each task, and its id, name, user and state: of ten thousand, a few members are
 * much less to make and to read. */
void member_want(json_t *request, const char *const *members, size_t n);
/* The first in the list whose member of that name is this text; NULL: none is. Borrowed. */
json_t *member_find(const json_t *list, const char *key, const char *text);
/* Whether both are elements of one array that wait for the same: people see them as one. */
bool member_wait_alike(const json_t *a, const json_t *b);
/* Its output goes to its user's terminal, or where it went before rad, and no log was asked for. */
bool member_logs_nowhere(const json_t *task);

#endif
