/* SPDX-License-Identifier: MIT
 * See log_file.h. To open a device or a pipe may do something, so the file is held first (O_PATH), and what is held is opened.
 */
#include "cli/log_file.h"

#include "base/scope.h"
#include "cli/format.h"
#include "cli/member.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define FULL_BYTES 65536	/* less room than this counts as none */

static bool is_of(uid_t uid, const char *user)
{
	char name[FORMAT_LEN];
	return !user || !*user || !strcmp(format_user(uid, name), user);
}

bool log_file_is_others(const char *user)
{
	return !is_of(geteuid(), user);
}

int log_file_open(const char *path, const char *user, struct error *err)
{
	char held_path[40], name[FORMAT_LEN];
	struct stat st;
	scoped_fd int held = open(path, O_PATH | O_CLOEXEC);
	if (held < 0 && errno == ENOENT)
		return error_set(err, ERR_NOT_FOUND, "log %.900s: is not there", path);
	if (held < 0 || fstat(held, &st))
		return error_errno(err, "log %.900s", path);
	if (!S_ISREG(st.st_mode))
		return error_set(err, ERR_INVALID, "log %.900s: is not a regular file", path);
	if (log_file_is_others(user) && !is_of(st.st_uid, user))
		return error_set(err, ERR_DENIED, "log %.900s: is a file of %.60s's, and the task is %.60s's: it is not "
				 "shown for a log", path, format_user(st.st_uid, name), user);
	snprintf(held_path, sizeof held_path, "/proc/self/fd/%d", held);
	int fd = open(held_path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	return fd >= 0 ? fd : error_errno(err, "log %.900s", path);
}

const char *log_file_full(int fd)
{
	struct statvfs fs;
	bool full = !fstatvfs(fd, &fs) && (uint64_t)fs.f_bavail * fs.f_frsize < FULL_BYTES;
	return full ? "the disk that its log is on is full: what it printed last may not be there" : NULL;
}

int log_file_none(const json_t *task, struct error *err)
{
	const char *why = member_text(task, "reason_text");
	if (json_is_true(json_object_get(task, "terminal")))
		return error_set(err, ERR_NOT_FOUND, "task %s: runs on its user's terminal, and no log was asked for (rad run --pty --output "
				 "FILE keeps one)", member_text(task, "id"));
	if (member_int(task, "process"))
		return error_set(err, ERR_NOT_FOUND, "task %s: is a process that rad did not begin, and its output goes where it went "
				 "before", member_text(task, "id"));
	if (!member_last_attempt(task) && task_state_terminal(member_state(task)))
		return error_set(err, ERR_NOT_FOUND, "task %s: never started (%s), so there is no log", member_text(task, "id"),
				 member_text(task, "state"));
	if (!member_last_attempt(task) || !strcmp(member_text(task, "reason"), "Delayed"))
		return error_set(err, ERR_NOT_FOUND, "task %s: has not started, so there is no log yet%s%s", member_text(task, "id"),
				 *why ? ": " : "", why);
	return error_set(err, ERR_NOT_FOUND, "task %s: its log %.600s is not there: it was moved, or never opened (rad show %s)",
			 member_text(task, "id"), member_text(task, "log_path"), member_text(task, "id"));
}
