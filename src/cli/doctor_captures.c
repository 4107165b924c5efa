/* SPDX-License-Identifier: MIT */
#include "cli/doctor_captures.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/io.h"
#include "base/scope.h"
#include "cli/aside.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool says(const char *proc, const char *file, const char *text)
{
	scoped_buf content = { 0 };
	struct error err;
	scoped_free char *path = alloc_printf("%s/%s", proc, file);
	return !io_read_file(path, 256, &content, &err) && !strcmp(buf_text(&content), text);
}

/* Which setting denies it to users; NULL: none is known. *profile: a profile of AppArmor for this program would permit it. One
 * that this process has does. */
static const char *find_denied(const char *proc, bool *profile)
{
	*profile = false;
	if (says(proc, "sys/user/max_user_namespaces", "0\n"))
		return "user.max_user_namespaces is 0";
	if (says(proc, "sys/kernel/unprivileged_userns_clone", "0\n"))
		return "kernel.unprivileged_userns_clone is 0";
	*profile = says(proc, "sys/kernel/apparmor_restrict_unprivileged_userns", "1\n") &&
		   says(proc, "self/attr/current", "unconfined\n");
	return *profile ? "kernel.apparmor_restrict_unprivileged_userns is 1" : NULL;
}

/* What an overlay copies has to be the caller's, and the caller's own group's (aside.c). */
static const char *find_lack(const char *home)
{
	struct stat st;
	return !stat(home, &st) && (st.st_uid != geteuid() || st.st_gid != getegid()) ?
		"your home folder is another user's or group's" : "no overlay over your home folder";
}

/* Root's own captures need none of what may be denied to others; of others it is tried. */
void doctor_captures(struct doctor *d, const char *proc)
{
	char program[PATH_MAX] = "rad";
	const char *home = getenv("HOME");
	bool profile;
	const char *denied = find_denied(proc, &profile);
	if (geteuid() && home ? aside_works(home) : !denied) {
		doctor_say(d, GRADE_OK, "captures", "leave files as they are");
		return;
	}
	ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
	if (n > 0)
		program[n] = 0;
	scoped_free char *help = alloc_printf("; root can permit it: load a profile of AppArmor for %s", program);
	doctor_say(d, GRADE_WARN, "captures", "%s: what a script writes while it is captured is written for real, and its task "
		   "waits for its capture on an idle GPU too%s (rad-capture(1))", denied ? denied : find_lack(home),
		   profile ? help : "");
}
