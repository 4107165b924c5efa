/* SPDX-License-Identifier: MIT
 * See top_pager.h. The verb is run as a program of its own, so that what is seen is what it prints, and a log on a file system
 * that hangs does not hold the keys.
 */
#include "cli/top_pager.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/escape.h"
#include "base/io.h"
#include "base/scope.h"
#include "cli/top_screen.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>

#define MOST_BYTES ((size_t)16 << 20)	/* of what came; then the first half is forgotten */
#define MOST_LINE ((size_t)64 << 10)	/* a longer one is broken */
#define TAB 8

struct top_pager {
	pid_t pid;		/* 0: it has ended */
	int fd;
	struct buf text;	/* as shown: no control characters but newlines */
	size_t *lines;		/* where each begins */
	size_t n, cap;
	size_t first;		/* the line shown first */
	unsigned right;		/* columns left out at the left */
	bool at_end;		/* and to stay there */
	enum escape escape;	/* colours and cursors of what a program wrote to its log are left out */
};

/* ---- the program ---- */

static int spawn(struct top_pager *p, const char *const words[], int out, unsigned width, struct error *err)
{
	posix_spawn_file_actions_t files;
	posix_spawnattr_t how;
	char columns[24];
	const char *argv[TOP_PAGER_WORDS + 2] = { "rad" };
	for (size_t i = 0; i < TOP_PAGER_WORDS && words[i]; i++)
		argv[i + 1] = words[i];
	snprintf(columns, sizeof columns, "%u", width);
	setenv("COLUMNS", columns, 1);
	posix_spawn_file_actions_init(&files);
	posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&files, out, STDOUT_FILENO);
	posix_spawn_file_actions_adddup2(&files, out, STDERR_FILENO);
	posix_spawnattr_init(&how);
	posix_spawnattr_setflags(&how, POSIX_SPAWN_SETSIGMASK);
	posix_spawnattr_setsigmask(&how, top_screen_mask());
	int rc = posix_spawn(&p->pid, "/proc/self/exe", &files, &how, (char *const *)argv, environ);
	posix_spawn_file_actions_destroy(&files);
	posix_spawnattr_destroy(&how);
	unsetenv("COLUMNS");	/* the window's own size is ours */
	return rc ? error_set(err, ERR_INTERNAL, "rad %s: %s", words[0], strerror(rc)) : 0;
}

static void add_line(struct top_pager *p)
{
	alloc_grow(p->lines, p->n, p->cap);
	p->lines[p->n++] = p->text.len;
}

struct top_pager *top_pager_create(const char *const words[], bool end, unsigned width, struct error *err)
{
	int ends[2];
	if (pipe2(ends, O_CLOEXEC)) {
		error_errno(err, "pipe");
		return NULL;
	}
	struct top_pager *p = alloc_zero(sizeof *p);
	p->fd = ends[0];
	p->at_end = end;
	add_line(p);
	int rc = spawn(p, words, ends[1], width, err);
	close(ends[1]);
	if (!rc && !io_set_nonblocking(p->fd, true))
		return p;
	top_pager_destroy(p);
	return NULL;
}

static void end_program(struct top_pager *p)
{
	if (p->fd >= 0)
		close(p->fd);
	p->fd = -1;
	if (p->pid > 0) {
		kill(p->pid, SIGKILL);	/* it only reads */
		waitpid(p->pid, NULL, 0);
	}
	p->pid = 0;
}

void top_pager_destroy(struct top_pager *p)
{
	if (!p)
		return;
	end_program(p);
	buf_free(&p->text);
	free(p->lines);
	free(p);
}

int top_pager_fd(const struct top_pager *p)
{
	return p->fd;
}

/* ---- its text ---- */

static void add_byte(struct top_pager *p, char c)
{
	if (c == '\n')
		p->escape = ESCAPE_NONE;
	else if (escape_takes(&p->escape, c))
		return;
	if (c == '\n' || p->text.len - p->lines[p->n - 1] > MOST_LINE) {
		buf_add(&p->text, "\n", 1);
		add_line(p);
	} else if (c == '\t') {
		size_t column = p->text.len - p->lines[p->n - 1];
		buf_add(&p->text, "        ", TAB - column % TAB);
	} else if (c != '\r') {
		buf_add(&p->text, (unsigned char)c < ' ' ? "?" : &c, 1);
	}
}

static void forget_half(struct top_pager *p)
{
	size_t half = p->n / 2, bytes = p->lines[half];
	if (!half)
		return;
	buf_drop(&p->text, bytes);
	for (size_t i = half; i < p->n; i++)
		p->lines[i - half] = p->lines[i] - bytes;
	p->n -= half;
	p->first = p->first > half ? p->first - half : 0;
}

void top_pager_read(struct top_pager *p)
{
	char chunk[65536];
	ssize_t n = p->fd < 0 ? 0 : read(p->fd, chunk, sizeof chunk);	/* one at a time: keys come between */
	for (ssize_t i = 0; i < n; i++)
		add_byte(p, chunk[i]);
	if (p->text.len > MOST_BYTES)
		forget_half(p);
	if (!n)
		end_program(p);
}

/* ---- on the screen ---- */

/* Without an empty one behind the last newline. */
static size_t count(const struct top_pager *p)
{
	return p->n - (p->lines[p->n - 1] == p->text.len);
}

void top_pager_move(struct top_pager *p, long lines, long columns)
{
	size_t n = count(p);
	if (lines < 0)
		p->first = p->first > (size_t)-lines ? p->first - (size_t)-lines : 0;
	else
		p->first = p->first + (size_t)lines < n ? p->first + (size_t)lines : n;
	if (lines < 0)
		p->at_end = false;
	p->right = columns < 0 && p->right < (unsigned)-columns ? 0 : p->right + (unsigned)columns;
}

/* Its text behind so many columns, counted as characters: what is wider is rare in a log. */
static const char *from_column(const char *line, unsigned columns)
{
	while (columns && *line) {
		line++;
		while (((unsigned char)*line & 0xc0) == 0x80)
			line++;
		columns--;
	}
	return line;
}

unsigned top_pager_print(struct top_pager *p, unsigned lines, const struct term *term, FILE *out)
{
	size_t n = count(p), last = n > lines ? n - lines : 0;
	unsigned shown = 0;
	p->at_end = p->at_end || (p->fd >= 0 && p->first > last);
	p->first = p->at_end || p->first > last ? last : p->first;
	for (size_t i = p->first; i < n && shown < lines; i++, shown++) {
		size_t len = (i + 1 < p->n ? p->lines[i + 1] - 1 : p->text.len) - p->lines[i];
		scoped_free char *line = strndup(buf_text(&p->text) + p->lines[i], len);
		scoped_free char *fitting = line ? term_text(from_column(line, p->right), term->width, term) : NULL;
		fprintf(out, "%s\n", fitting ? fitting : "");
	}
	return shown;
}

void top_pager_place(const struct top_pager *p, unsigned lines, char *text, size_t size)
{
	size_t n = count(p), end = p->first + lines < n ? p->first + lines : n;
	snprintf(text, size, "%zu-%zu of %zu%s", n ? p->first + 1 : 0, end, n, p->fd >= 0 ? ", more as it comes" : "");
}
