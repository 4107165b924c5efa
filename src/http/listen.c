/* SPDX-License-Identifier: MIT
 * See listen.h.
 */
#include "http/listen.h"

#include "base/alloc.h"
#include "base/scope.h"
#include "base/units.h"

#include <arpa/inet.h>
#include <errno.h>
#include <grp.h>
#include <netdb.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define BACKLOG 64

static int bad_place(const char *words, struct error *err)
{
	return error_set(err, ERR_INVALID, "--listen: '%.200s' is no address: write 127.0.0.1:PORT, [::1]:PORT, PORT or "
			 "unix:PATH", words);
}

/* Unix sockets ------------------------------------------------------------------------------------------------------------ */

/* A file that is left of one who ended is ours to remove if it is a socket of our own. That nobody has it any more, only a
 * connection that is refused says. */
static int clear_path(const struct sockaddr_un *address, struct error *err)
{
	struct stat st;
	const char *path = address->sun_path;
	scoped_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (lstat(path, &st))
		return errno == ENOENT ? 0 : error_errno(err, "%s", path);
	if (!S_ISSOCK(st.st_mode))
		return error_set(err, ERR_CONFLICT, "%s: is there already and is no socket: remove it, or name another path", path);
	int no = fd < 0 || connect(fd, (const struct sockaddr *)address, sizeof *address) ? errno : 0;
	if (!no || no == EAGAIN || no == EPROTOTYPE)
		return error_set(err, ERR_CONFLICT, "%s: another program listens there already: end it, or give another path with "
				 "--listen", path);
	if (st.st_uid != geteuid())
		return error_set(err, ERR_DENIED, "%s: is a socket of uid %u's: remove it, or name another path", path,
			(unsigned)st.st_uid);
	errno = no;
	return no != ECONNREFUSED || (unlink(path) && errno != ENOENT) ? error_errno(err, "%s", path) : 0;
}

static int find_group(const char *name, gid_t *gid, struct error *err)
{
	const struct group *g = getgrnam(name);
	int64_t number = 0;
	if (!g && units_parse_int(name, 0, UINT32_MAX - 1, &number, NULL))
		return error_set(err, ERR_INVALID, "--group: '%.60s': there is no such group here", name);
	*gid = g ? g->gr_gid : (gid_t)number;
	return 0;
}

/* The umask of root leaves a group no right to write, which is what connecting takes: who names one means it. */
static int open_unix(struct listen_place *p, const char *path, const char *group, struct error *err)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	gid_t gid = 0;
	if (group && find_group(group, &gid, err))
		return -1;
	if (!*path || strlen(path) >= sizeof address.sun_path)
		return error_set(err, ERR_INVALID, "--listen: a socket's path has 1 to %zu characters", sizeof address.sun_path - 1);
	strcpy(address.sun_path, path);
	if (clear_path(&address, err))
		return -1;
	scoped_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	mode_t mask = umask(0);
	umask(group ? 0117 : mask | 0117);
	int failed = fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address);
	umask(mask);
	if (!failed && group && lchown(path, (uid_t)-1, gid)) {
		if (errno == EPERM)
			error_set(err, ERR_DENIED, "%s: --group %.60s: only its members and root may give it that group: in the unit, "
				  "SupplementaryGroups=%.60s", path, group, group);
		else
			error_errno(err, "%s: --group %.60s", path, group);
		unlink(path);
		return -1;
	}
	if (failed || listen(fd, BACKLOG))
		return error_errno(err, "%s", path);
	char *whole = realpath(path, NULL);	/* to be removed from another folder */
	*p = (struct listen_place){ .fd = steal_fd(fd), .path = whole ? whole : alloc_string(path), .address = alloc_string(path) };
	return 0;
}

/* TCP --------------------------------------------------------------------------------------------------------------------- */

/* Splits "HOST:PORT", "[HOST]:PORT" or "PORT". Both are to be freed. */
static int split(const char *words, char **host, char **port)
{
	const char *colon = strrchr(words, ':'), *end = colon ? colon : words;
	size_t len = (size_t)(end - words);
	bool brackets = len >= 2 && words[0] == '[' && end[-1] == ']';
	*port = alloc_string(colon ? colon + 1 : words);
	*host = !len ? alloc_string("127.0.0.1") : brackets ? alloc_printf("%.*s", (int)len - 2, words + 1) :
		alloc_printf("%.*s", (int)len, words);
	bool digits = **port && strspn(*port, "0123456789") == strlen(*port) && strlen(*port) <= 5 && atoi(*port) <= 65535;
	return digits && (brackets || !strchr(*host, ':')) ? 0 : -1;
}

static bool is_loopback(const struct sockaddr *a)
{
	if (a->sa_family == AF_INET)
		return ntohl(((const struct sockaddr_in *)a)->sin_addr.s_addr) >> 24 == 127;
	return a->sa_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)a)->sin6_addr);
}

static char *address_text(int fd)
{
	struct sockaddr_storage a;
	socklen_t size = sizeof a;
	char host[INET6_ADDRSTRLEN], port[8];
	if (getsockname(fd, (struct sockaddr *)&a, &size) ||
	    getnameinfo((struct sockaddr *)&a, size, host, sizeof host, port, sizeof port, NI_NUMERICHOST | NI_NUMERICSERV))
		return alloc_string("?");
	return a.ss_family == AF_INET6 ? alloc_printf("[%s]:%s", host, port) : alloc_printf("%s:%s", host, port);
}

static int bind_to(struct listen_place *p, const struct addrinfo *a, const char *words, struct error *err)
{
	int on = 1;
	scoped_fd int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd >= 0)
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	if (fd < 0 || bind(fd, a->ai_addr, a->ai_addrlen) || listen(fd, BACKLOG)) {
		if (errno == EADDRINUSE)
			return error_set(err, ERR_CONFLICT, "%.200s: another program listens there already: end it, or give another port "
					 "with --listen", words);
		return error_errno(err, "%.200s", words);
	}
	*p = (struct listen_place){ .fd = fd, .address = address_text(fd) };
	fd = -1;
	return 0;
}

/* The name server is never asked: an address is a number, or localhost. */
static int open_tcp(struct listen_place *p, const char *words, bool network, struct error *err)
{
	const struct addrinfo hints = { .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE, .ai_socktype = SOCK_STREAM };
	struct addrinfo *found = NULL;
	scoped_free char *host = NULL, *port = NULL;
	if (split(words, &host, &port) ||
	    getaddrinfo(strcmp(host, "localhost") ? host : "127.0.0.1", port, &hints, &found))
		return bad_place(words, err);
	int rc = is_loopback(found->ai_addr) || network ? bind_to(p, found, words, err) :
		 error_set(err, ERR_DENIED, "--listen: %.200s is no loopback address, so other machines could reach it, unencrypted: "
			   "add --network if that is meant", words);
	freeaddrinfo(found);
	return rc;
}

int listen_open(struct listen_place *p, const char *words, bool network, const char *group, struct error *err)
{
	static const char unix_words[] = "unix:";
	bool tcp = strncmp(words, unix_words, strlen(unix_words));
	*p = (struct listen_place){ .fd = -1 };
	if (tcp && group)
		return error_set(err, ERR_INVALID, "--group: an address has none: it is of --listen unix:PATH");
	return tcp ? open_tcp(p, words, network, err) : open_unix(p, words + strlen(unix_words), group, err);
}

void listen_close(struct listen_place *p)
{
	/* Before nobody listens there any more: from then on it may be another's. Where we gave up the right to, the next start
	 * does it. */
	if (p->path)
		unlink(p->path);
	if (p->fd >= 0)
		close(p->fd);
	free(p->path);
	free(p->address);
	*p = (struct listen_place){ .fd = -1 };
}
