/* SPDX-License-Identifier: MIT
 * Whose process is whose, when pids come again.
 */
#include "daemon/owners.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

/* The end of a shim may be heard of after another one, which got its pid, was started. */
static void test_pid_of_the_next_shim(void **state)
{
	struct owners *o = owners_create(NULL, NULL);
	const struct proc_reading p = { .id = { 4711, 1 } };
	(void)state;
	owners_shim(o, 4711, 1);
	assert_int_equal(owners_of(o, NULL, &p), 1);
	owners_shim(o, 4711, 2);
	owners_shim_gone(o, 4711, 1);
	assert_int_equal(owners_of(o, NULL, &(struct proc_reading){ .id = { 4711, 2 } }), 2);
	owners_shim_gone(o, 4711, 2);
	assert_int_equal(owners_of(o, NULL, &(struct proc_reading){ .id = { 4711, 3 } }), 0);
	owners_destroy(o);
}

/* What is kept of a task that was given back is nobody's at once, and stays that. */
static void test_let_go(void **state)
{
	struct owners *o = owners_create(NULL, NULL);
	const struct proc_reading p = { .id = { 4711, 1 } };
	(void)state;
	owners_shim(o, 4711, 1);
	assert_int_equal(owners_of(o, NULL, &p), 1);
	owners_shim_gone(o, 4711, 1);
	assert_int_equal(owners_of(o, NULL, &p), 1);
	owners_let_go(o, 1);
	assert_int_equal(owners_of(o, NULL, &p), 0);
	owners_destroy(o);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_pid_of_the_next_shim), cmocka_unit_test(test_let_go) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
