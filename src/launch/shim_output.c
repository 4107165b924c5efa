/* SPDX-License-Identifier: MIT
 * A task's output files. The program writes them itself, so nothing here can block or end it; we read along for the last
 * error, and for how far it is. A file that grows faster than it can be read is skipped ahead: the last error stands near the
 * end. Of what a program printed since the last look only the end says how far it is now.
 */
#include "launch/shim.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/scope.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <string.h>
#include <sys/stat.h>

/* Short lines are read at 6 MB a second: so a third of a second at once, and no task is kept on its GPU for more than a second
 * or two by what it printed. */
#define READ_AT_ONCE ((off_t)2 << 20)
#define BACKLOG_MAX ((off_t)256 << 20)
#define BACKLOG_KEPT ((off_t)8 << 20)
#define LATEST 8192	/* bytes that are read for progress at one look: 0.1 milliseconds, 0.5 at worst */

static int explain_open(const char *path, struct error *err)
{
	struct stat st;
	int why = errno;
	scoped_free char *copy = alloc_string(path);
	const char *folder = dirname(copy);
	if (why == ENOENT && access(folder, F_OK))
		return error_set(err, ERR_INVALID, "output %s: the folder %s does not exist; make it, or choose another --output",
				 path, folder);
	/* In a folder that users share, with a radd each: both count from 1. */
	if (why == EACCES && !stat(path, &st) && st.st_uid != geteuid())
		return error_set(err, ERR_INVALID, "output %s: another user's file (of uid %u) has that name: choose another --output",
				 path, (unsigned)st.st_uid);
	if (why == ENXIO)
		return error_set(err, ERR_INVALID, "output %s: a pipe that nobody reads", path);
	errno = why;
	return error_errno(err, "output %s", path);
}

/* Whether all may make files in its folder, and none remove another's, as in /tmp. */
static bool is_shared(const char *path, struct stat *folder)
{
	scoped_free char *copy = alloc_string(path);
	return !stat(dirname(copy), folder) && folder->st_mode & S_ISVTX && folder->st_mode & S_IWOTH;
}

/* There a log's name can be guessed, and somebody have put a file of theirs, or a link to anything, in its place. What the
 * kernel refuses then (fs.protected_symlinks, _regular and _fifos) is refused where it does not. */
static int open_shared(const char *path, int flags, const struct stat *folder, struct error *err)
{
	struct stat st;
	scoped_fd int fd = open(path, flags | O_NOFOLLOW, 0666);
	int why = errno;
	if (fd < 0 ? lstat(path, &st) || !S_ISLNK(st.st_mode) : fstat(fd, &st)) {
		errno = why;
		return explain_open(path, err);
	}
	if (st.st_uid != geteuid() && st.st_uid != folder->st_uid)
		return error_set(err, ERR_INVALID, "output %s: another user (uid %u) has put a %s there: choose another --output", path,
				 (unsigned)st.st_uid, fd < 0 ? "link" : "file");
	if (fd < 0)
		fd = open(path, flags, 0666);
	return fd < 0 ? explain_open(path, err) : steal_fd(fd);
}

int output_open(const char *path, bool truncate, const char *heading, struct error *err)
{
	struct stat st;
	/* Without O_NONBLOCK a pipe with no reader would hold us for ever. */
	int flags = O_WRONLY | O_APPEND | O_CREAT | O_NOCTTY | O_NONBLOCK | O_CLOEXEC | (truncate ? O_TRUNC : 0);
	bool shared = is_shared(path, &st);
	scoped_fd int fd = shared ? open_shared(path, flags, &st, err) : open(path, flags, 0666);
	if (fd < 0)
		return shared ? -1 : explain_open(path, err);
	if (heading && !fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_size)
		io_write_full(fd, heading, strlen(heading));
	if (io_set_nonblocking(fd, false))
		return error_errno(err, "output %s", path);
	return steal_fd(fd);
}

struct output_watch {
	int fd;
	off_t at;
	struct scan *scan;
	uint64_t scan_began;		/* file offset of the first byte this scan saw */
	struct scan_result before;	/* of the scans before it */
	struct progress *progress;
	uint64_t dev, ino;
};

struct output_watch *output_watch_start(const char *path, int written_fd, int64_t epochs)
{
	struct stat written, opened;
	scoped_fd int fd = open(path, O_RDONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &opened) || fstat(written_fd, &written) || !S_ISREG(opened.st_mode) ||
	    opened.st_ino != written.st_ino || opened.st_dev != written.st_dev)
		return NULL;
	struct output_watch *f = alloc_zero(sizeof *f);
	f->fd = steal_fd(fd);
	f->at = opened.st_size;
	f->scan = scan_create();
	f->scan_began = (uint64_t)f->at;
	f->progress = progress_create(epochs);
	f->dev = opened.st_dev;
	f->ino = opened.st_ino;
	return f;
}

/* The result so far of all that was read. */
static void gather(const struct output_watch *f, struct scan_result *out)
{
	scan_finish(f->scan, out);
	unsigned oom_seen = out->oom_seen + f->before.oom_seen;
	if (out->kind == SCAN_NOTHING)
		*out = f->before;
	else
		out->offset += f->scan_began;
	out->oom_seen = oom_seen;
}

/* Reading goes on at `to`: what was seen until now is kept, and something came after it. */
static void restart_at(struct output_watch *f, off_t to, bool skipped)
{
	struct scan_result seen;
	gather(f, &seen);
	f->before = seen;
	f->before.survived = f->before.survived || (skipped && seen.kind != SCAN_NOTHING);
	scan_destroy(f->scan);
	f->scan = scan_create();
	f->at = to;
	f->scan_began = (uint64_t)to;
	progress_skip(f->progress);
}

/* `n` bytes, the last of which are the end of the file, or of what is read at this look. */
static void follow_progress(struct output_watch *f, const char *bytes, size_t n, off_t left)
{
	if (left >= LATEST) {
		progress_skip(f->progress);
		return;
	}
	size_t most = (size_t)(LATEST - (left > 0 ? left : 0)), skipped = n > most ? n - most : 0;
	if (skipped)
		progress_skip(f->progress);
	progress_feed(f->progress, bytes + skipped, n - skipped, clock_mono_ms());
}

/* How long it is now; where more is not read yet than `most`, that is skipped. */
static bool look(struct output_watch *f, off_t most, off_t *size)
{
	struct stat st;
	if (!f || fstat(f->fd, &st))
		return false;
	if (st.st_size < f->at)
		restart_at(f, 0, false);	/* its owner emptied it */
	if (st.st_size - f->at > most)
		restart_at(f, st.st_size - BACKLOG_KEPT, true);
	*size = st.st_size;
	return true;
}

static bool read_to(struct output_watch *f, off_t stop, off_t size)
{
	static char chunk[1 << 16];
	while (f->at < stop) {
		ssize_t n = pread(f->fd, chunk, sizeof chunk, f->at);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		scan_feed(f->scan, chunk, (size_t)n);
		f->at += n;
		follow_progress(f, chunk, (size_t)n, size - f->at);
	}
	return true;
}

bool output_watch_read(struct output_watch *f)
{
	off_t size;
	return look(f, BACKLOG_MAX, &size) && read_to(f, f->at + READ_AT_ONCE, size);
}

void output_watch_read_rest(struct output_watch *f)
{
	off_t size;
	if (look(f, BACKLOG_KEPT, &size))
		read_to(f, size, size);
}

void output_watch_progress(const struct output_watch *f, struct progress_report *out, uint64_t *dev, uint64_t *ino)
{
	*out = (struct progress_report){ .fraction = -1, .left_s = -1, .spread_s = -1 };
	*dev = *ino = 0;
	if (!f)
		return;
	progress_read(f->progress, out);
	*dev = f->dev;
	*ino = f->ino;
}

void output_watch_end(struct output_watch *f, struct scan_result *out)
{
	memset(out, 0, sizeof *out);
	if (!f)
		return;
	gather(f, out);
	scan_destroy(f->scan);
	progress_destroy(f->progress);
	close(f->fd);
	free(f);
}
