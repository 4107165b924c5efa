/* SPDX-License-Identifier: MIT
 *
 * What attempts left in the state folder and among our cgroups that is no running task's: of attempts that ended while radd was
 * being killed, and of another store that once was in this folder. The former is removed. Of the latter nothing is known here,
 * so nothing of it is touched: its processes are strays, whoever's they are.
 */
#ifndef RAD_LAUNCH_LEFTOVERS_H
#define RAD_LAUNCH_LEFTOVERS_H

#include "launch/launch.h"

/* An attempt whose shim runs and which no task has. */
struct stray { char name[LAUNCH_NAME_LEN]; struct proc_id shim; uid_t uid; };

struct leftovers;

/* Looks. `keep`: launch_name of every running task's attempt. What is made from now on is not looked at. */
struct leftovers *leftovers_find(const struct launch_home *home, char *const *keep, size_t n_keep);
/* All that is ours and ended, with the way to remove it (launch_forget is one): true: gone; false: not yet. */
void leftovers_each(const struct leftovers *l, void (*each)(void *ctx, bool (*way)(const char *path), const char *path),
		    void *ctx);
/* Takes NULL. */
void leftovers_destroy(struct leftovers *l);

/* The strays; valid while it lives. */
const struct stray *leftovers_strays(const struct leftovers *l, size_t *n);
/* How many ended attempts of ours there are, and how many folders that no store of today knows. */
size_t leftovers_ended(const struct leftovers *l);
size_t leftovers_unknown(const struct leftovers *l);

#endif
