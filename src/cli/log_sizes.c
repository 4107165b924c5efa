/* SPDX-License-Identifier: MIT
 * See log_sizes.h.
 */
#include "cli/log_sizes.h"

#include "base/alloc.h"
#include "base/buf.h"

#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define DEFAULT_PATTERN "rad-*.out"	/* rad-%j.out, rad-%A_%a.out */

struct log_sizes {
	size_t n;
	struct stat *files;
};

static void add_literally(struct buf *out, const char *text, size_t n)
{
	for (size_t i = 0; i < n; i++)
		buf_printf(out, strchr("*?[]\\", text[i]) ? "\\%c" : "%c", text[i]);
}

/* "x-%04a.log": "x-*.log". */
static void add_pattern(struct buf *out, const char *pattern)
{
	for (const char *p = pattern; *p; p++) {
		size_t digits = *p == '%' ? strspn(p + 1, "0123456789") : 0;
		if (*p != '%' || !p[digits + 1]) {
			add_literally(out, p, 1);
		} else {
			p += digits + 1;
			buf_add_text(out, *p == '%' ? "%" : "*");
		}
	}
}

struct log_sizes *log_sizes_take(const char *folder, const char *pattern)
{
	struct log_sizes *s = alloc_zero(sizeof *s);
	struct buf wanted = { 0 };
	glob_t found = { 0 };
	if (folder && (!pattern || *pattern != '/')) {
		add_literally(&wanted, folder, strlen(folder));
		buf_add_text(&wanted, "/");
	}
	if (pattern)
		add_pattern(&wanted, pattern);
	else
		buf_add_text(&wanted, DEFAULT_PATTERN);
	if (!glob(buf_text(&wanted), GLOB_NOSORT, NULL, &found)) {
		s->files = alloc_zero(found.gl_pathc * sizeof *s->files);
		for (size_t i = 0; i < found.gl_pathc; i++)
			s->n += !stat(found.gl_pathv[i], &s->files[s->n]);
	}
	globfree(&found);
	buf_free(&wanted);
	return s;
}

void log_sizes_free(struct log_sizes *s)
{
	if (!s)
		return;
	free(s->files);
	free(s);
}

off_t log_sizes_of(const struct log_sizes *s, const char *path)
{
	struct stat st;
	if (!s || stat(path, &st))
		return 0;
	for (size_t i = 0; i < s->n; i++)
		if (s->files[i].st_ino == st.st_ino && s->files[i].st_dev == st.st_dev)
			return s->files[i].st_size;
	return 0;
}
