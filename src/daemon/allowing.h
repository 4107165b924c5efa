/* SPDX-License-Identifier: MIT
 *
 * What each user may have at one time (queue/allowance.h): what rad.conf says of him, his groups or everybody (settings/who.h),
 * unless an administrator said otherwise while radd ran, and no more than he gave himself. What was said to radd is in its
 * store.
 */
#ifndef RAD_DAEMON_ALLOWING_H
#define RAD_DAEMON_ALLOWING_H

#include "base/error.h"
#include "daemon/names.h"
#include "queue/allowance.h"
#include "settings/settings.h"
#include "store/store.h"

#include <stdbool.h>
#include <sys/types.h>

struct allowing;

/* `names` and `groups` are asked whose name that is and in which groups he is. All of them outlive it. */
struct allowing *allowing_create(struct store *store, struct names *names, struct names *groups, const struct settings *config);
/* Takes NULL. */
void allowing_destroy(struct allowing *a);
/* Reads the limits that were set before a restart. */
int allowing_restore(struct allowing *a, struct error *err);
/* Settings, names or groups changed: what users may have is found out anew. */
void allowing_forget(struct allowing *a);

/* What the user may have. Never waits: until the user database has said in which groups the user is, it is in none. */
struct allowance allowing_of(struct allowing *a, uid_t uid);
/* Whether name and groups of the user are known, as far as the user database tells them. */
bool allowing_is_known(struct allowing *a, uid_t uid);
/* In words, where that limit of the user is set; valid until the next call. */
const char *allowing_source(struct allowing *a, uid_t uid, enum allowance_kind kind);
/* How many users it has a row of. */
size_t allowing_rows(const struct allowing *a);
/* Whether the user's own limit has no effect, since the user may have less anyway. */
bool allowing_own_is_void(struct allowing *a, uid_t uid, enum allowance_kind kind);
/* Sets limits of the user, in the open transaction: the user's own (`own`), or an administrator's. `text` as in rad.conf;
 * "default" takes a limit back; limits that it does not name stay. 0, or -1 with nothing changed. */
int allowing_say(struct allowing *a, uid_t uid, bool own, const char *text, struct error *err);

#endif
