/* SPDX-License-Identifier: MIT
 *
 * The sampler process in the loop: frames become core_snapshot; one that misses its deadline is replaced.
 */
#ifndef RAD_DAEMON_SAMPLING_H
#define RAD_DAEMON_SAMPLING_H

#include "base/error.h"

struct daemon;
struct sampling;

/* Starts the sampler and waits for the first snapshot, at most `first_ms`. Returns NULL when the sampler ended instead (no
 * driver, a bad device spec: it has said why on stderr). A driver that merely hangs is no error: the daemon comes up without
 * readings and places nothing. */
struct sampling *sampling_create(struct daemon *d, int first_ms, struct error *err);
void sampling_destroy(struct sampling *s);

/* For `rad doctor`: how old the last snapshot is, and how often the sampler had to be replaced. */
long long sampling_age_ms(const struct sampling *s);
unsigned sampling_restarts(const struct sampling *s);

#endif
