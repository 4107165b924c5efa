/* SPDX-License-Identifier: MIT
 * A leaky bucket per user: see usage.h. A user's entry says until when his work so far is paid for, at the rate of
 * USAGE_DIVISOR; he may be ahead of the clock by one burst.
 */
#include "daemon/usage.h"

#include "base/alloc.h"
#include "base/idmap.h"

#include <stdlib.h>

struct usages {
	int64_t burst_us, divisor;
	struct idmap users;	/* uid + 1 -> int64_t, until when it is paid for */
};

struct usages *usages_create(void)
{
	struct usages *u = usages_create_even((int64_t)USAGE_BURST_US * USAGE_DIVISOR);
	u->divisor = USAGE_DIVISOR;
	return u;
}

struct usages *usages_create_even(int64_t burst_us)
{
	struct usages *u = alloc_zero(sizeof *u);
	u->burst_us = burst_us;
	u->divisor = 1;
	return u;
}

void usages_destroy(struct usages *u)
{
	size_t at = 0;
	for (int64_t *paid; u && (paid = idmap_next(&u->users, &at));)
		free(paid);
	if (u)
		idmap_free(&u->users);
	free(u);
}

/* The bucket as one number, the time until which all is paid for: nothing has to drain it, and a user who was away for long
 * has no credit but the burst. */
void usages_spend(struct usages *u, uid_t uid, int64_t us, int64_t now_us)
{
	int64_t *paid = idmap_get(&u->users, (int64_t)uid + 1);
	if (!paid)
		idmap_put(&u->users, (int64_t)uid + 1, paid = alloc_zero(sizeof *paid));
	*paid = (*paid > now_us ? *paid : now_us) + us * u->divisor;
}

int64_t usages_rest_us(const struct usages *u, uid_t uid, int64_t now_us)
{
	const int64_t *paid = idmap_get(&u->users, (int64_t)uid + 1);
	int64_t rest = paid ? *paid - now_us - u->burst_us : 0;
	return rest > 0 ? rest : 0;
}
