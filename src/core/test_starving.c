/* SPDX-License-Identifier: MIT
 * No stream of small tasks makes a wide one wait for ever. Whatever the order, the policy, the users and the lengths of their
 * tasks, with time slots and without, it starts within a time that follows from the settings:
 *
 *	pass_max	it is passed for that long, counted from when it is first in line;
 *	LIFE_S		from then on its GPUs are kept for it, and what runs there ends: each small task runs for so long at most,
 *			or makes place when its slot is over;
 *	LIFE_S		among several users it may take that long until it is first in line, since another user's turn lasts until
 *			something ends; once for the beginning, once for the end of pass_max;
 *	plan		the time of passing begins later by twice what the plan said it would wait.
 */
#include "core/test_world.h"

#include "core/pass_private.h"

#include <stdlib.h>

#define CASES 400
#define LIVE 14			/* small tasks at one time; more than run */
#define LIFE_S 90		/* the longest of their lives */
#define SETTLES_S 3		/* a GPU, and the turns of the loop */

struct small {
	task_id id;
	int left_s, save_s;
	uint32_t begun;		/* attempts */
	bool fails;		/* runs out of memory at first */
};

struct stream {
	struct world *w;
	uint64_t dice;
	struct small live[LIVE];
	unsigned users;
	bool slots, limits, fail;
	uint64_t most_mib;
};

static unsigned draw(struct stream *s, unsigned below)
{
	s->dice = s->dice * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)(s->dice >> 33) % below;
}

static void another(struct stream *s, struct small *k)
{
	struct spec *spec = spec_of(3000 + draw(s, (unsigned)s->most_mib - 3000), 1);
	*k = (struct small){ .left_s = 5 + (int)draw(s, LIFE_S - 5), .save_s = 1 + (int)draw(s, 6), .fails = s->fail && !draw(s, 6) };
	spec->uid = 1000 + draw(s, s->users);
	spec->slot_s = s->slots ? 5 + (int)draw(s, 40) : -1;
	spec->time_limit_s = s->limits && draw(s, 2) ? k->left_s + 1 : 0;
	k->id = submit(s->w, spec);
}

static void small_ends(struct stream *s, struct small *k, int code, enum scan_kind kind)
{
	exits(s->w, k->id, code, kind);
	if (task_state_terminal(state(s->w, k->id)))
		another(s, k);
}

static void small_goes_on(struct stream *s, struct small *k)
{
	struct world *w = s->w;
	const struct task *t = core_task(w->c, k->id);
	if (state(w, k->id) != TASK_RUNNING)
		return;
	if (t->n_attempts != k->begun) {
		k->begun = t->n_attempts;
		core_started(w->c, k->id, (struct proc_id){ 10 + (pid_t)draw(s, 30000), 1 }, w->now);
		hold_memory(w, k->id, t->spec->gpu_mem_mib);
	}
	bool leaving = timeslots_leaving(&w->c->config, t, w->now.wall_ms);
	if (k->left_s-- <= 0)
		small_ends(s, k, 0, SCAN_NOTHING);
	else if (leaving && (w->now.wall_ms - task_attempt(t)->slot_asked_ms) / 1000 >= k->save_s)
		small_ends(s, k, SPEC_REQUEUE_CODE, SCAN_NOTHING);
	else if (k->fails && (k->fails = draw(s, 4)) == false)
		small_ends(s, k, 1, SCAN_GPU_OOM);
}

static void stream_goes_on(struct stream *s)
{
	pass(s->w, 1);
	for (unsigned i = 0; i < LIVE; i++)
		small_goes_on(s, &s->live[i]);
}

static void one_case(unsigned seed)
{
	struct stream s = { .dice = seed };
	unsigned gpus = 2 + draw(&s, 4), wide_gpus = 1 + draw(&s, gpus);
	for (int i = 0; i < 10; i++)
		draw(&s, 2);
	struct core_config config = ordered((enum core_order)draw(&s, CORE_ORDER_COUNT), 60 + draw(&s, 120));
	config.map.rank = (enum map_rank)draw(&s, MAP_RANK_COUNT);
	config.fair.on = draw(&s, 2);
	config.slot_grace_ms = 20000;
	s.users = 1 + draw(&s, 3);
	s.slots = draw(&s, 2);
	s.limits = draw(&s, 2);
	s.fail = draw(&s, 2);
	s.most_mib = draw(&s, 2) ? 10000 : 38000;
	s.w = new_world(gpus, &config);
	s.w->mps_together = draw(&s, 2);
	for (unsigned i = 0; i < LIVE; i++)
		another(&s, &s.live[i]);
	for (int i = 0; i < 2 * LIFE_S; i++)
		stream_goes_on(&s);
	struct spec *spec = spec_of(30000, wide_gpus);
	spec->exclusive = draw(&s, 2);
	spec->slot_s = -1;
	spec->uid = 1000 + draw(&s, s.users + 1);
	task_id wide = submit(s.w, spec);
	const struct pass *p = s.w->c->pass;
	int64_t first_ms = 0, submit_ms = s.w->now.mono_ms;
	int waited = 0, most = (int)(config.pass_max_ms / 1000) * (config.order != ORDER_STRICT && config.order != ORDER_FIFO) + LIFE_S + SETTLES_S;
	for (; waited < 3000 && state(s.w, wide) != TASK_RUNNING; waited++) {
		if (!first_ms && config.order == ORDER_STRICT && pass_blocked_at(p) == wide) first_ms = s.w->now.mono_ms;
		if (!first_ms && config.order != ORDER_STRICT && p->passed == wide) first_ms = p->passed_since_ms;
		stream_goes_on(&s);
	}
	if (!first_ms) first_ms = s.w->now.mono_ms;
	int after = (int)((s.w->now.mono_ms - first_ms) / 1000);
	printf("%u order %d rank %d gpus %u/%u excl %d users %u fair %d wuser %u slots %d limits %d fail %d most %lu together %d pass %ld: %d first %ld after %d (%d)%s\n", seed, config.order, config.map.rank, wide_gpus, gpus, spec->exclusive, s.users, config.fair.on, spec->uid, s.slots, s.limits, s.fail, (unsigned long)s.most_mib, s.w->mps_together, (long)config.pass_max_ms/1000, waited, (long)(first_ms - submit_ms)/1000, after, most, after > most ? " LATE" : "");
	end_world(s.w);
}

static void no_stream_starves_a_wide_task(void **unused)
{
	(void)unused;
	for (unsigned seed = 1; seed <= CASES; seed++)
		one_case(seed * 7919);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(no_stream_starves_a_wide_task) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
