/* SPDX-License-Identifier: MIT
 * How far tasks say they are, and what that comes to: the end, rates alone and in company, what company cost.
 */
#include "core/test_world.h"

#include "base/json.h"

#include <math.h>

/* A task that prints: how many units a second it does now, of how many. */
struct printer { task_id id; double done, per_s, whole; int64_t series; uint64_t file; };

static void say(struct world *w, const struct printer *p)
{
	double left = p->per_s > 0 ? (p->whole - p->done) / p->per_s : -1;
	if (left > (double)PROGRESS_MOST)	/* as parse/progress.c has it */
		left = -1;
	struct progress_report r = {
		.source = PROGRESS_TQDM, .t_ms = w->now.mono_ms, .done = (int64_t)p->done, .total = (int64_t)p->whole,
		.fraction = p->done / p->whole, .left_s = left, .spread_s = left >= 0 ? 1 : -1, .stands_ms = 30000, .per_s = p->per_s,
		.whole_units = p->whole, .advanced = p->done, .series = p->series, .unit = "it",
	};
	core_progress(w->c, p->id, &r, p->file, w->now);
}

/* Looks every other second, at each of n. */
static void go_on(struct world *w, int seconds, struct printer *p, size_t n)
{
	for (int i = 0; i < seconds; i += 2) {
		pass(w, 2);
		for (size_t k = 0; k < n; k++) {
			p[k].done = fmin(p[k].done + 2 * p[k].per_s, p[k].whole);
			say(w, &p[k]);
		}
	}
}

static struct printer start(struct world *w, double per_s, double whole)
{
	struct spec *s = spec_of(4096, 1);
	struct printer p = { submit(w, s), 0, per_s, whole, 1, w->next_job };
	core_started(w->c, p.id, (struct proc_id){ 10 + (pid_t)w->next_job, 1 }, w->now);
	hold_memory(w, p.id, 4000);
	return p;
}

static json_t *member(struct world *w, task_id id, const char *key)
{
	json_t *whole = core_task_json(w->c, core_task(w->c, id), w->now, NULL), *o = json_incref(json_object_get(whole, key));
	json_decref(whole);
	return o;
}

static double number(struct world *w, task_id id, const char *object, const char *key)
{
	scoped_json *o = member(w, id, object ? object : key);
	const json_t *v = object ? json_object_get(o, key) : o;
	return json_is_number(v) ? json_number_value(v) : NAN;
}

static void expect_word(struct world *w, task_id id, const char *key, const char *word)
{
	scoped_json *v = member(w, id, key);
	assert_string_equal(json_string_value(v) ? json_string_value(v) : "", word);
}

static void near(double a, double b, double tolerance)
{
	if (!(fabs(a - b) <= tolerance))
		fail_msg("%g is not %g", a, b);
}

static void what_is_said_is_shown(void **unused)
{
	struct world *w = new_world(1, NULL);
	struct printer p = start(w, 10, 1000);
	(void)unused;
	assert_true(isnan(number(w, p.id, "progress", "percent")));
	go_on(w, 20, &p, 1);
	near(number(w, p.id, "progress", "percent"), 20, 0);
	near(number(w, p.id, "progress", "left_s"), 80, 0);
	near(number(w, p.id, "progress", "ends_ms"), (double)w->now.wall_ms + 80000, 0);
	near(number(w, p.id, "progress", "rate"), 10, 0);
	pass(w, 10);	/* nothing new, and not for too long */
	near(number(w, p.id, "progress", "left_s"), 70, 0);
	pass(w, 25);
	assert_true(isnan(number(w, p.id, "progress", "left_s")));	/* it stands still */
	near(number(w, p.id, "progress", "percent"), 20, 0);
	end_world(w);
}

static void what_cannot_be_is_left_aside(void **unused)
{
	struct world *w = new_world(1, NULL);
	struct printer p = start(w, 10, 1000);
	struct progress_report r = { .source = PROGRESS_TQDM, .t_ms = w->now.mono_ms + 5000, .fraction = 0.5, .left_s = -1,
				     .spread_s = -1 };
	(void)unused;
	core_progress(w->c, p.id, &r, 1, w->now);	/* of another boot's clock */
	assert_true(isnan(number(w, p.id, "progress", "percent")));
	core_progress(w->c, TASK_ID(77, -1), &r, 1, w->now);	/* that ended */
	say(w, &(struct printer){ p.id, 500, 10, 1000, 1, 1 });
	pass(w, 2);
	say(w, &(struct printer){ p.id, 100, 10, 1000, 1, 1 });	/* less than before: no span */
	pass(w, 2);
	say(w, &(struct printer){ p.id, 120, 10, 1000, 1, 1 });
	scoped_json *attempts = member(w, p.id, "attempts");
	assert_true(json_is_null(json_object_get(json_array_get(attempts, 0), "pace")));
	end_world(w);
}

static void company_is_measured_where_both_were_seen(void **unused)
{
	struct world *w = new_world(1, NULL);
	struct printer p[2] = { start(w, 10, 10000) };
	(void)unused;
	go_on(w, 60, p, 1);
	near(number(w, p[0].id, NULL, "slowdown"), 1, 0);
	expect_word(w, p[0].id, "slowdown_source", "alone");
	p[1] = start(w, 20, 10000);
	assert_string_equal(gpu_of(w, p[1].id), "GPU-0");
	p[0].per_s = 5;		/* half of what it did alone */
	go_on(w, 60, p, 2);
	expect_word(w, p[0].id, "slowdown_source", "measured");
	near(number(w, p[0].id, NULL, "slowdown"), 120 / 90., 0.02);
	expect_word(w, p[1].id, "slowdown_source", "law");
	scoped_json *attempts = member(w, p[0].id, "attempts");
	const json_t *pace = json_object_get(json_array_get(attempts, 0), "pace");
	near(json_number_value(json_object_get(pace, "alone_per_s")), 10, 1e-6);
	near(json_number_value(json_object_get(pace, "company_per_s")), 5, 1e-6);
	assert_true(json_number_value(json_object_get(pace, "company_s")) > 50);
	end_world(w);
}

static void a_first_step_is_no_rate(void **unused)
{
	struct world *w = new_world(1, NULL);
	struct printer p = start(w, 0, 1000);
	(void)unused;
	go_on(w, 60, &p, 1);	/* compiles */
	p.per_s = 10;
	go_on(w, 20, &p, 1);
	scoped_json *attempts = member(w, p.id, "attempts");
	near(json_number_value(json_object_get(json_object_get(json_array_get(attempts, 0), "pace"), "alone_per_s")), 10, 1e-6);
	end_world(w);
}

static void one_file_of_two_tasks_tells_nothing(void **unused)
{
	struct world *w = new_world(1, NULL);
	struct printer p[2] = { start(w, 10, 1000), start(w, 10, 1000) };
	(void)unused;
	p[1].file = p[0].file;
	say(w, &p[0]);
	near(number(w, p[0].id, "progress", "percent"), 0, 0);
	go_on(w, 10, p, 2);
	assert_true(isnan(number(w, p[0].id, "progress", "percent")) && isnan(number(w, p[1].id, "progress", "percent")));
	end_world(w);
}

static double left_alone(struct world *w, task_id id)
{
	struct fleet_run r;
	for (size_t at = 0; fleet_next_run(w->c->fleet, &at, &r);)
		if (r.task->id == id)
			return r.left_s;
	return NAN;
}

/* A file that a user writes may say anything: what would end in a million years has no end that is told. */
static void an_end_beyond_all_time_is_none(void **unused)
{
	struct world *w = new_world(1, NULL);
	struct printer p = start(w, 1e-3, 1e18);
	char gpus[1][GPU_UUID_LEN] = { "GPU-0" };
	const struct core_reservation r = { .uid = 1, .begin_ms = w->now.wall_ms + 3600000, .end_ms = w->now.wall_ms + 7200000,
					    .n_gpus = 1, .gpus = gpus };
	(void)unused;
	go_on(w, 50, &p, 1);
	assert_true(isnan(left_alone(w, p.id)));
	scoped_json *overlaps = core_overlaps_json(w->c, &r, w->now);
	assert_true(json_is_null(json_object_get(json_array_get(overlaps, 0), "end_time")));
	exits(w, p.id, 0, SCAN_NOTHING);
	struct printer next = start(w, 0, 1e18);	/* of its kind, whose rate is borrowed */
	say(w, &next);
	assert_true(isnan(number(w, next.id, "progress", "left_s")) && isnan(left_alone(w, next.id)));
	end_world(w);
}

static void the_next_run_knows_its_end_at_its_first_line(void **unused)
{
	struct world *w = new_world(1, NULL);
	struct printer p = start(w, 10, 1000);
	(void)unused;
	assert_true(isnan(left_alone(w, p.id)));
	go_on(w, 50, &p, 1);
	near(left_alone(w, p.id), 50, 1);
	go_on(w, 50, &p, 1);
	exits(w, p.id, 0, SCAN_NOTHING);
	pass(w, 5);
	p = start(w, 0, 3000);	/* of the same signature, three times as long, and nothing done yet */
	say(w, &p);
	near(number(w, p.id, "progress", "left_s"), 300, 1);
	assert_true(isnan(number(w, p.id, "progress", "spread_s")));
	near(left_alone(w, p.id), 300, 1);
	/* In company from its first step on: what that costs is known from the run before. */
	struct printer both[2] = { p, start(w, 10, 1000) };
	both[0].per_s = 5;
	go_on(w, 40, both, 2);
	expect_word(w, p.id, "slowdown_source", "history");
	near(number(w, p.id, NULL, "slowdown"), 2, 0.2);
	end_world(w);
}

/* Never alone, so its rate is what the model of sharing says of its work; what was done since it spoke last is taken off. */
static void what_is_left_in_company_is_work_alone(void **unused)
{
	struct core_config config = plain_config();
	config.map.share = SHARE_STREAMS;
	config.map.rank = RANK_GAIN;
	struct world *w = new_world(1, &config);
	(void)unused;
	w->smact = 0.7;
	task_id silent = start(w, 0, 1000).id;
	pass(w, 120);			/* what one does alone */
	exits(w, silent, 0, SCAN_NOTHING);
	pass(w, 5);
	struct printer p[2] = { start(w, 0, 1000), start(w, 0, 1000) };
	assert_int_equal(state(w, p[1].id), TASK_RUNNING);
	w->smact = 1;
	go_on(w, 60, p, 2);		/* they compile, at 1 / 1.4 */
	p[0].per_s = p[1].per_s = 10 / 1.4;
	go_on(w, 100, p, 2);
	double then = left_alone(w, p[0].id);
	near(then, (1000 - 1000 / 1.4) / 10, 3);
	pass(w, 14);
	near(left_alone(w, p[0].id), then - 10, 2);
	end_world(w);
}

static void sums_go_on_after_a_restart(void **unused)
{
	struct world *w = new_world(1, NULL), *again = new_world(1, NULL);
	struct printer p = start(w, 10, 10000);
	(void)unused;
	go_on(w, 130, &p, 1);	/* noted in the log twice */
	struct task *t = core_task(w->c, p.id);
	struct event events[] = {
		{ .kind = EV_SUBMITTED, .t_ms = 1 }, { .kind = EV_ESTIMATED, .t_ms = 1, .u.estimate = t->estimate },
		{ .kind = EV_PLACED, .t_ms = 2, .u.placed = { task_attempt(t)->gpus, 1, SHARE_STREAMS, 4096, false } },
		{ .kind = EV_STARTED, .t_ms = 2, .u.started.shim = { 11, 1 } },
		{ .kind = EV_MEASURED, .t_ms = 3, .u.measured = task_attempt(t)->seen },
	};
	double before = task_attempt(t)->seen.pace.alone_s;
	assert_true(before > 50);
	again->now = w->now;
	restore(again, p.id, spec_ref(t->spec), events, COUNT_OF(events));
	hold_memory(again, p.id, 4000);
	go_on(again, 20, &p, 1);
	scoped_json *attempts = member(again, p.id, "attempts");
	double after = json_number_value(json_object_get(json_object_get(json_array_get(attempts, 0), "pace"), "alone_s"));
	assert_true(after > before + 10 && after < before + 21);
	end_world(again);
	end_world(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_said_is_shown), cmocka_unit_test(what_cannot_be_is_left_aside),
		cmocka_unit_test(company_is_measured_where_both_were_seen), cmocka_unit_test(a_first_step_is_no_rate),
		cmocka_unit_test(one_file_of_two_tasks_tells_nothing), cmocka_unit_test(the_next_run_knows_its_end_at_its_first_line),
		cmocka_unit_test(what_is_left_in_company_is_work_alone), cmocka_unit_test(sums_go_on_after_a_restart),
		cmocka_unit_test(an_end_beyond_all_time_is_none),
	};
	return cmocka_run_group_tests_name("core/pace", tests, NULL, NULL);
}
