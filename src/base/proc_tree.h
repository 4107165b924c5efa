/* SPDX-License-Identifier: MIT
 *
 * Processes of the machine at one look, and who descends from whom. A look takes its time, in which processes end and
 * others get their numbers: who is to be signalled for what a look told is asked once more (proc_tree_confirm), by one reading
 * of /proc however deep below its ancestor it stands.
 */
#ifndef RAD_BASE_PROC_TREE_H
#define RAD_BASE_PROC_TREE_H

#include "base/proc.h"

struct proc_node {
	struct proc_seen seen;
	bool sure;		/* it was confirmed */
	bool taken;		/* for the caller */
};

struct proc_tree { struct proc_node *all; size_t n; };	/* by pid */

/* All there are. */
void proc_tree_read(struct proc_tree *t);
/* Only `ancestor` and who descends from it, by the kernel's lists of children: costs what these are and not what the machine
 * has. A list can miss one when another of it ends meanwhile, so who must not miss any looks again. False: the kernel has no
 * such lists, or it is so large a family that all processes were read, which is cheaper then. */
bool proc_tree_read_below(struct proc_tree *t, pid_t ancestor);
void proc_tree_free(struct proc_tree *t);
#define scoped_proc_tree __attribute__((cleanup(proc_tree_free)))

/* NULL: it was not there. */
struct proc_node *proc_tree_find(const struct proc_tree *t, pid_t pid);
/* Those that descend from `ancestor`, itself not included, each after its parent. *nodes is to be freed, and has a place more.
 * Returns how many. */
size_t proc_tree_below(const struct proc_tree *t, pid_t ancestor, struct proc_node ***nodes);
/* Whether it is still the process that was seen, and descends from `ancestor`, which was alive after the look. Asked of parents
 * before their children. */
bool proc_tree_confirm(const struct proc_tree *t, struct proc_node *p, struct proc_id ancestor);

/* All living processes that descend from `ancestor`, itself not included. *pids is to be freed. Returns how many. */
size_t proc_descendants(pid_t ancestor, pid_t **pids);

#endif
