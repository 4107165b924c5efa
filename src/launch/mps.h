/* SPDX-License-Identifier: MIT
 *
 * MPS control daemons for all GPUs (doc/decisions/0014), started before their first sharable task (a process chooses MPS when
 * it initialises CUDA; a running one cannot be adopted), supervised, stopped when idle. One serves one user and runs as that
 * user, or it serves all users and runs as root (doc/decisions/0099).
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

struct device_kind;
struct mps_server;

/* NVIDIA's control program. */
#define MPS_CONTROL "nvidia-cuda-mps-control"
/* What the control program gets to come up in when it is tried out (mps_serves_all). */
#define MPS_TRIAL_MS 15000
/* What a server gets to end clients in before they are killed. */
#define MPS_TERMINATE_MS 5000
/* In place of a uid: the server for all users. */
#define MPS_ALL_USERS ((uid_t)-1)

/* Whether tasks can be MPS clients on that kind of device here: where servers have to be started, that program is in PATH. */
bool mps_available(const struct device_kind *kind);

/* Whether its servers can serve several users: the control program is run for a moment. Driver branches 470, 535 and 550 do not
 * know the option, and end at once; one that says nothing within MPS_TRIAL_MS does not count (where the driver is loaded for
 * it, that takes seconds a GPU). *why: what was found, with its last words where it ended; the caller's. */
bool mps_serves_all(const char *run_dir, char **why);

/* Starts a control daemon as `uid`/`gid` for the GPUs of a list, "UUID,UUID...", which it counts in that order; for
 * MPS_ALL_USERS as the daemon's own user. Its folders lie in `run_dir`/mps/UID.N or all.N, N being the first number that no
 * running one has: one that is stopping does not hold up the next. Returns at once; the server becomes ready later. `user`: as
 * mps_name_user. */
struct mps_server *mps_start(const char *run_dir, const char *gpus, uid_t uid, gid_t gid, const char *user, struct error *err);
/* Calls `found` with each one that a former radd left running, or of which something is left (mps_is_left); it owns the
 * object. */
void mps_adopt(const char *run_dir, void (*found)(void *ctx, struct mps_server *s), void *ctx);
/* Takes NULL. Frees the object only; the server goes on. */
void mps_release(struct mps_server *s);

enum mps_state { MPS_STARTING, MPS_READY, MPS_FAILED };
/* Cheap; call it every turn while starting. One that was ready becomes MPS_FAILED when its process ends. */
enum mps_state mps_poll(struct mps_server *s);
const char *mps_pipe_dir(const struct mps_server *s);
/* Whom it serves: a user, or MPS_ALL_USERS; in words: "user ada", "all users", "uid 1000" where it was adopted
 * and its user not named yet. Valid while it lives, and until it is named. */
uid_t mps_uid(const struct mps_server *s);
const char *mps_whose(const struct mps_server *s);
/* What people call its user; NULL: nobody knows. One for all has none. */
void mps_name_user(struct mps_server *s, const char *user);
/* The list it was started with. */
const char *mps_gpus(const struct mps_server *s);
struct proc_id mps_control(const struct mps_server *s);

/* Whether servers that it started run on although it has ended, as after a SIGKILL: they hold memory of GPUs and serve the
 * clients that they had, and nobody can reach them any more. Looks at all processes, at most every 100 ms. */
bool mps_is_left(struct mps_server *s);

/* Has it quit, with 5 s for its clients; a helper ends it with TERM, then KILL, if it does not, and what is left of it. Returns
 * at once. */
void mps_stop(struct mps_server *s);
/* Asks the server to end those of these processes that are its clients (`terminate_client`), the polite step before KILL. Of
 * many thousands some are left out. Returns at once. */
void mps_terminate_clients(struct mps_server *s, const pid_t *pids, size_t n);

#endif
