/* SPDX-License-Identifier: MIT
 *
 * The MPS servers that run: one for each user who has MPS tasks, for all GPUs (doc/decisions/0014). A user gets a second one
 * only for GPUs that the first does not know, since they came later.
 */
#ifndef RAD_DAEMON_SERVERS_H
#define RAD_DAEMON_SERVERS_H

#include "core/core.h"
#include "launch/mps.h"

struct device;
struct servers;

/* Takes over those that a former radd left running. On devices whose MPS needs no server the table stays empty, and
 * answers as if one were always ready. */
struct servers *servers_create(const char *run_dir, const struct device *device);
/* The objects only; servers with clients go on and are adopted by the next radd. */
void servers_destroy(struct servers *s);

/* Makes sure that the user has a server for all GPUs of the attempt, and tells how far it is; call it again while
 * MPS_STARTING; where *why says something then, it could not even be tried. On MPS_FAILED *why says what happened. */
enum mps_state servers_want(struct servers *s, const struct core *core, const struct task *t, const char **why);
/* The one for the task's attempt; NULL if there is none. */
const char *servers_pipe_dir(const struct servers *s, const struct task *t);
/* Whether that server counts GPUs as PCI order does, so that the task's GPUs can be named by index. */
bool servers_count_alike(const struct servers *s, const struct task *t, const struct core_gpu_ref *gpus, size_t n);
/* Whether a server is to be asked before one of its clients is killed, and asking it. */
bool servers_end_clients(const struct servers *s);
void servers_terminate_client(struct servers *s, const struct task *t, pid_t client);
/* Stops those whose user has no MPS task any more on the GPUs that they serve. */
void servers_tidy(struct servers *s, const struct core *core);

#endif
