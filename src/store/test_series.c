/* SPDX-License-Identifier: MIT
 * Means over time: what goes in comes out, what is old is joined and then gone, and a store of before gets them.
 */
#include "store/test_fixture.h"

static const struct store_gpu first = { "GPU-a", "A100", 0, 40960 }, second = { "GPU-b", "A100", 1, 0 };

struct seen { struct { struct store_gpu gpu; int64_t from_ms, to_ms; double v[SERIES_VALUES]; } list[64]; size_t n; };

static void see(void *ctx, const struct store_gpu *gpu, int64_t from_ms, int64_t to_ms, const double values[SERIES_VALUES])
{
	struct seen *s = ctx;
	assert_true(s->n < COUNT_OF(s->list));
	s->list[s->n].gpu = *gpu;
	s->list[s->n].from_ms = from_ms;
	s->list[s->n].to_ms = to_ms;
	memcpy(s->list[s->n++].v, values, sizeof s->list->v);
}

static struct seen load(struct store *s, int64_t from_ms, int64_t to_ms)
{
	struct error err = ERROR_INIT;
	struct seen seen = { .n = 0 };
	if (store_load_means(s, from_ms, to_ms, see, &seen, &err))
		fail_msg("%s", err.text);
	return seen;
}

static void add(struct store *s, const struct store_gpu *gpu, int64_t from_s, double mem, double smact)
{
	struct error err = ERROR_INIT;
	double v[SERIES_VALUES] = { mem, smact, NAN, mem / 100, smact / 2, 0.125, 12, 34 };
	if (store_add_means(s, gpu, from_s * 1000, (from_s + 10) * 1000, v, &err))
		fail_msg("%s", err.text);
}

static void means_survive(void **state)
{
	struct store *s = fixture_open(*state);
	add(s, &first, 1000, 2000, 0.25);
	add(s, &second, 1000, 3000, NAN);
	add(s, &first, 1010, 2500, 0.5);
	add(s, &first, 1010, 2600, 0.75);	/* a radd that began anew within the span: the later one stands */
	fixture_commit(s);
	store_close(s);
	s = fixture_open(*state);
	struct seen seen = load(s, 0, INT64_MAX);
	assert_int_equal(seen.n, 3);
	assert_string_equal(seen.list[0].gpu.uuid, "GPU-a");
	assert_string_equal(seen.list[0].gpu.name, "A100");
	assert_int_equal(seen.list[0].gpu.mem_total_mib, 40960);
	assert_int_equal(seen.list[0].from_ms, 1000000);
	assert_int_equal(seen.list[0].to_ms, 1010000);
	assert_float_equal(seen.list[0].v[SERIES_SMACT], 0.25, 1e-9);
	assert_float_equal(seen.list[0].v[SERIES_POWER_W], 20, 1e-9);
	assert_true(isnan(seen.list[0].v[SERIES_GRACT]));
	assert_float_equal(seen.list[0].v[SERIES_SMOCC], 0.125, 1e-9);
	assert_float_equal(seen.list[0].v[SERIES_DRAM], 0.125, 1e-9);
	assert_float_equal(seen.list[0].v[SERIES_PCIE_RX], 12, 1e-9);
	assert_float_equal(seen.list[0].v[SERIES_PCIE_TX], 34, 1e-9);
	assert_true(isnan(seen.list[0].v[SERIES_TENSOR]));	/* not kept */
	assert_int_equal(seen.list[1].gpu.index, 1);
	assert_true(isnan(seen.list[1].v[SERIES_SMACT]));
	assert_float_equal(seen.list[2].v[SERIES_MEM_MIB], 2600, 0);
	assert_int_equal(load(s, 1005000, 1011000).n, 1);
	assert_int_equal(load(s, 0, 1000000).n, 0);
	store_close(s);
}

static void old_means_are_joined_and_then_gone(void **state)
{
	struct error err = ERROR_INIT;
	struct store *s = fixture_open(*state);
	for (int64_t t = 0; t < 180; t += 10) {
		add(s, &first, t, (double)(t / 60 * 1000 + t % 60), 0.5);
		add(s, &second, t, 100, t < 60 ? NAN : 1);
	}
	fixture_commit(s);
	assert_int_equal(load(s, 0, INT64_MAX).n, 36);
	assert_int_equal(store_thin_means(s, 0, 130000, 60000, &err), 0);	/* joins two minutes, drops the first */
	fixture_commit(s);
	struct seen seen = load(s, 0, INT64_MAX);
	assert_int_equal(seen.n, 2 + 12);
	assert_int_equal(seen.list[0].from_ms, 60000);
	assert_int_equal(seen.list[0].to_ms, 120000);
	assert_float_equal(seen.list[0].v[SERIES_MEM_MIB], 1025, 0);	/* 1000 and the mean of 0, 10, ... 50 */
	assert_float_equal(seen.list[0].v[SERIES_SMACT], 0.5, 0);
	assert_true(isnan(seen.list[0].v[SERIES_GRACT]));
	assert_float_equal(seen.list[0].v[SERIES_SMOCC], 0.25, 0);
	assert_float_equal(seen.list[1].v[SERIES_SMACT], 1, 0);
	assert_int_equal(seen.list[2].to_ms - seen.list[2].from_ms, 10000);
	assert_int_equal(store_thin_means(s, 0, 130000, 60000, &err), 0);	/* once more changes nothing */
	fixture_commit(s);
	struct seen again = load(s, 0, INT64_MAX);
	assert_int_equal(again.n, 14);
	assert_float_equal(again.list[0].v[SERIES_MEM_MIB], 1025, 0);
	store_close(s);
}

/* Schema 1 had no means. */
static void an_older_store_gets_them(void **state)
{
	struct store *s = fixture_open(*state);
	task_destroy(fixture_submit(s, 1000, 1));
	fixture_commit(s);
	store_close(s);
	fixture_sql(*state, FIXTURE_BEFORE_12 "DROP TABLE series; DROP TABLE gpus; DROP TABLE outcomes;"
		    "ALTER TABLE jobs DROP COLUMN folded; DROP INDEX tasks_ended_of; PRAGMA user_version = 1");
	s = fixture_open(*state);
	assert_int_equal(fixture_live(s).n, 1);
	add(s, &first, 0, 1, 1);
	fixture_commit(s);
	assert_int_equal(load(s, 0, INT64_MAX).n, 1);
	store_close(s);
	assert_true(fixture_exists(*state, "rad.db.v1"));
}

/* Schema 8 kept four values of each; its rows say nothing of the others, and go on saying what they said. */
static void rows_of_fewer_values_stay(void **state)
{
	struct error err = ERROR_INIT;
	struct store *s = fixture_open(*state);
	add(s, &first, 0, 1000, 0.5);
	fixture_commit(s);
	store_close(s);
	fixture_sql(*state, FIXTURE_BEFORE_9 "PRAGMA user_version = 8");
	s = fixture_open(*state);
	add(s, &first, 10, 2000, 1);
	fixture_commit(s);
	struct seen seen = load(s, 0, INT64_MAX);
	assert_int_equal(seen.n, 2);
	assert_float_equal(seen.list[0].v[SERIES_SMACT], 0.5, 0);
	assert_true(isnan(seen.list[0].v[SERIES_SMOCC]) && isnan(seen.list[0].v[SERIES_PCIE_TX]));
	assert_float_equal(seen.list[1].v[SERIES_SMOCC], 0.5, 0);
	assert_int_equal(store_thin_means(s, 0, 60000, 0, &err), 0);	/* joined, what is known counts */
	fixture_commit(s);
	seen = load(s, 0, INT64_MAX);
	assert_int_equal(seen.n, 1);
	assert_float_equal(seen.list[0].v[SERIES_SMACT], 0.75, 0);
	assert_float_equal(seen.list[0].v[SERIES_SMOCC], 0.5, 0);
	store_close(s);
	assert_true(fixture_exists(*state, "rad.db.v8"));
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, fixture_setup, fixture_teardown)
	const struct CMUnitTest tests[] = { T(means_survive), T(old_means_are_joined_and_then_gone), T(an_older_store_gets_them),
					    T(rows_of_fewer_values_stay) };
	return cmocka_run_group_tests_name("series", tests, NULL, NULL);
}
