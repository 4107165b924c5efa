/* SPDX-License-Identifier: MIT
 *
 * A task's log, opened with the caller's rights to be read. Its path is its user's word, and may lead anywhere: who looks at
 * somebody else's task, the administrator above all, is shown a file of that user's or nothing, and opens no device by it.
 */
#ifndef RAD_CLI_LOG_FILE_H
#define RAD_CLI_LOG_FILE_H

#include "base/error.h"

#include <jansson.h>
#include <stdbool.h>

/* `user`: whose task it is; NULL: the caller's. Returns a descriptor; -1, with ERR_NOT_FOUND where there is no such file. */
int log_file_open(const char *path, const char *user, struct error *err);
/* Whether the task is another user's than the caller's. */
bool log_file_is_others(const char *user);
/* Where the disk that it is on has no room: what to say of that. NULL: nothing. */
const char *log_file_full(int fd);
/* Why a task, as radd shows it, has no log: ERR_NOT_FOUND. Returns -1. */
int log_file_none(const json_t *task, struct error *err);

#endif
