/* SPDX-License-Identifier: MIT
 *
 * MPS control daemons: one per GPU and uid, run as that uid, started before its first sharable task (a process chooses MPS
 * when it initialises CUDA; a running one cannot be adopted), supervised, stopped when idle.
 * Everything that talks to a control daemon may hang; so it is done by short-lived helper processes with a deadline.
 */
#ifndef RAD_LAUNCH_MPS_H
#define RAD_LAUNCH_MPS_H

#include "base/error.h"
#include "base/proc.h"
#include "task/task.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct mps_server;

/* Whether `nvidia-cuda-mps-control` can be found here. */
bool mps_available(void);

/* Starts the control daemon for one GPU as `uid`/`gid`. Its pipe and log folders lie under `run_dir`/mps/EIGHT.UID, EIGHT being
 * the first letters of the UUID: the paths of sockets are short. Returns at once; the server becomes ready later.
 * ERR_CONFLICT: one runs there (mps_adopt it), or is still stopping. */
struct mps_server *mps_start(const char *run_dir, const char *gpu_uuid, uid_t uid, gid_t gid, struct error *err);
/* Finds one that a former radd left running; NULL if there is none. */
struct mps_server *mps_adopt(const char *run_dir, const char *gpu_uuid, uid_t uid, gid_t gid);
/* Takes NULL. Frees the object only; the server goes on. */
void mps_release(struct mps_server *s);

enum mps_state { MPS_STARTING, MPS_READY, MPS_FAILED };
/* Cheap; call it every turn while starting. One that was ready becomes MPS_FAILED when its process ends. */
enum mps_state mps_poll(struct mps_server *s);
const char *mps_pipe_dir(const struct mps_server *s);
uid_t mps_uid(const struct mps_server *s);
struct proc_id mps_control(const struct mps_server *s);

/* Has it quit, with 5 s for its clients; a helper ends it with TERM, then KILL, if it does not. Returns at once. */
void mps_stop(struct mps_server *s);
/* Asks the server to end one client (`terminate_client`), the polite step before KILL. Returns at once. */
void mps_terminate_client(struct mps_server *s, pid_t client);

/* Whether a process name in a GPU's process list is the MPS server. */
bool mps_is_server_name(const char *comm);

#endif
