/* SPDX-License-Identifier: MIT
 * See private.h. What is read here may have been torn by a server that lost its disk, or put there by hand: files are read
 * only when they are plain files of a bounded size.
 */
#include "spool/private.h"

#include "base/io.h"
#include "base/json.h"
#include "base/scope.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

void spool_unique(char name[SPOOL_NAME])
{
	uint64_t chance[2] = { (uint64_t)getpid(), 0 };
	if (getrandom(chance, sizeof chance, 0) < 0)	/* does not fail on any kernel that runs GPUs; a name that exists is seen */
		chance[1]++;
	snprintf(name, SPOOL_NAME, "%016llx%016llx", (unsigned long long)chance[0], (unsigned long long)chance[1]);
}

int spool_file_text(const struct spool *s, const char *path, size_t max, struct buf *text, struct error *err)
{
	struct stat st;
	scoped_fd int fd = openat(s->fd, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW);
	if (fd < 0 && errno == ENOENT)
		return error_set(err, ERR_NOT_FOUND, "%s/%s: is not there", s->dir, path);
	if (fd < 0 && errno == ELOOP)
		return error_set(err, ERR_CORRUPT, "%s/%s: is a link, and no file of a queue", s->dir, path);
	if (fd < 0 && errno != ENXIO)
		return error_errno(err, "%s/%s", s->dir, path);
	if (fd >= 0 && fstat(fd, &st))
		return error_errno(err, "%s/%s", s->dir, path);
	if (fd < 0 || !S_ISREG(st.st_mode))	/* ENXIO: a socket */
		return error_set(err, ERR_CORRUPT, "%s/%s: is no plain file", s->dir, path);
	if (st.st_uid != geteuid())
		return error_set(err, ERR_CORRUPT, "%s/%s: is a file of uid %u's, and was not written by rad", s->dir, path,
				 (unsigned)st.st_uid);
	return io_read_fd(fd, path, max, text, err);
}

json_t *spool_file_read(const struct spool *s, const char *path, size_t max, struct error *err)
{
	scoped_buf text = { 0 };
	json_error_t why;
	if (spool_file_text(s, path, max, &text, err))
		return NULL;
	json_t *o = json_loadb(buf_text(&text), text.len, JSON_REJECT_DUPLICATES, &why);
	if (json_is_object(o))
		return o;
	json_decref(o);
	error_set(err, ERR_CORRUPT, "%s/%s: cannot be read (%s)", s->dir, path, o ? "no object" : why.text);
	return NULL;
}

int spool_sync_folder(const struct spool *s, const char *folder, struct error *err)
{
	scoped_fd int fd = openat(s->fd, folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 || fsync(fd) ? error_errno(err, "%s/%s", s->dir, folder) : 0;
}

void spool_open_folder(const struct spool *s, const char *folder)
{
	scoped_fd int fd = openat(s->fd, folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	(void)fd;
}

/* All errors of a write are known when this returns: NFS keeps some of them (a full disk, a quota) until the sync or the
 * close. */
static int write_new(const struct spool *s, const char *path, const json_t *content, bool sync, struct error *err)
{
	scoped_free char *text = json_to_text(content);
	int fd = openat(s->fd, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return error_errno(err, "%s/%s", s->dir, path);
	int failed = io_write_full(fd, text, strlen(text)) || io_write_full(fd, "\n", 1) || (sync && fsync(fd));
	int no = errno;
	if (close(fd) && !failed) {
		failed = -1;
		no = errno;
	}
	if (!failed)
		return 0;
	unlinkat(s->fd, path, 0);
	errno = no;
	return error_errno(err, "%s/%s", s->dir, path);
}

int spool_file_make(const struct spool *s, const json_t *content, char *name, struct error *err)
{
	char unique[SPOOL_NAME];
	spool_unique(unique);
	snprintf(name, SPOOL_NAME, "tmp/%.80s", unique);
	return write_new(s, name, content, true, err);
}

/* How many names the file has: two, when a link was made whose answer was lost. -1: cannot be asked. It is opened, since a
 * client of NFS asks the server at an open, and answers stat(2) from what it remembers: one. */
static int links_of(const struct spool *s, const char *name)
{
	struct stat st;
	scoped_fd int fd = openat(s->fd, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW);
	return fd < 0 || fstat(fd, &st) ? -1 : (int)st.st_nlink;
}

int spool_file_link(const struct spool *s, const char *name, const char *folder, const char *path, struct error *err)
{
	int failed = linkat(s->fd, name, s->fd, path, 0), no = errno;
	if (failed && links_of(s, name) == 2)
		failed = 0;
	/* The name is what counts, whatever the sync says: it can be seen by others now. */
	if (!failed)
		spool_sync_folder(s, folder, NULL);
	unlinkat(s->fd, name, 0);
	if (!failed)
		return 0;
	if (no == EEXIST)
		return 1;
	errno = no;
	return error_errno(err, "%s/%s", s->dir, path);
}

int spool_file_replace(const struct spool *s, const char *path, const json_t *content, struct error *err)
{
	char unique[SPOOL_NAME], name[SPOOL_NAME + 8];
	spool_unique(unique);
	snprintf(name, sizeof name, "tmp/%s", unique);
	if (write_new(s, name, content, false, err))
		return -1;
	if (!renameat(s->fd, name, s->fd, path))
		return 0;
	error_errno(err, "%s/%s", s->dir, path);
	unlinkat(s->fd, name, 0);
	return -1;
}
