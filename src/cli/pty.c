/* SPDX-License-Identifier: MIT
 * Two terminals joined: see pty.h. Each way has one buffer, and a side is read only while the buffer of the other is empty:
 * so a program that floods waits for the terminal that shows it, and memory is flat.
 *
 * Both ends of the socket are this user's processes; that is asked of the kernel, since the folder's mode is all that keeps
 * others from it.
 */
#include "cli/pty.h"

#include "base/alloc.h"
#include "base/io.h"
#include "base/scope.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <termios.h>

#define CHUNK 4096		/* what a pipe that is ready takes at once (PIPE_BUF) */
#define HELLO_S 2		/* for a process of ours to say its one byte */
#define DRAIN_MAX (1 << 20)

struct pty_way { char bytes[CHUNK]; size_t from, n; };

static struct pty {
	enum pty_state state;
	bool hung_up;
	char *folder, *path;
	int listener, master;	/* -1: none */
	bool raw;		/* our terminal is; `saved` is what it was */
	struct termios saved;
	struct pty_way in, out;	/* keys, and what is shown */
} pty = { .listener = -1, .master = -1 };

/* The terminal ------------------------------------------------------------------------------------------------------------ */

/* Only calls that a signal handler may make. */
static void give_back(void)
{
	if (pty.raw)
		tcsetattr(STDIN_FILENO, TCSADRAIN, &pty.saved);
	pty.raw = false;
}

static void on_crash(int signum)
{
	give_back();
	signal(signum, SIG_DFL);
	raise(signum);
}

/* What was typed before stays to be read (no flush): somebody types ahead. */
static void make_raw(void)
{
	static const int crashes[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT };
	struct termios raw = pty.saved;
	cfmakeraw(&raw);
	for (size_t i = 0; i < COUNT_OF(crashes); i++)
		signal(crashes[i], on_crash);
	pty.raw = true;
	while (tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) && errno == EINTR)
		;
}

void pty_resize(void)
{
	struct winsize size;
	if (pty.master >= 0 && !ioctl(STDIN_FILENO, TIOCGWINSZ, &size))
		ioctl(pty.master, TIOCSWINSZ, &size);
}

void pty_pause(void)
{
	bool was_raw = pty.raw;
	give_back();
	raise(SIGSTOP);
	if (was_raw)
		make_raw();
	pty_resize();
}

/* Listening --------------------------------------------------------------------------------------------------------------- */

/* Where this user's sockets live, if that is the user's indeed (after `su` it may be another's). */
static const char *parent_folder(void)
{
	const char *dir = getenv("XDG_RUNTIME_DIR");
	struct stat st;
	bool ours = dir && *dir == '/' && strlen(dir) < 70 && !stat(dir, &st) && S_ISDIR(st.st_mode) && st.st_uid == geteuid() &&
		    !(st.st_mode & 077);
	return ours ? dir : "/tmp";
}

static int listen_there(struct error *err)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	pty.folder = alloc_printf("%s/rad-pty.XXXXXX", parent_folder());
	if (!mkdtemp(pty.folder)) {
		error_errno(err, "%s", pty.folder);
		free(steal(pty.folder));
		return -1;
	}
	pty.path = alloc_printf("%s/s", pty.folder);
	strcpy(a.sun_path, pty.path);
	pty.listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (pty.listener < 0 || bind(pty.listener, (struct sockaddr *)&a, sizeof a) || listen(pty.listener, 4))
		return error_errno(err, "%s", pty.path);
	return 0;
}

static void stop_listening(void)
{
	if (pty.listener >= 0)
		close(pty.listener);
	pty.listener = -1;
	if (pty.path)
		unlink(pty.path);
	if (pty.folder)
		rmdir(pty.folder);
	free(steal(pty.path));
	free(steal(pty.folder));
}

const char *pty_listen(struct error *err)
{
	if (tcgetattr(STDIN_FILENO, &pty.saved)) {
		error_set(err, ERR_INVALID, "--pty: standard input is no terminal; leave --pty out, the task's output is shown all the same");
		return NULL;
	}
	if (!listen_there(err))
		return pty.path;
	stop_listening();
	return NULL;
}

void pty_close(void)
{
	stop_listening();
	if (pty.master >= 0)
		close(pty.master);
	pty.master = -1;
	pty.state = PTY_OVER;
	give_back();
}

/* Joining ----------------------------------------------------------------------------------------------------------------- */

/* The descriptor that comes with the first byte; -1. */
static int receive_master(int fd)
{
	union { char bytes[CMSG_SPACE(sizeof(int))]; struct cmsghdr align; } control = { .bytes = { 0 } };
	char byte;
	struct iovec one = { .iov_base = &byte, .iov_len = 1 };
	struct msghdr m = { .msg_iov = &one, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control };
	int master = -1;
	if (recvmsg(fd, &m, MSG_CMSG_CLOEXEC) != 1)
		return -1;
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS && c->cmsg_len == CMSG_LEN(sizeof(int)))
		memcpy(&master, CMSG_DATA(c), sizeof master);
	return master;
}

static bool is_ours(int fd)
{
	struct ucred peer;
	socklen_t len = sizeof peer;
	struct timeval patience = { .tv_sec = HELLO_S };
	return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) && peer.uid == geteuid() &&
	       !setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
}

/* Sized and set as ours before the program sees it. */
static void join(void)
{
	int number;
	scoped_fd int fd = accept4(pty.listener, NULL, NULL, SOCK_CLOEXEC);
	scoped_fd int master = fd >= 0 && is_ours(fd) ? receive_master(fd) : -1;
	if (master < 0 || ioctl(master, TIOCGPTN, &number) || io_set_nonblocking(master, true))
		return;		/* whatever that was: the task's own may still come */
	tcsetattr(master, TCSANOW, &pty.saved);
	pty.master = steal_fd(master);
	pty_resize();
	if (send(fd, "J", 1, MSG_NOSIGNAL) != 1) {
		close(pty.master);
		pty.master = -1;
		return;
	}
	stop_listening();
	pty.state = PTY_JOINED;
	make_raw();
}

/* Carrying ---------------------------------------------------------------------------------------------------------------- */

enum pty_state pty_state(void)
{
	return pty.state;
}

bool pty_hung_up(void)
{
	return pty.hung_up;
}

unsigned pty_polls(struct pollfd p[PTY_POLLS])
{
	if (pty.state == PTY_WAITING) {
		p[0] = (struct pollfd){ pty.listener, POLLIN, 0 };
		return 1;
	}
	if (pty.state == PTY_OVER)
		return 0;
	p[0] = (struct pollfd){ pty.in.n ? -1 : STDIN_FILENO, POLLIN, 0 };
	short wanted = (short)((pty.in.n ? POLLOUT : 0) | (pty.out.n ? 0 : POLLIN));
	p[1] = (struct pollfd){ wanted ? pty.master : -1, wanted, 0 };	/* a hang-up is told to who wants nothing, too */
	p[2] = (struct pollfd){ pty.out.n ? STDOUT_FILENO : -1, POLLOUT, 0 };
	return PTY_POLLS;
}

/* False when that side is gone. */
static bool fill(int fd, struct pty_way *w)
{
	ssize_t n = read(fd, w->bytes, sizeof w->bytes);
	if (n > 0) {
		w->from = 0;
		w->n = (size_t)n;
	}
	return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
}

static bool empty(int fd, struct pty_way *w)
{
	ssize_t n = write(fd, w->bytes + w->from, w->n);
	if (n > 0) {
		w->from += (size_t)n;
		w->n -= (size_t)n;
	}
	return n >= 0 || errno == EAGAIN || errno == EINTR;
}

/* A log that cannot be written is no reason to end a session. */
static void keep(int log)
{
	if (log >= 0 && pty.out.n && io_write_full(log, pty.out.bytes, pty.out.n))
		return;
}

static void end(bool hung_up)
{
	pty.hung_up = hung_up;
	pty_close();
}

static void show(short ready, int log)
{
	if (pty.out.n || !(ready & (POLLIN | POLLHUP | POLLERR)))
		return;
	if (!fill(pty.master, &pty.out))
		end(false);	/* EIO: nobody has the other side any more */
	else
		keep(log);
}

void pty_work(const struct pollfd *p, unsigned n, int log)
{
	const short any = POLLIN | POLLHUP | POLLERR | POLLNVAL;
	if (n == 1 && (p[0].revents & POLLIN))
		join();
	if (n < PTY_POLLS || pty.state != PTY_JOINED)
		return;
	if (p[0].fd >= 0 && (p[0].revents & any) && !fill(STDIN_FILENO, &pty.in)) {
		end(true);
		return;
	}
	if (pty.in.n && !empty(pty.master, &pty.in))
		pty.in.n = 0;
	if (p[2].fd >= 0 && p[2].revents && !empty(STDOUT_FILENO, &pty.out)) {
		end(true);
		return;
	}
	show(p[1].revents, log);
}

void pty_drain(int log)
{
	size_t shown = 0;
	while (pty.state == PTY_JOINED && shown < DRAIN_MAX) {
		shown += pty.out.n;
		if (pty.out.n && io_write_full(STDOUT_FILENO, pty.out.bytes + pty.out.from, pty.out.n))
			break;
		pty.out.n = 0;
		if (!fill(pty.master, &pty.out) || !pty.out.n)
			break;
		keep(log);
	}
	pty_close();
}
