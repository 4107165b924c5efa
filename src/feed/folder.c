/* SPDX-License-Identifier: MIT */
#include "feed/folder.h"
#include "base/alloc.h"
#include "feed/fds.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef SO_PEERGROUPS
#define SO_PEERGROUPS 59	/* Linux 4.13 */
#endif

enum { GROUPS_MAX = 65536, FOLDER_MODE = 02770, FILE_MODE = 0660 };

static bool is_member(gid_t gid)
{
	gid_t *list = alloc_zero(GROUPS_MAX * sizeof *list);
	int n = getgroups(GROUPS_MAX, list);
	bool found = getegid() == gid;
	for (int i = 0; i < n && !found; i++)
		found = list[i] == gid;
	free(list);
	return found;
}

int feed_folder_group(const char *name, struct feed_party *party, struct error *err)
{
	char room[65536];
	struct group entry, *found = NULL;
	char *end;
	unsigned long number = strtoul(name, &end, 10);
	bool is_number = isdigit((unsigned char)name[0]) && *end == 0 && number < (gid_t)-1;
	if (!is_number && (getgrnam_r(name, &entry, room, sizeof room, &found) || !found))
		return error_set(err, ERR_NOT_FOUND, "feed: there is no group \"%.80s\"", name);
	*party = (struct feed_party){ .of_group = true, .gid = is_number ? (gid_t)number : entry.gr_gid };
	if (!is_member(party->gid))
		return error_set(err, ERR_DENIED, "feed: this process is not of the group \"%.80s\" (`id` shows its groups; a new one "
				 "needs a new login)", name);
	return 0;
}

/* Whether the folder is there, and the party's alone. That it is a group's only a member can have done, or root. Returns 1, 0
 * if it is not there, or -1. */
static int check(const struct feed_party *party, const char *dir, struct error *err)
{
	struct stat st;
	if (lstat(dir, &st))
		return errno == ENOENT ? 0 : error_errno(err, "feed: folder %s", dir);
	if (party->of_group && (!S_ISDIR(st.st_mode) || st.st_gid != party->gid || (st.st_mode & 07777) != FOLDER_MODE))
		return error_set(err, ERR_DENIED, "feed: %s must be a folder of the group %u with mode 2770; RADFEED_DIR names another", dir,
				 (unsigned)party->gid);
	if (!party->of_group && (!S_ISDIR(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 077)))
		return error_set(err, ERR_DENIED, "feed: %s must be a folder of yours with mode 0700; RADFEED_DIR names another", dir);
	return 1;
}

/* Under another name first: nobody finds it half made. Where it is there already, that one stays. */
static int make_shared(const char *dir, gid_t gid, struct error *err)
{
	char new[256];
	if (snprintf(new, sizeof new, "%s.XXXXXX", dir) >= (int)sizeof new)
		return error_set(err, ERR_INVALID, "feed: folder %.80s...: too long", dir);
	if (!mkdtemp(new))
		return error_errno(err, "feed: folder %s", new);
	if (chown(new, (uid_t)-1, gid) || chmod(new, FOLDER_MODE)) {
		error_errno(err, "feed: folder %s for its group", dir);
		rmdir(new);
		return -1;
	}
	if (rename(new, dir))
		rmdir(new);
	return 0;
}

int feed_folder_look(const struct feed_party *party, char *dir, size_t size, struct error *err)
{
	const char *given = getenv("RADFEED_DIR");
	int n = given && *given ? snprintf(dir, size, "%s", given) :
		party->of_group ? snprintf(dir, size, "/tmp/radfeed-group-%u", (unsigned)party->gid) :
				  snprintf(dir, size, "/tmp/radfeed-%u", (unsigned)geteuid());
	if (n >= (int)size)
		return error_set(err, ERR_INVALID, "feed: RADFEED_DIR is too long for a socket's address");
	return check(party, dir, err);
}

int feed_folder_find(const struct feed_party *party, char *dir, size_t size, struct error *err)
{
	int rc;
	while (!(rc = feed_folder_look(party, dir, size, err)))
		if (party->of_group ? make_shared(dir, party->gid, err) : mkdir(dir, 0700) && errno != EEXIST)
			return err && err->code ? -1 : error_errno(err, "feed: folder %s", dir);
	return rc < 0 ? -1 : 0;
}

/* With the group's rights from the beginning, whatever the umask is: whoever finds the file may open it. */
static int make_file(const char *path, struct error *err)
{
	char new[256];
	const char *name = strrchr(path, '/');
	int room = snprintf(new, sizeof new, "%.*s/.new-XXXXXX", (int)(name - path), path);
	int fd = room < (int)sizeof new ? mkostemp(new, O_CLOEXEC) : -1;
	if (fd < 0)
		return error_errno(err, "feed: a file beside %s", path);
	int rc = fchmod(fd, FILE_MODE) || (link(new, path) && errno != EEXIST) ? error_errno(err, "feed: %s", path) : 0;
	unlink(new);
	close(fd);
	return rc;
}

int feed_folder_open(const struct feed_party *party, const char *path, struct error *err)
{
	int flags = O_RDWR | O_CLOEXEC | O_NOFOLLOW;
	int fd = open(path, party->of_group ? flags : flags | O_CREAT, 0600);
	while (fd < 0 && errno == ENOENT && party->of_group) {	/* others may take it away meanwhile */
		if (make_file(path, err))
			return -1;
		fd = open(path, flags);
	}
	struct stat st;
	if (feed_fds_own(fd) < 0 || fstat(fd, &st))
		return error_errno(err, "feed: %s", path);
	if (S_ISREG(st.st_mode) && (!party->of_group || (st.st_gid == party->gid && !(st.st_mode & 07))))
		return fd;
	feed_fds_close(&fd);
	return error_set(err, ERR_DENIED, "feed: %s is no file of its group alone: remove it", path);
}

static bool peer_in_group(int sock, gid_t gid)
{
	gid_t *list = alloc_zero(GROUPS_MAX * sizeof *list);
	socklen_t bytes = GROUPS_MAX * sizeof *list;
	bool found = false;
	if (getsockopt(sock, SOL_SOCKET, SO_PEERGROUPS, list, &bytes) == 0)
		for (size_t i = 0; i < bytes / sizeof *list && !found; i++)
			found = list[i] == gid;
	free(list);
	return found;
}

bool feed_folder_trusts(const struct feed_party *party, int sock, pid_t *pid)
{
	struct ucred cred;
	socklen_t n = sizeof cred;
	if (getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &cred, &n))
		return false;
	*pid = cred.pid;
	if (!party->of_group)
		return cred.uid == geteuid();
	return cred.gid == party->gid || peer_in_group(sock, party->gid);
}
