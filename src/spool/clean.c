/* SPDX-License-Identifier: MIT
 * What was being written when its writer was killed: see spool.h. No writer loses anything here, however slow it is: each file
 * gets its name in the queue by one call on its name in tmp/, which fails when that is gone, and is told to who asked. A folder
 * is renamed first, so that none can become a job while it is emptied.
 */
#include "spool/private.h"

#include "base/json.h"
#include "base/io.h"
#include "base/scope.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The file system's own time: that of a file which was made just now. -1: none could be made. */
static int64_t now_there(const struct spool *s, struct error *err)
{
	char name[SPOOL_NAME];
	struct stat st;
	scoped_json *nothing = json_object();
	if (spool_file_make(s, nothing, name, err))
		return -1;
	scoped_fd int fd = openat(s->fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	int failed = fd < 0 || fstat(fd, &st);
	if (failed)
		error_errno(err, "%s/%s", s->dir, name);
	unlinkat(s->fd, name, 0);
	return failed ? -1 : (int64_t)st.st_mtim.tv_sec;
}

static bool remove_folder(const struct spool *s, const char *path)
{
	char unique[SPOOL_NAME], gone[SPOOL_NAME + 8];
	spool_unique(unique);
	snprintf(gone, sizeof gone, "tmp/%s", unique);
	if (renameat(s->fd, path, s->fd, gone))
		return false;
	scoped_dir DIR *d = io_open_folder(s->fd, gone);
	for (struct dirent *e; d && (e = readdir(d));)
		unlinkat(dirfd(d), e->d_name, 0);
	return !unlinkat(s->fd, gone, AT_REMOVEDIR);
}

/* What is made here has 32 hex digits, and may have ".b", ".d" or ".e". A person's own file in that folder is not ours. */
static bool is_ours(const char *name)
{
	size_t digits = strspn(name, "0123456789abcdef");
	return digits == 32 && (!name[32] || (name[32] == '.' && name[33] && strchr("bde", name[33]) && !name[34]));
}

int spool_clean(const struct spool *s, int64_t age_s, struct error *err)
{
	char path[SPOOL_NAME + 8];
	struct stat st;
	int64_t now = now_there(s, err);
	int n = 0;
	scoped_dir DIR *d = now < 0 ? NULL : io_open_folder(s->fd, "tmp");
	if (!d)
		return now < 0 ? -1 : error_errno(err, "%s/tmp", s->dir);
	for (struct dirent *e; (e = readdir(d));) {
		if (!is_ours(e->d_name) || snprintf(path, sizeof path, "tmp/%.90s", e->d_name) < 5 ||
		    fstatat(s->fd, path, &st, AT_SYMLINK_NOFOLLOW) || now - (int64_t)st.st_mtim.tv_sec < age_s)
			continue;
		n += S_ISDIR(st.st_mode) ? remove_folder(s, path) : !unlinkat(s->fd, path, 0);
	}
	return n;
}
