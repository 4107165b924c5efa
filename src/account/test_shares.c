/* SPDX-License-Identifier: MIT
 * Shares of GPU time: they add up to the wall time in which anything was on a GPU.
 */
#include "account/shares.h"

#include "base/scope.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#define NEAR(a, b) assert_true(fabs((a) - (b)) < 1e-6)

static void test_alone_it_is_the_time(void **state)
{
	(void)state;
	struct shares_span one[] = { { 0, 0, 1000, 61000, 9 }, { 1, 0, 1000, 31000, 9 } };
	shares_split(one, COUNT_OF(one));
	NEAR(one[0].share_s, 60);
	NEAR(one[1].share_s, 30);
	shares_split(NULL, 0);
}

static void test_in_company_each_has_a_part(void **state)
{
	(void)state;
	/* 10 s alone, 10 s as two, 10 s as three, 10 s as two; then the one that comes in another's last moment is not there. */
	struct shares_span some[] = {
		{ 3, 0, 0, 30000, 0 }, { 3, 1, 10000, 40000, 0 }, { 3, 2, 20000, 40000, 0 }, { 3, 3, 40000, 45000, 0 },
	};
	shares_split(some, COUNT_OF(some));
	NEAR(some[0].share_s, 10 + 5 + 10.0 / 3);
	NEAR(some[1].share_s, 5 + 10.0 / 3 + 5);
	NEAR(some[2].share_s, 10.0 / 3 + 5);
	NEAR(some[3].share_s, 5);
}

static void test_a_clock_set_back_gives_nothing(void **state)
{
	(void)state;
	struct shares_span some[] = { { 0, 0, 5000, 4000, 0 }, { 0, 1, 4500, 6500, 0 } };
	shares_split(some, COUNT_OF(some));
	NEAR(some[0].share_s, 0);
	NEAR(some[1].share_s, 2);
}

/* Any spans: the sum is the time in which a millisecond had somebody. */
static void test_the_sum_is_the_wall_time(void **state)
{
	(void)state;
	enum { N = 300, MS = 2000, GPUS = 3 };
	struct shares_span list[N];
	static unsigned char busy[GPUS][MS];
	double sum = 0, wall = 0;
	srand(11);
	for (size_t i = 0; i < N; i++) {
		unsigned gpu = (unsigned)rand() % GPUS, from = (unsigned)rand() % MS, to = from + (unsigned)rand() % 40;
		list[i] = (struct shares_span){ gpu, 0, from, to, 0 };
		for (unsigned ms = from; ms < to && ms < MS; ms++)
			busy[gpu][ms] = 1;
		list[i].to_ms = to < MS ? to : MS;
	}
	shares_split(list, N);
	for (size_t i = 0; i < N; i++) {
		sum += list[i].share_s;
		assert_true(list[i].share_s <= (double)(list[i].to_ms - list[i].from_ms) / 1000 + 1e-9);
	}
	for (size_t i = 0; i < GPUS * MS; i++)
		wall += busy[i / MS][i % MS] / 1000.0;
	NEAR(sum, wall);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_alone_it_is_the_time), cmocka_unit_test(test_in_company_each_has_a_part),
		cmocka_unit_test(test_a_clock_set_back_gives_nothing), cmocka_unit_test(test_the_sum_is_the_wall_time),
	};
	return cmocka_run_group_tests_name("shares", tests, NULL, NULL);
}
