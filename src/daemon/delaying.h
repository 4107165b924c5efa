/* SPDX-License-Identifier: MIT
 *
 * What is tried again since the machine is short of something, or something of ours is not there, which is no fault of the
 * task's: after half a second, then twice as long each time, up to half a minute; and what people are told meanwhile.
 */
#ifndef RAD_DAEMON_DELAYING_H
#define RAD_DAEMON_DELAYING_H

#include "task/task.h"

/* Zero: not delayed, and never was. */
struct delaying {
	char *text;	/* why; NULL: it is not delayed */
	unsigned times;	/* that it was */
	int64_t retry_ms, since_ms;	/* mono; of the next try, of the first delay */
};

/* It did not work: once more, later. `text` begins with what is delayed; takes it, and warns with it in the log. */
void delaying_again(struct delaying *d, task_id task, char *text);
/* It is not delayed any more; how often it was is kept. */
void delaying_end(struct delaying *d);
/* For how long, since the first time. 0: never. */
int64_t delaying_ms(const struct delaying *d);

#endif
