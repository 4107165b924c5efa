/* SPDX-License-Identifier: MIT
 * What attempts used, as meters sum it up.
 */
#include "core/test_world.h"

static double energy_of(const struct world *w, task_id id)
{
	struct measured m;
	assert_true(fleet_measured(w->c->fleet, id, &m));
	return m.energy_j;
}

static void uses(struct world *w, double *counted_j, double first_j, double second_j)
{
	counted_j[0] += first_j;
	counted_j[1] += second_j;
	pass(w, 1);
}

/* One of its two GPUs counts anew from 0: what that one used in this second is not known, what the other used is. */
static void a_counter_starts_over(void **unused)
{
	(void)unused;
	double counted_j[MAX_GPUS] = { 5000, 9000 };
	struct world *w = new_world(2, NULL);
	w->energy_j = counted_j;
	task_id id = submit(w, spec_of(5000, 2));
	hold_memory(w, id, 4000);
	pass(w, 2);
	uses(w, counted_j, 300, 200);
	assert_int_equal(lround(energy_of(w, id)), 500);
	counted_j[1] = 0;
	uses(w, counted_j, 300, 20);
	assert_int_equal(lround(energy_of(w, id)), 800);
	counted_j[0] = 0;
	uses(w, counted_j, 20, 200);
	assert_int_equal(lround(energy_of(w, id)), 1000);
	uses(w, counted_j, 300, 200);
	assert_int_equal(lround(energy_of(w, id)), 1500);
	end_world(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_counter_starts_over),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
