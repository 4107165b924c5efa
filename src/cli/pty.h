/* SPDX-License-Identifier: MIT
 *
 * The caller's terminal, joined to that of a task (`rad run --pty`). One a process, since it has one terminal.
 *
 * The task's shim makes a pseudo-terminal and sends us its master (launch/shim_terminal.c); bytes then go between the two
 * terminals here, and nowhere else. Our terminal is raw meanwhile, and is given back as it was on every way out that leaves
 * us a say: return, the signals named below, and those of a crash.
 */
#ifndef RAD_CLI_PTY_H
#define RAD_CLI_PTY_H

#include "base/error.h"

#include <poll.h>
#include <stdbool.h>

enum pty_state {
	PTY_WAITING,	/* no task has come for it */
	PTY_JOINED,
	PTY_OVER,	/* the task has let go of it, or ours is gone (pty_hung_up) */
};

/* Begins to listen, in a folder that is the caller's alone. Returns the socket's path, valid until pty_close, or NULL. Refuses
 * where standard input is no terminal. */
const char *pty_listen(struct error *err);
/* Gives the terminal back and lets go of the other one, which hangs up what is still there. May come at any time, and twice. */
void pty_close(void);

enum pty_state pty_state(void);
/* Whether it was our own terminal that went. */
bool pty_hung_up(void);

/* What it waits for: fills p[0..], returns how many. */
#define PTY_POLLS 3
unsigned pty_polls(struct pollfd p[PTY_POLLS]);
/* Does what can be done now. `log`: a file that gets what is shown, or -1. */
void pty_work(const struct pollfd *p, unsigned n, int log);
/* The task has ended: shows what it still wrote. */
void pty_drain(int log);
/* The window has another size. */
void pty_resize(void);
/* Stops us as ^Z stops a program (somebody sent SIGTSTP), the terminal as it was; returns when we go on. */
void pty_pause(void);

#endif
