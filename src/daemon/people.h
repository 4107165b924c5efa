/* SPDX-License-Identifier: MIT
 *
 * Processes as people are shown them: whose they are by name, and of what they run only as much as the asker may see. Names of
 * programs and scripts are for everybody, since who waits for a GPU wants to know for whom; arguments, in which people put
 * tokens and paths, for the owner and administrators.
 */
#ifndef RAD_DAEMON_PEOPLE_H
#define RAD_DAEMON_PEOPLE_H

#include "daemon/names.h"

#include <jansson.h>

/* `list`: objects with pid, uid, task, start_time, program and command, as the core makes them. Each gets `user` (null: not
 * known); `command` becomes null for whom it is not; one that is no task's gets `text`, which names it in one line: "alice's
 * python train.py (pid 123, 3 h)". */
void people_show(struct names *n, uid_t asker, json_t *list);
/* Of the findings of placement (`gpus` of rad why): as above for those in `foreign`, which are named in `text` where they are
 * what stands in the way. */
void people_explain(struct names *n, uid_t asker, json_t *findings);

#endif
