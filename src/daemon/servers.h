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

#include <jansson.h>

struct device;
struct servers;

/* Takes over the servers that a former radd left running, and finds out what servers the machine can run (mps_serves_all: up to
 * MPS_TRIAL_MS where the driver hangs). On devices whose MPS needs no server the table stays empty, and answers as if one were
 * always ready. */
struct servers *servers_create(const char *run_dir, const struct device *device);
/* Takes NULL. Frees the objects only: servers go on, and the next radd takes them over. */
void servers_destroy(struct servers *s);

/* Which servers the machine can run now. *why: how that is known ("its control daemon knows -multiuser-server"); valid while
 * `s` lives. */
enum core_mps servers_can(const struct servers *s, const char **why);
/* Makes sure that there is a server for all GPUs of the attempt, and tells how far it is; call it again while MPS_STARTING. On
 * MPS_FAILED *why says what happened (valid until the next call): no fault of the task, and perhaps over the next time. */
enum mps_state servers_want(struct servers *s, const struct core *core, const struct task *t, const char **why);
/* The task's running attempt, a client of its server, ended by a fault of the GPU or of MPS: the server is replaced once its
 * other clients have ended. */
void servers_note_fault(struct servers *s, const struct task *t);
/* The pipe folder of the server for the task's attempt; NULL: there is none. */
const char *servers_pipe_dir(const struct servers *s, const struct task *t);
/* Whether that server counts GPUs as PCI order does, so that the task's GPUs can be named by index. */
bool servers_count_alike(const struct servers *s, const struct task *t, const struct core_gpu_ref *gpus, size_t n);
/* Whether a server is to be asked before one of its clients is killed. */
bool servers_end_clients(const struct servers *s);
/* Asks the servers that the task may be a client of to end those of the processes that are their clients. */
void servers_terminate_clients(struct servers *s, const struct task *t, const pid_t *pids, size_t n);
/* What is amiss with them (daemon/troubles.h). */
void servers_tell(const struct servers *s, json_t *troubles);
/* Stops servers that have had no client for idle_ms, and those that are sick or do not answer once they have none; asks the
 * others whether they answer. Call it every second or so. */
void servers_tidy(struct servers *s, const struct core *core, int64_t idle_ms);

#endif
