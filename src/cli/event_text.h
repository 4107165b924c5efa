/* SPDX-License-Identifier: MIT
 *
 * One event of a task as a line for people.
 */
#ifndef RAD_CLI_EVENT_TEXT_H
#define RAD_CLI_EVENT_TEXT_H

#include <jansson.h>

/* What an event {"event","data","by"} of radd's answer to `events` says, in words; "" where its name is all. `gpus`: that
 * member of the answer to `gpus`. Free it. */
char *event_text(const json_t *event, const json_t *gpus);

#endif
