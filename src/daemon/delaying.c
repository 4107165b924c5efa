/* SPDX-License-Identifier: MIT
 * Tries that are made again: see delaying.h.
 */
#include "daemon/delaying.h"

#include "base/clock.h"
#include "base/log.h"

#include <stdlib.h>

#define MIN_MS 500
#define MAX_MS 30000
#define MAX_DOUBLED 6

/* Most shortages (a descriptor, a server that comes up) are over in a moment, and the others are not helped by asking often. */
void delaying_again(struct delaying *d, task_id task, char *text)
{
	int64_t now = clock_mono_ms(), wait = (int64_t)MIN_MS << (d->times < MAX_DOUBLED ? d->times : MAX_DOUBLED);
	char id[TASK_ID_TEXT];
	if (!d->times++)
		d->since_ms = now;
	d->retry_ms = now + (wait < MAX_MS ? wait : MAX_MS);
	free(d->text);
	d->text = text;
	log_warn_limited("task %s: %s", task_id_text(task, id), text);
}

/* The count of tries goes on, and so does the time: it may be delayed again for the same reason before its program
 * begins. */
void delaying_end(struct delaying *d)
{
	free(d->text);
	d->text = NULL;
}

int64_t delaying_ms(const struct delaying *d)
{
	return d->times ? clock_mono_ms() - d->since_ms : 0;
}
