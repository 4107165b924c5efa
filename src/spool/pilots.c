/* SPDX-License-Identifier: MIT
 * What pilots say of themselves: see spool.h. Nothing here decides anything about a task; a status that is old or torn costs a
 * person an answer, no more.
 */
#include "spool/private.h"

#include "base/io.h"
#include "base/json.h"
#include "base/scope.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH_LEN (2 * SPOOL_NAME)

int spool_enter(const struct spool *s, const char *pilot, const json_t *who, struct error *err)
{
	char path[PATH_LEN];
	snprintf(path, sizeof path, "pilots/%s", pilot);
	if (mkdirat(s->fd, path, 0700) && errno != EEXIST)
		return error_errno(err, "%s/%s", s->dir, path);
	snprintf(path, sizeof path, "pilots/%s/kept", pilot);
	if (spool_file_replace(s, path, who, err))
		return -1;
	snprintf(path, sizeof path, "pilots/%s/pilot", pilot);
	return spool_file_replace(s, path, who, err) || spool_sync_folder(s, "pilots", err) ? -1 : 0;
}

int spool_status(const struct spool *s, const char *pilot, const json_t *status, struct error *err)
{
	char path[PATH_LEN];
	snprintf(path, sizeof path, "pilots/%s/status", pilot);
	return spool_file_replace(s, path, status, err);
}

json_t *spool_pilot(const struct spool *s, const char *pilot)
{
	char path[PATH_LEN];
	snprintf(path, sizeof path, "pilots/%s/pilot", pilot);
	json_t *who = spool_file_read(s, path, SPOOL_MAX_FILE, NULL);
	snprintf(path, sizeof path, "pilots/%s/kept", pilot);
	if (!who)
		who = spool_file_read(s, path, SPOOL_MAX_FILE, NULL);
	if (!who)
		return NULL;
	snprintf(path, sizeof path, "pilots/%s/status", pilot);
	json_t *status = spool_file_read(s, path, SPOOL_MAX_FILE, NULL);
	return json_pack("{so, so}", "who", who, "status", status ? status : json_object());
}

json_t *spool_pilots(const struct spool *s)
{
	json_t *names = json_array();
	scoped_dir DIR *d = io_open_folder(s->fd, "pilots");
	for (struct dirent *e; d && (e = readdir(d));)
		if (*e->d_name != '.' && strlen(e->d_name) < SPOOL_NAME - 1)
			json_array_append_new(names, json_exact(e->d_name));
	return names;
}

void spool_leave(const struct spool *s, const char *pilot)
{
	static const char *const files[] = { "/status", "/pilot", "/kept", "" };
	char path[PATH_LEN];
	for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
		snprintf(path, sizeof path, "pilots/%s%s", pilot, files[i]);
		unlinkat(s->fd, path, *files[i] ? 0 : AT_REMOVEDIR);
	}
}
