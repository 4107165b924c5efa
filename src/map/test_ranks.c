/* SPDX-License-Identifier: MIT
 * Which of the GPUs where a task may go it goes to: policies, company, ties and turns.
 */
#include "map/test_rows.h"

static void ranks(void **state)
{
	static const struct row rows[] = {
		{ "magm: most available", "rank=magm", "claim=5000", { "mps=1 free=20000", "mps=1 free=30000", "mps=1 free=25000" },
		  "1 mps 5000" },
		{ "magm: ties go to the lowest index", "rank=magm", "claim=5000", { "mps=1 free=20000", "empty", "empty" },
		  "1 mps 5000" },
		{ "lug: least loaded", "rank=lug", "claim=5000", { "mps=1 smact=0.5", "mps=1 smact=0.3 free=9000", "mps=1 smact=0.4" },
		  "1 mps 5000" },
		{ "lug: idle is 0, whatever the window says", "rank=lug", "claim=5000", { "mps=1 smact=0.1", "smact=0.7" },
		  "1 mps 5000" },
		{ "lug: unknown is full", "rank=lug", "claim=5000", { "mps=1 smact=off gract=off", "mps=1 smact=0.8" }, "1 mps 5000" },
		{ "lug: GRACT where SMACT is not known", "rank=lug", "claim=5000",
		  { "streams=1 smact=off gract=0.7", "streams=1 smact=off gract=0.6" }, "1 streams 5000" },
		{ "lug: fewer tasks on a tie", "rank=lug", "claim=5000", { "mps=2 smact=0.5", "mps=1 smact=0.5" }, "1 mps 5000" },
		{ "mug: least available that fits", "rank=mug", "claim=5000",
		  { "mps=1 free=20000", "mps=1 free=7048", "mps=1 free=7047" }, "1 mps 5000" },
		{ "mug: active before idle, however small that is", "rank=mug", "claim=5000", { "total=9728", "mps=1 free=30000" },
		  "1 mps 5000" },
		{ "mug: idle when nothing active fits", "rank=mug", "claim=5000", { "mps=1 free=7000", "empty" }, "1 mps 5000" },
		{ "ff: the first", "rank=ff", "claim=5000", { "mps=1 free=7000", "mps=1 free=8000", "empty" }, "1 mps 5000" },
		{ "rr from the beginning", "rank=rr", "claim=5000", { "mps=1 free=7000", "mps=1 free=8000", "empty" }, "1 mps 5000" },
	};
	CHECK(rows);
}

/* Time slices give 0.92 of a GPU, and what a light task needs first. */
static void gains(void **state)
{
	static const struct row rows[] = {
		{ "all is gained on an idle GPU", "rank=gain", "claim=9 self=0.5:0.5", { "mps=0 has=0.6:0.6", "free=9000" }, "1 mps 9" },
		{ "... and where there is room", "rank=gain", "claim=9 self=0.3:0.3", { "streams=0 has=0.9:0.7", "streams=0 has=0.6:0.6" },
		  "1 streams 9" },
		{ "ties go to the most memory", "rank=gain", "claim=9 self=0.3:0.3",
		  { "streams=0 has=0.2:0.2 free=20000", "streams=0 has=0.3:0.3 free=30000" }, "1 streams 9" },
		{ "a heavy one waits for a better moment", "rank=gain", "claim=9 self=0.9:0.9", { "streams=0 has=0.9:0.9" }, "Gain" },
		{ "... and a light one brings enough", "rank=gain", "claim=9 self=0.1:0.1", { "streams=0 has=0.9:0.9" }, "0 streams 9" },
		{ "just enough", "rank=gain gain=0.2", "claim=9 self=0.1:0.1", { "streams=0 has=0.9:0.9" }, "0 streams 9" },
		{ "just not", "rank=gain gain=0.201", "claim=9 self=0.1:0.1", { "streams=0 has=0.9:0.9" }, "Gain" },
		{ "two fill it nearly", "rank=gain", "claim=9 self=0.4:0.4", { "streams=0 has=0.5:0.5 has=0.41:0.4" }, "Gain" },
		{ "loads that are not known are half a GPU", "rank=gain", "claim=9", { "streams=1" }, "0 streams 9" },
		{ "... so two of them fill it", "rank=gain", "claim=9", { "streams=2" }, "Gain" },
		{ "streams: switching costs more than there is left", "rank=gain gain=0", "claim=9 self=0.3:0.1",
		  { "streams=0 has=0.99:0.5" }, "Gain" },
		{ "MPS: SM activity counts", "rank=gain", "claim=9 self=0.3:0.1", { "mps=0 has=0.99:0.5" }, "0 mps 9" },
		/* by the law of launches the two do 0.025 of SM activity less than by the other, and a small one would bring 0.035 */
		{ "kernels of those there alone are no measure", "rank=gain", "claim=9 self=0.147:0.035",
		  { "mps=0 has=1:0.817:0:27000 has=1:0.817:0:27000" }, "0 mps 9" },
		{ "... with its own they are", "rank=gain", "claim=9 self=0.147:0.035:0:23000",
		  { "mps=0 has=1:0.817:0:27000 has=1:0.817:0:27000" }, "Gain" },
		{ "streams: GPU time does", "rank=gain", "claim=9 self=0.3:0.9", { "streams=0 has=0.5:0.5" }, "0 streams 9" },
		{ "the measured load is not asked", "rank=gain", "claim=9 self=0.3:0.3", { "mps=0 has=0.5:0.5 smact=0.99" }, "0 mps 9" },
		{ "... which others ask", "", "claim=9 self=0.3:0.3", { "mps=0 has=0.5:0.5 smact=0.99" }, "Load" },
		{ "one of unknown load has just started: the expected load counts", "rank=gain", "claim=9 self=0.9:0.9",
		  { "mps=1 unseen smact=0.5" }, "0 mps 9" },
		{ "... as it does under others", "rank=gain", "claim=9 self=0.1:0.1", { "mps=1 unseen smact=0.81" }, "Load" },
		{ "... and gain does not", "rank=gain gain=0.99", "claim=9 self=0.9:0.9", { "mps=1 unseen smact=0.5" }, "0 mps 9" },
		{ "... but a limit on the slow-down", "rank=gain slower=1.2", "claim=9 self=0.9:0.9", { "mps=1 unseen smact=0.5" },
		  "Slowdown" },
		{ "... and in slices that are the exception it is waited for", "rank=gain", "claim=9 self=0.1:0.1",
		  { "streams=1 unseen gract=0.5" }, "Unseen" },
		{ "... not by one that asks for slices", "rank=gain", "claim=9 self=0.1:0.1 share=streams", { "streams=1 unseen gract=0.5" },
		  "0 streams 9" },
		{ "... nor where slices are the rule", "rank=gain share=streams", "claim=9 self=0.1:0.1",
		  { "streams=1 unseen gract=0.5" }, "0 streams 9" },
		{ "... or all there can be", "rank=gain", "claim=9 self=0.1:0.1", { "streams=1 unseen gract=0.5 nomps" }, "0 streams 9" },
		{ "others wait there too", "", "claim=9", { "streams=1 unseen gract=0.5", "streams=1 gract=0.5 free=20000" }, "1 streams 9" },
		{ "several GPUs", "rank=gain", "claim=9 gpus=2 self=0.4:0.4",
		  { "streams=0 has=0.9:0.9", "streams=0 has=0.5:0.2", "streams=0 has=0.4:0.9 free=40447" }, "1,2 streams 9" },
	};
	CHECK(rows);
}

/* The work that was computed before the request came is of the tasks there, with their kernels. */
static void a_known_work_is_of_the_same_law(void **state)
{
	(void)state;
	const struct map_tenant there[] = { { { 1, .817, 27000 }, 0 }, { { 1, .817, 27000 }, 0 } };
	struct map_policy p = map_policy_default();
	struct map_gpu g = gpu(0);
	struct map_request r = { .task = 1, .gpus = 1, .claim_mib = 1000, .self.load = { .147, .035 } };
	struct placement out;
	uint32_t turn = 0;
	g.n_tasks = 2, g.mode = SHARE_MPS, g.mps_uid = MAP_MPS_ALL, g.mps_together = true, g.tenants = there;
	g.work = map_work(&g);
	assert_true(map_place(&(struct map_scene){ &p, &g, 1, &turn }, &r, &out, NULL));
	r.self.load.kernels = 23000;
	assert_false(map_place(&(struct map_scene){ &p, &g, 1, &turn }, &r, &out, NULL));
}

/* 5 % of 40448 MiB are 2022. Slots are numbered from 10. */
static void company(void **state)
{
	static const struct row rows[] = {
		{ "with those of its feed, where others have little more", "", "claim=5000 company=11",
		  { "mps=1 free=32000", "mps=1 free=30000", "mps=1 free=31000" }, "1 mps 5000" },
		{ "on a tie", "", "claim=5000 company=11", { "mps=1 free=30000", "mps=1 free=30000" }, "1 mps 5000" },
		{ "not where others have more than that", "", "claim=5000 company=11", { "mps=1 free=32023", "mps=1 free=30000" },
		  "0 mps 5000" },
		{ "nor an idle one", "", "claim=5000 company=11", { "empty", "mps=1 free=30000" }, "0 mps 5000" },
		{ "nor where it does not fit", "", "claim=5000 company=11", { "mps=1 free=7100", "mps=1 free=6000" }, "0 mps 5000" },
		{ "of several, the better one", "", "claim=5000 company=11 company=12",
		  { "mps=1 free=32000", "mps=1 free=30000", "mps=1 free=31000" }, "2 mps 5000" },
		{ "several GPUs", "", "gpus=2 claim=5000 company=12", { "mps=1 free=31000", "mps=1 free=32000", "mps=1 free=30500" },
		  "1,2 mps 5000" },
		{ "lug: 0.05 of a load", "rank=lug", "claim=5000 company=11", { "mps=1 smact=0.30", "mps=1 smact=0.34" }, "1 mps 5000" },
		{ "lug: no more", "rank=lug", "claim=5000 company=11", { "mps=1 smact=0.30", "mps=1 smact=0.36" }, "0 mps 5000" },
		{ "mug: the fuller one is the better", "rank=mug", "claim=5000 company=11", { "mps=1 free=30000", "mps=1 free=32000" },
		  "1 mps 5000" },
		{ "mug: no more", "rank=mug", "claim=5000 company=11", { "mps=1 free=30000", "mps=1 free=32023" }, "0 mps 5000" },
		{ "gain: 0.05 of its work", "rank=gain", "claim=9 self=0.3:0.3 company=11", { "empty", "streams=0 has=0.1:0.1" },
		  "1 streams 9" },
		{ "gain: no more", "rank=gain", "claim=9 self=0.3:0.3 company=11", { "empty", "streams=0 has=0.9:0.9" }, "0 mps 9" },
		{ "by position it does not count", "rank=ff", "claim=5000 company=11", { "empty", "mps=1" }, "0 mps 5000" },
	};
	CHECK(rows);
}

/* The index that people see, not the place in the list. */
static void ties_by_index(void **state)
{
	(void)state;
	struct map_policy p = map_policy_default();
	struct map_gpu g[3] = { gpu(2), gpu(0), gpu(1) };
	struct map_request r = { .task = 1, .gpus = 2, .claim_mib = 1000 };
	struct placement out;
	uint32_t turn = 0;
	assert_true(map_place(&(struct map_scene){ &p, g, 3, &turn }, &r, &out, NULL));
	assert_int_equal(out.slots[0], 10);
	assert_int_equal(out.slots[1], 11);
}

static void take(struct map_gpu *g, const struct placement *out)
{
	for (unsigned i = 0; i < out->n; i++) {
		struct map_gpu *at = &g[out->slots[i] - 10];
		at->n_tasks++;
		at->mode = out->mode;
		at->available_mib -= out->claim_mib;
	}
}

/* Places one task after the other and writes where they went: "0 1 2 3 -". */
static void place_all(const struct map_policy *p, struct map_gpu *g, size_t n, const uint64_t *claims, size_t tasks, char *text)
{
	uint32_t turn = 0;
	for (size_t i = 0; i < tasks; i++) {
		struct map_request r = { .task = TASK_ID(i + 1, -1), .gpus = 1, .claim_mib = claims[i], .uid = 1000 };
		struct placement out;
		bool placed = map_place(&(struct map_scene){ p, g, n, &turn }, &r, &out, NULL);
		if (placed)
			take(g, &out);
		text += sprintf(text, i ? " %c" : "%c", placed ? '0' + (int)(out.slots[0] - 10) : '-');
	}
}

static void figures(void **state)
{
	(void)state;
	static const struct { const char *what, *policy; uint64_t claims[6]; size_t tasks; const char *comes; } rows[] = {
		{ "figure 6.3: T1 to T4 get a GPU each, T5 waits", "rank=exclusive", { 2168, 2168, 2168, 2168, 2168 }, 5, "0 1 2 3 -" },
		{ "figure 6.3 with round robin: T5 goes to the first GPU", "rank=rr", { 2168, 2168, 2168, 2168, 2168, 2168 }, 6,
		  "0 1 2 3 0 1" },
		{ "figure 6.4: active GPUs are filled first", "rank=mug", { 12578, 12578, 12578, 12578, 2168, 600 }, 6,
		  "0 0 0 1 1 0" },
		{ "most available memory spreads", "rank=magm", { 20774, 12578, 15120, 7224, 2168, 2168 }, 6, "0 1 2 3 3 3" },
		{ "first fit", "rank=ff", { 20774, 20774, 12578, 12578, 2168, 2168 }, 6, "0 1 0 1 0 0" },
	};
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct map_policy p = map_policy_default();
		struct map_gpu g[4] = { gpu(0), gpu(1), gpu(2), gpu(3) };
		char text[32];
		READ(rows[i].policy, read_policy, &p);
		place_all(&p, g, 4, rows[i].claims, rows[i].tasks, text);
		if (strcmp(text, rows[i].comes))
			fail_msg("%s: got '%s', not '%s'", rows[i].what, text, rows[i].comes);
	}
	/* Any GPU that becomes idle sooner hosts T5. */
	struct map_policy p = map_policy_default();
	struct map_gpu g[4] = { gpu(0), gpu(1), gpu(2), gpu(3) };
	p.rank = RANK_EXCLUSIVE;
	for (int i = 0; i < 4; i++)
		g[i].n_tasks = i != 2, g[i].mode = SHARE_NEVER;
	place_all(&p, g, 4, (const uint64_t[]){ 2168 }, 1, (char[32]){ "" });
	assert_int_equal(g[2].n_tasks, 1);
}

/* Turns pass over GPUs that do not fit, survive a GPU that disappears, and move past all GPUs of a placement. */
static void round_robin(void **state)
{
	(void)state;
	struct map_policy p = map_policy_default();
	p.rank = RANK_RR;
	struct map_gpu g[4] = { gpu(0), gpu(1), gpu(2), gpu(3) };
	struct map_request r = { .task = 1, .gpus = 1, .claim_mib = 1000 };
	struct placement out;
	uint32_t turn = 1;
	const struct map_scene four = { &p, g, 4, &turn }, three = { &p, g, 3, &turn };
	g[1].stale = g[2].drained = true;
	assert_true(map_place(&four, &r, &out, NULL));
	assert_int_equal(out.slots[0], 13);
	assert_int_equal(turn, 0);
	g[3].stale = g[0].stale = true;
	assert_false(map_place(&four, &r, &out, NULL));
	assert_int_equal(turn, 0);
	g[0].stale = g[1].stale = g[2].drained = g[3].stale = false;
	r.gpus = 3, turn = 2;
	assert_true(map_place(&four, &r, &out, NULL));
	assert_int_equal(out.slots[0], 10);	/* named by index; the turns were 12, 13, 10 */
	assert_int_equal(out.slots[1], 12);
	assert_int_equal(turn, 1);
	r.gpus = 1, turn = 4000000000u;
	assert_true(map_place(&three, &r, &out, NULL));
	assert_int_equal(out.slots[0], 10 + 4000000000u % 3);
	/* Other ranks have no turn. */
	p.rank = RANK_MAGM, turn = 3;
	assert_true(map_place(&four, &r, &out, NULL));
	assert_int_equal(turn, 3);
}

static void names(void **state)
{
	(void)state;
	for (unsigned i = 0; i < MAP_RANK_COUNT; i++)
		assert_int_equal(rank_of(map_rank_name((enum map_rank)i)), i);
	assert_string_equal(map_rank_name(MAP_RANK_COUNT), "?");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ranks),
		cmocka_unit_test(gains),
		cmocka_unit_test(a_known_work_is_of_the_same_law),
		cmocka_unit_test(company),
		cmocka_unit_test(ties_by_index),
		cmocka_unit_test(figures),
		cmocka_unit_test(round_robin),
		cmocka_unit_test(names),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
