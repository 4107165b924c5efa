/* SPDX-License-Identifier: MIT
 * libradcapture.so, which every program of a captured command loads (LD_PRELOAD; python/radrm/capture/command.py).
 * A Python finds the capture's hook by PYTHONPATH, and many a script sets that anew (`PYTHONPATH=. python train.py`):
 * without the hook it would train for real. So whoever starts without it gets it back, in front of what the script
 * said, before main() reads it. Does nothing where RADRM_CAPTURE_PATH, the folders that the hook needs, is not set.
 * Programs that are started behind the training reach no other machine (RADRM_CAPTURE_SILENT; python/radrm/capture/silence.py).
 * A server of the captured script listens at another port than it wanted: there they find it (RADRM_CAPTURE_PORTS; ports.py).
 * Needs the C library only.
 */
#include "cli/aside.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool is_of_a_group(const struct sockaddr_storage *there)
{
	if (there->ss_family == AF_INET)
		return IN_MULTICAST(ntohl(((const struct sockaddr_in *)(const void *)there)->sin_addr.s_addr));
	return IN6_IS_ADDR_MULTICAST(&((const struct sockaddr_in6 *)(const void *)there)->sin6_addr);
}

/* One that cannot speak to itself here from that address, which sends nothing. To bind alone says less: that may be done to
 * addresses of a whole network and, where the machine is set up so (ip_nonlocal_bind), to anybody's. */
static bool is_another_machine(const struct sockaddr *a, socklen_t len)
{
	struct sockaddr_storage there = { 0 };
	if (len < sizeof(struct sockaddr_in) || len > sizeof(there) || (a->sa_family != AF_INET && a->sa_family != AF_INET6))
		return false;
	memcpy(&there, a, len);
	((struct sockaddr_in *)(void *)&there)->sin_port = 0;	/* at the same place in both */
	const struct sockaddr *self = (const struct sockaddr *)&there;
	int fd = socket(a->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool another = fd < 0 || is_of_a_group(&there) || bind(fd, self, len) || syscall(SYS_connect, fd, self, len);
	if (fd >= 0)
		close(fd);
	return another;
}

/* Where the capture listens that wanted this port of this machine, by "8080>40123 6006>41234"; 0: nowhere. */
static in_port_t port_of_capture(in_port_t wanted)
{
	const char *at = getenv("RADRM_CAPTURE_PORTS");
	unsigned asked, given;
	for (; at && sscanf(at, "%u>%u", &asked, &given) == 2; at = strchr(at + 1, ' '))
		if (htons((uint16_t)asked) == wanted)
			return htons((uint16_t)given);
	return 0;
}

/* Where another program of the script listens at that port by now, the capture does no more. */
static bool is_listened_at(const struct sockaddr *a, socklen_t len)
{
	int yes = 1, fd = socket(a->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool taken = fd >= 0 && !setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) && bind(fd, a, len);
	if (fd >= 0)
		close(fd);
	return taken;
}

static int connect_here(int fd, const struct sockaddr *a, socklen_t len)
{
	struct sockaddr_storage there = { 0 };
	int kind = 0;
	socklen_t n = sizeof(kind);
	if (len >= sizeof(struct sockaddr_in) && len <= sizeof(there) && (a->sa_family == AF_INET || a->sa_family == AF_INET6) &&
	    !getsockopt(fd, SOL_SOCKET, SO_TYPE, &kind, &n) && kind == SOCK_STREAM) {
		memcpy(&there, a, len);	/* the port is at the same place in both */
		in_port_t *port = &((struct sockaddr_in *)(void *)&there)->sin_port;
		if ((*port = port_of_capture(*port)) && is_listened_at((const struct sockaddr *)&there, len))
			a = (const struct sockaddr *)&there;
	}
	return (int)syscall(SYS_connect, fd, a, len);
}

/* The C library's, but for these. */
__attribute__((visibility("default"))) int connect(int fd, const struct sockaddr *a, socklen_t len)
{
	bool another = is_another_machine(a, len);
	if (another && getenv("RADRM_CAPTURE_SILENT")) {
		errno = ENETDOWN;
		return -1;
	}
	return another ? (int)syscall(SYS_connect, fd, a, len) : connect_here(fd, a, len);
}

__attribute__((constructor)) static void keep_hook(void)
{
	const char *hook = getenv("RADRM_CAPTURE_PATH"), *path = getenv("PYTHONPATH");
	size_t n = hook ? strlen(hook) : 0;
	char *both;
	aside_rest();
	if (!n || (path && !strncmp(path, hook, n) && (!path[n] || path[n] == ':')))
		return;
	if (asprintf(&both, "%s%s%s", hook, path && *path ? ":" : "", path ? path : "") < 0)
		return;
	setenv("PYTHONPATH", both, 1);
	free(both);
}
