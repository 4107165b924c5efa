/* SPDX-License-Identifier: MIT
 * See trust.h. Asked of everything that root's daemon runs or writes to by a path: a file is as safe as the folders on its way,
 * since whoever may write one of them can put another file there between the look and the use.
 */
#include "daemon/trust.h"

#include <string.h>
#include <unistd.h>

int trust_check(const char *path, const struct stat *st, struct error *err)
{
	if ((st->st_uid && st->st_uid != geteuid()) || st->st_mode & (S_IWGRP | S_IWOTH))
		return error_set(err, ERR_DENIED, "%s: belongs to uid %u with mode %03o: it is used with radd's rights, so nobody else may "
				 "be able to change it: chown %u, chmod go-w", path, (unsigned)st->st_uid,
				 (unsigned)st->st_mode & 07777, (unsigned)geteuid());
	return 0;
}

/* Whoever may rename one puts another thing there. */
int trust_folders(char *real, struct error *err)
{
	struct stat st;
	for (char *slash; (slash = strrchr(real, '/')) && slash != real;) {
		*slash = 0;
		if (stat(real, &st))
			return error_errno(err, "%s", real);
		if (trust_check(real, &st, err))
			return -1;
	}
	return 0;
}
