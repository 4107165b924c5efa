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
/* Reads what was said in an earlier life. */
int allowing_restore(struct allowing *a, struct error *err);
/* Settings, names or groups changed. */
void allowing_forget(struct allowing *a);

/* Never waits: while the user database has not said in which groups he is, he is in none. */
struct allowance allowing_of(struct allowing *a, uid_t uid);
/* Whether that is all that is to be known, or all that can be. */
bool allowing_is_known(struct allowing *a, uid_t uid);
/* Where one of his limits stands, in words; valid until the next call. */
const char *allowing_source(struct allowing *a, uid_t uid, enum allowance_kind kind);
/* Whether he gave himself a limit that is none, since what he may have is less. */
bool allowing_own_is_void(struct allowing *a, uid_t uid, enum allowance_kind kind);
/* What he gives himself, or an administrator gives him, in the open transaction: limits as in rad.conf, "default" takes one
 * back; what is not named stays. */
int allowing_say(struct allowing *a, uid_t uid, bool own, const char *text, struct error *err);

#endif
