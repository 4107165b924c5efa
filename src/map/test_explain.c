/* SPDX-License-Identifier: MIT
 * What people are told of GPUs and tasks: whether it can ever be, a word for a task that waits, a sentence for each GPU.
 */
#include "map/test_rows.h"

static void feasible(void **state)
{
	(void)state;
	static const struct row rows[] = {
		{ "fits", "", "claim=40448 declared", { "empty" }, "" },
		{ "fits once it is undrained, answers, and is empty", "", "claim=40448 declared", { "drained stale mps=3 free=0" }, "" },
		{ "estimates are cut", "", "claim=99999", { "empty" }, "" },
		{ "no estimate", "", "", { "total=1024" }, "" },
		{ "memory no GPU has", "", "claim=81920 declared", { "empty", "total=40960" },
		  "80.0G of GPU memory wanted on each GPU: GPU 1 has 40.0G when empty, and none has more: declare less, or use a "
		  "smaller batch" },
		{ "memory that cannot be read", "", "claim=2048 declared", { "total=0" },
		  "GPU 0: its memory cannot be read, so no task of known memory can be placed: see `rad doctor`" },
		{ "memory that too few GPUs have", "", "claim=60000 gpus=2 declared", { "empty", "total=81408" },
		  "58.6G of GPU memory wanted on each GPU: of the 2 largest GPUs GPU 0 has 39.5G when empty: declare less, or use a "
		  "smaller batch" },
		{ "more GPUs than there are", "", "gpus=3", { "empty", "empty" }, "3 GPUs wanted, and there are only 2: ask for fewer" },
		{ "none known", "", "gpus=1", { NULL }, "no GPU is known here: see `rad gpus` and `rad doctor`" },
		{ "more than the one", "", "gpus=2", { "empty" }, "2 GPUs wanted, and there is only 1: ask for fewer" },
		{ "MIG instances do not add up", "", "gpus=2", { "empty", "mig" },
		  "2 GPUs wanted, and there is only 1 that such a task can use: ask for fewer" },
		{ "none at all", "", "gpus=0", { "empty" }, "0 GPUs wanted: 1 to 64 can be asked for" },
		{ "too many", "", "gpus=65", { "empty" }, "65 GPUs wanted: 1 to 64 can be asked for" },
		{ "no MPS", "", "share=mps", { "nomps" },
		  "share mps: no GPU here can run an MPS server; use share auto or streams" },
		{ "MPS for two", "", "share=mps gpus=2", { "empty", "empty" }, "" },
		{ "MPS for two, a server for each GPU", "narrow", "share=mps gpus=2", { "empty", "empty" },
		  "2 GPUs with share mps: the MPS servers here serve one GPU each (mps-multi-gpu off); use share auto or streams" },
		{ "MPS for two, and one cannot", "", "share=mps gpus=2", { "empty", "nomps" },
		  "2 GPUs with share mps, and only 1 here can run an MPS server: ask for fewer, or use share auto or streams" },
		{ "MPS for two, and none can", "", "share=mps gpus=2", { "nomps", "nomps" },
		  "share mps: no GPU here can run an MPS server; use share auto or streams" },
		{ "no MIG", "", "share=mig", { "empty" },
		  "share mig: there is no MIG instance here; an administrator creates them with nvidia-smi, or use share auto" },
		{ "MIG for two", "", "share=mig gpus=2", { "mig", "mig" },
		  "2 GPUs with share mig: a task can use one MIG instance only" },
	};
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct situation s;
		struct error err = ERROR_INIT;
		read_row(&rows[i], &s);
		int rc = map_feasible(&s.scene, &s.r, &err);
		if (strcmp(err.text, rows[i].comes) || rc != (*rows[i].comes ? -1 : 0))
			fail_msg("%s: %d '%s'", rows[i].what, rc, err.text);
		assert_int_equal(err.code, !rc ? ERR_NONE : s.scene.n ? ERR_INVALID : ERR_UNAVAILABLE);
	}
}

static void summary(void **state)
{
	(void)state;
	struct map_finding f[5] = { { .reason = MAP_BUSY }, { .reason = MAP_MEMORY }, { .reason = MAP_MEMORY },
				    { .reason = MAP_LOAD }, { .reason = MAP_LOAD } };
	assert_int_equal(map_summary(f, 1, 1), MAP_BUSY);
	assert_int_equal(map_summary(f, 3, 1), MAP_MEMORY);
	assert_int_equal(map_summary(f, 4, 1), MAP_MEMORY);
	assert_int_equal(map_summary(f, 5, 1), MAP_LOAD);
	assert_int_equal(map_summary(NULL, 0, 1), MAP_TOO_FEW);
	f[0].reason = f[1].reason = f[2].reason = MAP_LATER;
	assert_int_equal(map_summary(f, 5, 3), MAP_LATER);
	assert_int_equal(map_summary(f, 5, 4), MAP_TOO_FEW);	/* it wants the two others, too, and fits on three */
	assert_string_equal(map_reason_word(MAP_TOO_FEW), "Gpus");
	assert_string_equal(map_reason_word(MAP_REASON_COUNT), "?");
	assert_string_equal(map_reason_help(MAP_LOAD), "its SMs are too busy");
}

static void explain(const struct row *rows, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct situation s;
		char text[256], tiny[20];
		place_row(&rows[i], &s);
		map_explain(&s.p, &s.g[0], &s.r, &s.f[0], text, sizeof text);
		if (strcmp(text, rows[i].comes))
			fail_msg("%s: got '%s'", rows[i].what, text);
		map_explain(&s.p, &s.g[0], &s.r, &s.f[0], tiny, sizeof tiny);
		assert_int_equal(strlen(tiny), 19);
		assert_memory_equal(tiny, text, 19);
	}
}

static void what_fits(void **state)
{
	(void)state;
	static const struct row rows[] = {
		{ "ok", "", "claim=14131", { "mps=1 free=30720" },
		  "GPU 0: fits: 30.0G available, 15.8G wanted (claim 13.8G + slack 2.0G); would run as mps" },
		{ "ok in company", "", "claim=14131 company=10", { "mps=1 free=30720" },
		  "GPU 0: fits: 30.0G available, 15.8G wanted (claim 13.8G + slack 2.0G); would run as mps; tasks of its feed run "
		  "there, so it is taken before GPUs that are better by 5 % at most" },
		{ "ok alone", "", "claim=50000", { "empty" },
		  "GPU 0: fits: 39.5G available, 39.5G wanted (claim 48.8G, cut to what there is); would run as exclusive" },
	};
	explain(rows, COUNT_OF(rows));
}

static void how_it_is_shared(void **state)
{
	(void)state;
	static const struct row rows[] = {
		{ "drained", "", "", { "drained" }, "GPU 0: drained by an administrator; `rad undrain 0` puts it back" },
		{ "stale", "", "", { "stale" }, "GPU 0 GPU-00000000: it does not answer, or its last reading is too old; see `rad doctor`" },
		{ "kept", "", "", { "kept=7" }, "GPU 0: kept free for task 7, which goes first" },
		{ "alone", "", "", { "never=1" }, "GPU 0: used by its task alone: nothing joins until that ends" },
		{ "streams wanted", "", "share=streams", { "mps=2" },
		  "GPU 0: shared under MPS, and share streams is wanted; share auto could join" },
		{ "MPS wanted", "", "share=mps", { "streams=2" },
		  "GPU 0: shared by time slicing, and share mps is wanted; share auto could join" },
		{ "no MPS", "", "share=mps", { "nomps" },
		  "GPU 0: no MPS server can run there, and share mps is wanted; share auto takes it" },
		{ "not against the policy", "share=streams", "", { "mps=2" },
		  "GPU 0: shared under MPS: the policy shares by time slicing; free when its tasks end" },
		{ "two GPUs", "narrow", "gpus=2", { "mps=2" },
		  "GPU 0: shared under MPS: a task of 2 GPUs cannot join; free when its tasks end" },
		{ "MIG for two", "", "gpus=2", { "mig" }, "GPU 0:0: a MIG instance: a task of 2 GPUs cannot use it" },
		{ "MIG, MPS", "", "share=mps", { "mig" },
		  "GPU 0:0: a MIG instance: it is not shared, and share mps is wanted; share auto takes it" },
		{ "no MIG", "", "share=mig", { "empty" }, "GPU 0: no MIG instance, and share mig is wanted" },
	};
	explain(rows, COUNT_OF(rows));
}

static void who_is_there(void **state)
{
	(void)state;
	static const struct row rows[] = {
		{ "user", "", "", { "mps=1 uid=1001" },
		  "GPU 0: user 1001's MPS server runs there, and MPS is for one user at a time; free when its tasks end" },
		{ "foreign", "", "", { "other=7168" },
		  "GPU 0: processes that are not ours hold 7.0G; above 1.0G a GPU is not used (foreign: share would allow it)" },
		{ "busy", "", "exclusive", { "mps=2" }, "GPU 0: 2 tasks run there, and the task wants its GPUs alone" },
		{ "busy by policy", "rank=exclusive", "", { "never=1" },
		  "GPU 0: 1 task runs there, and the policy gives each task its own GPUs" },
		{ "busy for recovery", "", "start", { "mps=1" },
		  "GPU 0: 1 task runs there, and it ran out of memory before and starts alone" },
		{ "busy MIG", "", "", { "mig mps=1" },
		  "GPU 0:0: 1 task runs there, and a MIG instance takes one task at a time" },
		{ "settling", "", "exclusive", { "settling" },
		  "GPU 0: a task has ended there and its memory is not yet seen to be free; a few seconds" },
		{ "cold", "", "", { "mps=1 free=20000 cold=1" },
		  "GPU 0: another task without an estimate has just started there, and neither a third of the GPU for each is left, nor what "
		  "so many usually take together; fits once it is warm, or with --gpu-mem" },
		{ "captured", "", "claim=8000", { "mps=1 captured" },
		  "GPU 0: a task has just started there without its capture, which is still being made; fits, if it does, once that is "
		  "there or the task was seen" },
	};
	explain(rows, COUNT_OF(rows));
}

static void memory_that_is_short(void **state)
{
	(void)state;
	static const struct row rows[] = {
		{ "memory", "", "claim=14131", { "mps=1 free=12595" },
		  "GPU 0: 12.3G available, 15.8G wanted (claim 13.8G + slack 2.0G): 3.5G short; a claim of up to 10.3G would fit now" },
		{ "memory for nobody", "", "claim=14131", { "mps=1 free=2000" },
		  "GPU 0: 2.0G available, 15.8G wanted (claim 13.8G + slack 2.0G): 13.8G short; fits when tasks there end" },
		{ "memory for no estimate", "", "", { "mps=1 free=5119" },
		  "GPU 0: 5.0G available, 5.0G wanted (no estimate: min_free): 1M short; a declared --gpu-mem of less could fit" },
		{ "unreadable", "", "", { "total=0 free=0" }, "GPU 0: its memory cannot be read; see `rad doctor`" },
		{ "one process", "", "share=streams", { "streams=1 oneprocess" },
		  "GPU 0: in exclusive-process mode (nvidia-smi), where tasks share it under MPS only: nothing joins until that ends" },
		{ "too small when empty", "", "claim=60000 declared", { "empty" },
		  "GPU 0: 39.5G available, 58.6G wanted (claim 58.6G): 19.1G short; it has 39.5G when empty" },
	};
	explain(rows, COUNT_OF(rows));
}

static void load(void **state)
{
	(void)state;
	static const struct row rows[] = {
		{ "SMACT", "", "claim=1000", { "mps=1 smact=0.87" },
		  "GPU 0: SMACT 0.87, at most 0.80 to join (max_smact): fits when the load falls or a task ends" },
		{ "expected", "", "claim=1000", { "mps=4 unseen smact=1" },
		  "GPU 0: SMACT 1.00 is expected, at most 0.80 to join (max_smact): tasks of unknown load have just started there; asked "
		  "again once they were seen" },
		{ "GRACT", "", "claim=1000", { "streams=1 gract=0.97" },
		  "GPU 0: GRACT 0.97, at most 0.90 to join (max_gract): fits when the load falls or a task ends" },
		{ "no load", "", "claim=1000", { "mps=2 smact=off" },
		  "GPU 0: 2 tasks run there and its load is not known (yet); at most 2 then (max_tasks)" },
		{ "unseen", "", "claim=1000", { "streams=1 unseen" },
		  "GPU 0: shared by time slicing, and a task of unknown load has just started there: asked again once that was seen" },
		{ "slow-down", "slower=1.05", "claim=1000 self=0.1:0.1", { "streams=0 has=0.9:0.9" },
		  "GPU 0: a task would run 1.10 times slower than alone, and at most 1.05 is allowed (max_slowdown): fits when a task there "
		  "ends" },
		{ "gain", "rank=gain", "claim=1000 self=0.9:0.9", { "streams=0 has=0.9:0.9" },
		  "GPU 0: beside the tasks there 2 % of its work would be gained, at least 5 % is wanted (min_gain): fits when one ends" },
	};
	explain(rows, COUNT_OF(rows));
}

static void what_the_plan_has(void **state)
{
	(void)state;
	static const struct row rows[] = {
		{ "planned later", "rank=gain", "claim=1000 planned=10 later among=2", { "mps=1" },
		  "GPU 0: fits, but the plan has others start before it; its turn comes within a minute" },
		{ "planned later on several", "rank=gain", "claim=1000 gpus=2 planned=10 later among=2", { "mps=1", "empty" },
		  "GPU 0: fits, but the plan has it start on its 2 GPUs together, within a minute" },
		{ "planned beside fewer", "rank=gain", "claim=1000 planned=10 later among=2", { "mps=3" },
		  "GPU 0: fits, but beside the 3 tasks there it would mostly slow them: the plan has it start beside 1 at most, within a "
		  "minute" },
		{ "planned beside nobody", "rank=gain", "claim=1000 planned=10 among=1", { "mps=1" },
		  "GPU 0: fits, but it would mostly slow who runs there: the plan has it start when no task does, within a minute" },
		{ "planned elsewhere", "rank=gain", "claim=1000 planned=11 later among=2", { "mps=3", "empty" },
		  "GPU 0: not here: the plan has it start on another GPU, within a minute" },
		{ "too few", "", "claim=1000 gpus=2", { "empty" }, "GPU 0: fits, but 1 of 2 GPUs fit at once" },
	};
	explain(rows, COUNT_OF(rows));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(feasible),
		cmocka_unit_test(summary),
		cmocka_unit_test(what_fits),
		cmocka_unit_test(how_it_is_shared),
		cmocka_unit_test(who_is_there),
		cmocka_unit_test(memory_that_is_short),
		cmocka_unit_test(load),
		cmocka_unit_test(what_the_plan_has),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
