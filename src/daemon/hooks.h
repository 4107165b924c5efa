/* SPDX-License-Identifier: MIT
 *
 * The administrator's programs around each attempt (settings `prolog` and `epilog`): run with radd's rights, so only if nobody
 * but root, or the user whose own radd this is, could have written them. They are told of the task by their environment, and
 * have a deadline.
 *
 * A prolog that fails is no fault of the task's: its launch waits, is told (rad why, doctor, log) and tried again, as with
 * anything else that this machine is short of (doc/decisions/0096); the prolog runs again with it. An epilog runs when the end
 * of the attempt is on disk and holds up nothing but, when many of one user's wait, his next starts: who ends tasks faster than
 * they are cleaned up after would fill radd's memory, and the machine with what is to be cleaned up. Its failure is told. Both
 * may run again for an attempt when radd was restarted meanwhile.
 */
#ifndef RAD_DAEMON_HOOKS_H
#define RAD_DAEMON_HOOKS_H

#include "settings/settings.h"
#include "store/store.h"
#include "task/task.h"

#include <jansson.h>
#include <uv.h>

struct hooks;
struct hook;

/* The settings are read each time; they and the store are the caller's, and outlive it. Epilogs that the radd before this one
 * did not see the end of wait to be run (again). */
struct hooks *hooks_create(uv_loop_t *loop, const struct settings *config, struct store *store);
/* Ends what runs. Frees itself once the loop has closed its handles. Takes NULL. */
void hooks_destroy(struct hooks *h);

/* Tells of each program named there that would not be run, and why; returns how many. Each launch asks again: it may be mended
 * meanwhile. Tells of a file of settings, too, that others than root may write, and so have root's radd run what they like. */
unsigned hooks_check(const struct settings *config, void (*tell)(void *ctx, const char *text), void *ctx);
/* Whether there is a prolog. */
bool hooks_has_prolog(const struct hooks *h);
/* Runs it for the last attempt of the task. `done` comes once, later, from the loop; `why` NULL: all is well. */
typedef void (*hook_done)(void *ctx, const char *why);
struct hook *hooks_prolog(struct hooks *h, const struct task *t, hook_done done, void *ctx);
/* Ends a prolog whose end no longer matters; `done` will not come. Not to be called after `done`. Takes NULL. */
void hooks_leave(struct hook *hook);

/* An attempt of the task ended, which is not committed yet: notes its epilog, in the same transaction, for hooks_work. */
void hooks_note_end(struct hooks *h, const struct event *ended, const struct task *t);
/* In words, why the user's next launch has to wait: too many of the user's epilogs wait. NULL: it need not. Valid until the
 * next call. */
const char *hooks_hold_back(const struct hooks *h, uid_t uid);
/* After the commit: starts the epilogs that were noted, a few at a time. */
void hooks_work(struct hooks *h);
/* Appends {"check","text"} where one may not be run now, or an epilog failed within the last hour. */
void hooks_tell(const struct hooks *h, json_t *troubles);

#endif
