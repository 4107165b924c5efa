/* SPDX-License-Identifier: MIT
 *
 * The socket's file.
 */
#ifndef RAD_DAEMON_SERVER_SOCKET_H
#define RAD_DAEMON_SERVER_SOCKET_H

#include "base/error.h"

/* Makes and binds it: a descriptor that is not heard yet, or -1. A file that nobody answers on is a leftover and removed; one
 * that is answered belongs to a living radd (ERR_CONFLICT), unless the process that listened is gone. */
int server_socket_open(const char *path, struct error *err);

#endif
