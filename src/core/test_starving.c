/* SPDX-License-Identifier: MIT
 * No stream of small tasks makes a wide one wait for ever. Whatever the order, the policy, the users and the lengths of their
 * tasks, with time slots and without, it starts within a time that follows from the settings, counted from when it is first in
 * line (under a plan, from twice what that said it would wait):
 *	pass_max	it is passed for that long;
 *	LIFE_S		from then on its GPUs are kept for it, and what runs there ends: each small task runs for so long at most, or
 *			makes place when its slot is over;
 *	LIFE_S		once more where small tasks run out of memory, since those go before it, and may have to be alone.
 *	LIFE_S		once more where tasks ask for CPUs: room may be kept for a task without GPUs that came first;
 *	LIFE_S		for each other user who takes turns with its own, once or, with such a room kept before each turn, twice: whose turn
 *			has come, or who is owed a start, goes before one that does not insist yet.
 * A task that is recovering itself is first in line when those before it run, and waits as long.
 */
#include "core/test_world.h"

#include "core/pass_private.h"

#include <stdlib.h>

#define CASES 120
#define CPU_CASES 60
#define LIVE 14			/* small tasks at one time; more than run */
#define LIFE_S 90		/* the longest of their lives */
#define NEVER_S 5000
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
	unsigned cpus;		/* of the host; 0: they are not counted */
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
	if (s->cpus && !draw(s, 4))
		spec->gpus = 0, spec->gpu_mem_mib = 0, k->fails = false;
	spec->cpus = s->cpus ? draw(s, s->cpus) : 0;
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
		if (t->spec->gpus)
			hold_memory(w, k->id, t->spec->gpu_mem_mib);
	}
	bool leaving = timeslots_leaving(w->c->timeslots, t, w->now.wall_ms);
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

/* From when it is first in line (by what a plan promised, later) until it runs. */
static int waits_s(struct stream *s, task_id wide)
{
	struct world *w = s->w;
	const struct pass *p = w->c->pass;
	int64_t first_ms = 0, from_ms = w->now.mono_ms;
	while (w->now.mono_ms - from_ms < NEVER_S * 1000 && state(w, wide) != TASK_RUNNING) {
		bool strict = core_get_config(w->c)->order == ORDER_STRICT;
		if (!first_ms && p->recovering.task == wide)
			first_ms = p->recovering.passed_ms;
		else if (!first_ms && p->head.task == wide)
			first_ms = strict ? w->now.mono_ms : p->head.passed_ms;
		stream_goes_on(s);
	}
	return first_ms ? (int)((w->now.mono_ms - first_ms) / 1000) : 0;
}

static void starts_in_time(struct stream *s, task_id wide, unsigned seed, const char *doing)
{
	const struct core_config *c = core_get_config(s->w->c);
	int counted = s->cpus > 0, others = c->fair.on ? (int)s->users - 1 : 0, after = waits_s(s, wide);
	int lives = (1 + others) * (1 + counted) + s->fail;
	int most = (int)(c->pass_max_ms / 1000) + LIFE_S * lives + SETTLES_S * (1 + counted);
	if (after > most || state(s->w, wide) != TASK_RUNNING)
		fail_msg("seed %u, order %s, policy %s: a task of %u GPUs of %u %s for %d s, and %d s are allowed", seed,
			 core_order_name(c->order), map_rank_name(c->map.rank), core_task(s->w->c, wide)->spec->gpus, s->w->n_gpus,
			 doing, after, most);
}

/* The settings are drawn one by one, so that each case has its own. */
static struct core_config any_config(struct stream *s)
{
	struct core_config c = ordered((enum core_order)draw(s, CORE_ORDER_COUNT), 60 + draw(s, 120));
	c.map.rank = (enum map_rank)draw(s, MAP_RANK_COUNT);
	c.fair.on = draw(s, 2);
	c.slot_grace_ms = 20000;
	c.recover.mode = draw(s, 2) ? RECOVER_EXCLUSIVE : RECOVER_GROW;
	c.recover.keep_max_ms = 60000;
	return c;
}

static void stream_begins(struct stream *s, unsigned gpus, bool counted)
{
	struct core_config config = any_config(s);
	s->users = 1 + draw(s, 3);
	s->slots = draw(s, 2);
	s->limits = draw(s, 2);
	s->fail = draw(s, 2);
	s->most_mib = draw(s, 2) ? 10000 : 38000;
	s->cpus = draw(s, 2) || counted ? 8 : 0;
	config.host_cpus = s->cpus;
	config.max_cpu = 0;
	s->w = new_world(gpus, &config);
	s->w->mps_together = draw(s, 2);
	for (unsigned i = 0; i < LIVE; i++)
		another(s, &s->live[i]);
	for (int i = 0; i < 2 * LIFE_S; i++)
		stream_goes_on(s);
}

/* And one that ran out of memory waits again, ahead of all others. */
static void one_case(unsigned seed)
{
	struct stream s = { .dice = seed * 7919 };
	unsigned gpus = 2 + draw(&s, 4);
	stream_begins(&s, gpus, false);
	struct spec *spec = spec_of(20000, 1 + draw(&s, gpus));
	spec->exclusive = draw(&s, 2);
	spec->slot_s = -1;
	spec->cpus = s.cpus ? draw(&s, s.cpus + 1) : 0;
	spec->uid = 1000 + draw(&s, s.users + 1);
	task_id wide = submit(s.w, spec);
	starts_in_time(&s, wide, seed, "waits");
	hold_memory(s.w, wide, 20000);
	stream_goes_on(&s);
	exits(s.w, wide, 1, SCAN_GPU_OOM);
	if (state(s.w, wide) == TASK_PENDING)	/* alone it had all there is */
		starts_in_time(&s, wide, seed, "recovers");
	end_world(s.w);
}

/* One without GPUs that wants many CPUs, counted from when it is its user's first. Room is kept for it after pass_max, and
 * before it perhaps for tasks with GPUs, which wait for those too, and for that of each other user: in turns, so it is no more
 * than some lives. Under `strict` nobody passes whoever is first, so there it only starts some time. */
static void one_case_of_cpus(unsigned seed)
{
	struct stream s = { .dice = seed * 7919 };
	int first_s = -1;
	stream_begins(&s, 2 + draw(&s, 4), true);
	const struct core_config *c = core_get_config(s.w->c);
	int most = (int)(c->pass_max_ms / 1000) + 10 * LIFE_S;
	struct spec *spec = spec_of(0, 0);
	spec->cpus = s.cpus - 1 + draw(&s, 2);
	spec->uid = 1000 + draw(&s, s.users + 1);
	spec->slot_s = -1;
	task_id wide = submit(s.w, spec);
	for (int t = 0; t < NEVER_S && state(s.w, wide) != TASK_RUNNING; t++) {
		const struct task *first = queue_first_of(tasks_cpu_queue(s.w->c->tasks), spec->uid);
		first_s = first_s < 0 && first && first->id == wide ? t : first_s;
		if (first_s >= 0 && t - first_s > most && c->order != ORDER_STRICT)
			fail_msg("seed %u, order %s: a task of %u CPUs waits for more than %d s", seed, core_order_name(c->order), spec->cpus,
				 most);
		stream_goes_on(&s);
	}
	assert_int_equal(state(s.w, wide), TASK_RUNNING);
	end_world(s.w);
}

static void no_stream_starves_one_of_many_cpus(void **unused)
{
	(void)unused;
	for (unsigned seed = 1; seed <= CPU_CASES; seed++)
		one_case_of_cpus(seed);
}

static void no_stream_starves_a_wide_task(void **unused)
{
	(void)unused;
	static const unsigned longest[] = { 418, 1830 };	/* of 4,000, where others have their turns */
	for (unsigned seed = 1; seed <= CASES; seed++)
		one_case(seed);
	for (size_t i = 0; i < COUNT_OF(longest); i++)
		one_case(longest[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(no_stream_starves_a_wide_task),
					    cmocka_unit_test(no_stream_starves_one_of_many_cpus) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
