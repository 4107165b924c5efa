/* SPDX-License-Identifier: MIT
 *
 * What `rad top` has done to the chosen task: one request at a time, whose answer is taken when it comes. Whether it may be
 * done is radd's to say, as to any other command.
 */
#ifndef RAD_CLI_TOP_ACT_H
#define RAD_CLI_TOP_ACT_H

#include "base/error.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* Zeroed memory has asked nothing. */
struct top_act {
	char op[16];			/* "cancel", "hold" or "release"; "": none was chosen */
	char ids[200];			/* of whom, as people write it; cut, if it is long */
	json_t *request;		/* made, and not sent before it is confirmed; NULL: none */
	struct client_asked *asking;	/* sent; NULL: nothing is under way */
};

/* Makes the request for the tasks that `ids` names ("12_[3-7]"), as long as they are in that state. Nothing is sent. */
int top_act_choose(struct top_act *a, const char *op, const char *ids, const char *state, struct error *err);
/* Sends it. */
int top_act_send(struct top_act *a, struct error *err);
/* It is not sent. */
void top_act_forget(struct top_act *a);
/* What to wait for; -1: nothing. */
int top_act_fd(const struct top_act *a);
/* Takes what has come. True: the answer is whole, or there is none, and the text says what came of it. */
bool top_act_take(struct top_act *a, char *text, size_t size);
void top_act_clear(struct top_act *a);

#endif
