/* SPDX-License-Identifier: MIT
 * See turns.h. A turn is a number that fits where the map has a pointer; 0, none, is what the map says of who is not in it.
 */
#include "daemon/turns.h"

static uintptr_t turns_last(const struct turns *t, uid_t uid)
{
	return (uintptr_t)idmap_get(&t->last, (int64_t)uid + 1);
}

bool turns_before(const struct turns *t, uid_t uid, uid_t other)
{
	return turns_last(t, uid) < turns_last(t, other);
}

void turns_take(struct turns *t, uid_t uid)
{
	idmap_put(&t->last, (int64_t)uid + 1, (void *)++t->n);
}

void turns_free(struct turns *t)
{
	idmap_free(&t->last);
}
