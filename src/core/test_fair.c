/* SPDX-License-Identifier: MIT
 * Several users on the GPUs of one machine: whose turn it is, how long somebody's first task waits beside another's array, what
 * a user may have, and what the head is promised.
 */
#include "core/test_world.h"

#include <math.h>

#define ALICE 1000
#define BOB 1001
#define CAROL 1002

static struct core_config plain(enum core_order order)
{
	struct core_config c = plain_config();
	c.order = order;
	c.map.max_smact = c.map.max_gract = NAN;
	c.map.slack_mib = 0;
	return c;
}

static struct spec *of_user(uid_t uid, uint64_t mib, unsigned gpus)
{
	struct spec *s = spec_of(mib, gpus);
	s->uid = uid;
	return s;
}

/* What runs, and since when the test has seen it. */
struct live { struct world *w; struct { task_id id; uid_t uid; int since; bool there; } list[64]; unsigned n; int t; };

static void note_running(void *ctx, const struct task *t)
{
	struct live *l = ctx;
	for (unsigned i = 0; i < l->n; i++)
		if (l->list[i].id == t->id) {
			l->list[i].there = true;
			return;
		}
	if (t->state != TASK_RUNNING)
		return;
	assert_true(l->n < COUNT_OF(l->list));
	l->list[l->n].id = t->id;
	l->list[l->n].uid = t->spec->uid;
	l->list[l->n].there = true;
	l->list[l->n++].since = l->t;
	hold_memory(l->w, t->id, t->gpu_mem_mib);
}

/* A second goes by; what has run for as long as it takes ends. */
static void live_on(struct live *l, int (*takes_s)(task_id id))
{
	core_each_task(l->w->c, note_running, l);
	for (unsigned i = 0; i < l->n; i++)
		if (l->t - l->list[i].since >= takes_s(l->list[i].id)) {
			exits(l->w, l->list[i].id, 0, SCAN_NOTHING);
			l->list[i--] = l->list[--l->n];
		}
	l->t++;
	pass(l->w, 1);
}

static int a_minute_or_so(task_id id)
{
	return 60 + (int)(id % 31);
}

static unsigned running_of(const struct live *l, uid_t uid)
{
	unsigned n = 0;
	for (unsigned i = 0; i < l->n; i++)
		n += l->list[i].uid == uid;
	return n;
}

/* Alice's array of 500 is under way, and she goes on submitting; then Bob comes, for the first time in an hour. Returns for how
 * many seconds his task waits. */
static int wait_of_the_first(struct core_config config, uint64_t hers_mib, uint64_t his_mib, double he_used_s, unsigned gpus)
{
	struct live l = { .w = new_world(4, &config) };
	submit(l.w, array_of(of_user(ALICE, hers_mib, 1), config.order == ORDER_BACKFILL ? 500 : 60));
	for (int i = 0; i < 100; i++)
		live_on(&l, a_minute_or_so);
	fair_remember(l.w->c->fair, BOB, he_used_s, l.w->now.mono_ms);
	task_id first = submit(l.w, of_user(BOB, his_mib, gpus));
	submit(l.w, array_of(of_user(BOB, his_mib, 1), 20));
	submit(l.w, array_of(of_user(ALICE, hers_mib, 1), 20));
	int waited = 0;
	for (; state(l.w, first) != TASK_RUNNING; waited++) {
		assert_true(waited < 400);
		live_on(&l, a_minute_or_so);
		submit(l.w, of_user(ALICE, hers_mib, 1));
	}
	for (unsigned i = 0; i < l.n; i++)
		exits(l.w, l.list[i].id, 0, SCAN_NOTHING);
	end_world(l.w);
	return waited;
}

static void an_array_makes_nobody_wait_longer_than_one_turn(void **unused)
{
	(void)unused;
	for (unsigned i = 0; i < CORE_ORDER_COUNT * 2; i++) {
		struct core_config o = plain((enum core_order)(i / 2));
		o.map.share = i % 2 ? SHARE_MPS : SHARE_STREAMS;
		if (o.order == ORDER_PLAN && i % 2)
			continue;	/* plans take their time, and how GPUs are shared is not theirs to decide */
		/* One task a GPU: the first GPU that becomes free is his. */
		assert_true(wait_of_the_first(o, 30000, 30000, 0, 1) <= 31 + 3);
		/* However much he had before. */
		assert_true(wait_of_the_first(o, 30000, 30000, 1e7, 1) <= 31 + 3);
		/* He wants a GPU that three of hers share, and a fourth of hers would fit whenever one has ended. */
		assert_true(wait_of_the_first(o, 12000, 38000, 1e7, 1) <= 91 + 3);
		/* All four of them. */
		assert_true(wait_of_the_first(o, 12000, 38000, 0, 4) <= 91 + 3);
	}
}

/* Both have more than enough to do; she had used 2 GPU hours more. */
static void who_had_less_lately_has_more_until_that_is_even(void **unused)
{
	(void)unused;
	struct core_config config = plain(ORDER_BACKFILL);
	struct live l = { .w = new_world(4, &config) };
	submit(l.w, array_of(of_user(ALICE, 30000, 1), 150));
	submit(l.w, array_of(of_user(BOB, 30000, 1), 150));
	fair_remember(l.w->c->fair, ALICE, 7200, l.w->now.mono_ms);
	unsigned his = 0, hers = 0;
	for (int i = 0; i < 1500; i++) {
		live_on(&l, a_minute_or_so);
		if (i >= 300)
			his += running_of(&l, BOB), hers += running_of(&l, ALICE);
	}
	/* She is not shut out: one GPU is hers. */
	assert_true(hers > 1200 - 1200 / 10 && hers < 1200 + 1200 / 10);
	assert_true(his > 2.7 * hers);
	fair_remember(l.w->c->fair, ALICE, fair_look(l.w->c->fair, fair_find(l.w->c->fair, BOB)).used_s, l.w->now.mono_ms);
	his = hers = 0;
	for (int i = 0; i < 1500; i++) {
		live_on(&l, a_minute_or_so);
		if (i >= 300)
			his += running_of(&l, BOB), hers += running_of(&l, ALICE);
	}
	assert_true(his > 0.9 * hers && his < 1.1 * hers);
	end_world(l.w);
}

/* A task alone on a GPU counts it whole; beside others each counts what is held for it. */
static void gpu_time_is_parted_by_memory(void **unused)
{
	(void)unused;
	struct core_config config = plain(ORDER_BACKFILL);
	config.map.share = SHARE_STREAMS;
	struct world *w = new_world(2, &config);
	struct fair *f = w->c->fair;
	task_id hers = submit(w, of_user(ALICE, 30000, 1));
	pass(w, 100);
	assert_true(fabs(fair_look(f, fair_find(f, ALICE)).used_s - 100) < 0.1);
	submit(w, of_user(CAROL, 40000, 1));	/* the other GPU */
	task_id his = submit(w, of_user(BOB, 10000, 1));
	pass(w, 100);
	assert_true(fabs(fair_look(f, fair_find(f, ALICE)).used_s - 175) < 0.1);
	assert_true(fabs(fair_look(f, fair_find(f, BOB)).used_s - 25) < 0.1);
	assert_true(fabs(fair_look(f, fair_find(f, CAROL)).used_s - 100) < 0.1);
	exits(w, hers, 0, SCAN_NOTHING);
	pass(w, 10);
	assert_true(fabs(fair_look(f, fair_find(f, BOB)).used_s - 35) < 0.1);
	exits(w, his, 0, SCAN_NOTHING);
	pass(w, 10);
	assert_true(fabs(fair_look(f, fair_find(f, BOB)).used_s - 35) < 0.1);
	assert_int_equal(fair_taken_of(f, BOB).mib, 0);
	assert_int_equal(fair_taken_of(f, CAROL).mib, 40000);
	end_world(w);
}

/* While users take turns at the head, a task that wants both GPUs is not forgotten: its own time of waiting counts. */
static void time_of_waiting_is_counted_for_each_user(void **unused)
{
	(void)unused;
	struct core_config config = plain(ORDER_BACKFILL);
	config.pass_max_ms = 600 * 1000;
	struct live l = { .w = new_world(2, &config) };
	submit(l.w, array_of(of_user(BOB, 30000, 1), 60));
	submit(l.w, array_of(of_user(CAROL, 30000, 1), 60));
	for (int i = 0; i < 700; i++)
		live_on(&l, a_minute_or_so);
	submit(l.w, of_user(ALICE, 1000, 1));	/* beside a GPU's task: she runs something, so nothing is owed to her */
	for (int i = 0; i < 5; i++)
		live_on(&l, a_minute_or_so);
	task_id wide = submit(l.w, of_user(ALICE, 38000, 2));
	fair_remember(l.w->c->fair, ALICE, 300, l.w->now.mono_ms);
	int waited = 0;
	for (; state(l.w, wide) != TASK_RUNNING; waited++) {
		assert_true(waited < 1200);
		live_on(&l, a_minute_or_so);
	}
	assert_true(waited <= 600 + 91 + 3);
	end_world(l.w);
}

static struct allowance allowed[3];

static struct allowance allowance_of(void *ctx, uid_t uid)
{
	(void)ctx;
	return allowed[uid - ALICE];
}

static void who_has_what_he_may_have_waits_and_holds_up_nobody(void **unused)
{
	(void)unused;
	for (unsigned order = 0; order < CORE_ORDER_COUNT; order++) {
		struct core_config config = plain((enum core_order)order);
		struct world *w = new_world(4, &config);
		for (size_t i = 0; i < COUNT_OF(allowed); i++)
			allowed[i] = (struct allowance){ { 0 } };
		allowed[0].most[ALLOWANCE_GPUS] = 2;
		allowed[1].most[ALLOWANCE_MEM] = 20000;
		w->c->ops.allowance = allowance_of;
		task_id one = submit(w, of_user(ALICE, 5000, 1)), wide = submit(w, of_user(ALICE, 5000, 2)),
			small = submit(w, of_user(ALICE, 5000, 1)), bobs = submit(w, of_user(BOB, 15000, 1)),
			more = submit(w, of_user(BOB, 6000, 1)), others = submit(w, of_user(CAROL, 6000, 1));
		assert_int_equal(state(w, one), TASK_RUNNING);
		assert_int_equal(state(w, wide), TASK_PENDING);
		assert_int_equal(state(w, small), TASK_PENDING);	/* first come first served within a user */
		assert_int_equal(state(w, bobs), TASK_RUNNING);
		assert_int_equal(state(w, more), TASK_PENDING);
		assert_int_equal(state(w, others), TASK_RUNNING);
		scoped_free char *why = why_of(w, wide), *behind = why_of(w, small), *mem = why_of(w, more);
		assert_non_null(strstr(why, "\"UserLimit\""));
		assert_non_null(strstr(why, "max_gpus"));
		assert_non_null(strstr(why, "max_gpus 2 and has 1 now, and it asks for 2"));
		assert_non_null(strstr(behind, "\"UserLimit\""));
		assert_non_null(strstr(behind, "max_gpus 2 and has 1 now, and task 2, which is before it, asks for 2"));
		assert_non_null(strstr(mem, "max_mem"));
		exits(w, bobs, 0, SCAN_NOTHING);
		assert_int_equal(state(w, more), TASK_RUNNING);
		allowed[0].most[ALLOWANCE_GPUS] = 1;	/* lowered: the wide one never runs, and says so; what runs goes on */
		core_reconfigure(w->c, &config);
		exits(w, one, 0, SCAN_NOTHING);
		assert_int_equal(state(w, wide), TASK_PENDING);
		assert_int_equal(state(w, small), TASK_RUNNING);
		allowed[0] = (struct allowance){ { 0 } };
		core_reconfigure(w->c, &config);
		core_turn(w->c, w->now);
		assert_int_equal(state(w, wide), TASK_RUNNING);
		end_world(w);
	}
}

/* Alice runs least, so she would be next but for her limit: it is Bob's turn, who is next of those who may have more, though
 * not that of his first task, which is more than he may have at any time. */
static void whose_turn_it_is_is_not_said_of_who_may_have_no_more(void **unused)
{
	(void)unused;
	struct core_config config = plain(ORDER_BACKFILL);
	struct world *w = new_world(6, &config);
	for (size_t i = 0; i < COUNT_OF(allowed); i++)
		allowed[i] = (struct allowance){ { 0 } };
	allowed[0].most[ALLOWANCE_GPUS] = 1;
	allowed[1].most[ALLOWANCE_GPUS] = 3;
	w->c->ops.allowance = allowance_of;
	submit(w, of_user(ALICE, 30000, 1));
	for (int i = 0; i < 2; i++)
		submit(w, of_user(BOB, 30000, 1));
	for (int i = 0; i < 3; i++)
		submit(w, of_user(CAROL, 30000, 1));
	submit(w, of_user(BOB, 30000, 4));
	task_id hers = submit(w, of_user(ALICE, 30000, 1)), bobs = submit(w, of_user(BOB, 30000, 1)),
		carols = submit(w, of_user(CAROL, 30000, 1));
	char turn[80], id[TASK_ID_TEXT];
	snprintf(turn, sizeof turn, "\"task\": \"%s\"", task_id_text(bobs, id));
	scoped_free char *limited = why_of(w, hers), *first = why_of(w, bobs), *second = why_of(w, carols);
	assert_non_null(strstr(limited, "\"UserLimit\""));
	assert_non_null(strstr(limited, "\"turn\": null"));
	const char *of_first = strstr(first, "\"turn\": {"), *of_second = strstr(second, "\"turn\": {");
	assert_non_null(of_first);
	assert_non_null(of_second);
	assert_non_null(strstr(of_first, turn));
	assert_non_null(strstr(of_second, turn));
	end_world(w);
}

static struct spec *limited_to(struct spec *s, int64_t seconds)
{
	s->time_limit_s = seconds;
	return s;
}

/* Four GPUs, one of them busy, and a head that wants three, or all. */
static void fifo_lets_pass_what_cannot_put_off_the_head(void **unused)
{
	(void)unused;
	struct core_config config = plain(ORDER_FIFO);
	config.map.rank = RANK_FF;
	struct world *w = new_world(4, &config);
	submit(w, spec_of(30000, 1));
	submit(w, spec_of(30000, 1));
	task_id head = submit(w, spec_of(39000, 3)), small = submit(w, spec_of(1024, 1)), large = submit(w, spec_of(38000, 1));
	assert_int_equal(state(w, head), TASK_PENDING);
	assert_int_equal(state(w, small), TASK_RUNNING);	/* beside the one whose GPU is not the head's */
	assert_int_equal(state(w, large), TASK_PENDING);
	end_world(w);

	w = new_world(4, &config);
	task_id busy = submit(w, limited_to(spec_of(30000, 1), 600));
	pass(w, 100);
	head = submit(w, spec_of(39000, 4));
	small = submit(w, spec_of(1024, 1));
	assert_int_equal(state(w, head), TASK_PENDING);
	assert_int_equal(state(w, small), TASK_PENDING);	/* might still be there when the first one has ended */
	scoped_free char *why = why_of(w, small);
	assert_non_null(strstr(why, "\"Kept\""));
	task_id brief = submit(w, limited_to(spec_of(1024, 1), 490)), longer = submit(w, limited_to(spec_of(1024, 1), 510));
	assert_int_equal(state(w, brief), TASK_RUNNING);
	assert_int_equal(state(w, longer), TASK_PENDING);
	pass(w, 490);
	exits(w, brief, 0, SCAN_NOTHING);
	pass(w, 10);
	exits(w, busy, 0, SCAN_NOTHING);
	pass(w, 2);
	assert_int_equal(state(w, head), TASK_RUNNING);
	end_world(w);
}

/* One user alone: fair or not, everything happens as before. */
static void for_one_user_nothing_changes(void **unused)
{
	(void)unused;
	for (unsigned order = 0; order < CORE_ORDER_COUNT; order++) {
		struct world *seen[2];
		for (int on = 0; on < 2; on++) {
			struct core_config config = plain((enum core_order)order);
			config.fair.on = on;
			config.pass_max_ms = 100 * 1000;
			struct live l = { .w = new_world(4, &config) };
			for (uint32_t i = 0; i < (order == ORDER_PLAN ? 40 : 120); i++) {	/* plans take their time */
				submit(l.w, spec_of(4000 + 1000 * (i * 7 % 30), i % 9 ? 1 : 1 + i % 4));
				live_on(&l, a_minute_or_so);
				live_on(&l, a_minute_or_so);
			}
			for (int i = 0; i < 2000 && l.n; i++)
				live_on(&l, a_minute_or_so);
			seen[on] = l.w;
		}
		assert_int_equal(seen[0]->n_log, seen[1]->n_log);
		assert_memory_equal(seen[0]->log, seen[1]->log, seen[0]->n_log * sizeof *seen[0]->log);
		end_world(seen[0]);
		end_world(seen[1]);
	}
}

/* Those of the last plan and those who are first in the queue now are twice as many users as a plan has places, and none of
 * them may have anything any more. */
static void a_plan_of_more_users_than_it_has_places_for(void **unused)
{
	(void)unused;
	struct core_config config = plain(ORDER_PLAN);
	config.fair.on = false;
	struct world *w = new_world(1, &config);
	struct spec *all = spec_of(40000, 1);
	all->time_limit_s = 10000;
	submit(w, all);
	for (unsigned i = 0; i < 130; i++) {
		struct spec *s = spec_of(30000, 1);
		s->uid = 2000 + i;
		s->time_limit_s = 1000;
		s->priority = i < 65 ? 0 : 10;
		if (i == 65) {
			pass(w, 3);
			config.allowance.most[ALLOWANCE_MEM] = 20000;
			core_reconfigure(w->c, &config);
		}
		submit(w, s);
	}
	pass(w, 3);
	assert_int_equal(core_count(w->c, TASK_RUNNING), 1);
	assert_int_equal(core_count(w->c, TASK_PENDING), 130);
	end_world(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_array_makes_nobody_wait_longer_than_one_turn),
		cmocka_unit_test(who_had_less_lately_has_more_until_that_is_even),
		cmocka_unit_test(gpu_time_is_parted_by_memory),
		cmocka_unit_test(time_of_waiting_is_counted_for_each_user),
		cmocka_unit_test(who_has_what_he_may_have_waits_and_holds_up_nobody),
		cmocka_unit_test(whose_turn_it_is_is_not_said_of_who_may_have_no_more),
		cmocka_unit_test(fifo_lets_pass_what_cannot_put_off_the_head),
		cmocka_unit_test(for_one_user_nothing_changes),
		cmocka_unit_test(a_plan_of_more_users_than_it_has_places_for),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
