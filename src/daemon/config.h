/* SPDX-License-Identifier: MIT
 *
 * The administrator's settings: a flat YAML file, `key: value` (rad.conf(5)). One table in config.c names every key with
 * its default and help; the manual page and the errors come from the same rows.
 */
#ifndef RAD_DAEMON_CONFIG_H
#define RAD_DAEMON_CONFIG_H

#include "base/error.h"
#include "core/core.h"

#include <stdio.h>

struct config {
	struct core_config core;
	char *devices;			/* "nvml", "sim:4xa100-40g"; owned */
	int64_t interval_ms;		/* between samples */
	int64_t kill_wait_ms;		/* between TERM and KILL */
	bool positional_policy;		/* whether line 7 of the prototype's task files counts */
	size_t user_tasks;		/* live tasks a user may have; 0: no limit */
	bool mps;			/* whether MPS servers may be started at all */
};

struct config config_default(void);
void config_clear(struct config *c);

/* Reads the file over the defaults. A missing file is an error only if `must_exist`. Errors name file, line, key and what
 * was expected, with the nearest known key. */
int config_read(const char *path, bool must_exist, struct config *c, struct error *err);
/* Sets one key, as a line of the file would. */
int config_set(struct config *c, const char *key, const char *value, struct error *err);
/* Every key with its default and help, as rad.conf(5) lists them. */
void config_describe(FILE *out);

#endif
