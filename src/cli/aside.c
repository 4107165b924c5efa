/* SPDX-License-Identifier: MIT
 * See aside.h. Whoever may not mount gets a user namespace, in which the caller keeps its ids and all others are nobody's. That
 * has a price: an overlay cannot copy up what is somebody else's, or another group's, since it could not give them the copy. So
 * one begins where all is the caller's, for its own root is not copied; files that others own cannot be changed.
 *
 * Layers are named by descriptors (/proc/self/fd/N), so that no path needs escaping.
 */
#include "cli/aside.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#define SOURCE "rad-aside"	/* how mounts of these are known */
#define NOBODY 65534		/* which is shown for an id that a user namespace does not have */
#define MOST_KEPT 8
#define MOST_COVERS 10000

/* ---- folders that stay as they are ---- */

static const char *const no_disks[] = { "/proc", "/sys", "/dev", "/run" };

struct staying {
	char *paths[MOST_KEPT];		/* resolved */
	int fds[MOST_KEPT];		/* of those that are hidden by a mount; -1 */
	int n;
};

static void keep(struct staying *k, const char *folder, const char *below)
{
	char path[PATH_MAX];
	if (!folder || !*folder || k->n == MOST_KEPT || snprintf(path, sizeof path, "%s%s", folder, below) >= (int)sizeof path)
		return;
	if ((k->paths[k->n] = realpath(path, NULL)))
		k->fds[k->n++] = -1;
}

static void find_kept(struct staying *k)
{
	const char *cache = getenv("XDG_CACHE_HOME");
	*k = (struct staying){ .n = 0 };
	keep(k, getenv("TMPDIR"), "");
	keep(k, "/tmp", "");
	keep(k, "/var/tmp", "");
	bool said = cache && *cache == '/';	/* as paths_own has it */
	keep(k, said ? cache : getenv("HOME"), said ? "" : "/.cache");
	keep(k, getenv("HF_HOME"), "");
	keep(k, getenv("TORCH_HOME"), "");
}

static void forget_kept(struct staying *k)
{
	for (int i = 0; i < k->n; i++) {
		free(k->paths[i]);
		if (k->fds[i] >= 0)
			close(k->fds[i]);
	}
}

static bool is_within(const char *path, const char *folder)
{
	size_t n = strlen(folder);
	return !strncmp(path, folder, n) && (!path[n] || path[n] == '/');
}

static bool stays(const struct staying *k, const char *folder)
{
	for (size_t i = 0; i < sizeof no_disks / sizeof *no_disks; i++)
		if (is_within(folder, no_disks[i]))
			return true;
	for (int i = 0; i < k->n; i++)
		if (is_within(folder, k->paths[i]))
			return true;
	return false;
}

/* ---- what is mounted ---- */

/* As /proc/self/mountinfo writes it: a blank is \040. In place. */
static void unescape(char *s)
{
	char *to = s;
	for (; *s; s++)
		if (*s == '\\' && strspn(s + 1, "01234567") >= 3) {
			*to++ = (char)((s[1] - '0') << 6 | (s[2] - '0') << 3 | (s[3] - '0'));
			s += 3;
		} else {
			*to++ = *s;
		}
	*to = 0;
}

/* How `folder` stands to the mounts. */
struct among {
	bool covered;	/* by an overlay of these */
	size_t below;	/* length of the shortest part of it that has no other mount below: an overlay would hide that */
};

static void look_among(const char *folder, struct among *a)
{
	char line[3 * PATH_MAX], at[PATH_MAX];
	FILE *f = fopen("/proc/self/mountinfo", "re");
	*a = (struct among){ .covered = false, .below = f ? 1 : SIZE_MAX };
	while (f && fgets(line, sizeof line, f)) {
		const char *rest = strstr(line, " - ");
		size_t same = 0, slash = 0;
		if (!rest || sscanf(line, "%*s %*s %*s %*s %4095s", at) != 1)
			continue;
		unescape(at);
		if (is_within(folder, at)) {
			a->covered = a->covered || !strncmp(rest, " - overlay " SOURCE " ", sizeof " - overlay " SOURCE " " - 1);
			continue;
		}
		for (; folder[same] && folder[same] == at[same]; same++)
			slash = folder[same] == '/' ? same + 1 : slash;
		/* It is below folder[..slash] or, if all of `folder` begins it, below that: then nothing will do. */
		bool all = !folder[same] && at[same] == '/';
		size_t least = all ? SIZE_MAX : slash + 1;
		a->below = least > a->below ? least : a->below;
	}
	if (f)
		fclose(f);
}

/* ---- one folder ---- */

/* A folder of which an overlay can make a copy. What the namespace has no id for is nobody's there. */
static bool is_own(const char *path)
{
	struct stat st;
	return !stat(path, &st) && st.st_uid == geteuid() && st.st_gid != NOBODY;
}

/* The topmost folder from which all are own, down to that one; itself, if it is not. What stays as it is is no part of an
 * overlay, so one within it begins within it. */
static bool find_root(const char *folder, const struct staying *k, size_t below, char root[PATH_MAX])
{
	char above[PATH_MAX];
	size_t n = strlen(folder);
	for (int i = 0; i < k->n; i++)
		if (is_within(folder, k->paths[i]) && strlen(k->paths[i]) >= below)
			below = strlen(k->paths[i]) + 1;
	if (n < below || n >= PATH_MAX) {
		errno = EBUSY;
		return false;
	}
	snprintf(root, PATH_MAX, "%s", folder);
	snprintf(above, sizeof above, "%s", folder);
	while (n >= below && is_own(above)) {
		snprintf(root, PATH_MAX, "%s", above);
		*strrchr(above, '/') = 0;
		n = strlen(above);
	}
	return true;
}

static int open_folder(int at, const char *path)
{
	return openat(at, path, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

/* A folder of the scratch with one for the upper layer and one to work in. Its descriptor, or -1. */
static int make_layer(const char *scratch, const struct stat *of)
{
	char path[PATH_MAX];
	for (int i = 0; i < MOST_COVERS; i++) {
		if (snprintf(path, sizeof path, "%s/%d", scratch, i) >= (int)sizeof path) {
			errno = ENAMETOOLONG;
			return -1;
		}
		if (!mkdir(path, 0700))
			break;
		if (errno != EEXIST)
			return -1;
	}
	int fd = open_folder(AT_FDCWD, path);
	if (fd >= 0 && !mkdirat(fd, "upper", 0700) && !mkdirat(fd, "work", 0700) && !fchmodat(fd, "upper", of->st_mode & 07777, 0))
		return fd;
	if (fd >= 0)
		close(fd);
	return -1;
}

static int mount_overlay(int lower, int layer, const char *root)
{
	char options[160];
	int upper = open_folder(layer, "upper"), work = open_folder(layer, "work"), rc = -1;
	/* Trusted attributes are the initial user namespace's. */
	for (int user = 0; rc && user < 2 && upper >= 0 && work >= 0; user++) {
		snprintf(options, sizeof options, "lowerdir=/proc/self/fd/%d,upperdir=/proc/self/fd/%d,workdir=/proc/self/fd/%d%s", lower,
			 upper, work, user ? "" : ",userxattr");
		rc = mount(SOURCE, root, "overlay", 0, options);
	}
	int why = errno;
	close(upper);
	close(work);
	errno = why;
	return rc;
}

static void open_hidden(struct staying *k, const char *root)
{
	for (int i = 0; i < k->n; i++)
		if (is_within(k->paths[i], root))
			k->fds[i] = open_folder(AT_FDCWD, k->paths[i]);
}

static int show_hidden(const struct staying *k)
{
	char from[32];
	for (int i = 0; i < k->n; i++) {
		snprintf(from, sizeof from, "/proc/self/fd/%d", k->fds[i]);
		if (k->fds[i] >= 0 && mount(from, k->paths[i], NULL, MS_BIND | MS_REC, NULL))
			return -1;
	}
	return 0;
}

/* Paths that are looked up from now on lead to the overlay, and so must the working folder. */
static int lay(const char *scratch, const char *root, struct staying *k)
{
	char cwd[PATH_MAX];
	struct stat st;
	int lower = open_folder(AT_FDCWD, root);
	int layer = lower >= 0 && !fstat(lower, &st) ? make_layer(scratch, &st) : -1, rc = -1;
	open_hidden(k, root);
	bool mounted = layer >= 0 && getcwd(cwd, sizeof cwd) && !mount_overlay(lower, layer, root);
	if (mounted)
		rc = show_hidden(k) || chdir(cwd) ? -1 : 0;
	int why = errno;
	if (mounted && rc)		/* what is written there would be lost, and nobody told */
		umount2(root, MNT_DETACH);
	if (lower >= 0)
		close(lower);
	if (layer >= 0)
		close(layer);
	errno = why;
	return rc;
}

/* As aside_cover. `folder` is resolved. Where it cannot be written to, there is nothing to lay aside. */
static int cover(const char *scratch, const char *folder, struct staying *k)
{
	char root[PATH_MAX];
	struct among a;
	look_among(folder, &a);
	if (a.covered || access(folder, W_OK))
		return 0;
	return find_root(folder, k, a.below, root) && !lay(scratch, root, k) ? 1 : -1;
}

/* The nearest folder above a path that is there, resolved; NULL: it has none. Free it. */
static char *folder_above(const char *path)
{
	char above[PATH_MAX], *slash;
	struct stat st;
	if (snprintf(above, sizeof above, "%s%s", *path == '/' ? "" : "./", path) >= (int)sizeof above)
		return NULL;
	while ((slash = strrchr(above, '/'))) {
		slash[slash == above] = 0;
		if (!stat(above, &st) && S_ISDIR(st.st_mode))
			return realpath(above, NULL);
		if (slash == above)
			break;
	}
	return NULL;
}

/* ---- the namespace ---- */

static int write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : write(fd, text, strlen(text));
	if (fd >= 0)
		close(fd);
	return n < 0 ? -1 : 0;
}

/* What an overlay's layers are made with, as whoever mounts it. A process has these rights of its user namespace, but they hold
 * while it mounts alone: with them it could write over its own files that are write-protected. */
#define NEEDED (1u << CAP_SYS_ADMIN | 1u << CAP_DAC_OVERRIDE | 1u << CAP_FOWNER | 1u << CAP_CHOWN)

struct rights {
	struct __user_cap_header_struct head;
	struct __user_cap_data_struct sets[2];
};

static bool get_rights(struct rights *r)
{
	r->head = (struct __user_cap_header_struct){ .version = _LINUX_CAPABILITY_VERSION_3 };
	return !syscall(SYS_capget, &r->head, r->sets);
}

/* Of this thread. What it has not, as outside a user namespace of these, it does not get. */
static void use_rights(struct rights now)
{
	now.sets[0].effective |= now.sets[0].permitted & NEEDED;
	syscall(SYS_capset, &now.head, now.sets);
}

/* `programs`: those that this process starts have them too. */
static void keep_rights(uint32_t rights, bool programs)
{
	struct rights r;
	if (!get_rights(&r))
		return;
	r.sets[0] = r.sets[1] = (struct __user_cap_data_struct){ .permitted = 0 };
	r.sets[0].permitted = rights;
	r.sets[0].inheritable = programs ? rights : 0;
	if (syscall(SYS_capset, &r.head, r.sets))
		return;
	for (unsigned right = 0; programs && rights >> right; right++)
		if (rights >> right & 1)
			prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, right, 0, 0);
}

void aside_rest(void)
{
	struct rights r;
	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, CAP_SYS_ADMIN, 0, 0) != 1 || !get_rights(&r))
		return;
	r.sets[0].effective = r.sets[1].effective = 0;
	syscall(SYS_capset, &r.head, r.sets);
}

int aside_cover(const char *scratch, const char *path)
{
	struct staying k;
	struct rights before;
	char *folder = folder_above(path);
	if (!folder)
		return 0;
	bool known = get_rights(&before);
	if (known)
		use_rights(before);
	find_kept(&k);
	int rc = stays(&k, folder) ? 0 : cover(scratch, folder, &k);
	int why = errno;
	if (known)
		syscall(SYS_capset, &before.head, before.sets);
	forget_kept(&k);
	free(folder);
	errno = why;
	return rc;
}

/* *user: it took a user namespace. */
static int separate(bool *user)
{
	char uids[64], gids[64];
	if (!unshare(CLONE_NEWNS))
		return 0;
	snprintf(uids, sizeof uids, "%u %u 1", geteuid(), geteuid());
	snprintf(gids, sizeof gids, "%u %u 1", getegid(), getegid());
	*user = !unshare(CLONE_NEWUSER | CLONE_NEWNS);
	return !*user || write_text("/proc/self/uid_map", uids) || write_text("/proc/self/setgroups", "deny") ||
	       write_text("/proc/self/gid_map", gids) ? -1 : 0;
}

static bool lay_working_folder(const char *scratch, struct staying *k)
{
	char cwd[PATH_MAX];
	errno = EPERM;
	return getcwd(cwd, sizeof cwd) && is_own(cwd) && !setxattr(scratch, "user.rad", "", 0, 0) && cover(scratch, cwd, k) > 0;
}

/* In memory, where nothing can be left behind and no more than so much can be written; on the scratch's disk where memory keeps
 * no attributes (Linux before 6.6), where no file may be larger. */
static int lay_first(const char *scratch, uint64_t mib, struct staying *k)
{
	char options[64];
	struct rlimit most;
	snprintf(options, sizeof options, "mode=700,size=%llum", (unsigned long long)mib);
	if (mount(SOURCE, scratch, "tmpfs", MS_NOSUID | MS_NODEV, options))
		return -1;
	if (lay_working_folder(scratch, k))
		return 0;
	if (umount2(scratch, MNT_DETACH) || !lay_working_folder(scratch, k) || getrlimit(RLIMIT_FSIZE, &most))
		return -1;
	most.rlim_cur = most.rlim_max < mib << 20 ? most.rlim_max : mib << 20;
	return setrlimit(RLIMIT_FSIZE, &most);
}

static int enter(const char *scratch, uint64_t mib, bool programs)
{
	struct staying k;
	char *home = getenv("HOME") ? realpath(getenv("HOME"), NULL) : NULL;
	find_kept(&k);
	bool user = false;
	int rc = separate(&user) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ? -1 : lay_first(scratch, mib, &k);
	int why = errno;
	/* What is mounted in a home may not be hidden: then its folders are covered one by one. */
	if (!rc && home && !stays(&k, home))
		cover(scratch, home, &k);
	if (user)
		keep_rights(rc ? 0 : NEEDED, programs);
	forget_kept(&k);
	free(home);
	errno = why;
	return rc;
}

/* In a process of its own, for there is no way back out of a namespace: where it is made without the rights that it should
 * give, as AppArmor may have it, its ids cannot be set either, and all that the capture does would be nobody's. 0, or -1 with
 * errno. */
static int try_to_enter(const char *folder, const char *scratch, uint64_t mib)
{
	int status = -1;
	pid_t pid = fork();
	if (!pid)
		_exit(!chdir(folder) && !enter(scratch, mib, false) ? 0 : errno ? errno : EPERM);
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (pid > 0)
		errno = WIFEXITED(status) ? WEXITSTATUS(status) : EIO;
	return pid < 0 || errno ? -1 : 0;
}

int aside_enter(const char *scratch, uint64_t mib, bool programs)
{
	return try_to_enter(".", scratch, mib) ? -1 : enter(scratch, mib, programs);
}

/* ---- whether ---- */

/* What aside_enter leaves of layers where nothing was written. */
static void remove_layers(const char *scratch)
{
	static const char *const parts[] = { "work/work", "work", "upper", "" };
	char path[PATH_MAX];
	int rc = 0;
	for (int i = 0; !rc; i++)
		for (size_t j = 0; j < sizeof parts / sizeof *parts; j++)
			rc = snprintf(path, sizeof path, "%s/%d/%s", scratch, i, parts[j]) < (int)sizeof path ? rmdir(path) : -1;
	rmdir(scratch);
}

bool aside_works(const char *folder)
{
	const char *temporary = getenv("TMPDIR");
	char scratch[PATH_MAX];
	int n = snprintf(scratch, sizeof scratch, "%s/rad-aside-XXXXXX", temporary && *temporary ? temporary : "/tmp");
	if (n >= (int)sizeof scratch || !mkdtemp(scratch))
		return false;
	bool works = !try_to_enter(folder, scratch, 1);
	remove_layers(scratch);
	return works;
}
