/* SPDX-License-Identifier: MIT
 * The socket's file: see server_socket.h. Whether one that is there is a living radd's is asked by connecting to it: who was
 * killed leaves its file, and a pid beside it may be another's by now. A connection alone is no answer: a child of the one
 * that was killed has its socket until it becomes a program of its own, so whoever listened must live, too. Its mode is made
 * with it, by the umask: a chmod after bind would leave a moment in which anybody, or nobody, gets in.
 */
#include "daemon/server_socket.h"

#include "base/scope.h"
#include "submit/wire.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/* Whether who listens at the other end is gone. Who is not to be seen from here (another pid namespace: 0) counts as there. */
static bool is_orphaned(int fd)
{
	struct ucred peer;
	socklen_t size = sizeof peer;
	return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) && peer.pid > 0 && kill(peer.pid, 0) && errno == ESRCH;
}

/* Never waits: in a folder that all may write to, another user's may stand there that takes no connection. */
static int socket_claim(const char *path, struct error *err)
{
	struct error why = ERROR_INIT;
	scoped_fd int fd = wire_connect_now(path, &why);
	if (fd < 0 && why.code == ERR_CONFLICT)
		return error_pass(err, &why);
	if (fd >= 0 && !is_orphaned(fd))
		return error_set(err, ERR_CONFLICT, "another radd already listens on %s", path);
	if (unlink(path) && errno != ENOENT)
		return error_errno(err, "%s", path);
	return 0;
}

int server_socket_open(const char *path, struct error *err)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	if (strlen(path) >= sizeof address.sun_path)
		return error_set(err, ERR_INVALID, "%s: a socket's path may have at most %zu characters: choose another with --socket",
				 path, sizeof address.sun_path - 1);
	if (socket_claim(path, err))
		return -1;
	strcpy(address.sun_path, path);
	scoped_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return error_errno(err, "socket");
	mode_t mask = umask(geteuid() ? 0177 : 0111);	/* root's daemon is for everybody; each request is checked by its uid */
	int rc = bind(fd, (struct sockaddr *)&address, sizeof address);
	umask(mask);
	if (rc)
		return error_errno(err, "%s", path);
	return steal_fd(fd);
}
