/* SPDX-License-Identifier: MIT
 *
 * The daemon's log: lines on stderr, "2026-11-20T16:36:07.123Z info  text". Where that is systemd's journal, which notes times
 * itself, "<6>info  text", so that it knows the level too. Pure stages do not log.
 */
#ifndef RAD_BASE_LOG_H
#define RAD_BASE_LOG_H

#include <stdbool.h>

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

/* What is at or above this level is written. Default LOG_INFO. */
void log_set_level(enum log_level level);
/* From here on a reader of stderr that does not read (a pipe, a terminal that was stopped, a journal that hangs) loses lines
 * and does not stop who writes them. How many were lost is told when it reads again. Whether it is the journal is found out
 * here too. */
void log_never_wait(void);
/* Whether lines of this level are written: for what costs something to find out. */
bool log_writes(enum log_level level);
/* "error", "warn", "info", "debug". Returns false if the word is none of them. */
bool log_level_parse(const char *word, enum log_level *level);

/* If stderr is the file `path`, appended to, and has grown too large: what it holds becomes PATH.1, and it is empty. Other
 * processes that write to it go on doing so. */
void log_bound(const char *path);

void log_line(enum log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#define log_error(...) log_line(LOG_ERROR, __VA_ARGS__)
#define log_warn(...) log_line(LOG_WARN, __VA_ARGS__)
#define log_info(...) log_line(LOG_INFO, __VA_ARGS__)
#define log_debug(...) log_line(LOG_DEBUG, __VA_ARGS__)

/* For what may repeat every second: writes at most one line a minute from each place in the code, and says how many it kept. */
struct log_limit { long long next_ms; unsigned kept; };
bool log_limit_pass(struct log_limit *limit);
#define log_warn_limited(...) do { \
	static struct log_limit limit_; \
	if (log_limit_pass(&limit_)) \
		log_warn(__VA_ARGS__); \
} while (0)

#endif
