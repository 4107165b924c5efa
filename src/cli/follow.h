/* SPDX-License-Identifier: MIT
 *
 * Showing a log file that a task writes: opened with the caller's rights, read as it grows, progress bars collapsed.
 */
#ifndef RAD_CLI_FOLLOW_H
#define RAD_CLI_FOLLOW_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

struct follow;

/* Nothing is opened yet: the file may appear later. `user`: as log_file_open has it. With `raw`, bytes are shown as they are;
 * else a line that carriage returns have overwritten is shown once, as it last stood. */
struct follow *follow_create(const char *path, const char *user, bool raw, FILE *out);
void follow_destroy(struct follow *f);
/* From now on text alone is shown: nothing that a terminal would obey but what ends, overwrites and indents lines. */
void follow_plain(struct follow *f);

/* Goes to the beginning of the last n lines of what is there. */
int follow_seek_lines(struct follow *f, int64_t n, struct error *err);
/* Leaves out so many bytes at the beginning: an earlier task's, by the same name. A file that is shorter is shown whole. */
void follow_skip(struct follow *f, off_t bytes);

/* Shows what is new, so much of it at once that who calls can look at other things between: 1: there may be more; 0: that was
 * all; -1: the file is there, but cannot be read. A file that is not there is 0. One that was moved away or removed is read to
 * its end, and then the one that stands in its place. */
int follow_read(struct follow *f, struct error *err);
/* The same until that was all: a task may print faster than that can be shown. 0 or -1. */
int follow_read_all(struct follow *f, struct error *err);
/* Whether the file has been opened. */
bool follow_is_open(struct follow *f);
/* Shows a last line that has no end. */
void follow_finish(struct follow *f);

#endif
