/* SPDX-License-Identifier: MIT
 * See pilot_end.h. A task that says by which signal it wants to be told is told by that, whoever of its processes handles it;
 * others by USR1, and only processes that have a handler for it, as at the end of a time slot (decision 111): it would end a
 * program that never heard of it.
 */
#include "cli/pilot_end.h"

#include "base/clock.h"
#include "base/json.h"
#include "cli/client.h"
#include "cli/pilot_node.h"

#include <signal.h>

#define CANCEL_S 1	/* a radd that hangs keeps nobody from the end; it is told again with the next step */

static void ask(const struct pilot *p, const struct pilot_handed *h)
{
	int got = pilot_node_signal(p, h->local, h->signal ? h->signal : SIGUSR1, true);
	if (got >= 0)	/* it runs; who has no handler goes on until it is ended */
		pilot_node_mark(p, h, "asked");
}

static void end_one(void *ctx, const struct pilot_handed *h)
{
	struct pilot *p = ctx;
	int64_t left = p->shared->end_ms - clock_mono_ms(), before = pilot_margin_ms(&p->options);
	if (h->before_ms > before && h->signal)
		before = h->before_ms;
	if (left <= before && !pilot_node_has_mark(p, h, "asked"))
		ask(p, h);
	if (left > pilot_cut_ms(&p->options))
		return;
	pilot_node_mark(p, h, "cut");
	json_decref(client_call_id_within(CANCEL_S, "cancel", h->local, NULL));
}

void pilot_end_step(struct pilot *p)
{
	int64_t end = p->shared->end_ms;
	if (end == INT64_MAX)
		return;
	if (end - clock_mono_ms() <= pilot_margin_ms(&p->options))
		p->shared->ending = true;
	pilot_node_handed(p, end_one, p);
}
