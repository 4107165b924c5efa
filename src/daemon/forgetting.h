/* SPDX-License-Identifier: MIT
 *
 * What attempts left, removed in a thread, since that waits for the disk. What cannot go yet, as processes that were killed are
 * still in its cgroup, is tried again until it is gone, so that nothing stays while radd runs. What a radd that is killed
 * leaves of it the next one sweeps.
 */
#ifndef RAD_DAEMON_FORGETTING_H
#define RAD_DAEMON_FORGETTING_H

#include <stdbool.h>
#include <uv.h>

struct forgetting;

/* Removes what is at that path, in a thread. False: not yet. */
typedef bool (*forgetting_way)(const char *path);

struct forgetting *forgetting_create(uv_loop_t *loop);
/* Everything is tried still, and the loop stays alive until it is gone, or will not go within 2 s. Takes NULL. */
void forgetting_destroy(struct forgetting *f);

/* Takes `path`. */
void forgetting_add(struct forgetting *f, forgetting_way way, char *path);

#endif
