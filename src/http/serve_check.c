/* SPDX-License-Identifier: MIT
 * See serve_check.h.
 */
#include "http/serve_check.h"

#include <arpa/inet.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define NAME_LEN 256

static bool is_number(const char *name)
{
	struct in6_addr six;
	struct in_addr four;
	size_t n = strlen(name);
	char bare[NAME_LEN];
	if (*name != '[')
		return inet_pton(AF_INET, name, &four) == 1;
	if (n < 2 || name[n - 1] != ']')
		return false;
	memcpy(bare, name + 1, n - 2);
	bare[n - 2] = 0;
	return inet_pton(AF_INET6, bare, &six) == 1;
}

/* Its full name, or that without what follows the first dot. */
static bool is_own_name(const char *name)
{
	char own[NAME_LEN] = "";
	if (gethostname(own, sizeof own - 1) || !*own)
		return false;
	return !strcasecmp(name, own) || (own[strcspn(own, ".")] && strlen(name) == strcspn(own, ".") &&
					  !strncasecmp(name, own, strlen(name)));
}

static bool is_listed(const char *name, const char *list)
{
	for (size_t n = strlen(name), len; list && *list; list += len + (list[len] == ',')) {
		len = strcspn(list, ",");
		if (len == n && n && !strncasecmp(name, list, n))
			return true;
	}
	return false;
}

bool serve_check_host(const char *host, const char *more)
{
	char name[NAME_LEN];
	const char *end = host && *host == '[' ? strchr(host, ']') : NULL;
	size_t len = !host ? 0 : end ? (size_t)(end + 1 - host) : strcspn(host, ":");
	if (!len || len >= sizeof name || (host[len] && host[len] != ':'))
		return false;
	if (host[len] && host[len + 1 + strspn(host + len + 1, "0123456789")])
		return false;
	memcpy(name, host, len);
	name[len] = 0;
	return is_number(name) || !strcasecmp(name, "localhost") || is_own_name(name) || is_listed(name, more);
}

bool serve_check_token(const char *header, const char *token)
{
	static const char scheme[] = "Bearer ";
	size_t n = strlen(token);
	if (!header || strncasecmp(header, scheme, strlen(scheme)) || strlen(header) != strlen(scheme) + n)
		return false;
	unsigned char differs = 0;
	for (size_t i = 0; i < n; i++)
		differs |= (unsigned char)(header[strlen(scheme) + i] ^ token[i]);
	return !differs;
}
