/* SPDX-License-Identifier: MIT
 *
 * The store, bounded by rule: once a day, and some minutes after a start, in pieces of a few milliseconds, what ended
 * long ago is folded (fold_after), then forgotten (forget_after, keep_tasks), outcomes that no start reads are
 * dropped, and what became free of the file is given back.
 */
#ifndef RAD_DAEMON_FOLDING_H
#define RAD_DAEMON_FOLDING_H

#include "core/core.h"
#include "settings/settings.h"
#include "store/store.h"

#include <uv.h>

struct folding;

/* What is read at a start of what ended attempts taught: some tenths of a second. Older runs ran on older software.
 * Nothing beyond it is kept. */
#define FOLDING_TAUGHT_MOST 200000
#define FOLDING_TAUGHT_MS (180 * INT64_C(86400000))

/* For a store_folding whose ctx is the core: one that others wait for stays whole, however old: how it ended decides about
 * them. */
bool folding_named(void *core, task_id id);

/* The settings are read when it begins; all are the caller's, and outlive it. */
struct folding *folding_create(uv_loop_t *loop, struct store *store, const struct core *core, const struct settings *config);
/* Its memory goes when the loop has closed its handle. Takes NULL. */
void folding_destroy(struct folding *f);

#endif
