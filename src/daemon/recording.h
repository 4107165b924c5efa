/* SPDX-License-Identifier: MIT
 *
 * What the GPUs showed over time, for reports: means of 10 s, stored once a minute; after a day those of a minute, for 60 days
 * (doc/decisions/0040). It may lose its last minute: nothing but pictures depends on it.
 */
#ifndef RAD_DAEMON_RECORDING_H
#define RAD_DAEMON_RECORDING_H

#include "base/buf.h"
#include "core/core.h"
#include "settings/settings.h"
#include "store/store.h"

struct recording;

struct recording *recording_create(struct store *store, const struct settings *config);
/* Takes NULL. */
void recording_destroy(struct recording *r);
/* A snapshot: it speaks for the time since the one before, at most two intervals. */
void recording_note(struct recording *r, const struct snapshot *snap, struct now now);
/* Puts all that is known into the open transaction. */
void recording_flush(struct recording *r, struct now now);
/* What is not in the store yet, for recording_read by another process. A new reference. */
json_t *recording_unstored(const struct recording *r, struct now now);
/* The whole reply to `series` (doc/protocol.md): what overlaps [from_ms, to_ms) of the request, from the store and from its
 * "unstored". */
int recording_read(struct store *s, const json_t *request, struct buf *reply, struct error *err);

#endif
