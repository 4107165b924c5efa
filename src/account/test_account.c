/* SPDX-License-Identifier: MIT
 * Meters and accounts against figures worked out by hand.
 */
#include "account/account.h"

#include "base/alloc.h"
#include "base/json.h"
#include "base/scope.h"

#include <math.h>
#include <stdarg.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#define NEAR(a, b) assert_true(fabs((double)(a) - (b)) < 1e-6)	/* false for NaN */

static void meter(void **state)
{
	(void)state;
	struct meter m = { 0 };
	struct measured seen = meter_read(&m);
	assert_true(isnan(seen.mean_smact) && isnan(seen.alone_s) && isnan(seen.energy_j));
	assert_int_equal(seen.peak_mib, 0);

	/* The first begins: what it says of the time before is not this attempt's. */
	meter_add(&m, &(struct meter_sample){ 10000, 4000, true, 0.9, 500, true });
	assert_int_equal(meter_read(&m).peak_mib, 4000);
	assert_true(isnan(meter_read(&m).energy_j));
	/* 10 s at 0.2 alone, 20 s at 0.8 with a neighbour: (2 + 16) / 30 = 0.6. */
	meter_add(&m, &(struct meter_sample){ 20000, 7000, true, 0.2, 1000, true });
	meter_add(&m, &(struct meter_sample){ 40000, 6000, true, 0.8, 3000, false });
	seen = meter_read(&m);
	NEAR(seen.mean_smact, 0.6);
	NEAR(seen.alone_s, 10);
	NEAR(seen.energy_j, 4000);
	assert_int_equal(seen.peak_mib, 7000);
	/* Not known: no load for 30 s, which the mean leaves out; memory that does not count; no energy. */
	meter_add(&m, &(struct meter_sample){ 70000, 99999, false, NAN, NAN, true });
	meter_add(&m, &(struct meter_sample){ 80000, 0, true, 0.6, NAN, false });
	seen = meter_read(&m);
	NEAR(seen.mean_smact, 0.6);
	NEAR(seen.alone_s, 40);
	NEAR(seen.energy_j, 4000);
	assert_int_equal(seen.peak_mib, 7000);
	/* The same moment again, and one before it: the peak counts, time does not. */
	meter_add(&m, &(struct meter_sample){ 80000, 8000, true, 0, 100, true });
	meter_add(&m, &(struct meter_sample){ 60000, 9000, true, 0, 100, true });
	seen = meter_read(&m);
	NEAR(seen.mean_smact, 0.6);
	NEAR(seen.alone_s, 40);
	NEAR(seen.energy_j, 4000);
	assert_int_equal(seen.peak_mib, 9000);
	NEAR(m.ran_ms, 70000);
}

/* What it adds to a GPU is learnt only while nobody else is there and it has begun to use it. */
static void load_alone(void **state)
{
	(void)state;
	struct meter m = { 0 };
	const struct { int64_t mono_ms; bool alone, active; double gract, smact; } samples[] = {
		{ 10000, true, true, 0.9, 0.9 },	/* the first begins */
		{ 20000, true, false, 0, 0 },		/* still loading its data */
		{ 30000, true, true, 0.4, 0.2 },
		{ 40000, false, true, 1, 1 },
		{ 60000, true, true, 0.7, NAN },
	};
	for (size_t i = 0; i < COUNT_OF(samples); i++)
		meter_add(&m, &(struct meter_sample){ .mono_ms = samples[i].mono_ms, .alone = samples[i].alone,
			  .active = samples[i].active, .gract = samples[i].gract, .smact = samples[i].smact, .energy_j = NAN });
	struct measured seen = meter_read(&m);
	NEAR(seen.alone_gract, 0.6);	/* (10 * 0.4 + 20 * 0.7) / 30 */
	NEAR(seen.alone_smact, 0.2);
	NEAR(seen.alone_s, 40);
	/* After a restart it counts on. */
	meter_resume(&m, &seen, 50000);
	meter_add(&m, &(struct meter_sample){ .mono_ms = 100000, .alone = true, .active = true });
	meter_add(&m, &(struct meter_sample){ .mono_ms = 140000, .alone = true, .active = true, .gract = 0.2, .smact = 0.4,
		  .energy_j = NAN });
	NEAR(meter_read(&m).alone_gract, 0.4);
	NEAR(meter_read(&m).alone_smact, 0.3);
	m = (struct meter){ 0 };
	assert_true(isnan(meter_read(&m).alone_gract) && isnan(meter_read(&m).alone_smact));
}

/* Those of its GPUs that few tell: with or without a neighbour, and each by the time in which it was known. */
static void means_beside_smact(void **state)
{
	(void)state;
	struct meter m = { 0 };
	const struct { int64_t mono_ms; double smocc, dram, rx, tx; } samples[] = {
		{ 10000, 1, 1, 9, 9 }, { 20000, 0.2, 0.5, 100, NAN }, { 40000, 0.8, NAN, 400, NAN },
	};
	for (size_t i = 0; i < COUNT_OF(samples); i++)
		meter_add(&m, &(struct meter_sample){ .mono_ms = samples[i].mono_ms, .smact = NAN, .energy_j = NAN,
			  .smocc = samples[i].smocc, .dram = samples[i].dram, .pcie_rx_mib_s = samples[i].rx,
			  .pcie_tx_mib_s = samples[i].tx });
	struct measured seen = meter_read(&m);
	NEAR(seen.mean_smocc, 0.6);
	NEAR(seen.mean_dram, 0.5);
	NEAR(seen.mean_pcie_rx_mib_s, 300);
	assert_true(isnan(seen.mean_pcie_tx_mib_s));
	meter_resume(&m, &seen, 30000);
	meter_add(&m, &(struct meter_sample){ .mono_ms = 50000, .smact = NAN, .energy_j = NAN });
	meter_add(&m, &(struct meter_sample){ .mono_ms = 80000, .smact = NAN, .energy_j = NAN, .smocc = 0.2, .dram = NAN,
		  .pcie_rx_mib_s = NAN, .pcie_tx_mib_s = 5 });
	seen = meter_read(&m);
	NEAR(seen.mean_smocc, 0.4);
	NEAR(seen.mean_dram, 0.5);
	NEAR(seen.mean_pcie_tx_mib_s, 5);
}

static void meter_after_restart(void **state)
{
	(void)state;
	struct measured seen = { .peak_mib = 7000, .mean_smact = 0.6, .alone_s = 10, .energy_j = 4000 };
	struct meter m = { .last_ms = 5 };
	meter_resume(&m, &seen, 30000);
	/* 30 s at 0.6 and 10 s at 0.2: 20 / 40 = 0.5. The time between is nobody's. */
	meter_add(&m, &(struct meter_sample){ 900000, 6500, true, 1, 77777, true });
	meter_add(&m, &(struct meter_sample){ 910000, 6500, true, 0.2, 500, true });
	seen = meter_read(&m);
	NEAR(seen.mean_smact, 0.5);
	NEAR(seen.alone_s, 20);
	NEAR(seen.energy_j, 4500);
	assert_int_equal(seen.peak_mib, 7000);
	seen = (struct measured){ .mean_smact = NAN, .alone_s = NAN, .energy_j = NAN };
	meter_resume(&m, &seen, 30000);
	seen = meter_read(&m);
	assert_true(isnan(seen.mean_smact) && isnan(seen.energy_j));
}

#define T0 1700000000000

static void apply(struct task *t, int64_t at_s, struct event ev)
{
	struct error err = ERROR_INIT;
	ev.task = t->id;
	ev.t_ms = T0 + at_s * 1000;
	if (task_apply(t, &ev, &err))
		fail_msg("%s", err.text);
}

static struct task *submitted(uint32_t job, int64_t at_s, bool hold)
{
	struct spec *s = spec_create();
	s->user = alloc_string("ada");
	s->name = alloc_string("train");
	s->hold = hold;
	struct task *t = task_create(TASK_ID(job, -1), s);
	apply(t, at_s, (struct event){ .kind = EV_SUBMITTED });
	return t;
}

static void run(struct task *t, uint32_t gpus, int64_t from_s, int64_t to_s, enum verdict v, double energy_j)
{
	static char uuids[2][GPU_UUID_LEN] = { "GPU-aaaa", "GPU-bbbb" };
	bool again = v == VERDICT_OOM;
	apply(t, from_s, (struct event){ .kind = EV_PLACED, .u.placed = { .gpus = uuids, .n_gpus = gpus, .mode = SHARE_MPS } });
	apply(t, to_s, (struct event){ .kind = EV_ENDED, .u.ended = { .verdict = v, .next = again ? NEXT_RECOVER : NEXT_DONE,
	      .state = TASK_COMPLETED, .seen = { .mean_smact = NAN, .alone_s = NAN, .energy_j = energy_j } } });
}

static void add(struct account *a, struct task *t, int64_t now_s)
{
	account_add(a, t, T0 + now_s * 1000);
	task_destroy(t);
}

/* The same as radd tells it, with the shares of GPUs that nobody else was on. */
static void add_told(struct account *a, const struct task *t, int64_t now_s)
{
	scoped_json *o = task_to_json(t, T0 + now_s * 1000);
	double gpu_s = 0;
	for (uint32_t i = 0; i < t->n_attempts; i++)
		gpu_s += (double)((t->attempts[i].end_ms - t->attempts[i].placed_ms) / 1000 * t->attempts[i].n_gpus);
	json_object_set_new(o, "gpu_s", json_real(gpu_s));
	json_object_set_new(o, "gpu_share_s", json_real(gpu_s));
	account_add_told(a, o);
}

static void number_is(const json_t *o, const char *key, double want)
{
	const json_t *v = json_object_get(o, key);
	if (!json_is_number(v) || fabs(json_number_value(v) - want) > 1e-9)
		fail_msg("%s is %g, not %g", key, json_is_number(v) ? json_number_value(v) : NAN, want);
}

/* Three tasks of section 6.3.4's figures:
 *	1: submitted 0, runs on two GPUs 10-110		wait 10, run 100, jct 110
 *	2: submitted 5, runs 20-40 (OOM) and 60-160	wait 15 + 20, run 20 + 100, jct 155, lost 20
 *	3: submitted 10 on hold, released 30, cancelled 50	held 20, wait 20, jct 40 */
static void trace(void **state)
{
	(void)state;
	struct account a = { 0 }, told = { 0 };
	struct task *t = submitted(2, 5, false);
	run(t, 1, 20, 40, VERDICT_OOM, 50);
	run(t, 1, 60, 160, VERDICT_OK, 500);
	add_told(&told, t, 500);
	add(&a, t, 500);
	t = submitted(1, 0, false);
	run(t, 2, 10, 110, VERDICT_OK, 1000);
	add_told(&told, t, 500);
	add(&a, t, 500);
	t = submitted(3, 10, true);
	apply(t, 30, (struct event){ .kind = EV_RELEASED });
	apply(t, 50, (struct event){ .kind = EV_CANCELLED });
	add_told(&told, t, 500);
	add(&a, t, 500);

	scoped_json *o = account_to_json(&a);
	number_is(o, "trace_total_s", 160);
	number_is(o, "avg_wait_s", 22.5);	/* (10 + 35) / 2: the third never began */
	number_is(o, "avg_exec_s", 110);	/* (100 + 120) / 2 */
	number_is(o, "avg_jct_s", 132.5);	/* (110 + 155) / 2 */
	number_is(o, "began", 2);
	number_is(o, "p95_jct_s", 155);
	number_is(o, "tasks", 3);
	number_is(o, "oom", 1);
	number_is(o, "attempts", 3);
	number_is(o, "held_s", 20);
	number_is(o, "lost_s", 20);
	number_is(o, "gpu_hours", 0.089);	/* 2 * 100 + 20 + 100 = 320 s */
	number_is(o, "energy_j", 1550);
	number_is(json_object_get(o, "by_state"), "COMPLETED", 2);
	number_is(json_object_get(o, "by_state"), "CANCELLED", 1);
	number_is(json_object_get(o, "by_state"), "FAILED", 0);
	NEAR(a.gpu_s, 320);
	a.gpu_share_s = a.gpu_s;
	scoped_json *same = account_to_json(&a), *again = account_to_json(&told);
	assert_true(json_equal(same, again));
	account_clear(&a);
	account_clear(&told);
}

/* A task that still runs counts as of now; what nobody knows is null. */
static void unfinished_and_unknown(void **state)
{
	(void)state;
	static char uuids[2][GPU_UUID_LEN] = { "GPU-aaaa", "GPU-bbbb" };
	struct account a = { 0 };
	scoped_json *none = account_to_json(&a);
	static const char *const unknown[] = { "trace_total_s", "avg_wait_s", "avg_exec_s", "avg_jct_s", "p95_jct_s", "energy_j" };
	for (size_t i = 0; i < COUNT_OF(unknown); i++)
		assert_true(json_is_null(json_object_get(none, unknown[i])));
	number_is(none, "tasks", 0);
	number_is(none, "gpu_hours", 0);

	struct task *t = submitted(1, 0, false);
	apply(t, 30, (struct event){ .kind = EV_PLACED, .u.placed = { .gpus = uuids, .n_gpus = 2, .mode = SHARE_STREAMS } });
	add(&a, t, 3630);
	scoped_json *o = account_to_json(&a);
	assert_true(json_is_null(json_object_get(o, "trace_total_s")));
	assert_true(json_is_null(json_object_get(o, "energy_j")));
	number_is(o, "avg_wait_s", 30);
	number_is(o, "avg_exec_s", 3600);
	number_is(o, "gpu_hours", 2);
	number_is(json_object_get(o, "by_state"), "RUNNING", 1);
	account_clear(&a);
}

static void percentiles(void **state)
{
	(void)state;
	struct account a = { 0 };
	/* 20 tasks of 20, 19, ... 1 s: nearest rank. */
	for (int i = 0; i < 20; i++) {
		struct task *t = submitted((uint32_t)i + 1, 0, false);
		run(t, 1, 0, 20 - i, VERDICT_OK, NAN);
		add(&a, t, 100);
	}
	NEAR(account_jct_percentile(&a, 0.95), 19);
	NEAR(account_jct_percentile(&a, 0.951), 20);
	NEAR(account_jct_percentile(&a, 0.5), 10);
	NEAR(account_jct_percentile(&a, 0), 1);
	NEAR(account_jct_percentile(&a, 1), 20);
	NEAR(account_jct_percentile(&a, 7), 20);
	NEAR(a.jct_list[0], 20);
	account_clear(&a);
	assert_true(isnan(account_jct_percentile(&a, 0.5)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(meter), cmocka_unit_test(load_alone), cmocka_unit_test(means_beside_smact),
		cmocka_unit_test(meter_after_restart), cmocka_unit_test(trace),
		cmocka_unit_test(unfinished_and_unknown), cmocka_unit_test(percentiles),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
