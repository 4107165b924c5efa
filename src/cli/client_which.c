/* SPDX-License-Identifier: MIT
 * Which radd an id belongs to, where a user has one of his own beside the server's: see client.h. Both count from 1, so an id
 * that one of them printed names somebody else's task, or another of his own, at the other.
 *
 * Asked of the own one's store and not of its daemon: while that does not run, its tasks may.
 */
#include "cli/client.h"

#include "base/alloc.h"
#include "base/scope.h"
#include "cli/client_queue.h"
#include "store/store.h"
#include "submit/wire.h"

#include <stdlib.h>
#include <unistd.h>

static int note_open(void *ctx, task_id id, enum task_state state)
{
	(void)id;
	*(bool *)ctx = !task_state_terminal(state);
	return *(bool *)ctx;
}

int client_check_which(const char *id, struct error *err)
{
	scoped_free char *state = wire_own_state_dir(), *db = alloc_printf("%s/rad.db", state), *said = wire_said_socket();
	unsigned long job = strtoul(id, NULL, 10);
	bool open = false;
	if (client_queue() || !geteuid() || said || !client_server() || !job || job > UINT32_MAX || access(db, R_OK))
		return 0;
	struct store *own = store_open_reader(state, NULL);
	if (own)
		store_states(own, TASK_ID(job, -1), note_open, &open, NULL);
	store_close(own);
	if (!open)
		return 0;
	return error_set(err, ERR_CONFLICT, "task %.40s: a radd of your own (%s) has an unfinished task of that number too: say which "
			 "is meant: RAD_SOCKET=server or RAD_SOCKET=own", id, state);
}
