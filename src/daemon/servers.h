/* SPDX-License-Identifier: MIT
 *
 * The MPS servers that run: at most one per GPU at a time, each for one user.
 */
#ifndef RAD_DAEMON_SERVERS_H
#define RAD_DAEMON_SERVERS_H

#include "core/core.h"
#include "launch/mps.h"

struct servers;

struct servers *servers_create(const char *run_dir);
/* The objects only; servers with clients go on and are adopted by the next radd. */
void servers_destroy(struct servers *s);

/* Makes sure that GPU has a server of that user, and tells how far it is; call it again while MPS_STARTING. An idle server
 * of another user on that GPU is stopped first. On MPS_FAILED *why says what happened. */
enum mps_state servers_want(struct servers *s, const char *gpu_uuid, uid_t uid, gid_t gid, const char **why);
/* One that a former radd left behind. */
void servers_adopt(struct servers *s, const char *gpu_uuid, uid_t uid, gid_t gid);
/* NULL if there is none. */
const char *servers_pipe_dir(const struct servers *s, const char *gpu_uuid, uid_t uid);
void servers_terminate_client(struct servers *s, const char *gpu_uuid, uid_t uid, pid_t client);
/* Stops those whose GPU has no MPS task any more. */
void servers_tidy(struct servers *s, const struct core *core);

#endif
