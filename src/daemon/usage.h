/* SPDX-License-Identifier: MIT
 *
 * How much of the daemon each user takes, so that nobody can keep it from the others: its one thread's time. A burst is
 * free, with pauses in which others have their turn; who goes on after that gets a quarter. Time comes in as an argument.
 */
#ifndef RAD_DAEMON_USAGE_H
#define RAD_DAEMON_USAGE_H

#include <stdint.h>
#include <sys/types.h>

#define USAGE_BURST_US 500000	/* of work at once */
#define USAGE_DIVISOR 4		/* after that, one part in so many */
#define USAGE_GO_US 25000	/* of it without a pause; then half of the time until the burst is over, */
#define USAGE_PAUSE_US 50000	/* and no longer a pause than that for one large request */

struct usages;

struct usages *usages_create(void);
/* Of another thing: `burst_us` at once, and as much in as much time. What is spent is said in the time that it is worth. */
struct usages *usages_create_even(int64_t burst_us);
/* Takes NULL. */
void usages_destroy(struct usages *u);

/* `us` of work were done for that user, until now. */
void usages_spend(struct usages *u, uid_t uid, int64_t us, int64_t now_us);
/* How long his next request has to wait; 0: not at all. */
int64_t usages_rest_us(const struct usages *u, uid_t uid, int64_t now_us);

#endif
