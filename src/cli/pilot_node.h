/* SPDX-License-Identifier: MIT
 *
 * A pilot's place on its node: the folder of its state, who it is over restarts, its radd, and what that was given.
 */
#ifndef RAD_CLI_PILOT_NODE_H
#define RAD_CLI_PILOT_NODE_H

#include "base/error.h"
#include "cli/pilot.h"
#include "task/task.h"

/* Makes the state folder, or finds it, locks it, and takes up the name of the pilot that was there before. The lock is held
 * until the last process that has it ends. -1: another pilot lives there, or the folder is not to be trusted. */
int pilot_node_enter(struct pilot *p, const char *mark, struct error *err);
/* From now on every call of this process goes to the pilot's own radd, which is started if it does not run. */
int pilot_node_start_radd(struct pilot *p, struct error *err);
/* No second pilot of this user on these GPUs. `*gpus`: how many there are. */
int pilot_node_take_gpus(size_t *gpus, struct error *err);
void pilot_node_stop_radd(void);

/* ---- what radd was given ---- */

#define PILOT_KEY (TASK_ID_TEXT + 16)
struct pilot_handed {
	task_id id;
	unsigned claim;
	char local[TASK_ID_TEXT];	/* its id at the pilot's radd */
	int signal;			/* what it wants to be told by; 0: nothing said */
	int64_t before_ms;
	int code;			/* with which it says that it saved */
};

/* "12_3.4" */
char *pilot_node_key(task_id id, unsigned claim, char key[PILOT_KEY]);
/* On disk when this returns. */
int pilot_node_note(const struct pilot *p, const struct pilot_handed *h, struct error *err);
/* A mark beside it: "asked", "cut". */
void pilot_node_mark(const struct pilot *p, const struct pilot_handed *h, const char *mark);
bool pilot_node_has_mark(const struct pilot *p, const struct pilot_handed *h, const char *mark);
void pilot_node_forget(const struct pilot *p, const struct pilot_handed *h);
/* Calls `each` with all of them. */
void pilot_node_handed(const struct pilot *p, void (*each)(void *ctx, const struct pilot_handed *h), void *ctx);

/* Sends a signal to the processes of a running task of the pilot's radd; `handlers`: to those alone that have a handler for it.
 * Returns how many got it, -1: it does not run. */
int pilot_node_signal(const struct pilot *p, const char *local, int signal, bool handlers);

#endif
