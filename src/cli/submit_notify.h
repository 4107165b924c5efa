/* SPDX-License-Identifier: MIT
 *
 * What the caller always wants to be told, and where: ~/.config/rad/notify.
 */
#ifndef RAD_CLI_SUBMIT_NOTIFY_H
#define RAD_CLI_SUBMIT_NOTIFY_H

#include "base/error.h"
#include "task/spec.h"

/* Fills what the task does not say itself: from that file; a place without events means "end", events without a place a mail to
 * the caller. *note: what will keep notices from being sent, as text to be freed; NULL: nothing that can be seen from here. */
int submit_notify_settle(struct spec *s, char **note, struct error *err);

#endif
