/* SPDX-License-Identifier: MIT
 *
 * The descriptors that say "this process lives": sockets, whose hang-up others see, and the file whose locks they read. A
 * fork has no part in what its parent joined, so a child closes its copies at once: a worker of a data loader that
 * outlives its parent by seconds would otherwise keep the parent alive for everybody else. Programs that are executed
 * lose them by O_CLOEXEC.
 */
#ifndef RAD_FEED_FDS_H
#define RAD_FEED_FDS_H

/* Notes fd, -1 is let pass. Returns fd; or, where too many are noted, closes it and returns -1 (errno EMFILE). */
int feed_fds_own(int fd);
/* Closes *fd, which may be -1, and makes it -1. */
void feed_fds_close(int *fd);

#endif
