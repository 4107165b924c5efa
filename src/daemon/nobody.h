/* SPDX-License-Identifier: MIT
 *
 * Rows of rad.conf for users and groups (settings/who.h) that there are none of: a name that is misspelt gives nobody any
 * limit, and nobody notices. The user database is asked by a process of its own (`radd --nobody`), and what it does not know is
 * told, and never refused, since it may be away while the machine starts.
 */
#ifndef RAD_DAEMON_NOBODY_H
#define RAD_DAEMON_NOBODY_H

#include "settings/settings.h"

#include <jansson.h>
#include <uv.h>

struct nobody;

/* The settings outlive it. `program` is run with the argument --nobody. */
struct nobody *nobody_create(uv_loop_t *loop, const char *program, const struct settings *config);
/* Ends the worker. Takes NULL. */
void nobody_destroy(struct nobody *n);
/* The settings were read: asks, and logs what comes out and was not known before. */
void nobody_look(struct nobody *n);
/* Adds what was found to the list of `rad doctor`, and asks again whether it is still so. */
void nobody_tell(struct nobody *n, json_t *troubles);

/* The worker's main: reads names of rows, one a line, and writes those that the database says there are none of. Returns its
 * exit code: not 0 where the database says nothing. */
int nobody_worker(void);

#endif
