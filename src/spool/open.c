/* SPDX-License-Identifier: MIT
 * Opening and making a queue, and what is asked of its file system. A queue holds its user's environments, and starts
 * commands with his rights wherever a pilot of his runs: nobody else may write there.
 */
#include "spool/private.h"

#include "base/alloc.h"
#include "base/io.h"
#include "base/json.h"
#include "base/scope.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const folders[] = { "jobs", "live", "pilots", "tmp" };

const char *spool_dir(const struct spool *s)
{
	return s->dir;
}

const char *spool_mark(const struct spool *s)
{
	return s->mark;
}

static void name_caller(char by[SPOOL_NAME])
{
	char host[65] = "";
	const struct passwd *pw = getpwuid(geteuid());
	gethostname(host, sizeof host - 1);
	snprintf(by, SPOOL_NAME, "%.30s@%.60s", pw ? pw->pw_name : "?", host);
}

static int check_owner(const struct spool *s, struct error *err)
{
	struct stat st;
	if (fstat(s->fd, &st))
		return error_errno(err, "%s", s->dir);
	if (st.st_uid != geteuid()) {
		const struct passwd *pw = getpwuid(st.st_uid);
		return error_set(err, ERR_DENIED, "%s: belongs to %s: a queue is of one user, whose commands its pilots run; make one of "
				 "your own%s", s->dir, pw ? pw->pw_name : "another user", geteuid() ? "" :
				 " (root has no files on an NFS export with root_squash: run this as a user)");
	}
	if (st.st_mode & 022)
		return error_set(err, ERR_DENIED, "%s: others may write there (mode %o), so they could have commands run as you: chmod go-w "
				"it",
				 s->dir, (unsigned)(st.st_mode & 07777));
	return 0;
}

/* What is in the folder may be older than its mode: who could write there once, and had folders of his own there, would still
 * submit in its user's name. */
static int check_folder(const struct spool *s, const char *name, struct error *err)
{
	struct stat st;
	if (fstatat(s->fd, name, &st, AT_SYMLINK_NOFOLLOW))
		return error_errno(err, "%s/%s", s->dir, name);
	if (S_ISDIR(st.st_mode) && st.st_uid == geteuid() && !(st.st_mode & 022))
		return 0;
	return error_set(err, ERR_DENIED, "%s/%s: is no folder of yours alone: somebody else could have commands run as you from "
			 "there; take what is yours out of %s, and make a new queue", s->dir, name, s->dir);
}

/* ---- the probe ---- */

static int probe_says(const struct spool *s, const char *what, struct error *err)
{
	return error_set(err, ERR_UNAVAILABLE, "%s: this file system does not give a name to one process alone (%s), so a task could "
			"run "
			 "twice: put the queue on NFS, Lustre, GPFS or a local disk, for one in your home folder", s->dir, what);
}

static int probe_files(const struct spool *s, const char *base, struct error *err)
{
	char a[SPOOL_NAME], b[SPOOL_NAME + 8], why[100];
	struct stat st;
	snprintf(b, sizeof b, "%s.b", base);
	scoped_json *nothing = json_object();
	if (spool_file_make(s, nothing, a, err))
		return -1;
	int first = linkat(s->fd, a, s->fd, b, 0), no = errno;
	int again = linkat(s->fd, a, s->fd, b, 0), again_no = errno;
	bool counted = !fstatat(s->fd, a, &st, 0) && st.st_nlink == 2;
	unlinkat(s->fd, a, 0);
	unlinkat(s->fd, b, 0);
	snprintf(why, sizeof why, "link: %s", strerror(first ? no : again_no));
	if (first && (no == ENOSPC || no == EDQUOT || no == EACCES || no == EROFS || no == ESTALE))
		return errno = no, error_errno(err, "%s", s->dir);
	if (first || !again || again_no != EEXIST || !counted)
		return probe_says(s, first || again ? why : "link: a name was given twice", err);
	return 0;
}

/* A folder with something in it is not replaced. */
static int probe_folders(const struct spool *s, const char *base, struct error *err)
{
	char a[SPOOL_NAME + 8], b[SPOOL_NAME + 8], inside[SPOOL_NAME + 16];
	snprintf(a, sizeof a, "%s.d", base);
	snprintf(b, sizeof b, "%s.e", base);
	snprintf(inside, sizeof inside, "%s/x", b);
	if (mkdirat(s->fd, a, 0700) || mkdirat(s->fd, b, 0700))
		return error_errno(err, "%s", s->dir);
	int fd = openat(s->fd, inside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	int twice = openat(s->fd, inside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	int replaced = renameat(s->fd, a, s->fd, b);
	bool synced = fd >= 0 && !fsync(fd) && !spool_sync_folder(s, b, NULL);
	if (fd >= 0)
		close(fd);
	if (twice >= 0)
		close(twice);
	unlinkat(s->fd, inside, 0);
	unlinkat(s->fd, a, AT_REMOVEDIR);
	unlinkat(s->fd, b, AT_REMOVEDIR);
	if (twice >= 0 || !replaced)
		return probe_says(s, twice >= 0 ? "O_EXCL" : "rename of a folder", err);
	return synced ? 0 : probe_says(s, "fsync", err);
}

int spool_probe(const struct spool *s, struct error *err)
{
	char unique[SPOOL_NAME], base[SPOOL_NAME];
	spool_unique(unique);
	snprintf(base, sizeof base, "tmp/%.40s", unique);
	return probe_files(s, base, err) || probe_folders(s, base, err) ? -1 : 0;
}

/* ---- opening ---- */

static bool is_empty_folder(const char *dir)
{
	scoped_dir DIR *d = opendir(dir);
	size_t n = 0;
	for (struct dirent *e; d && (e = readdir(d));)
		n += strcmp(e->d_name, ".") && strcmp(e->d_name, "..");
	return d && !n;
}

/* Folders first: the file `spool` is there when all is. Two that make it at once make the same one. */
static int make_here(const struct spool *s, struct error *err)
{
	char name[SPOOL_NAME], mark[SPOOL_NAME];
	for (size_t i = 0; i < COUNT_OF(folders); i++)
		if (mkdirat(s->fd, folders[i], 0700) && errno != EEXIST)
			return error_errno(err, "%s/%s", s->dir, folders[i]);
	if (spool_probe(s, err))
		return -1;
	spool_unique(mark);
	mark[16] = 0;
	scoped_json *what = json_pack("{si, ss, ss}", "format", SPOOL_FORMAT, "mark", mark, "release", RAD_VERSION);
	return spool_file_make(s, what, name, err) || spool_file_link(s, name, ".", "spool", err) < 0 ? -1 : 0;
}

/* `write`: something is to be put there; who only looks may do so where nothing can be written. */
static int read_what(struct spool *s, bool write, struct error *err)
{
	scoped_json *what = spool_file_read(s, "spool", SPOOL_MAX_FILE, err);
	if (!what)
		return -1;
	json_int_t format = json_integer_value(json_object_get(what, "format"));
	const char *mark = json_string_value(json_object_get(what, "mark")), *release =
		json_string_value(json_object_get(what, "release"));
	if (format > SPOOL_FORMAT)
		return error_set(err, ERR_INVALID, "%s: is a queue of format %lld, made by rad %.40s; this is rad %s, which knows format %d: "
				"use "
				 "the newer rad", s->dir, (long long)format, release ? release : "?", RAD_VERSION, SPOOL_FORMAT);
	if (format < 1 || !mark || strlen(mark) != 16 || strspn(mark, "0123456789abcdef") != 16)
		return error_set(err, ERR_CORRUPT, "%s/spool: says neither format nor mark of a queue: it was damaged, or is none of ours",
				s->dir);
	memcpy(s->mark, mark, 17);
	for (size_t i = 0; i < COUNT_OF(folders); i++)
		if (check_folder(s, folders[i], err))
			return -1;
		else if (faccessat(s->fd, folders[i], R_OK | X_OK | (write ? W_OK : 0), AT_EACCESS))
			return error_errno(err, "%s/%s", s->dir, folders[i]);
	return 0;
}

static int open_dir(struct spool *s, const char *dir, bool create, struct error *err)
{
	bool there = !access(dir, F_OK);
	if (!there && create && io_make_dirs(dir, 0700, err))
		return -1;
	s->dir = realpath(dir, NULL);
	s->fd = s->dir ? open(s->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	if (s->fd < 0)
		return errno == ENOENT && !create ?
			error_set(err, ERR_NOT_FOUND, "%s: there is no queue there: rad submit --queue, or rad pilot, makes one", dir) :
			error_errno(err, "%s", dir);
	if (check_owner(s, err))
		return -1;
	if (!faccessat(s->fd, "spool", F_OK, 0))
		return 0;
	if (errno != ENOENT)
		return error_errno(err, "%s/spool", s->dir);
	/* What was begun and not finished has these folders, and nothing else. */
	if (is_empty_folder(s->dir) || !faccessat(s->fd, "tmp", F_OK, 0))
		return create ? make_here(s, err) : error_set(err, ERR_NOT_FOUND, "%s: there is no queue there yet: rad submit --queue, or "
							       "rad pilot, makes one", dir);
	return error_set(err, ERR_INVALID, "%s: holds other things, and no queue: name a folder of its own, such as %s/queue", dir,
			dir);
}

struct spool *spool_open(const char *dir, bool create, struct error *err)
{
	struct spool *s = alloc_zero(sizeof *s);
	s->fd = -1;
	s->seen = alloc_zero(sizeof *s->seen);
	name_caller(s->by);
	if (!open_dir(s, dir, create, err) && !read_what(s, create, err))
		return s;
	spool_close(s);
	return NULL;
}

void spool_close(struct spool *s)
{
	if (!s)
		return;
	if (s->fd >= 0)
		close(s->fd);
	free(s->dir);
	free(s->seen);
	free(s);
}
