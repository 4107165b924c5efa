/* SPDX-License-Identifier: MIT
 *
 * The parts of `rad-shim`. It outlives the daemon and stays beside every task, so it links the C library only.
 */
#ifndef RAD_LAUNCH_SHIM_H
#define RAD_LAUNCH_SHIM_H

#include "base/error.h"
#include "launch/cgroup.h"
#include "launch/request.h"
#include "parse/progress.h"
#include "recover/scan.h"

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

/* Exit codes, for tests and for whoever starts it by hand; the daemon reads files, not these. */
enum shim_exit {
	SHIM_DONE = 0,		/* the record is written, whatever the program did */
	SHIM_USAGE = 2,
	SHIM_SECOND = 17,	/* this attempt was started before; nothing was started */
	SHIM_FAILED = 18,	/* could not even write why */
};

/* shim_task.c: one attempt from claim to exit record. */
int shim_task(const char *folder);

/* What a program reads and writes. `terminal`, when not -1, is all three, and the controlling terminal of its own session. */
struct program_streams { int out_fd, err_fd, terminal; };

/* The name by which bash knows a script: a link in a folder of the user's own. "": it has none. */
struct script_link { char path[PATH_MAX]; };

/* shim_program.c: runs the request's program in a process group of its own with these streams. Called as the task's user,
 * in its working directory. Returns its pid once it is executed, or -1 with a text for its user. The link is to be removed
 * when the program has ended, and after an error too. */
pid_t program_start(const struct shim_request *r, const struct cgroup *cgroup, const struct program_streams *io,
		    struct script_link *link, struct error *err);
void program_remove_link(const struct script_link *link);

/* shim_terminal.c: makes a pseudo-terminal as the task's user, gives its other side to the `rad` that listens on that socket,
 * and waits until that one has set it up. Returns the program's side, or -1. */
int terminal_open(const char *socket, struct error *err);

/* shim_output.c: opens one output file for appending, as the task's user; emptied first if `truncate`, with a heading if there
 * is something in it (NULL: none). */
int output_open(const char *path, bool truncate, const char *heading, struct error *err);
/* Follows a regular file from where it ends now. NULL for anything else. `epochs`: what the command says of them, see
 * progress_create. */
struct output_watch *output_watch_start(const char *path, int written_fd, int64_t epochs);
/* Reads what is new, a bounded amount at once. True when there is more. NULL: false. */
bool output_watch_read(struct output_watch *f);
/* The program has ended: reads what is there, and not what others write into the same file from now on, which may be without
 * end. Takes NULL. */
void output_watch_read_rest(struct output_watch *f);
/* How far the task is by this output, and which file it is: its device and inode. NULL: nothing. */
void output_watch_progress(const struct output_watch *f, struct progress_report *out, uint64_t *dev, uint64_t *ino);
/* The last error since output_watch_start. Frees it; takes NULL. */
void output_watch_end(struct output_watch *f, struct scan_result *out);

/* shim_mps.c: what is done with MPS control daemons; see there for the words. */
int shim_mps(int argc, char **argv);

#endif
