/* SPDX-License-Identifier: MIT
 *
 * Who was served when, for those who wait for one of a few workers. Who had his last one longest ago is next: then nobody
 * waits for more than one of each of the others, however many they ask for, and however soon they ask again.
 */
#ifndef RAD_DAEMON_TURNS_H
#define RAD_DAEMON_TURNS_H

#include "base/idmap.h"

#include <stdbool.h>
#include <sys/types.h>

/* All zero: nobody was. */
struct turns {
	struct idmap last;	/* uid + 1 -> the turn that was his last, as many as there are accounts at most */
	uintptr_t n;
};

/* Whether `uid` was served before `other` was; who never was, before all who were. False of two who never were. */
bool turns_before(const struct turns *t, uid_t uid, uid_t other);
/* He is served now. */
void turns_take(struct turns *t, uid_t uid);
void turns_free(struct turns *t);

#endif
