/* SPDX-License-Identifier: MIT
 *
 * Drained GPUs: by whom, since when, why, and until when, where that was said; then they come back by themselves. Kept in the
 * store's meta, as "drained:UUID", and not as events: they are no task's.
 */
#ifndef RAD_DAEMON_DRAINS_H
#define RAD_DAEMON_DRAINS_H

#include "core/core.h"
#include "daemon/names.h"
#include "store/store.h"

#include <jansson.h>
#include <uv.h>

#define DRAIN_MAX_REASON 200	/* bytes */

struct drains;

struct drains *drains_create(uv_loop_t *loop, struct core *core, struct store *store);
/* Frees itself once the loop has closed its handles. Takes NULL. */
void drains_destroy(struct drains *d);
/* What the store has; those of which the time is over are put back. 0, or -1 when it cannot be read. */
int drains_restore(struct drains *d, struct error *err);

/* Takes the GPU out of use, or changes why and until when (wall; 0: until somebody puts it back). `reason` may be NULL. Part of
 * the turn's transaction; -1: it could not be kept, and the turn is doomed. */
int drains_add(struct drains *d, const char *uuid, uid_t by, const char *reason, int64_t until_ms, struct error *err);
/* The same; 1: it was not drained. */
int drains_remove(struct drains *d, const char *uuid, struct error *err);

/* {"user","since_time","until_time","reason"}, each null where it is not known; NULL: it is not drained. */
json_t *drains_json(const struct drains *d, struct names *n, const char *uuid);

#endif
