/* SPDX-License-Identifier: MIT
 *
 * What a submitter wants to be told of his task, and where: the words of --notify and --notify-to.
 */
#ifndef RAD_SUBMIT_NOTICES_H
#define RAD_SUBMIT_NOTICES_H

#include "base/error.h"

#include <stdbool.h>

/* Of a list such as "end,oom". begin: its first start; end: it ended, however; fail: it ended, and did not complete, and nobody
 * cancelled it; oom: an attempt ran out of GPU memory, whether it is run again or not; slot: its time slot is over; mem: it is
 * near the memory of the machine that it asked for, or above. */
#define NOTICES "begin end fail oom slot mem none"
#define NOTICES_MAX_TO 1000

/* 0, or -1 with what is wrong: an unknown word; a place that is none of mail:ADDRESS, https://..., http://..., exec:/PATH. */
int notices_check(const char *list, struct error *err);
int notices_check_to(const char *to, struct error *err);
/* Whether the list (NULL: none) has that word. */
bool notices_has(const char *list, const char *word);

#endif
