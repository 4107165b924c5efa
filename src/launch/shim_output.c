/* SPDX-License-Identifier: MIT
 * A task's output files. The program writes them itself, so nothing here can block or end it; we read along for the last
 * error. A file that grows faster than it can be read is skipped ahead: the last error stands near the end.
 */
#include "launch/shim.h"

#include "base/alloc.h"
#include "base/io.h"
#include "base/scope.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <string.h>
#include <sys/stat.h>

#define READ_AT_ONCE ((off_t)32 << 20)
#define BACKLOG_MAX ((off_t)256 << 20)
#define BACKLOG_KEPT ((off_t)64 << 20)

static int explain_open(const char *path, struct error *err)
{
	int why = errno;
	scoped_free char *copy = alloc_string(path);
	const char *folder = dirname(copy);
	if (why == ENOENT && access(folder, F_OK))
		return error_set(err, ERR_INVALID, "output %s: the folder %s does not exist; make it, or choose another --output",
				 path, folder);
	if (why == ENXIO)
		return error_set(err, ERR_INVALID, "output %s: a pipe that nobody reads", path);
	errno = why;
	return error_errno(err, "output %s", path);
}

int output_open(const char *path, struct error *err)
{
	/* Without O_NONBLOCK a pipe with no reader would hold us for ever. */
	scoped_fd int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_NOCTTY | O_NONBLOCK | O_CLOEXEC, 0666);
	if (fd < 0)
		return explain_open(path, err);
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
};

struct output_watch *output_watch_start(const char *path, int written_fd)
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
}

bool output_watch_read(struct output_watch *f)
{
	static char chunk[1 << 16];
	struct stat st;
	if (!f || fstat(f->fd, &st))
		return false;
	if (st.st_size < f->at)
		restart_at(f, 0, false);	/* its owner emptied it */
	if (st.st_size - f->at > BACKLOG_MAX)
		restart_at(f, st.st_size - BACKLOG_KEPT, true);
	off_t stop = f->at + READ_AT_ONCE;
	while (f->at < stop) {
		ssize_t n = pread(f->fd, chunk, sizeof chunk, f->at);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		scan_feed(f->scan, chunk, (size_t)n);
		f->at += n;
	}
	return true;
}

void output_watch_end(struct output_watch *f, struct scan_result *out)
{
	memset(out, 0, sizeof *out);
	if (!f)
		return;
	gather(f, out);
	scan_destroy(f->scan);
	close(f->fd);
	free(f);
}
