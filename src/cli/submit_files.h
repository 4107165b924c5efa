/* SPDX-License-Identifier: MIT
 *
 * Files that say something to estimators: printed model summaries, and captures.
 */
#ifndef RAD_CLI_SUBMIT_FILES_H
#define RAD_CLI_SUBMIT_FILES_H

#include "base/error.h"
#include "task/spec.h"

/* Reads what estimators use into a spec, in place of what it has; refuses what is no summary and no capture. Returns 0, or -1
 * with an error that names the file. */
int submit_read_model(struct spec *s, const char *path, struct error *err);
int submit_read_capture(struct spec *s, const char *path, struct error *err);

#endif
