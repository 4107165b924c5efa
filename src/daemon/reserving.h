/* SPDX-License-Identifier: MIT
 *
 * Reservations: GPUs for one user's tasks in a span of time. Kept in the store's meta, as "reserve:ID"; what they do to
 * placement is the core's, which is told whenever one comes, goes or begins.
 */
#ifndef RAD_DAEMON_RESERVING_H
#define RAD_DAEMON_RESERVING_H

#include "core/core.h"
#include "daemon/names.h"
#include "store/store.h"

#include <jansson.h>
#include <uv.h>

#define RESERVING_MOST 200			/* at a time */
#define RESERVING_MAX_REASON 200		/* bytes */
#define RESERVING_LONGEST_MS (90 * INT64_C(86400000))
#define RESERVING_LATEST_MS (366 * INT64_C(86400000))	/* from now until one begins */

struct reserving;

struct reserving *reserving_create(uv_loop_t *loop, struct core *core, struct store *store);
/* Frees itself once the loop has closed its handles. Takes NULL. */
void reserving_destroy(struct reserving *v);
/* What the store has; those that are over are dropped. 0, or -1 when it cannot be read. */
int reserving_restore(struct reserving *v, struct error *err);

/* Makes one of `want`, whose GPUs are chosen unless they are given; its id is filled in. Part of the turn's transaction. -1:
 * such a span cannot be had (ERR_INVALID, ERR_CONFLICT), or it cannot be kept, which dooms the turn. */
int reserving_add(struct reserving *v, struct core_reservation *want, bool given, uid_t by, const char *reason,
		  struct error *err);
/* Ends it, or takes it back. */
int reserving_remove(struct reserving *v, uint32_t id, uid_t by, struct error *err);
/* Whose it is; false: there is none of that id. */
bool reserving_user(const struct reserving *v, uint32_t id, uid_t *uid);

/* Whether the user database has said whose they are and who made them, or that it does not: it is asked by this. */
bool reserving_are_named(const struct reserving *v, struct names *n);
/* All of them, by when they begin:
 * [{"id","user","gpus","begin_time","end_time","active","by","made_time","reason","overlaps"}]. */
json_t *reserving_json(const struct reserving *v, struct names *n);
/* Those of one GPU, in short: [{"id","user","begin_time","end_time"}]. */
json_t *reserving_gpu_json(const struct reserving *v, struct names *n, const char *uuid);

#endif
