/* SPDX-License-Identifier: MIT
 *
 * The MPS servers that run, each for all GPUs (doc/decisions/0014): one for all users (0099), or one for each who has MPS
 * tasks, as the attempt was placed. There is a second one of a kind only for GPUs that the first does not know, since they came
 * later.
 */
#ifndef RAD_DAEMON_SERVERS_H
#define RAD_DAEMON_SERVERS_H

#include "core/core.h"
#include "launch/mps.h"

struct device;
struct servers;

/* Takes over those that a former radd left running, and finds out what servers can be had here: up to 3 s where the driver
 * hangs. On devices whose MPS needs no server the table stays empty, and answers as if one were always ready. */
struct servers *servers_create(const char *run_dir, const struct device *device);
/* The objects only; servers with clients go on and are adopted by the next radd. */
void servers_destroy(struct servers *s);

/* Which can be had now, and on what that rests: "its control daemon knows -multiuser-server". */
enum core_mps servers_can(const struct servers *s, const char **why);
/* Makes sure that there is a server for all GPUs of the attempt, and tells how far it is; call it again while MPS_STARTING. On
 * MPS_FAILED *why says what happened: a trouble of ours or of the machine's, which may be over the next time. */
enum mps_state servers_want(struct servers *s, const struct core *core, const struct task *t, const char **why);
/* A client of that server, the attempt that runs, ended by a fault of the GPU or of MPS: whoever comes after its other clients
 * gets another server. */
void servers_note_fault(struct servers *s, const struct task *t);
/* The one for the task's attempt; NULL if there is none. */
const char *servers_pipe_dir(const struct servers *s, const struct task *t);
/* Whether that server counts GPUs as PCI order does, so that the task's GPUs can be named by index. */
bool servers_count_alike(const struct servers *s, const struct task *t, const struct core_gpu_ref *gpus, size_t n);
/* Whether a server is to be asked before one of its clients is killed, and asking it, of all that are among these processes. */
bool servers_end_clients(const struct servers *s);
void servers_terminate_clients(struct servers *s, const struct task *t, const pid_t *pids, size_t n);
/* Stops those that have had no client for so long on the GPUs that they serve, and sick ones once they have none. To be called
 * every second or so. */
void servers_tidy(struct servers *s, const struct core *core, int64_t idle_ms);

#endif
