/* SPDX-License-Identifier: MIT
 *
 * Becoming the task's user for good.
 */
#ifndef RAD_LAUNCH_IDENTITY_H
#define RAD_LAUNCH_IDENTITY_H

#include "base/error.h"

#include <sys/types.h>

/* Takes on uid, gid and the user's supplementary groups, and makes sure that there is no way back. Without root it only
 * checks that we are that user already. `user` is who that was when it was asked for, maybe long ago: refused where the uid is
 * another account's by now, and a shortage (error.h) where it is nobody's; NULL: now. Asks the user database, which may be
 * slow: never call it in the daemon. */
int identity_become(uid_t uid, gid_t gid, const char *user, struct error *err);

/* A daemon that is protected from the out-of-memory killer must not hand that on. */
void identity_unprotect(void);
/* Gives up all capabilities, those too that are only handed on to programs. Returns 0, or -1. */
int identity_drop_capabilities(void);

#endif
