/* SPDX-License-Identifier: MIT
 *
 * Which commit a folder has checked out, by git.
 */
#ifndef RAD_CLI_TRACK_COMMIT_H
#define RAD_CLI_TRACK_COMMIT_H

/* The commit's full name; NULL: the folder is in no repository that git would look into for this user, or there is no git.
 * Free it. */
char *track_commit(const char *folder);

#endif
