/* SPDX-License-Identifier: MIT
 *
 * The end of a task's log for the page, read as `rad logs` reads it (cli/log_file.h says what of others is no log), and by a
 * process of its own: the file system that it is on may hang, and the page must not.
 */
#ifndef RAD_HTTP_LOG_END_H
#define RAD_HTTP_LOG_END_H

#include "base/error.h"
#include "launch/worker.h"

#include <jansson.h>

#define LOG_END_WORD "log-end"	/* rad-http with this word alone is that process */
#define LOG_END_LINES 200
#define LOG_END_BYTES 65536	/* of these lines, the last so many */

/* Begins to read that of a task as radd shows it. `done` comes as worker.h says. NULL, with *err: it could not begin. */
struct worker *log_end_ask(uv_loop_t *loop, const json_t *task, worker_done done, void *ctx, struct error *err);
/* What `done` was given, for the page: {"text", "note"} (null: nothing is to be noted) or {"error"}. New. */
json_t *log_end_told(const struct buf *answer, const char *why);

/* The process: a task from standard input, that answer to standard output. Returns the exit code. */
int log_end_main(void);

#endif
