/* SPDX-License-Identifier: MIT
 *
 * What radd runs or writes because an administrator named it, with radd's rights: nobody else may be able to put another thing
 * in its place.
 */
#ifndef RAD_DAEMON_TRUST_H
#define RAD_DAEMON_TRUST_H

#include "base/error.h"

#include <sys/stat.h>

/* Whether it is root's or our own, and nobody else may write to it. */
int trust_check(const char *path, const struct stat *st, struct error *err);
/* Each folder on the way to a real path (realpath(3)), which is changed; the last part itself is not looked at. */
int trust_folders(char *real, struct error *err);

#endif
