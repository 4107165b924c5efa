/* SPDX-License-Identifier: MIT
 *
 * What may be asked of radd (doc/protocol.md): one function and one row of the table in requests.c for each operation. Each
 * checks who asks. What it changes goes through the core and the store, so that it is on disk with the turn it was made in;
 * what is to be answered comes back as a value, for the server to send after that.
 */
#ifndef RAD_DAEMON_REQUESTS_H
#define RAD_DAEMON_REQUESTS_H

#include "base/error.h"
#include "core/core.h"
#include "daemon/allowing.h"
#include "daemon/awaiting.h"
#include "daemon/capturing.h"
#include "daemon/counting.h"
#include "daemon/drains.h"
#include "daemon/names.h"
#include "daemon/recording.h"
#include "daemon/reserving.h"
#include "daemon/sampling.h"
#include "daemon/untold.h"
#include "daemon/usage.h"
#include "daemon/walk.h"
#include "settings/settings.h"
#include "store/store.h"

#include <jansson.h>
#include <sys/types.h>
#include <unistd.h>

/* What the operations work on; all of it belongs to others. */
struct requests {
	struct core *core;
	struct store *store;
	struct names *names;
	struct allowing *allowing;	/* what users may have */
	struct drains *drains;
	struct reserving *reserving;
	struct capturing *capturing;
	struct usages *stored;		/* what each user added to the store */
	const struct counting *counting;
	const struct recording *recording;
	const struct sampling *sampling;
	const struct untold *untold;	/* notices; NULL: it is not known which */
	const struct settings *config;
	const char *state_dir, *socket_path;
	int64_t started_ms;		/* wall */
	enum core_mps (*has_mps)(void *ctx, const char **why);	/* which MPS servers can be had here, and why */
	/* Appends {"check","text"} for what a person should look after. */
	void (*troubles)(void *ctx, json_t *list);
	/* The task that a process belongs to, 0: none; NULL: nobody knows. */
	task_id (*owner)(void *ctx, const struct proc_reading *p);
	/* As runner_environment, and as runner_departed. */
	char **(*environment)(void *ctx, const struct task *t);
	bool (*departed)(void *ctx, task_id id, const struct exit_report *report);
	/* As runner_ask. */
	int (*signal)(void *ctx, const struct task *t, int signal);
	void *ctx;
};

#define STORED_BURST_US (INT64_C(86400) * 1000000)	/* of `stored`: a day */

/* A message, and whose it is, by the kernel's word. */
struct message {
	const json_t *json;
	size_t bytes;		/* as it came */
	uid_t uid;
	gid_t gid;
	const json_t *so_far;	/* what REPLY_MORE answered to it last; NULL: it is new */
};

/* Whether that user may act for everybody: root, or the user the daemon runs as. */
static inline bool request_is_admin(uid_t uid)
{
	return uid == 0 || uid == geteuid();
}

/* How a request is answered. Whoever takes the reply owns the member of its kind. */
struct reply {
	enum reply_kind {
		REPLY_NOW,	/* by `json` */
		REPLY_WALK,	/* by the list of `walk`, which is made in pieces */
		REPLY_WAIT,	/* by the list of `awaiting`, once that is over */
		REPLY_LOOKUP,	/* by what a process that reads the history makes of the text `lookup` */
		REPLY_AGAIN,	/* not yet; nothing was done: run the request again when a user's name has come */
		REPLY_MORE,	/* not yet; a piece was done: run it again with `json` as so_far, after others had their turn */
	} kind;
	union {
		json_t *json;
		struct walk *walk;
		struct awaiting *awaiting;
		char *lookup;
	};
};

/* Runs the request. 0: *reply is filled; -1: *err is the answer, and nothing was changed, except by earlier pieces of it. */
int requests_run(const struct requests *q, const struct message *m, struct reply *reply, struct error *err);

#endif
