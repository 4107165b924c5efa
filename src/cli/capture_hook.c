/* SPDX-License-Identifier: MIT
 * libradcapture.so, which every program of a captured command loads (LD_PRELOAD; python/radrm/capture/command.py).
 * A Python finds the capture's hook by PYTHONPATH, and many a script sets that anew (`PYTHONPATH=. python train.py`):
 * without the hook it would train for real. So whoever starts without it gets it back, in front of what the script
 * said, before main() reads it. Does nothing where RADRM_CAPTURE_PATH, the folders that the hook needs, is not set.
 * Programs that are started behind the training reach no other machine (RADRM_CAPTURE_SILENT; python/radrm/capture/silence.py).
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

static bool is_another_machine(const struct sockaddr *a, socklen_t len)
{
	if (len >= sizeof(struct sockaddr_in) && a->sa_family == AF_INET)
		return ntohl(((const struct sockaddr_in *)(const void *)a)->sin_addr.s_addr) >> 24 != IN_LOOPBACKNET;
	if (len < sizeof(struct sockaddr_in6) || a->sa_family != AF_INET6)
		return false;
	const struct in6_addr *to = &((const struct sockaddr_in6 *)(const void *)a)->sin6_addr;
	return IN6_IS_ADDR_V4MAPPED(to) ? to->s6_addr[12] != IN_LOOPBACKNET : !IN6_IS_ADDR_LOOPBACK(to);
}

/* The C library's, but for that. */
__attribute__((visibility("default"))) int connect(int fd, const struct sockaddr *a, socklen_t len)
{
	if (getenv("RADRM_CAPTURE_SILENT") && is_another_machine(a, len)) {
		errno = ENETDOWN;
		return -1;
	}
	return (int)syscall(SYS_connect, fd, a, len);
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
