/* SPDX-License-Identifier: MIT
 * The library that keeps tasks on their GPUs: see stay.h.
 */
#include "launch/stay.h"

#include "base/buf.h"
#include "base/paths.h"
#include "base/scope.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LIBRARY "libradstay.so"

static int check_folders(const char *path, struct error *err)
{
	char folder[PATH_MAX];
	struct stat st;
	for (const char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		snprintf(folder, sizeof folder, "%.*s", (int)(slash - path), path);
		if (stat(folder, &st))
			return error_errno(err, "%s", folder);
		if (!(st.st_mode & S_IXOTH))
			return error_set(err, ERR_DENIED, "%s: this folder is not open to all (chmod o+x)", folder);
	}
	return 0;
}

int stay_check(const char *path, bool all, struct error *err)
{
	struct stat st;
	if (strpbrk(path, " :"))
		return error_set(err, ERR_INVALID, "%s: LD_PRELOAD takes no path with a blank or a colon", path);
	if (stat(path, &st) || access(path, R_OK))
		return error_errno(err, "%s", path);
	if (all && !(st.st_mode & S_IROTH))
		return error_set(err, ERR_DENIED, "%s: is not for all to read (chmod o+r)", path);
	return all ? check_folders(path, err) : 0;
}

char *stay_find(struct error *err)
{
	char *path = paths_library(LIBRARY);
	if (path)
		return path;
	error_set(err, ERR_NOT_FOUND, LIBRARY ": is not in lib/rad-rm beside the folder of radd; is the installation complete?");
	return NULL;
}

static bool is_ours(const char *path, size_t len)
{
	size_t own = strlen(LIBRARY);
	return len >= own && !memcmp(path + len - own, LIBRARY, own) && (len == own || path[len - own - 1] == '/');
}

char *stay_preload(const char *before, const char *library)
{
	scoped_buf all = { 0 };
	for (const char *p = before ? before : ""; *p; ) {
		size_t len = strcspn(p, " :");
		if (len && !is_ours(p, len))
			buf_printf(&all, "%s%.*s", all.len ? ":" : "", (int)len, p);
		p += len + !!p[len];
	}
	if (library)
		buf_printf(&all, "%s%s", all.len ? ":" : "", library);
	return all.len ? buf_steal(&all) : NULL;
}
