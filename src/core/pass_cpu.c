/* SPDX-License-Identifier: MIT
 *
 * CPU tasks: those that ask for no GPU. They wait for their user's limits and for the host's memory and CPUs (host.h), and for
 * nothing else: whether GPUs are busy, drained, silent or not read yet is nothing to them. Nor does a GPU wait for them: they
 * are placed behind all others of a turn, so that who goes to a GPU has his CPUs first. A user's first one that lacks room is
 * passed by smaller ones for pass_max; then room is kept for it, or next, where some is kept for a task with GPUs.
 */
#include "core/pass_private.h"

static void keep_room(struct pass *p, const struct task *t, struct now now)
{
	int64_t since_ms = fair_passed_since(p->fair, t->spec->uid, t->id, now.mono_ms);
	if (now.mono_ms - since_ms >= p->config->pass_max_ms)
		host_keep(p->host, t);
}

void pass_place_cpu_tasks(struct pass *p, struct now now)
{
	unsigned stayed = 0;
	struct queue_walk w;
	const struct queue *q = tasks_cpu_queue(p->tasks);
	host_end_turn(p->host, queue_length(q) ? HOST_GPU_TASKS : HOST_CPU_TASKS);
	if (!queue_length(q) || (!p->cpu_asked && p->cpu_seen == tasks_version(p->tasks)))
		return;
	queue_walk_begin(&w, q, QUEUE_RECOVERY);
	for (struct task *t; stayed < PASS_BEHIND && (t = queue_walk_next(&w));) {
		bool may = pass_may_try(p, t, &w, now);
		if (may && p->config->order == ORDER_STRICT)	/* users take turns, so another was the first a moment ago */
			host_give_way(p->host, t->id);
		struct map_request r = pass_request(p, t, now);
		if (may && pass_try(p, t, &r, now))
			continue;
		if (!may || pass_hopeless(p, t, &r, now)) {
			host_give_up(p->host, t->id);
			continue;
		}
		stayed++;
		if (queue_first_of(q, t->spec->uid) == t)
			keep_room(p, t, now);
		if (p->config->order == ORDER_STRICT)
			break;
	}
	queue_walk_end(&w);
	host_end_turn(p->host, HOST_CPU_TASKS);
	p->cpu_seen = tasks_version(p->tasks);
	p->cpu_asked = false;
}
