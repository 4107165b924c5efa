/* SPDX-License-Identifier: MIT
 * A terminal for a task. The shim makes a pseudo-terminal and sends its master to the `rad` that its user sits at, over a
 * socket on which that `rad` listens: from then on the two ends are joined by the kernel alone. Nobody of ours carries bytes
 * between them, so a radd that dies ends no session, a flood holds up its own program only, and when `rad` or its terminal
 * goes the kernel hangs up, as a modem would.
 *
 * All of it happens as the task's user: the daemon has only passed the socket's name on, and may not even be able to see it.
 * A name may lead anywhere, so the kernel is asked who listens there: nobody's keys go to another user.
 */
#include "launch/shim.h"

#include "base/scope.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>

#define ANSWER_S 10	/* a `rad` that was stopped (^Z) must not keep a GPU waiting for long */

static int call(const char *path, struct error *err)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	struct ucred peer = { 0 };
	socklen_t len = sizeof peer;
	struct timeval patience = { .tv_sec = ANSWER_S };
	scoped_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (strlen(path) >= sizeof a.sun_path)
		return error_set(err, ERR_INVALID, "terminal: the socket's path is too long");
	strcpy(a.sun_path, path);
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience))
		return error_errno(err, "terminal");
	if (connect(fd, (struct sockaddr *)&a, sizeof a))
		return error_set(err, ERR_INVALID, "the terminal that asked for it is gone (%s)", strerror(errno));
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) || peer.uid != getuid())
		return error_set(err, ERR_DENIED, "terminal: %s is another user's", path);
	return steal_fd(fd);
}

/* One byte with the descriptor. */
static int send_master(int fd, int master)
{
	union { char bytes[CMSG_SPACE(sizeof(int))]; struct cmsghdr align; } control = { .bytes = { 0 } };
	struct iovec one = { .iov_base = (char[]){ 'T' }, .iov_len = 1 };
	struct msghdr m = { .msg_iov = &one, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control };
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &master, sizeof master);
	return sendmsg(fd, &m, MSG_NOSIGNAL) == 1 ? 0 : -1;
}

/* It answers with a byte when the size and the modes of the terminal are those of its user's. */
static int wait_answer(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	char byte;
	return poll(&p, 1, ANSWER_S * 1000) == 1 && read(fd, &byte, 1) == 1 ? 0 : -1;
}

int terminal_open(const char *socket, struct error *err)
{
	scoped_fd int fd = call(socket, err);
	if (fd < 0)
		return -1;
	scoped_fd int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (master < 0 || grantpt(master) || unlockpt(master))
		return error_errno(err, "terminal: a pseudo-terminal");
	/* Not by its name: what /dev/pts is here need not be where the master was made. */
	scoped_fd int slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (slave < 0)
		return error_errno(err, "terminal: a pseudo-terminal");
	if (send_master(fd, master) || wait_answer(fd))
		return error_set(err, ERR_INVALID, "the terminal that asked for it did not answer within %d s", ANSWER_S);
	return steal_fd(slave);
}
