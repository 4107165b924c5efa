/* SPDX-License-Identifier: MIT
 *
 * FNV-1a of 64 bits (Fowler, Noll, Vo; draft-eastlake-fnv): for tables, and for names that nobody makes up to collide.
 * Signatures in the store are made of it, so it never changes.
 */
#ifndef RAD_BASE_HASH_H
#define RAD_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#define HASH_SEED UINT64_C(14695981039346656037)

/* Goes on from `hash`, HASH_SEED at the beginning: the pieces of a text give what the whole does. */
uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t n);
/* Of a whole text, as the key of an idmap: never 0. Two texts may have one key. */
int64_t hash_key(const char *text);

#endif
