/* SPDX-License-Identifier: MIT
 *
 * What git says of a folder.
 */
#ifndef RAD_CLI_GIT_H
#define RAD_CLI_GIT_H

#include "base/buf.h"

/* Appends what `git ARGS...` prints there, at most `max` bytes; `args` ends with NULL. Returns 0; or -1: there is no git, it
 * does not look into that folder for this user, or it printed more. */
int git_ask(const char *folder, const char *const *args, size_t max, struct buf *out);

/* Why git opens no repository for that folder, in git's words; NULL: it does, or there is no git. Free it. */
char *git_refusal(const char *folder);

/* The full name of the commit that the folder has checked out; NULL: none is known. Free it. */
char *git_commit(const char *folder);

#endif
