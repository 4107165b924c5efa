/* SPDX-License-Identifier: MIT
 *
 * MPS control daemons: each serves all GPUs (decision 14), and either one user, as whom it runs, or all users, as root
 * (decision 99). It is started before its first task, since a process becomes a client when it initialises CUDA and cannot
 * become one later; it is watched, and stopped when idle. Everything that talks to a control daemon may hang, so short-lived
 * helper processes with a deadline do it.
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
/* What the control program gets to come up in when radd tries it out (mps_serves_all). */
#define MPS_TRIAL_MS 15000
/* What a server gets to end clients in before they are killed. */
#define MPS_TERMINATE_MS 5000
/* In place of a uid: the server for all users. */
#define MPS_ALL_USERS ((uid_t)-1)

/* Whether tasks can be MPS clients on that kind of device here: where servers have to be started, that program is in PATH. */
bool mps_available(const struct device_kind *kind);

/* Whether a server can serve all users: runs the control program for a moment. Driver branches 470, 535 and 550 do not know the
 * option, and end at once. One that says nothing within that time counts as a no (if the driver has to be loaded first, that
 * takes seconds for each GPU). *why: what was found, in words; the caller frees it. */
bool mps_serves_all(const char *run_dir, int within_ms, char **why);

/* Starts a control daemon as `uid`/`gid`, for MPS_ALL_USERS as the daemon's own user. `gpus`: "UUID,UUID...", which the server
 * counts in that order. Its folders are in `run_dir`/mps/UID.N or all.N, N being the first number that no running one has, so
 * that one that is stopping does not hold up the next. Returns at once; the server becomes ready later. `user`: as
 * mps_name_user. NULL with an error if it could not be started. */
struct mps_server *mps_start(const char *run_dir, const char *gpus, uid_t uid, gid_t gid, const char *user, struct error *err);
/* Calls `found`, which then owns the object, for each server that a former radd left running, or of which something is left
 * (mps_is_left). */
void mps_adopt(const char *run_dir, void (*found)(void *ctx, struct mps_server *s), void *ctx);
/* Takes NULL. Frees the object only; the server goes on. */
void mps_release(struct mps_server *s);

enum mps_state { MPS_STARTING, MPS_READY, MPS_FAILED };
/* Cheap; call it every turn while the server starts. A server that was ready becomes MPS_FAILED when its process ends. */
enum mps_state mps_poll(struct mps_server *s);
/* Asks one that was ready, now and then, whether it still answers, and tells the log when it does not. Cheap; call it every
 * second or so. */
void mps_watch(struct mps_server *s);
/* For how long it has not answered, once that was asked several times; 0: it answers, as far as is known. */
int64_t mps_silent_ms(const struct mps_server *s);
/* Whether its control daemon runs and was ready once: it may have clients in the midst of their work. */
bool mps_has_served(const struct mps_server *s);
const char *mps_pipe_dir(const struct mps_server *s);
/* Where its control.log is: in `log` of that folder. */
const char *mps_folder(const struct mps_server *s);
/* The user it serves, or MPS_ALL_USERS. */
uid_t mps_uid(const struct mps_server *s);
/* The same in words: "user ada", "all users", or "uid 1000" while the user of an adopted one is not named yet. Valid until
 * mps_name_user or mps_release. */
const char *mps_whose(const struct mps_server *s);
/* The name of its user; NULL: not known. Ignored for a server of all users. */
void mps_name_user(struct mps_server *s, const char *user);
/* The list of GPUs that it was started with. */
const char *mps_gpus(const struct mps_server *s);
struct proc_id mps_control(const struct mps_server *s);

/* Whether servers that it started run on although it has ended, as after a SIGKILL: they hold memory of GPUs and serve the
 * clients that they had, and nobody can reach them any more. Looks at all processes, at most every 100 ms. */
bool mps_is_left(struct mps_server *s);

/* Empties those of its logs that have grown beyond so many bytes: a line or more comes with each client, and the run folder is
 * in memory as a rule. A helper does it, with its user's rights. Returns at once. */
#define MPS_LOG_MOST (16 << 20)
void mps_trim(struct mps_server *s);
/* Asks the control daemon to quit, with 5 s for its clients. A helper ends it, and what is left of it, with TERM and then KILL
 * if it does not. Returns at once: 0, or -1 if no helper could be started. */
int mps_stop(struct mps_server *s);
/* Asks the server to end those of the processes that are its clients (`terminate_client`), which is kinder than SIGKILL to its
 * other clients. Of many thousands, some are left out. Returns at once. */
void mps_terminate_clients(struct mps_server *s, const pid_t *pids, size_t n);

#endif
