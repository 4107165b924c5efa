/* SPDX-License-Identifier: MIT
 *
 * GPU time as shares: while n tasks are on a GPU, each has an n-th of it. So the shares of a GPU add up to the wall time in
 * which anything was on it, and can be billed. Pure.
 */
#ifndef RAD_ACCOUNT_SHARES_H
#define RAD_ACCOUNT_SHARES_H

#include <stddef.h>
#include <stdint.h>

/* One attempt on one GPU, from its placement, when the GPU is held for it, to its end (wall). */
struct shares_span {
	unsigned gpu, owner;		/* owner: the caller's own */
	int64_t from_ms, to_ms;
	double share_s;			/* filled */
};

/* Fills share_s of each from all that are in the list. A span that ends before it begins (the clock was set back) has none. */
void shares_split(struct shares_span *list, size_t n);

#endif
