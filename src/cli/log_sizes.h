/* SPDX-License-Identifier: MIT
 *
 * How large log files were before a task was submitted that may write to one of them. Its number, and so the file's name, is
 * known only afterwards, when it may have written already: then neither time nor size tells an earlier task's lines from its
 * own.
 */
#ifndef RAD_CLI_LOG_SIZES_H
#define RAD_CLI_LOG_SIZES_H

#include <sys/types.h>

struct log_sizes;

/* Of the files that `pattern` (%j, %x, ...; NULL: rad's default) can come to in `folder`. What cannot be read is not there. */
struct log_sizes *log_sizes_take(const char *folder, const char *pattern);
/* Takes NULL. */
void log_sizes_free(struct log_sizes *s);
/* Bytes that this file had then, by whatever name; 0 where it was not among them, or s is NULL. */
off_t log_sizes_of(const struct log_sizes *s, const char *path);

#endif
