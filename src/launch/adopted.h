/* SPDX-License-Identifier: MIT
 *
 * Attempts that are a process which was there already (`rad adopt`, `rad lease`): nothing is started, and there is no shim,
 * no folder and no record. The process itself stands where a shim would: the daemon watches it by pidfd, and knows it again
 * after a restart by its pid and start time. It is nobody's child here, so how it ended is known to nobody.
 *
 * It is the user's own and goes on being that. So a signal reaches it, and what descends from it, only where the user could
 * have sent it himself: he could otherwise have root signal the set-uid programs that he calls.
 *
 * One that an administrator's program announced (`announced` of the spec) is that program's watcher over the user's processes,
 * which descend from it. It tells how they ended; where it ends without a word, they are gone.
 */
#ifndef RAD_LAUNCH_ADOPTED_H
#define RAD_LAUNCH_ADOPTED_H

#include "base/error.h"
#include "base/proc.h"
#include "recover/recover.h"
#include "task/task.h"

/* Whether that process may become a task of that user: it is there since then, and all its uids are his. -1 with the reason;
 * ERR_UNAVAILABLE where it cannot be looked at for want of a descriptor. */
int adopted_check(struct proc_id process, uid_t uid, struct error *err);

/* The following are launch.h's, for such a task. */
bool adopted_is(const struct task *t);
bool adopted_find(const struct task *t, struct proc_id *process);
void adopted_result(const struct task *t, bool *claimed, struct exit_report *r);
/* As family_signal. */
int adopted_signal(const struct task *t, int signal, int handled);
size_t adopted_processes(const struct task *t, pid_t **pids);

#endif
