/* SPDX-License-Identifier: MIT
 *
 * A process's command line for people: what anybody may see of it, and all of it.
 */
#ifndef RAD_MONITOR_PROGRAM_H
#define RAD_MONITOR_PROGRAM_H

#include "device/reading.h"

/* `cmdline`: n bytes as /proc/PID/cmdline has them, each argument ended by 0; `comm`: the kernel's name for it, where that is
 * empty.
 *	program	its name, and where that is an interpreter its script or module: "python train.py", "python -m torch.run". No
 *		other argument, since a password or a token may stand there. "" where neither text says anything
 *	command	all arguments with blanks between them, cut with "..." where it is too long
 * Both are printable ASCII; each other byte becomes '?', so that no name can move a cursor or turn a line around. */
void program_describe(const char *cmdline, size_t n, const char *comm, char program[PROC_PROGRAM_LEN],
		      char command[PROC_COMMAND_LEN]);

#endif
