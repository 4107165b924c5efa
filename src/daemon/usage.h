/* SPDX-License-Identifier: MIT
 *
 * How much of the daemon each user takes, so that nobody can keep it from the others: its one thread's time. A burst is
 * free; who goes on after that gets a quarter. Time comes in as an argument.
 */
#ifndef RAD_DAEMON_USAGE_H
#define RAD_DAEMON_USAGE_H

#include <stdint.h>
#include <sys/types.h>

#define USAGE_BURST_US 500000	/* of work at once */
#define USAGE_DIVISOR 4		/* after that, one part in so many */

struct usages;

struct usages *usages_create(void);
/* Takes NULL. */
void usages_destroy(struct usages *u);

/* `us` of work were done for that user, until now. */
void usages_spend(struct usages *u, uid_t uid, int64_t us, int64_t now_us);
/* How long his next request has to wait; 0: not at all. */
int64_t usages_rest_us(const struct usages *u, uid_t uid, int64_t now_us);

#endif
