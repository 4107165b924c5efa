/* SPDX-License-Identifier: MIT
 * Estimates and the wall clock, which may be set while tasks wait.
 */
#include "core/test_world.h"

static unsigned n_asked;

static bool counted(const struct spec *s, uint64_t declared_mib, const struct estimate_context *c, struct estimate_result *out)
{
	(void)s, (void)declared_mib, (void)c, (void)out;
	n_asked++;
	return false;
}

/* Until the clock is where it was when something was learnt last, too. */
static void after_a_clock_was_set_back_nothing_is_asked_again_and_again(void **unused)
{
	(void)unused;
	const struct estimator table[] = { { "counted", NULL, counted }, *estimate_find("history", NULL), *estimate_find("none", NULL),
					   { NULL } };
	struct core_config config = plain_config();
	config.estimators = table;
	struct world *w = new_world(1, &config);
	task_id first = submit(w, spec_of(0, 1));
	hold_memory(w, first, 30000);
	pass(w, 120);
	exits(w, first, 0, SCAN_NOTHING);
	pass(w, 5);
	hold_memory(w, submit(w, spec_of(0, 1)), 30000);
	submit(w, spec_of(0, 1));
	w->now.wall_ms -= 3600000;
	core_clock_set(w->c, -3600000, w->now);
	pass(w, 1);
	n_asked = 0;
	for (int i = 0; i < 10; i++) {
		core_reconsider(w->c);
		pass(w, 1);
	}
	assert_int_equal(n_asked, 0);
	end_world(w);
}

/* The clock is set after its like ended, and before it starts. */
static void what_was_learnt_counts_whatever_the_clock_is_set_to(void **unused)
{
	(void)unused;
	for (int by_s = -3600; by_s <= 3600; by_s += 3600) {
		struct world *w = new_world(1, NULL);
		struct spec *s = spec_of(0, 1);
		s->hold = true;
		task_id first = submit(w, spec_of(0, 1)), waits = submit(w, s);
		hold_memory(w, first, 8000);
		pass(w, 120);
		exits(w, first, 0, SCAN_NOTHING);
		pass(w, 5);
		w->now.wall_ms += by_s * 1000;
		core_clock_set(w->c, by_s * 1000, w->now);
		core_release(w->c, waits, 1000, w->now, NULL);
		pass(w, 2);
		assert_string_equal(core_task(w->c, waits)->estimate.estimator, "history");
		end_world(w);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(after_a_clock_was_set_back_nothing_is_asked_again_and_again),
		cmocka_unit_test(what_was_learnt_counts_whatever_the_clock_is_set_to),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
