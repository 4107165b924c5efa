/* SPDX-License-Identifier: MIT */
#include "base/paths.h"

#include "base/alloc.h"
#include "base/scope.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Of a program that was replaced the kernel adds "(deleted)" to the name, and not to the folder. */
char *paths_beside(const char *name)
{
	char self[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
	self[n > 0 ? n : 0] = 0;
	const char *slash = strrchr(self, '/');
	return slash ? alloc_printf("%.*s/%s", (int)(slash - self), self, name) : NULL;
}

const char *paths_again(const char *path)
{
	static const char link[] = "/proc/self/exe", deleted[] = " (deleted)";
	char self[PATH_MAX];
	ssize_t n = readlink(link, self, sizeof self - 1);
	size_t len = strlen(path);
	self[n > 0 ? n : 0] = 0;
	return !strncmp(self, path, len) && !strcmp(self + len, deleted) ? link : path;
}

/* python/radrm/_libraries.py finds it likewise where no program tells. */
char *paths_library(const char *name)
{
	static const char *const folders[] = { "../lib/rad-rm", "../" RAD_LIBDIR "/rad-rm", "." };
	for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
		scoped_free char *relative = alloc_printf("%s/%s", folders[i], name);
		scoped_free char *place = paths_beside(relative);
		char *path = place ? realpath(place, NULL) : NULL;
		if (path)
			return path;
	}
	return NULL;
}

char *paths_find(const char *name, const char *path)
{
	while (path && *path) {
		size_t len = strcspn(path, ":");
		scoped_free char *file = alloc_printf("%.*s/%s", (int)len, path, name);
		if (len && !access(file, X_OK))
			return steal(file);
		path += len + (path[len] == ':');
	}
	return NULL;
}

char *paths_own(const char *variable, const char *usual)
{
	const char *said = getenv(variable), *home = getenv("HOME");
	if (said && *said == '/')
		return alloc_string(said);
	return home && *home == '/' ? alloc_printf("%s/%s", home, usual) : NULL;
}
