/* SPDX-License-Identifier: MIT
 * Dropping root: see identity.h. Every step is checked, and at the end it is tried to come back: a program that starts with
 * more rights than its user's is the one fault here that nobody would notice.
 */
#include "launch/identity.h"

#include "base/alloc.h"
#include "base/scope.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* A uid is given away again when its account is deleted, and what was submitted from that is not the next one's. One account
 * may have several names. */
static int check_account(uid_t uid, const char *now, const char *then, struct error *err)
{
	if (!then || !strcmp(then, now))
		return 0;
	const struct passwd *account = getpwnam(then);
	if (account && account->pw_uid == uid)
		return 0;
	return error_set(err, ERR_DENIED, "uid %u was %.60s's, who submitted this, and is %.60s's now: nothing was started",
			 (unsigned)uid, then, now);
}

/* Whether there is an entry could not be looked at, or there is none of somebody who had one: many a database that does not
 * answer says just that. A program without its user's groups would fail for want of a file. */
static int check_answer(uid_t uid, const char *then, struct error *err)
{
	if (!then)
		return errno == EMFILE || errno == ENFILE || errno == ENOMEM ?
			error_errno(err, "looking for the account of uid %u", (unsigned)uid) : 0;
	errno = EAGAIN;
	return error_errno(err, "uid %u was %.60s's, who submitted this, and has no account, or the user database does not answer",
			   (unsigned)uid, then);
}

static int take_groups(uid_t uid, gid_t gid, const char *user, struct error *err)
{
	char number[16];
	snprintf(number, sizeof number, "%u", (unsigned)uid);
	if (user && !strcmp(user, number))	/* when it was submitted nobody could say a name */
		user = NULL;
	errno = 0;
	const struct passwd *account = getpwuid(uid);
	scoped_free char *name = alloc_string_or_null(account ? account->pw_name : NULL);
	if (name ? check_account(uid, name, user, err) : check_answer(uid, user, err))
		return -1;
	/* A uid that never had one (a container's) has its one group. */
	if (name ? initgroups(name, gid) : setgroups(1, &gid))
		return error_errno(err, "taking the groups of uid %u", (unsigned)uid);
	return 0;
}

static int check_gone(uid_t uid, gid_t gid, struct error *err)
{
	uid_t r, e, s;
	gid_t rg, eg, sg;
	bool kept = getresuid(&r, &e, &s) || getresgid(&rg, &eg, &sg) || r != uid || e != uid || s != uid || rg != gid ||
		    eg != gid || sg != gid;
	if (!kept && uid)
		kept = !setuid(0) || !seteuid(0) || (gid && !setegid(0));
	if (kept)
		return error_set(err, ERR_INTERNAL, "could not give up root for uid %u: nothing was started", (unsigned)uid);
	return 0;
}

/* The kernel takes the capabilities of one who ceases to be root, but not those he could hand on to a program that asks
 * for them; and none where the daemon's "securebits" say so. */
int identity_drop_capabilities(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = { 0 };
	return (int)syscall(SYS_capset, &header, none);
}

void identity_unprotect(void)
{
	char text[16] = "";
	scoped_fd int fd = open("/proc/self/oom_score_adj", O_RDWR | O_CLOEXEC);
	if (fd >= 0 && read(fd, text, sizeof text - 1) > 0 && text[0] == '-' && pwrite(fd, "0", 1, 0) != 1)
		return;		/* raising it is always allowed; nothing else is lost */
}

int identity_become(uid_t uid, gid_t gid, const char *user, struct error *err)
{
	if (geteuid() && (geteuid() != uid || getuid() != uid))
		return error_set(err, ERR_DENIED, "this radd runs as uid %u and cannot start tasks of uid %u",
				 (unsigned)geteuid(), (unsigned)uid);
	if (geteuid())
		return 0;
	/* In this order: groups can be set by root only. */
	if (take_groups(uid, gid, user, err))
		return -1;
	if (setresgid(gid, gid, gid) || setresuid(uid, uid, uid))
		return error_errno(err, "becoming uid %u, gid %u", (unsigned)uid, (unsigned)gid);
	if (uid && identity_drop_capabilities())
		return error_errno(err, "giving up capabilities");
	if (check_gone(uid, gid, err))
		return -1;
	/* Descriptors that were opened as root stay closed to the user's other processes and debuggers, whatever
	 * fs.suid_dumpable says. */
	if (uid && prctl(PR_SET_DUMPABLE, 0))
		return error_errno(err, "prctl");
	return 0;
}
