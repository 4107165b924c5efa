/* SPDX-License-Identifier: MIT
 *
 * Whose a signature is: what is learnt for everybody asks that no user has more than his say. It stands before the "-"
 * (submit/signature.h); signatures of another form (the simulator's) are all of one user.
 */
#ifndef RAD_ESTIMATE_WHOSE_H
#define RAD_ESTIMATE_WHOSE_H

#include "base/hash.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* NULL: of no signature. */
static inline int64_t whose(const char *signature)
{
	const char *end = signature && *signature == 'u' ? signature + 1 + strspn(signature + 1, "0123456789") : NULL;
	return (int64_t)hash_bytes(HASH_SEED, signature, end && *end == '-' ? (size_t)(end - signature) : 0);
}

#endif
