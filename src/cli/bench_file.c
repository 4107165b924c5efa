/* SPDX-License-Identifier: MIT
 * The results file of a bench: see bench_file.h.
 */
#include "cli/bench_file.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/io.h"
#include "base/json.h"
#include "base/scope.h"
#include "cli/member.h"

#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#define MAX_FILE ((size_t)64 << 20)

struct bench_file {
	char *path;
	int fd;
	off_t end;	/* of the last whole line */
	json_t *head, *rows;
};

void bench_file_close(struct bench_file *f)
{
	if (!f)
		return;
	scope_close(&f->fd);
	json_decref(f->head);
	json_decref(f->rows);
	free(f->path);
	free(f);
}

/* Whether that is the head of a bench, and of this one. */
static int take_head(struct bench_file *f, json_t *v, const json_t *head, struct error *err)
{
	f->head = json_incref(v);
	if (head ? json_equal(v, head) : *member_text(v, "bench") != 0)
		return 0;
	return error_set(err, ERR_CONFLICT, head ? "%s: holds a bench of other commands, another GPU or other options; name another "
			 "file with -o, or remove it" : "%s: is no file of a bench", f->path);
}

/* A line that was cut off by the end of a former bench is no row. */
static int read_lines(struct bench_file *f, const char *text, size_t len, const json_t *head, struct error *err)
{
	const char *at = text, *end;
	for (unsigned line = 1; (end = memchr(at, '\n', len - (size_t)(at - text))); line++, at = end + 1) {
		scoped_json *v = json_loadb(at, (size_t)(end - at), 0, NULL);
		if (!json_is_object(v))
			return error_set(err, ERR_CORRUPT, "%s:%u: is no row of a bench; name another file with -o", f->path, line);
		if (line == 1 && take_head(f, v, head, err))
			return -1;
		if (line > 1)
			json_array_append(f->rows, v);
	}
	f->end = at - text;
	/* Something without a single line's end is nobody's rows: not ours to write over. */
	return f->end || !len ? 0 : error_set(err, ERR_CORRUPT, "%s: is no file of a bench; name another file with -o", f->path);
}

static int write_line(struct bench_file *f, const json_t *v, struct error *err)
{
	scoped_free char *text = json_to_text(v);
	scoped_free char *line = alloc_printf("%s\n", text);
	size_t n = strlen(line);
	/* What lies behind the last whole line goes first: it may be longer than this one. */
	if (ftruncate(f->fd, f->end) || lseek(f->fd, f->end, SEEK_SET) < 0 || io_write_full(f->fd, line, n) || fsync(f->fd))
		return error_errno(err, "%s", f->path);
	f->end += (off_t)n;
	return 0;
}

/* Reads it; an empty one gets the head. */
static int begin(struct bench_file *f, json_t *head, struct error *err)
{
	scoped_buf text = { 0 };
	if (head && flock(f->fd, LOCK_EX | LOCK_NB))
		return error_set(err, ERR_CONFLICT, "%s: another bench is writing there; name another file with -o", f->path);
	if (io_read_fd(f->fd, f->path, MAX_FILE, &text, err) || read_lines(f, buf_text(&text), text.len, head, err))
		return -1;
	if (f->head)
		return 0;
	if (!head)
		return error_set(err, ERR_CORRUPT, "%s: is empty", f->path);
	f->head = json_incref(head);
	return write_line(f, head, err);
}

struct bench_file *bench_file_open(const char *path, json_t *head, struct error *err)
{
	struct bench_file *f = alloc_zero(sizeof *f);
	f->path = alloc_string(path);
	f->rows = json_array();
	f->fd = open(path, head ? O_RDWR | O_CREAT | O_CLOEXEC : O_RDONLY | O_CLOEXEC, 0666);
	if (f->fd < 0)
		error_errno(err, "%s", path);
	else if (!begin(f, head, err))
		return f;
	bench_file_close(f);
	return NULL;
}

const json_t *bench_file_head(const struct bench_file *f)
{
	return f->head;
}

const json_t *bench_file_rows(const struct bench_file *f)
{
	return f->rows;
}

const char *bench_file_path(const struct bench_file *f)
{
	return f->path;
}

int bench_file_add(struct bench_file *f, json_t *row, struct error *err)
{
	int rc = write_line(f, row, err);
	json_array_append_new(f->rows, row);
	return rc;
}

bool bench_file_has(const struct bench_file *f, enum bench_mode mode, int64_t degree, int64_t command, int64_t repeat)
{
	size_t i;
	json_t *row;
	json_array_foreach(f->rows, i, row)
		if (!json_object_get(row, "error") && !strcmp(member_text(row, "mode"), bench_mode_name(mode)) &&
		    member_int(row, "degree") == degree && member_int(row, "repeat") == repeat &&
		    (command < 0 || member_int(row, "command") == command))
			return true;
	return false;
}
