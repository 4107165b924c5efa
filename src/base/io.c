/* SPDX-License-Identifier: MIT
 * Whole reads and writes: see io.h.
 */
#include "base/io.h"

#include "base/alloc.h"
#include "base/scope.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <libgen.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

ssize_t io_read_full(int fd, void *bytes, size_t n)
{
	size_t done = 0;
	while (done < n) {
		ssize_t got = read(fd, (char *)bytes + done, n - done);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -1;
		if (!got)
			break;
		done += (size_t)got;
	}
	return (ssize_t)done;
}

int io_write_full(int fd, const void *bytes, size_t n)
{
	size_t done = 0;
	while (done < n) {
		ssize_t put = write(fd, (const char *)bytes + done, n - done);
		if (put < 0 && errno == EINTR)
			continue;
		if (put < 0)
			return -1;
		done += (size_t)put;
	}
	return 0;
}

int io_read_fd(int fd, const char *name, size_t max, struct buf *out, struct error *err)
{
	char chunk[65536];
	size_t before = out->len;
	for (;;) {
		ssize_t got = read(fd, chunk, sizeof chunk);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return error_errno(err, "%s", name);
		if (!got)
			return 0;
		buf_add(out, chunk, (size_t)got);
		if (out->len - before > max)
			return error_set(err, ERR_INVALID, "%s: larger than %zu bytes, the most that is read here", name, max);
	}
}

/* What else than a file it is; NULL: one, or /dev/null, which people write for an empty one. */
static const char *no_file(const struct stat *st)
{
	if (S_ISREG(st->st_mode) || (S_ISCHR(st->st_mode) && st->st_rdev == makedev(1, 3)))
		return NULL;
	return S_ISDIR(st->st_mode) ? "folder" : S_ISFIFO(st->st_mode) ? "pipe" : "device";
}

int io_read_file(const char *path, size_t max, struct buf *out, struct error *err)
{
	struct stat st;
	scoped_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0 || fstat(fd, &st))
		return error_errno(err, "%s", path);
	const char *other = no_file(&st);
	if (other)
		return error_set(err, ERR_INVALID, "%s: is a %s, not a file", path, other);
	return io_read_fd(fd, path, max, out, err);
}

/* A folder may be one to write into and not to read, and its file system one that does not sync folders: then the file is in
 * place, and nothing more can be done for it. */
int io_sync_parent(const char *path, struct error *err)
{
	scoped_free char *copy = alloc_string(path);
	const char *dir = dirname(copy);
	scoped_fd int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if ((fd < 0 && errno != EACCES) || (fd >= 0 && fsync(fd) && errno != EINVAL))
		return error_errno(err, "%s", dir);
	return 0;
}

/* By a name that nobody can have taken before, and only if nobody has: the folder may be /tmp, where others lay links. */
static int open_beside(const char *path, unsigned mode, char **temporary)
{
	unsigned chance[2] = { (unsigned)getpid() };
	if (getrandom(chance, sizeof chance, GRND_NONBLOCK) < 0)
		chance[1]++;
	*temporary = alloc_printf("%s.tmp-%08x%08x", path, chance[0], chance[1]);
	return open(*temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
}

int io_replace_file(const char *path, const void *bytes, size_t n, unsigned mode, struct error *err)
{
	scoped_free char *temporary = NULL;
	scoped_fd int fd = open_beside(path, mode, &temporary);
	if (fd < 0)
		return error_errno(err, "%s", path);
	if (io_write_full(fd, bytes, n) || fsync(fd) || rename(temporary, path)) {
		error_errno(err, "%s", path);
		unlink(temporary);
		return -1;
	}
	return io_sync_parent(path, err);
}

/* A link that somebody else laid, in /tmp perhaps, may lead to what only the caller may write: it is replaced. */
int io_save_file(const char *path, const void *bytes, size_t n, struct error *err)
{
	struct stat st;
	bool there = !lstat(path, &st), link = there && S_ISLNK(st.st_mode);
	if (!there || S_ISREG(st.st_mode) || (link && st.st_uid && st.st_uid != geteuid()))
		return io_replace_file(path, bytes, n, there && !link ? st.st_mode & 0777 : 0644, err);
	scoped_fd int fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC | O_NOCTTY | (link ? O_CREAT : O_NOFOLLOW), 0644);
	return fd < 0 || io_write_full(fd, bytes, n) ? error_errno(err, "%s", path) : 0;
}

DIR *io_open_folder(int at, const char *path)
{
	scoped_fd int fd = openat(at, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	if (dir)
		fd = -1;	/* it is the DIR's */
	return dir;
}

int io_make_dirs(const char *path, unsigned mode, struct error *err)
{
	scoped_free char *copy = alloc_string(path);
	for (char *p = copy; *p; p++) {
		if (*p != '/' || p == copy)
			continue;
		*p = 0;
		if (mkdir(copy, 0755) && errno != EEXIST)
			return error_errno(err, "%s", copy);
		*p = '/';
	}
	if (mkdir(copy, mode) && errno != EEXIST)
		return error_errno(err, "%s", path);
	struct stat st;
	if (stat(copy, &st) || !S_ISDIR(st.st_mode))
		return error_set(err, ERR_INVALID, "%s: is not a folder", path);
	return 0;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *where)
{
	(void)st, (void)type, (void)where;
	remove(path);
	return 0;	/* what does not go does not keep the rest */
}

void io_remove_tree(const char *path)
{
	nftw(path, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

int io_set_nonblocking(int fd, bool on)
{
	int flags = fcntl(fd, F_GETFL);
	if (flags < 0)
		return -1;
	return fcntl(fd, F_SETFL, on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK);
}

void io_fill_standard(void)
{
	for (int fd = 0; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) != fd)
			abort();
}
