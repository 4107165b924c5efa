/* SPDX-License-Identifier: MIT */
#include "feed/name.h"

#include <string.h>

int feed_name_check(const char *name, int max, struct error *err)
{
	size_t n = strlen(name);
	if (n == 0 || n > (size_t)max || name[0] == '.' ||
	    strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") != n)
		return error_set(err, ERR_INVALID, "feed name \"%.80s\": 1 to %d letters, digits, '.', '_' and '-', the first not '.'", name,
				 max);
	return 0;
}
