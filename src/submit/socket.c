/* SPDX-License-Identifier: MIT
 * Where the daemon's socket is, and who may stand behind it: see wire.h. Another user could put a socket of his own where
 * ours is expected (/tmp is everybody's) and be handed environments; so both sides check owners.
 */
#include "base/alloc.h"
#include "base/io.h"
#include "base/paths.h"
#include "base/scope.h"
#include "submit/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define ROOT_SOCKET "/run/rad/radd.sock"
#define ROOT_WORDS "/run/rad/radd.failed"
#define WORDS_MAX 4096

/* What only root can have put there, and only where a radd serves the whole machine: a unit that starts it at boot, its socket
 * and its folder since then, its store. */
static const char *const server_signs[] = {
	WIRE_SERVER_UNIT, ROOT_SOCKET, "/run/rad", WIRE_SERVER_STORE,
};

static bool fits(const char *path)
{
	return strlen(path) < sizeof ((struct sockaddr_un *)0)->sun_path;
}

static bool is_own_folder(const char *path)
{
	struct stat st;
	return *path == '/' && !stat(path, &st) && S_ISDIR(st.st_mode) && st.st_uid == geteuid();
}

/* What cron and sudo start has no word of the folder that a login of the same user knows. */
static char *user_socket_path(void)
{
	const char *said = getenv("XDG_RUNTIME_DIR");
	scoped_free char *runtime = said && *said ? alloc_string(said) : alloc_printf("/run/user/%lu", (unsigned long)geteuid());
	scoped_free char *path = alloc_printf("%s/rad/radd.sock", runtime);
	if (is_own_folder(runtime) && fits(path))
		return steal(path);
	return alloc_printf("/tmp/rad-%lu/radd.sock", (unsigned long)geteuid());
}

char *wire_own_socket_path(void)
{
	return geteuid() ? user_socket_path() : alloc_string(ROOT_SOCKET);
}

char *wire_own_state_dir(void)
{
	const char *said = getenv("RAD_STATE");
	if (said && *said == '/')
		return alloc_string(said);
	if (!geteuid())
		return alloc_string("/var/lib/rad");
	scoped_free char *state = paths_own("XDG_STATE_HOME", ".local/state");
	return state ? alloc_printf("%s/rad", state) : alloc_printf("/var/tmp/rad-%u", (unsigned)geteuid());
}

int wire_make_state_dir(const char *path, struct error *err)
{
	return io_make_dirs(path, geteuid() ? 0700 : 0711, err);
}

void wire_settle_socket(void)
{
	const char *said = getenv("RAD_SOCKET");
	if (!said || !*said || *said == '/' || !strcmp(said, "own") || !strcmp(said, "server"))
		return;
	scoped_free char *here = getcwd(NULL, 0), *path = here ? alloc_printf("%s/%s", here, said) : NULL;
	if (path && fits(path))
		setenv("RAD_SOCKET", path, 1);
}

char *wire_said_socket(void)
{
	const char *said = getenv("RAD_SOCKET");
	if (!said || !*said)
		return NULL;
	if (!strcmp(said, "own"))
		return wire_own_socket_path();
	return alloc_string(strcmp(said, "server") ? said : ROOT_SOCKET);
}

/* A unit alone shows nothing where there is no systemd to start it, as in a container that has the package. */
static bool is_sign(const char *path)
{
	struct stat st;
	return !lstat(path, &st) && st.st_uid == 0 && (strcmp(path, WIRE_SERVER_UNIT) || !access("/run/systemd/system", F_OK));
}

static const char *server_sign(void)
{
	for (size_t i = 0; i < COUNT_OF(server_signs); i++)
		if (is_sign(server_signs[i]))
			return server_signs[i];
	return NULL;
}

const char *wire_server_meant(void)
{
	const char *said = getenv("RAD_SOCKET");
	bool other = said && *said && strcmp(said, "server") && strcmp(said, ROOT_SOCKET);
	return other ? NULL : server_sign();
}

char *wire_socket_path(void)
{
	char *said = wire_said_socket();
	if (said)
		return said;
	return server_sign() ? alloc_string(ROOT_SOCKET) : wire_own_socket_path();
}

bool wire_is_own_beside_server(void)
{
	scoped_free char *asked = wire_socket_path(), *own = wire_own_socket_path();
	return geteuid() && !strcmp(asked, own) && server_sign();
}

/* Nothing depends on it: where it cannot be written, what is known of an absent radd is that it is absent. */
void wire_leave_words(const char *text)
{
	scoped_fd int other = wire_connect_now(ROOT_SOCKET, NULL);
	if (text && other >= 0)	/* who starts a second one is told by it */
		return;
	scoped_fd int fd = text ? open(ROOT_WORDS, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644) : -1;
	if (!text)
		unlink(ROOT_WORDS);
	else if (fd >= 0 && (fchmod(fd, 0644) || io_write_full(fd, text, strlen(text))))
		unlink(ROOT_WORDS);
}

char *wire_last_words(void)
{
	scoped_buf text = { 0 };
	struct stat st;
	if (lstat(ROOT_WORDS, &st) || !S_ISREG(st.st_mode) || st.st_uid || io_read_file(ROOT_WORDS, WORDS_MAX, &text, NULL))
		return NULL;
	return text.len ? alloc_string(buf_text(&text)) : NULL;
}

int wire_prepare_folder(const char *socket_path, const char *instead, struct error *err)
{
	scoped_free char *copy = alloc_string(socket_path);
	const char *folder = dirname(copy);
	if (!fits(socket_path))
		return error_set(err, ERR_INVALID, "%.200s: is too long for a socket (%zu bytes at most): choose a shorter path", socket_path,
				 sizeof ((struct sockaddr_un *)0)->sun_path - 1);
	struct stat st;
	if (lstat(folder, &st) && io_make_dirs(folder, geteuid() ? 0700 : 0755, err))
		return -1;
	if (lstat(folder, &st))
		return error_errno(err, "%s", folder);
	if (!S_ISDIR(st.st_mode))
		return error_set(err, ERR_DENIED, "%s: is not a folder: remove it, or %s", folder, instead);
	/* In a folder with the sticky bit nobody can take away what another has put there. */
	bool trusted = st.st_uid == geteuid() || st.st_uid == 0;
	if (!trusted || (!(st.st_mode & S_ISVTX) && (st.st_mode & (S_IWGRP | S_IWOTH))))
		return error_set(err, ERR_DENIED, "%s: belongs to uid %lu with mode %o, so others could take our place there: %s",
				 folder, (unsigned long)st.st_uid, st.st_mode & 07777, instead);
	return 0;
}

/* The daemon is root's or the caller's own; any other only where the caller named the socket himself, by its path: where the
 * words own and server lead to, another could have put his. */
static int check_peer(int fd, const char *path, struct error *err)
{
	struct ucred peer;
	socklen_t size = sizeof peer;
	const char *said = getenv("RAD_SOCKET");
	if (said && !strcmp(said, path))
		return 0;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size))
		return error_errno(err, "%s", path);
	if (peer.uid == 0 || peer.uid == geteuid())
		return 0;
	return error_set(err, ERR_DENIED, "%s: is served by uid %lu, neither you nor root: set RAD_SOCKET to that path if you "
			 "trust it", path, (unsigned long)peer.uid);
}

/* `flags`: SOCK_NONBLOCK, or 0. */
static int connect_to(const char *path, int flags, struct error *err)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	if (!fits(path))
		return error_set(err, ERR_INVALID, "%.200s: is too long for a socket (%zu bytes at most)", path, sizeof address.sun_path - 1);
	memcpy(address.sun_path, path, strlen(path) + 1);
	scoped_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);
	if (fd < 0)
		return error_errno(err, "socket");
	if (connect(fd, (const struct sockaddr *)&address, sizeof address)) {
		if (errno == ENOENT || errno == ECONNREFUSED || errno == ENOTDIR)
			return error_set(err, ERR_UNAVAILABLE, "no radd listens on %s: %s", path, strcmp(path, ROOT_SOCKET) ?
					 "start one (radd), or name its socket in RAD_SOCKET" :
					 "it is the machine's, which its administrator starts (systemctl start radd)");
		if (errno == EACCES)
			return error_set(err, ERR_DENIED, "%s: you may not speak to that radd: ask its administrator for access to this file and "
					 "the folders on its way, or RAD_SOCKET=own has one of your own", path);
		if (errno == EAGAIN)
			return error_set(err, ERR_CONFLICT, "%s: radd is there, but takes no more connections: does it hang?", path);
		return error_errno(err, "%s", path);
	}
	if (check_peer(fd, path, err))
		return -1;
	return steal_fd(fd);
}

int wire_connect(const char *path, struct error *err)
{
	return connect_to(path, 0, err);
}

int wire_connect_now(const char *path, struct error *err)
{
	return connect_to(path, SOCK_NONBLOCK, err);
}
