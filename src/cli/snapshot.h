/* SPDX-License-Identifier: MIT
 *
 * A task's code as it is at submission, so that what is edited while the task waits is not what runs.
 *
 * Copied is what git would keep of the repository that the task's folder is in: tracked files as they are now, and new ones
 * that are not ignored; of submodules too. What git ignores (data, checkpoints, environments) is a link to where it is, so it
 * is read and written as without a copy. Logs of tasks and Python's caches are left out. A copy is named by its content (paths,
 * sizes, times of change), so a loop that submits the same code makes one. It stays until its owner removes it: tasks may have
 * left files in it (decision 221).
 */
#ifndef RAD_CLI_SNAPSHOT_H
#define RAD_CLI_SNAPSHOT_H

#include "base/error.h"
#include "task/spec.h"

#define SNAPSHOT_MOST_MIB 1024		/* of a copy: more is data that nobody told git of */

/* Makes the copy, if there is none, and has the task run in it: its folder, PWD, and what its PYTHONPATH and PATH have of what
 * is copied. A word of its command that names copied code by its absolute path is refused: it would not be the copy's; and one
 * that leads out of the repository, as '../data'. `dry`: all is checked, and nothing done. Returns 0, or -1 with the spec as it
 * was. */
int snapshot_take(struct spec *s, bool dry, struct error *err);

#endif
