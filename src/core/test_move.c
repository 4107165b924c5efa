/* SPDX-License-Identifier: MIT
 * Tasks whose processes are on other GPUs than they were given: booked where they are once that is sure, and what they leave
 * alone is free for others; all of it the same after a restart.
 */
#include "core/fleet_private.h"
#include "core/test_world.h"

#include "base/json.h"

struct where { task_id task; unsigned gpu; uint64_t mib; };

/* One second, and a sample with those processes. */
static void see(struct world *w, const struct where *list, unsigned n)
{
	struct snapshot s = { .mono_ms = w->now.mono_ms += 1000, .wall_ms = w->now.wall_ms += 1000 };
	for (unsigned g = 0; g < w->n_gpus; g++) {
		struct gpu_reading *r = snapshot_add_gpu(&s);
		snprintf(r->uuid, sizeof r->uuid, "%s", uuid_of(g));
		snprintf(r->name, sizeof r->name, "%s", w->gpu_name);
		r->index = g;
		r->valid = GPU_MEM_TOTAL | GPU_MEM_USED | GPU_PROCS | GPU_PROC_MEM | GPU_SMACT | GPU_GRACT;
		r->mem_total_mib = 40960;
		r->smact = r->gract = 0.2;
	}
	for (unsigned i = 0; i < n; i++) {
		struct proc_reading *p = snapshot_add_proc(&s);
		*p = (struct proc_reading){ .gpu = list[i].gpu, .id = { .pid = (pid_t)(100 + i) }, .mem_mib = list[i].mib,
					    .claimed = list[i].task };
		s.gpus[p->gpu].mem_used_mib += p->mem_mib;
	}
	core_snapshot(w->c, &s, true, w->now);
	snapshot_clear(&s);
	core_turn(w->c, w->now);
	check(w);
}

static void see_for(struct world *w, const struct where *list, unsigned n, int seconds)
{
	while (seconds-- > 0)
		see(w, list, n);
}

static struct fleet_gpu look(const struct world *w, unsigned gpu)
{
	return fleet_look(w->c->fleet, (uint32_t)fleet_slot_of(w->c->fleet, uuid_of(gpu)), w->now.mono_ms);
}

static unsigned moves(const struct world *w)
{
	unsigned n = 0;
	for (unsigned i = 0; i < w->n_log; i++)
		n += w->log[i].kind == EV_MOVED;
	return n;
}

/* Each task here has its GPUs alone, so that where one stands is seen by where others may not go. */
static struct world *lonely_world(unsigned gpus)
{
	struct core_config config = plain_config();
	config.map.rank = RANK_EXCLUSIVE;
	return new_world(gpus, &config);
}

static void one_that_went_elsewhere_is_booked_there(void **unused)
{
	(void)unused;
	struct world *w = new_world(4, NULL);
	task_id a = submit(w, spec_of(20000, 1));
	const struct where there[] = { { a, 3, 15000 } };
	assert_string_equal(gpu_of(w, a), "GPU-0");
	see_for(w, there, 1, 2);
	assert_int_equal(moves(w), 0);			/* not by one sample, nor by two */
	assert_int_equal(look(w, 3).foreign_mib, 15000);
	see(w, there, 1);
	assert_int_equal(moves(w), 1);
	see(w, there, 1);
	assert_int_equal(look(w, 3).foreign_mib, 0);
	assert_int_equal(look(w, 3).held_mib, 20000);	/* its whole claim: it took that GPU for the one it does not use */
	assert_int_equal(look(w, 0).held_mib, 20000);	/* to which it may still come */
	see_for(w, there, 1, 31);
	assert_int_equal(moves(w), 2);
	assert_int_equal(look(w, 0).held_mib, 0);
	assert_int_equal(look(w, 0).n_tasks, 0);
	assert_string_equal(gpu_of(w, a), "GPU-3");
	assert_string_equal(task_attempt(core_task(w->c, a))->given[0], "GPU-0");
	see_for(w, there, 1, 100);
	assert_int_equal(moves(w), 2);
	exits(w, a, 0, SCAN_NOTHING);
	see(w, NULL, 0);
	assert_int_equal(look(w, 3).held_mib, 0);
	end_world(w);
}

static void nobody_is_placed_on_top_of_one_that_went_elsewhere(void **unused)
{
	(void)unused;
	struct world *w = lonely_world(2);
	task_id a = submit(w, spec_of(20000, 1));
	const struct where there[] = { { a, 1, 15000 } };
	see(w, there, 1);
	task_id b = submit(w, spec_of(20000, 1));
	assert_int_equal(state(w, b), TASK_PENDING);
	see_for(w, there, 1, 10);
	assert_int_equal(state(w, b), TASK_PENDING);	/* GPU 0 is still held */
	see_for(w, there, 1, 30);
	assert_string_equal(gpu_of(w, b), "GPU-0");
	assert_string_equal(gpu_of(w, a), "GPU-1");
	end_world(w);
}

static void one_that_comes_back_is_booked_back(void **unused)
{
	(void)unused;
	struct world *w = new_world(2, NULL);
	task_id a = submit(w, spec_of(20000, 1));
	const struct where away[] = { { a, 1, 15000 } }, home[] = { { a, 0, 15000 } };
	see_for(w, away, 1, 40);
	assert_string_equal(gpu_of(w, a), "GPU-1");
	see_for(w, home, 1, 40);
	assert_string_equal(gpu_of(w, a), "GPU-0");
	assert_int_equal(look(w, 1).n_tasks, 0);
	assert_int_equal(look(w, 0).held_mib, 20000);
	end_world(w);
}

static void of_several_gpus_those_that_are_right_stay(void **unused)
{
	(void)unused;
	struct world *w = new_world(4, NULL);
	task_id a = submit(w, spec_of(20000, 2));
	const struct where there[] = { { a, 0, 15000 }, { a, 3, 15000 } };
	see_for(w, there, 2, 40);
	const struct attempt *at = task_attempt(core_task(w->c, a));
	assert_int_equal(at->n_gpus, 2);
	assert_int_equal(at->n_extra, 0);
	assert_string_equal(at->gpus[0], "GPU-0");
	assert_string_equal(at->gpus[1], "GPU-3");
	assert_int_equal(look(w, 1).held_mib, 0);
	end_world(w);
}

/* A context on a GPU that it did not ask for costs what it holds, and no more. */
static void one_that_takes_more_than_it_was_given_is_counted_on_all(void **unused)
{
	(void)unused;
	struct world *w = new_world(2, NULL);
	task_id a = submit(w, spec_of(20000, 1));
	const struct where there[] = { { a, 0, 15000 }, { a, 1, 500 } };
	see_for(w, there, 2, 10);
	assert_int_equal(task_attempt(core_task(w->c, a))->n_gpus, 2);
	assert_int_equal(look(w, 0).held_mib, 20000);
	assert_int_equal(look(w, 1).held_mib, 500);
	assert_int_equal(look(w, 1).foreign_mib, 0);
	see_for(w, there, 1, 40);	/* and when it is gone, nothing is left of it */
	assert_int_equal(task_attempt(core_task(w->c, a))->n_gpus, 1);
	assert_int_equal(look(w, 1).held_mib, 0);
	end_world(w);
}

static void a_glimpse_moves_nothing(void **unused)
{
	(void)unused;
	struct world *w = new_world(2, NULL);
	task_id a = submit(w, spec_of(20000, 1));
	const struct where there[] = { { a, 0, 15000 }, { a, 1, 500 } };
	for (int i = 0; i < 20; i++) {
		see_for(w, there, 2, 2);
		see(w, there, 1);
	}
	assert_int_equal(moves(w), 0);
	end_world(w);
}

static void one_that_wanders_for_ever_fills_no_log(void **unused)
{
	(void)unused;
	struct world *w = new_world(2, NULL);
	task_id a = submit(w, spec_of(20000, 1));
	for (int i = 0; i < 40; i++)
		see_for(w, &(struct where){ a, (unsigned)i % 2, 15000 }, 1, 40);
	assert_int_equal(moves(w), 20);
	end_world(w);
}

static void a_guest_does_not_say_how_a_gpu_is_shared(void **unused)
{
	(void)unused;
	struct world *w = new_world(2, NULL);
	struct spec *apart = spec_of(10000, 1);
	apart->share = SHARE_STREAMS;
	task_id a = submit(w, apart), b = submit(w, spec_of(15000, 1));
	const struct where there[] = { { a, 1, 8000 }, { b, 1, 14000 } };
	assert_string_equal(gpu_of(w, b), "GPU-1");
	assert_int_equal(task_attempt(core_task(w->c, b))->mode, SHARE_MPS);
	see_for(w, there, 2, 10);
	assert_int_equal(fleet_gpus(w->c->fleet, w->now)[1].n_tasks, 2);
	assert_int_equal(fleet_gpus(w->c->fleet, w->now)[1].mode, SHARE_MPS);
	end_world(w);
}

static void a_restart_knows_where_it_went(void **unused)
{
	(void)unused;
	struct world *w = new_world(4, NULL), *after = new_world(4, NULL);
	task_id a = submit(w, spec_of(20000, 1));
	const struct where there[] = { { a, 3, 15000 } };
	see_for(w, there, 1, 5);
	const struct task *was = core_task(w->c, a);
	/* The same events once more, as the store would tell them. */
	struct attempt *at = task_attempt(was);
	struct event log[] = {
		{ .kind = EV_SUBMITTED, .t_ms = 1 }, { .kind = EV_ESTIMATED, .t_ms = 1, .u.estimate = was->estimate },
		{ .kind = EV_PLACED, .t_ms = 2, .u.placed = { at->given, at->n_given, at->mode, at->claim_mib, at->fence_mib } },
		{ .kind = EV_MOVED, .t_ms = 3 },
	};
	json_t *body = event_to_json(&(struct event){ .kind = EV_MOVED, .u.moved = { at->gpus, at->n_gpus, at->n_extra } });
	assert_int_equal(event_from_json(EV_MOVED, body, &log[3], NULL), 0);
	restore(after, a, spec_ref(was->spec), log, COUNT_OF(log));
	event_clear(&log[3]);
	json_decref(body);
	assert_int_equal(look(after, 0).held_mib, 20000);
	assert_int_equal(look(after, 3).held_mib, 20000);
	see_for(after, there, 1, 35);
	assert_string_equal(gpu_of(after, a), "GPU-3");
	assert_int_equal(look(after, 0).held_mib, 0);
	end_world(after);
	end_world(w);
}

/* What a GPU showed with one that has gone since says nothing of those who stayed alone: their span begins with the move. */
static void a_span_of_inference_ends_where_one_leaves(void **unused)
{
	(void)unused;
	struct core_config config = plain_config();
	config.fence = false;
	config.warm_ms = 1000;	/* so it leaves the one GPU in the sample that books it on the other */
	struct world *w = new_world(2, &config);
	core_drain(w->c, uuid_of(1), true);
	task_id a = submit(w, spec_of(5000, 1)), b = submit(w, spec_of(6000, 1));
	see_for(w, (const struct where[]){ { a, 0, 4900 }, { b, 0, 5900 } }, 2, 40);
	task_id c = submit(w, spec_of(7000, 1));
	see_for(w, (const struct where[]){ { a, 0, 4900 }, { b, 0, 5900 }, { c, 0, 6900 } }, 3, 60);
	const struct slot *s = w->c->fleet->slots[fleet_slot_of(w->c->fleet, uuid_of(0))];
	assert_int_equal(look(w, 0).n_tasks, 3);
	assert_true(s->span.lasts.ms > 50000);
	see_for(w, (const struct where[]){ { a, 1, 4900 }, { b, 0, 5900 }, { c, 0, 6900 } }, 3, 8);
	assert_int_equal(look(w, 0).n_tasks, 2);
	assert_true(s->span.lasts.ms <= 8000);
	end_world(w);
}

static void its_owner_is_told(void **unused)
{
	(void)unused;
	struct world *w = new_world(4, NULL);
	task_id a = submit(w, spec_of(20000, 1));
	see_for(w, &(struct where){ a, 3, 15000 }, 1, 40);
	scoped_json *o = core_task_json(w->c, core_task(w->c, a), w->now, NULL);
	assert_string_equal(json_string_value(json_object_get(o, "reason")), "OtherGpus");
	const char *text = json_member_text(o, "reason_text");
	assert_non_null(strstr(text, "was given GPU 0; its processes are on GPU 3,"));
	assert_non_null(strstr(text, "If it sets CUDA_VISIBLE_DEVICES itself, let it not"));
	const json_t *attempt = json_array_get(json_object_get(o, "attempts"), 0);
	assert_string_equal(json_string_value(json_array_get(json_object_get(attempt, "given"), 0)), "GPU-0");
	assert_string_equal(json_string_value(json_array_get(json_object_get(attempt, "gpus"), 0)), "GPU-3");
	end_world(w);
}

static void the_owner_of_one_that_takes_more_is_told_to_ask_for_them(void **unused)
{
	(void)unused;
	struct world *w = new_world(4, NULL);
	task_id a = submit(w, spec_of(9000, 1));
	see_for(w, (const struct where[]){ { a, 0, 4000 }, { a, 1, 4000 }, { a, 2, 4000 } }, 3, 40);
	scoped_json *o = core_task_json(w->c, core_task(w->c, a), w->now, NULL);
	assert_non_null(strstr(json_member_text(o, "reason_text"), "submit it with --gpus 3, or let it use 1"));
	end_world(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_that_went_elsewhere_is_booked_there),
		cmocka_unit_test(nobody_is_placed_on_top_of_one_that_went_elsewhere),
		cmocka_unit_test(one_that_comes_back_is_booked_back),
		cmocka_unit_test(of_several_gpus_those_that_are_right_stay),
		cmocka_unit_test(one_that_takes_more_than_it_was_given_is_counted_on_all),
		cmocka_unit_test(a_glimpse_moves_nothing),
		cmocka_unit_test(one_that_wanders_for_ever_fills_no_log),
		cmocka_unit_test(a_guest_does_not_say_how_a_gpu_is_shared),
		cmocka_unit_test(a_restart_knows_where_it_went),
		cmocka_unit_test(its_owner_is_told), cmocka_unit_test(the_owner_of_one_that_takes_more_is_told_to_ask_for_them),
		cmocka_unit_test(a_span_of_inference_ends_where_one_leaves),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
