/* SPDX-License-Identifier: MIT
 *
 * The folder in which a feed's files lie, and who may take part in what is there: one user, or the members of one group.
 */
#ifndef RAD_FEED_FOLDER_H
#define RAD_FEED_FOLDER_H

#include "base/error.h"

#include <stdbool.h>
#include <sys/types.h>

/* Whom the folder is for. */
struct feed_party {
	bool of_group;
	gid_t gid;
};

/* The group of that name or number, of which this process must be. */
int feed_folder_group(const char *name, struct feed_party *party, struct error *err);
/* Its folder. Returns 1, 0 if it is not there, or -1; ERR_DENIED where it is not the party's alone. */
int feed_folder_look(const struct feed_party *party, char *dir, size_t size, struct error *err);
/* The same; made if it is not there. Returns 0 or -1. */
int feed_folder_find(const struct feed_party *party, char *dir, size_t size, struct error *err);
/* Opens a file of it for reading and writing; made if there is none. Returns a descriptor (fds.h), or -1. */
int feed_folder_open(const struct feed_party *party, const char *path, struct error *err);
/* Whether the process at the other end of a socket is of the party: the kernel says whose it is, which then is in *pid, and of
 * which groups. */
bool feed_folder_trusts(const struct feed_party *party, int sock, pid_t *pid);

#endif
