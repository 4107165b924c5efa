/* SPDX-License-Identifier: MIT
 * Whatever people, tasks and GPUs do in whatever order, the invariants of the core hold after every step; and a core that is
 * told of nothing new does nothing new.
 */
#include "core/test_world.h"

#include "base/least.h"

#include <stdlib.h>

#define STEPS 15000
#define JOBS 400

struct storm {
	struct world *w;
	uint64_t dice;
	char reserved[2][GPU_UUID_LEN];
	struct core_reservation reservations[2];
	unsigned n_reservations;
	int64_t due_ms;		/* wall; when the next of them begins or ends */
};

static unsigned draw(struct storm *s, unsigned below)
{
	s->dice = s->dice * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)(s->dice >> 33) % below;
}

static struct spec *any_spec(struct storm *s)
{
	struct spec *spec = spec_of(draw(s, 4) ? 2000 + 1000 * draw(s, 20) : 0, draw(s, 6) ? 1 : 1 + draw(s, 3));
	spec->uid = 1000 + draw(s, draw(s, 2) ? 3 : 100);
	spec->cpus = draw(s, 4) ? 0 : 1 + draw(s, 6);
	spec->slot_s = draw(s, 4) ? 0 : 5 + draw(s, 20);
	spec->begin_s = draw(s, 8) ? 0 : s->w->now.wall_ms / 1000 + draw(s, 60);
	spec->priority = (int)draw(s, 3);
	spec->hold = !draw(s, 12);
	spec->exclusive = !draw(s, 12);
	spec->max_slowdown = draw(s, 15) ? 0 : 1.5;
	spec->time_limit_s = draw(s, 6) ? 0 : 20 + draw(s, 60);
	if (!draw(s, 3))
		to_be_captured(spec);
	if (!draw(s, 5))
		spec->gpus = 0, spec->gpu_mem_mib = 0, spec->exclusive = false, spec->max_slowdown = 0;
	if (!draw(s, 3)) {
		array_of(spec, 1 + draw(s, 8));
		spec->array_limit = draw(s, 2) ? 0 : 1 + draw(s, 3);
	}
	if (s->w->next_job && !draw(s, 4)) {
		enum dependency_kind kind = (enum dependency_kind)draw(s, 3);
		starts_after(spec, kind, TASK_ID(1 + draw(s, s->w->next_job), -1));
		spec->kill_on_invalid_dep = (int)draw(s, 3) - 1;
	}
	return spec;
}

struct pick { unsigned left; const struct task *t; bool running; };

static void pick_task(void *ctx, const struct task *t)
{
	struct pick *p = ctx;
	if ((t->state == TASK_RUNNING) == p->running && !p->left--)
		p->t = t;
}

/* A live task that runs, or does not; 0: there is none. */
static task_id any_task(struct storm *s, bool running)
{
	size_t n = core_count(s->w->c, TASK_RUNNING);
	if (!running)
		n = core_count(s->w->c, TASK_PENDING) + core_count(s->w->c, TASK_HELD);
	struct pick p = { n ? draw(s, (unsigned)n) : 0, NULL, running };
	if (n)
		core_each_task(s->w->c, pick_task, &p);
	return p.t ? p.t->id : 0;
}

static void any_end(struct storm *s, task_id id)
{
	static const enum scan_kind kinds[] = { SCAN_NOTHING, SCAN_NOTHING, SCAN_GPU_OOM, SCAN_OTHER_ERROR };
	unsigned k = draw(s, 4);
	const struct task *t = core_task(s->w->c, id);
	if (task_attempt(t)->slot_asks && draw(s, 4))
		exits(s->w, id, t->spec->requeue_code ? t->spec->requeue_code : SPEC_REQUEUE_CODE, SCAN_NOTHING);
	else
		exits(s->w, id, k < 2 ? 0 : 1, kinds[k]);
}

static void any_submission(struct storm *s)
{
	if (s->w->next_job < JOBS)
		submit(s->w, any_spec(s));
}

static void any_request(struct storm *s)
{
	struct world *w = s->w;
	task_id waits = any_task(s, false), runs = any_task(s, true), any = draw(s, 2) ? waits : runs;
	struct event ev = { .u.updated = { .set_priority = true, .priority = draw(s, 5) } };
	if (draw(s, 2))
		ev.u.updated.set_gpu_mem = true, ev.u.updated.gpu_mem_mib = 1000 * draw(s, 30);
	if (!draw(s, 3))
		ev.u.updated.set_begin = true, ev.u.updated.begin_s = w->now.wall_ms / 1000 + draw(s, 60) - 20;
	if (TASK_INDEX(any) >= 0 && draw(s, 2))
		ev.u.updated.set_array_limit = true, ev.u.updated.array_limit = draw(s, 4);
	if (!draw(s, 3))
		ev.u.updated.set_gpus = true, ev.u.updated.gpus = draw(s, 5);
	struct dependency on = { (enum dependency_kind)draw(s, DEPENDENCY_KIND_COUNT), TASK_ID(1 + draw(s, w->next_job + 1), -1) };
	if (!draw(s, 3))
		ev.u.updated.set_deps = true, ev.u.updated.deps = &on, ev.u.updated.n_deps = draw(s, 3) > 0;
	if (ev.u.updated.set_deps && core_check_deps(w->c, &any, 1, &on, ev.u.updated.n_deps, NULL))
		ev.u.updated.set_deps = false;
	switch (draw(s, 7)) {
	case 0: core_hold(w->c, any, 0, w->now, NULL); break;
	case 1: core_release(w->c, any, 0, w->now, NULL); break;
	case 2: core_cancel(w->c, any, 0, w->now, NULL); break;
	case 3: core_requeue(w->c, any, 0, w->now, NULL); break;
	case 4: core_update(w->c, any, &ev, w->now, NULL); break;
	case 5: core_suspend(w->c, any, draw(s, 2) ? 0 : 1000, w->now, NULL); break;
	case 6: core_resume(w->c, any, 0, w->now, NULL); break;
	}
}

static void one_ends(struct storm *s)
{
	task_id runs = any_task(s, true);
	if (runs)
		any_end(s, runs);
}

static void one_starts(struct storm *s)
{
	task_id runs = any_task(s, true);
	if (runs)
		core_started(s->w->c, runs, (struct proc_id){ 1000 + (pid_t)draw(s, 100000), 1 }, s->w->now);
}

static void one_takes_memory(struct storm *s)
{
	task_id runs = any_task(s, true);
	if (runs && s->w->n_procs < 60)
		hold_memory(s->w, runs, 500 * draw(s, 20));
}

static void one_is_drained(struct storm *s)
{
	core_drain(s->w->c, uuid_of(draw(s, 4)), draw(s, 2));
}

static void one_falls_off(struct storm *s)
{
	s->w->n_gpus = draw(s, 20) ? 4 : 3;
}

static void gpus_show_something_else(struct storm *s)
{
	s->w->smact = draw(s, 11) / 10.0;
	s->w->foreign_mib = draw(s, 4) ? 0 : 500 * draw(s, 8);
	s->w->mps_together = draw(s, 2);
	s->w->fallen = !draw(s, 10);
}

static void other_settings(struct storm *s)
{
	struct core_config c = *core_get_config(s->w->c);
	c.order = (enum core_order)draw(s, CORE_ORDER_COUNT);
	c.map.rank = (enum map_rank)draw(s, MAP_RANK_COUNT);
	c.fair.on = draw(s, 4);
	c.allowance = (struct allowance){ { draw(s, 6), draw(s, 5), 0, 10000 * draw(s, 7) } };
	c.host_cpus = draw(s, 2) ? 0 : 8;
	c.slot_ms = draw(s, 3) ? 0 : 10000;
	c.kill_invalid_dep = draw(s, 2);
	core_reconfigure(s->w->c, &c);
}

/* Those that are not over. As its contract has it: again whenever one comes, goes, or begins. */
static void tell_reservations(struct storm *s)
{
	struct core_reservation *list = s->reservations;
	int64_t now_ms = s->w->now.wall_ms;
	unsigned n = 0;
	for (unsigned i = 0; i < s->n_reservations; i++)
		if (list[i].end_ms > now_ms)
			list[n++] = list[i];
	s->n_reservations = n;
	s->due_ms = INT64_MAX;
	for (unsigned i = 0; i < n; i++)
		s->due_ms = least_of(s->due_ms, list[i].begin_ms > now_ms ? list[i].begin_ms : list[i].end_ms);
	core_reserve(s->w->c, list, n);
}

static void other_reservations(struct storm *s)
{
	s->n_reservations = draw(s, 3);
	for (unsigned i = 0; i < s->n_reservations; i++) {
		int64_t begin_ms = s->w->now.wall_ms + 1000 * draw(s, 30) - 10000;
		snprintf(s->reserved[i], sizeof s->reserved[i], "%s", uuid_of(draw(s, 4)));
		s->reservations[i] = (struct core_reservation){ .id = i + 1, .uid = 1000 + draw(s, 3), .begin_ms = begin_ms,
			.n_gpus = 1, .end_ms = begin_ms + 1000 * (1 + draw(s, 60)), .gpus = &s->reserved[i] };
	}
	tell_reservations(s);
}

static void other_daemons(struct storm *s)
{
	struct core_claim one = { .uid = 1000 + draw(s, 3), .held_mib = 1000 * draw(s, 30), .observed_mib = 500 * draw(s, 20),
				  .n_tasks = 1 };
	snprintf(one.uuid, sizeof one.uuid, "%s", uuid_of(draw(s, 4)));
	core_others(s->w->c, &one, draw(s, 2));
}

/* Or none does, or one that nobody waits for any more. */
static void a_capture_comes(struct storm *s)
{
	uint64_t mib = 500 * draw(s, 60);
	struct estimate_result r = { .value = { "replay", mib, mib, mib + 100, .fenced = draw(s, 2) }, .note = "replay: it" };
	int64_t question = s->w->question - draw(s, 20);
	if (question > 0)
		core_estimated(s->w->c, question, draw(s, 3), &r, s->w->now);
}

static void somebody_looks(struct storm *s)
{
	struct core_user *users;
	task_id waits = any_task(s, false);
	json_decref(core_gpus_json(s->w->c, s->w->now));
	json_decref(core_starts_json(s->w->c, s->w->now));
	json_decref(waits ? core_why_json(s->w->c, waits, s->w->now, NULL) : NULL);
	core_users(s->w->c, &users);
	free(users);
}

static void any_step(struct storm *s)
{
	static void (*const steps[])(struct storm *s) = {
		any_submission, any_submission, any_submission, one_ends, one_ends, one_ends, any_request, any_request, any_request,
		one_starts, one_starts, one_takes_memory, one_is_drained, one_falls_off, other_settings, other_reservations,
		other_daemons, somebody_looks, gpus_show_something_else, a_capture_comes, a_capture_comes,
	};
	struct world *w = s->w;
	steps[draw(s, COUNT_OF(steps))](s);
	check(w);
	w->now.mono_ms += 500 * draw(s, 4);
	w->now.wall_ms += 500 * draw(s, 4);
	if (w->now.wall_ms >= s->due_ms)
		tell_reservations(s);
	sample(w);
}

static void any_order_of_things(void **unused)
{
	(void)unused;
	for (unsigned order = 0; order < CORE_ORDER_COUNT; order++)
		for (unsigned rank = 0; rank < MAP_RANK_COUNT; rank++) {
			struct core_config config = plain_config();
			config.order = (enum core_order)order;
			config.map.rank = (enum map_rank)rank;
			config.pass_max_ms = 5000;
			config.recover.keep_max_ms = 20000;
			config.slot_grace_ms = 15000;
			config.estimators = capture_estimators();
			config.fair.on = rank % 4;
			if (rank % 2)
				config.allowance = (struct allowance){ { 5, 4, 0, 60000 } };
			struct storm s = { .w = new_world(4, &config), .dice = 1 + order * 100 + rank, .due_ms = INT64_MAX };
			for (int i = 0; i < STEPS / (int)(CORE_ORDER_COUNT * MAP_RANK_COUNT); i++)
				any_step(&s);
			end_world(s.w);
		}
}

/* Nothing moved, so nothing is asked: with nobody new and no new reading, turn after turn ends at once and says when to come
 * again. */
static void a_turn_without_news_does_nothing(void **unused)
{
	(void)unused;
	struct world *w = new_world(1, NULL);
	submit(w, spec_of(30000, 1));
	submit(w, spec_of(30000, 1));
	unsigned n = w->n_log;
	uint64_t version = fleet_version(w->c->fleet);
	for (int i = 0; i < 5; i++)
		assert_int_equal(core_turn(w->c, w->now), INT64_MAX);
	assert_int_equal(w->n_log, n);
	assert_int_equal(fleet_version(w->c->fleet), version);
	end_world(w);
}

static void settings_count_from_the_next_turn(void **unused)
{
	(void)unused;
	struct world *w = new_world(1, NULL);
	submit(w, spec_of(20000, 1));
	task_id b = submit(w, spec_of(20000, 1));
	assert_int_equal(state(w, b), TASK_PENDING);	/* slack */
	struct core_config config = *core_get_config(w->c);
	config.map.slack_mib = 0;
	core_reconfigure(w->c, &config);
	core_turn(w->c, w->now);
	assert_int_equal(state(w, b), TASK_RUNNING);
	end_world(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(any_order_of_things),
		cmocka_unit_test(a_turn_without_news_does_nothing),
		cmocka_unit_test(settings_count_from_the_next_turn),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
