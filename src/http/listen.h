/* SPDX-License-Identifier: MIT
 *
 * Where an HTTP server of ours listens: a loopback address or a Unix socket, or, where that was asked for in so many
 * words, an address that others reach.
 */
#ifndef RAD_HTTP_LISTEN_H
#define RAD_HTTP_LISTEN_H

#include "base/error.h"

#include <stdbool.h>

struct listen_place {
	int fd;			/* listens; with O_CLOEXEC, does not block */
	char *path;		/* of a Unix socket; NULL: TCP. Owned */
	char *address;		/* "127.0.0.1:9836" as it is bound, with the port that was found; of a Unix socket its path. Owned */
};

/* "127.0.0.1:9836", "[::1]:9836", "localhost:9836", "9836", "unix:PATH". `network`: other addresses than loopback ones
 * are meant. A Unix socket has mode 0660 less the umask, or, where a group is named (NULL: none), 0660 and is that
 * group's; one that nobody answers on is replaced. */
int listen_open(struct listen_place *p, const char *words, bool network, const char *group, struct error *err);
/* Closes and, where that is still ours to do, removes the socket's file. */
void listen_close(struct listen_place *p);

#endif
