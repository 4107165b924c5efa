/* SPDX-License-Identifier: MIT
 *
 * Members of the daemon's objects as text for people.
 */
#ifndef RAD_CLI_FORMAT_H
#define RAD_CLI_FORMAT_H

#include "cli/table.h"
#include "task/task.h"

#include <jansson.h>
#include <stdbool.h>

/* A string member; "" when absent or null. Borrowed. */
const char *member_text(const json_t *o, const char *key);
/* A number member; NaN when absent or null. */
double member_number(const json_t *o, const char *key);
json_int_t member_int(const json_t *o, const char *key);
/* The state; TASK_STATE_COUNT if it is a word we do not know. */
enum task_state member_state(const json_t *task);
/* The last attempt; NULL when there is none. */
json_t *last_attempt(const json_t *task);

#define FORMAT_LEN 64
/* Each returns buf; "-" for what is unknown. */
char *format_mib(double mib, char buf[FORMAT_LEN]);
char *format_seconds(double s, char buf[FORMAT_LEN]);
char *format_percent(double fraction, char buf[FORMAT_LEN]);
char *format_energy(double joules, char buf[FORMAT_LEN]);
/* An ISO time of the daemon in the caller's time zone, to the second. */
char *format_time(const char *iso, char buf[FORMAT_LEN]);

enum style format_state_style(enum task_state s);

/* Indices of these UUIDs in the answer to `gpus`: "0,1"; a UUID's beginning where it is not listed. Free it. */
char *format_gpus(const json_t *uuids, const json_t *gpus);

/* What a shell would see of this ended task: its exit code, 128 + signal; 1 where it did not complete, but its program
 * ended with 0; CLI_OWN when it never ran or was lost. */
int format_exit_code(const json_t *task);

#endif
