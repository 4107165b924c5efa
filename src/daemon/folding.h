/* SPDX-License-Identifier: MIT
 *
 * The store, folded by rule (fold_after, forget_after): looked through once a day, and some minutes after a start, in pieces
 * of a few milliseconds.
 */
#ifndef RAD_DAEMON_FOLDING_H
#define RAD_DAEMON_FOLDING_H

#include "settings/settings.h"
#include "store/store.h"

#include <uv.h>

struct folding;

/* The settings are read when it begins; both are the caller's, and outlive it. */
struct folding *folding_create(uv_loop_t *loop, struct store *store, const struct settings *config);
/* Its memory goes when the loop has closed its handle. Takes NULL. */
void folding_destroy(struct folding *f);

#endif
