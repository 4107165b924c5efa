/* SPDX-License-Identifier: MIT
 * See follow.h.
 */
#include "cli/follow.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/escape.h"
#include "cli/log_file.h"
#include "task/spec.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHUNK 65536
#define MAX_LINE ((size_t)1 << 20)	/* a longer one is shown in pieces */

struct follow {
	char *path, *user;	/* user: whose task's log it is; NULL: the caller's */
	bool raw, plain;
	enum escape escape;	/* plain: where in a sequence the bytes so far end */
	char before;		/* plain: the last byte of the file so far */
	FILE *out;
	int fd;			/* -1: not opened yet */
	off_t at, skipped;
	struct buf line;	/* not raw: the line so far, from its last carriage return */
	bool returned;		/* the last byte was a carriage return: what follows overwrites */
};

struct follow *follow_create(const char *path, const char *user, bool raw, FILE *out)
{
	struct follow *f = alloc_zero(sizeof *f);
	f->path = alloc_string(path);
	f->user = alloc_string_or_null(user);
	f->raw = raw;
	f->out = out;
	f->fd = -1;
	return f;
}

void follow_plain(struct follow *f)
{
	f->plain = true;
}

void follow_destroy(struct follow *f)
{
	if (!f)
		return;
	if (f->fd >= 0)
		close(f->fd);
	buf_free(&f->line);
	free(f->path);
	free(f->user);
	free(f);
}

/* 1: open; 0: not there; -1. */
static int ensure_open(struct follow *f, struct error *err)
{
	struct error why = ERROR_INIT;
	if (f->fd >= 0)
		return 1;
	f->fd = log_file_open(f->path, f->user, &why);
	if (f->fd >= 0)
		return 1;
	if (why.code == ERR_NOT_FOUND)
		return 0;
	return error_pass(err, &why);
}

bool follow_is_open(struct follow *f)
{
	return ensure_open(f, NULL) > 0;
}

int follow_seek_lines(struct follow *f, int64_t n, struct error *err)
{
	char chunk[CHUNK];
	int rc = ensure_open(f, err);
	if (rc != 1)
		return rc;
	off_t at = lseek(f->fd, 0, SEEK_END), end = at;
	while (at > 0 && n > 0) {
		size_t want = at < CHUNK ? (size_t)at : CHUNK;
		ssize_t got = pread(f->fd, chunk, want, at - (off_t)want);
		if (got != (ssize_t)want)
			break;
		at -= (off_t)want;
		for (size_t i = want; i-- > 0;)
			if (chunk[i] == '\n' && at + (off_t)i != end - 1 && n-- <= 1) {
				f->at = at + (off_t)i + 1;
				return 0;
			}
	}
	f->at = n > 0 ? 0 : end;
	return 0;
}

void follow_skip(struct follow *f, off_t bytes)
{
	f->at = f->skipped = bytes;
}

/* What says where a task begins, behind an earlier one's lines, is not its program's. */
static size_t heading_bytes(const struct follow *f, const char *bytes, size_t n)
{
	static const char heading[] = SPEC_LOG_HEADING;
	size_t len = sizeof heading - 1;
	if (!f->skipped || f->at != f->skipped || n < len || memcmp(bytes, heading, len))
		return 0;
	const char *end = memchr(bytes + len, '\n', n - len);
	return end ? (size_t)(end + 1 - bytes) : 0;
}

/* In place; returns how many are left. Bytes come in pieces, so of a control character beyond ASCII it is the second of the two
 * that goes. */
static size_t drop_orders(struct follow *f, char *bytes, size_t n)
{
	size_t kept = 0;
	for (size_t i = 0; i < n; i++) {
		unsigned char b = (unsigned char)bytes[i];
		bool high = f->before == '\xc2' && b >= 0x80 && b < 0xa0;
		f->before = bytes[i];
		if (b == '\n')
			f->escape = ESCAPE_NONE;
		if (!escape_takes(&f->escape, bytes[i]) && !high && (b >= ' ' || strchr("\n\r\t\b", b)) && b && b != 0x7f)
			bytes[kept++] = bytes[i];
	}
	return kept;
}

static void show_line(struct follow *f)
{
	fwrite(buf_text(&f->line), 1, f->line.len, f->out);
	buf_drop(&f->line, f->line.len);
}

/* A bar redraws its line after a carriage return: only what stands at the line's end is kept. */
static void collapse(struct follow *f, const char *bytes, size_t n)
{
	for (size_t i = 0; i < n;) {
		size_t from = i;
		while (i < n && bytes[i] != '\n' && bytes[i] != '\r')
			i++;
		if (i > from && f->returned)
			buf_drop(&f->line, f->line.len);
		f->returned = f->returned && i == from;
		buf_add(&f->line, bytes + from, i - from);
		bool ends = i < n && bytes[i] == '\n';
		if (ends || f->line.len >= MAX_LINE)
			show_line(f);
		if (ends)
			putc('\n', f->out);
		if (i < n)
			f->returned = bytes[i++] == '\r';
	}
}

/* Whether another file stands in its place by now, and something in it: an attempt that began after the log was moved away or
 * removed writes there. What is empty was put there for later (logrotate), and the task still writes where it did. */
static bool is_replaced(const struct follow *f)
{
	struct stat read, there;
	return !fstat(f->fd, &read) && !stat(f->path, &there) && there.st_size > 0 &&
	       (there.st_dev != read.st_dev || there.st_ino != read.st_ino);
}

static int go_over(struct follow *f, struct error *err)
{
	follow_finish(f);
	close(f->fd);
	f->fd = -1;
	f->escape = ESCAPE_NONE;
	f->at = f->skipped = 0;
	return ensure_open(f, err);
}

int follow_read(struct follow *f, struct error *err)
{
	char chunk[CHUNK];
	struct stat st;
	int rc = ensure_open(f, err);
	if (rc != 1)
		return rc;
	if (!fstat(f->fd, &st) && st.st_size < f->at)	/* cut short by somebody: begin again */
		f->at = 0;
	bool replaced = is_replaced(f);		/* before it is read for the last time */
	ssize_t got = pread(f->fd, chunk, sizeof chunk, f->at);
	if (!got && replaced)
		return go_over(f, err);
	if (got <= 0)
		return got < 0 ? error_errno(err, "log %.900s", f->path) : 0;
	size_t past = heading_bytes(f, chunk, (size_t)got), n = (size_t)got - past;
	f->at += got;
	if (f->plain)
		n = drop_orders(f, chunk + past, n);
	if (f->raw)
		fwrite(chunk + past, 1, n, f->out);
	else
		collapse(f, chunk + past, n);
	return fflush(f->out) || ferror(f->out) ? error_errno(err, "output") : 1;
}

int follow_read_all(struct follow *f, struct error *err)
{
	int rc;
	while ((rc = follow_read(f, err)) > 0)
		;
	return rc;
}

void follow_finish(struct follow *f)
{
	bool open = f->line.len;
	show_line(f);
	if (open)
		putc('\n', f->out);
	fflush(f->out);
}
