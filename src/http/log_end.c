/* SPDX-License-Identifier: MIT
 * See log_end.h.
 */
#include "http/log_end.h"

#include "base/io.h"
#include "base/json.h"
#include "base/scope.h"
#include "cli/follow.h"
#include "cli/log_file.h"
#include "cli/member.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DEADLINE_MS 5000
#define MOST_ANSWER (8 * LOG_END_BYTES)	/* JSON takes up to six bytes for one */

/* The process -------------------------------------------------------------------------------------------------------------- */

/* From where a line begins, if one does. */
static const char *last_part(const char *text, size_t n)
{
	if (n <= LOG_END_BYTES)
		return text;
	const char *from = text + n - LOG_END_BYTES, *line = memchr(from, '\n', LOG_END_BYTES - 1);
	return line ? line + 1 : from;
}

static int read_lines(const json_t *task, FILE *out, struct error *err)
{
	struct follow *f = follow_create(member_text(task, "log_path"), member_text(task, "user"), false, out);
	follow_plain(f);
	int rc = follow_seek_lines(f, LOG_END_LINES, err) < 0 || follow_read_all(f, err) ? -1 : 0;
	if (!rc && !follow_is_open(f))
		rc = log_file_none(task, err);
	follow_finish(f);
	follow_destroy(f);
	return rc;
}

static const char *full_disk(const json_t *task)
{
	scoped_fd int fd = log_file_open(member_text(task, "log_path"), member_text(task, "user"), NULL);
	return fd >= 0 ? log_file_full(fd) : NULL;
}

static json_t *read_log(const json_t *task)
{
	struct error err = ERROR_INIT;
	char *text = NULL;
	size_t n = 0;
	FILE *out = open_memstream(&text, &n);
	int rc = member_logs_nowhere(task) ? log_file_none(task, &err) : read_lines(task, out, &err);
	fclose(out);
	const char *part = last_part(text, n);
	json_t *answer = rc ? json_pack("{so}", "error", json_text(err.text)) :
		json_pack("{so, ss?}", "text", json_text_n(part, (size_t)(text + n - part)), "note", full_disk(task));
	free(text);
	return answer;
}

int log_end_main(void)
{
	scoped_json *task = json_loadf(stdin, 0, NULL), *answer = read_log(task);
	scoped_free char *text = json_to_text(answer);
	return io_write_full(STDOUT_FILENO, text, strlen(text)) ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* Who asks it -------------------------------------------------------------------------------------------------------------- */

struct worker *log_end_ask(uv_loop_t *loop, const json_t *task, worker_done done, void *ctx, struct error *err)
{
	const struct worker_plan plan = { .program = "/proc/self/exe", .flag = LOG_END_WORD, .deadline_ms = DEADLINE_MS,
					  .max_answer = MOST_ANSWER };
	char why[160] = "";
	struct worker *w = worker_start(loop, &plan, json_to_text(task), done, ctx, why, sizeof why);
	if (!w)
		error_set(err, ERR_SYSTEM, "the log cannot be read: %s", why);
	return w;
}

json_t *log_end_told(const struct buf *answer, const char *why)
{
	json_t *told = why ? NULL : json_loadb(buf_text(answer), answer->len, 0, NULL);
	return told ? told : json_pack("{so}", "error", json_printf("the file system that the log is on, or who reads it, fails: %s",
				       why ? why : "no answer"));
}
