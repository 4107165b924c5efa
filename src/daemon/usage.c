/* SPDX-License-Identifier: MIT
 * Leaky buckets per user: see usage.h. A user's entry says until when his work so far is paid for, at the rate of each bucket;
 * he may be ahead of the clock by one burst.
 */
#include "daemon/usage.h"

#include "base/alloc.h"
#include "base/idmap.h"

#include <stdlib.h>

#define BUCKETS 2

struct usages {
	struct bucket { int64_t burst_us, divisor, most_us; } buckets[BUCKETS];	/* most_us: that he rests at once */
	int n;
	struct idmap users;	/* uid + 1 -> int64_t[BUCKETS], until when it is paid for */
};

struct usages *usages_create(void)
{
	struct usages *u = usages_create_even((int64_t)USAGE_BURST_US * USAGE_DIVISOR);
	u->buckets[0].divisor = USAGE_DIVISOR;
	u->buckets[1] = (struct bucket){ USAGE_GO_US * 2, 2, USAGE_PAUSE_US };
	u->n = 2;
	return u;
}

struct usages *usages_create_even(int64_t burst_us)
{
	struct usages *u = alloc_zero(sizeof *u);
	u->buckets[0] = (struct bucket){ burst_us, 1, INT64_MAX / 2 };
	u->n = 1;
	return u;
}

void usages_destroy(struct usages *u)
{
	if (u)
		idmap_free_all(&u->users);
	free(u);
}

/* A bucket as one number, the time until which all is paid for: nothing has to drain it, and a user who was away for long
 * has no credit but the burst. */
void usages_spend(struct usages *u, uid_t uid, int64_t us, int64_t now_us)
{
	int64_t *paid = idmap_get(&u->users, (int64_t)uid + 1);
	if (!paid)
		idmap_put(&u->users, (int64_t)uid + 1, paid = alloc_zero(BUCKETS * sizeof *paid));
	for (int i = 0; i < u->n; i++) {
		const struct bucket *b = &u->buckets[i];
		int64_t until = (paid[i] > now_us ? paid[i] : now_us) + us * b->divisor, last = now_us + b->burst_us + b->most_us;
		paid[i] = until < last ? until : last;
	}
}

int64_t usages_rest_us(const struct usages *u, uid_t uid, int64_t now_us)
{
	const int64_t *paid = idmap_get(&u->users, (int64_t)uid + 1);
	int64_t rest = 0;
	for (int i = 0; paid && i < u->n; i++) {
		int64_t one = paid[i] - now_us - u->buckets[i].burst_us;
		rest = one > rest ? one : rest;
	}
	return rest;
}
