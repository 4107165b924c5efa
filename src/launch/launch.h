/* SPDX-License-Identifier: MIT
 *
 * Starting tasks and finding them again. Each attempt has a shim (`rad-shim`): its own session, subreaper of the task,
 * in a cgroup when allowed; it drops to the task's user, starts the program with its output going straight to the log
 * file, follows that file, and writes an exit record. Neither a dead shim nor a dead daemon can block the task.
 *
 * Exactly once: the daemon commits `placed` before it forks the shim; the shim creates the attempt's claim file,
 * which only one can, before it starts the program. Whoever comes second finds the file and starts nothing.
 *
 * An attempt can also be a process that was there before (adopted.h): then nothing is started, and the process stands for
 * the shim.
 *
 * Attempt folder STATE/attempts/ID.N-STORE-PLACED/ (launch_name), mode 700:  request (what to start: request.h)
 *	claim ("PID START_TICKS\n", by the shim)  exit (JSON, a line at its end and one of its progress, by the shim: record.h)
 *	cgroup (its path, if there is one)  token (which its processes have in RAD_TASK_TOKEN)
 *	warned, slot, asked (by radd: when it got the signal before its time limit, that of its time slot, SIGTERM; monotonic, in ms)
 */
#ifndef RAD_LAUNCH_LAUNCH_H
#define RAD_LAUNCH_LAUNCH_H

#include "base/error.h"
#include "base/proc.h"
#include "parse/progress.h"
#include "recover/recover.h"
#include "task/task.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Where attempts' folders are, and whose they are. Ids start over with a new store, and come again with one that was restored
 * from a copy: so an attempt is also known by its store and by the moment of its placement. */
struct launch_home {
	const char *state_dir;
	const char *store;	/* the store's mark (store.h); NULL: all names are plain */
	int64_t since_ms;	/* attempts placed before are of a release without marks, and have plain names */
};

/* The name of the task's last attempt, as in its folder's name and its cgroup's: "12_3.1-STORE-PLACED"; plain: "12_3.1". */
#define LAUNCH_NAME_LEN 80
char *launch_name(const struct launch_home *home, const struct task *t, char name[LAUNCH_NAME_LEN]);
/* The path of its folder; free it. */
char *launch_folder(const struct launch_home *home, const struct task *t);

/* `by_uuid`: CUDA cannot find it by its index. */
struct launch_gpu { char uuid[GPU_UUID_LEN]; uint32_t index; bool by_uuid; };

struct device;

struct launch_request {
	struct launch_home home;
	const struct task *task;	/* its last attempt is the one to start */
	const struct launch_gpu *gpus;
	unsigned n_gpus;
	/* MPS: the pipe folder of the server for its GPUs, NULL without; the fence in MiB a GPU, 0 for none. */
	const char *mps_pipe_dir;
	uint64_t fence_mib;
	const struct device *device;	/* the kind of the GPUs: decides which variables tell the task of them */
	const char *socket_path;	/* given to the task as RAD_SOCKET */
	const char *stay_library;	/* which its programs load (stay.h); NULL: none */
};

/* A launch in two parts, since the second waits for the disk and for other processes. launch_prepare copies what it needs of
 * the request; launch_destroy takes NULL. */
struct launch *launch_prepare(const struct launch_request *r);
void launch_destroy(struct launch *l);
/* Writes the attempt folder and starts the shim. Touches nothing but *l, so that a thread can do it. *shim: the shim's
 * identity; it is nobody's child, so watch it by pidfd. Returns 0 when the shim runs: if the program then cannot begin, the
 * shim's record says why. -1: ERR_CONFLICT, the attempt was started before; on other errors nothing was started, and nothing
 * half-made is left (a folder that was there before stays). */
int launch_run(const struct launch *l, struct proc_id *shim, struct error *err);

/* The environment of the attempt, "NAME=value"; alloc_free_list. */
char **launch_variables(const struct launch_request *r);

/* Whether a shim of the task's last attempt runs, as the task's user or as ours: then *shim is filled. False: it has ended,
 * never began, or cannot be found just now; launch_result tells which. */
bool launch_adopt(const struct launch_home *home, const struct task *t, struct proc_id *shim);

/* Fills the part of the report that the record knows: all but what the device showed. */
struct exit_record;
void launch_report(const struct exit_record *record, struct exit_report *r);
/* Reads what the last attempt left, and fills *r as launch_report does; with never_began, output.line says why. *claimed:
 * whether a shim claimed the attempt (if not, see launch_may_begin_again). Returns 0; 1 if the shim that claimed it still runs
 * (two daemons raced, and ours lost): launch_adopt it; -1 on an error. */
int launch_result(const struct launch_home *home, const struct task *t, bool *claimed, struct exit_report *r,
		  struct error *err);

/* What the shim of the last attempt reported last. All figures are in range, whatever it wrote. False: nothing is known. */
struct launch_told {
	struct progress_report progress;	/* by the program's own output */
	uint64_t file;				/* a number for the file that it prints into */
	uint64_t host_mib;			/* what it was seen to take of the machine's memory; 0: not known */
	struct cpu_sums cpu;
};
bool launch_progress(const struct launch_home *home, const struct task *t, struct launch_told *out);
/* The token of the last attempt, by which a process that is not the shim's child can prove that the task's user started it. 0,
 * or -1: it has none. */
#define LAUNCH_TOKEN_LEN 33
int launch_token(const struct launch_home *home, const struct task *t, char token[LAUNCH_TOKEN_LEN]);
/* Whether the attempt may be started again: its folder is there and nobody has claimed it, so nothing ran. Without a folder, an
 * attempt whose shim is known may have run. */
bool launch_may_begin_again(const struct launch_home *home, const struct task *t);
/* Gives the attempt up before it began: claims it for nobody, so that a shim that comes late (an earlier radd may have started
 * one) begins nothing. True: a shim had claimed it already; see launch_adopt. */
bool launch_withdraw(const struct launch_home *home, const struct task *t);
/* The attempt's shim ended, and its record says `again`: takes the claim back. *cgroup: the shim's cgroup, which the caller
 * removes and frees; NULL: there was none. (A child that died before it became the program may still be in it.) Returns 0, or
 * -1: not yet; call it again. */
int launch_unclaim(const struct launch_home *home, const struct task *t, char **cgroup, struct error *err);

/* Signals every process of the attempt: descendants of the shim, its cgroup, and its session, which is how they are found
 * when the shim is dead. Never the shim itself. Returns how many got it. */
int launch_signal(const struct launch_home *home, const struct task *t, int signal);
/* The same for those alone that have a handler for it: a signal that asks for something ends nobody who does not know it, such
 * as the shell that runs a script. */
int launch_ask(const struct launch_home *home, const struct task *t, int signal);
/* Whether any of them has one; nothing is sent. */
bool launch_hears(const struct launch_home *home, const struct task *t, int signal);
/* That its processes got such a signal is noted in its folder, since the next radd is not to send it again: what asks a program
 * to save its work once may end it the second time. */
enum launch_sent { LAUNCH_WARNED, LAUNCH_SLOT, LAUNCH_ASKED };
void launch_note_sent(const struct launch_home *home, const struct task *t, enum launch_sent sent);
/* How long ago that was the last time, in ms; -1: it was not, or nobody knows. Of a warning: the last one that its log has. */
int64_t launch_sent_ago_ms(const struct launch_home *home, const struct task *t, enum launch_sent sent);
/* All processes of the attempt, the shim not included. *pids to be freed. */
size_t launch_processes(const struct launch_home *home, const struct task *t, pid_t **pids);

/* Removes the folder and the cgroup of an attempt whose end is in the store; may be called in a thread. False: not yet, since
 * killed processes are still in the cgroup; call it again. */
bool launch_forget(const char *folder);

#endif
