/* SPDX-License-Identifier: MIT
 * A byte at a time: what is hashed here is short (UUIDs, names), or hashed once for each submission (scripts).
 */
#include "base/hash.h"

#include <string.h>

uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t n)
{
	const unsigned char *p = bytes;
	for (size_t i = 0; i < n; i++)
		hash = (hash ^ p[i]) * UINT64_C(1099511628211);
	return hash;
}

int64_t hash_key(const char *text)
{
	uint64_t hash = hash_bytes(HASH_SEED, text, strlen(text));
	return (int64_t)(hash ? hash : 1);
}
