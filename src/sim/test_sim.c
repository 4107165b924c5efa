/* SPDX-License-Identifier: MIT
 * Simulations whose result can be worked out by hand, and properties of random ones: jumping from event to event places as
 * looking every second does, no run is quicker than its lower bound, equal seeds give equal results.
 */
#include "share/power.h"
#include "share/share.h"
#include "settings/settings.h"
#include "sim/known.h"
#include "sim/sim.h"

#include "base/alloc.h"
#include "base/json.h"
#include "base/scope.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <math.h>

#define MAX_TASKS 64

/* A made-up trace: rows of workloads and of arrivals. */
struct scene {
	struct sim_options o;
	struct sim_workloads workloads;
	struct sim_trace trace;
	struct device_model devices[16];
	struct sim_result r;
	struct error err;
};

static struct scene *new_scene(size_t n_devices)
{
	struct scene *s = alloc_zero(sizeof *s);
	for (size_t i = 0; i < n_devices; i++)
		s->devices[i] = simdev_models[0];	/* a100-40g: 40960 MiB, 600 of them reserved */
	s->o = (struct sim_options){ .core = core_config_default(), .estimator = "oracle", .devices = s->devices,
				     .n_devices = n_devices, .workloads = &s->workloads, .trace = &s->trace };
	s->o.core.map.rank = RANK_MAGM;
	s->o.core.order = ORDER_FIFO;
	s->workloads.path = alloc_string("W.csv");
	s->trace.path = alloc_string("T.csv");
	return s;
}

/* As rad.conf has it. */
static void set(struct scene *s, const char *name, const char *value)
{
	struct settings all = settings_default();
	all.core = s->o.core;
	if (settings_set_named(&all, name, value, (struct settings_source){ SETTINGS_FILE, 1 }, &s->err))
		fail_msg("%s", s->err.text);
	s->o.core = all.core;
	settings_clear(&all);
}

static uint32_t workload(struct scene *s, double solo_s, uint64_t mib, unsigned gpus, double gract, double smact)
{
	struct sim_workload w = { .name = alloc_printf("w%zu", s->workloads.n), .gpus = gpus, .mem_mib = mib,
				  .solo_ms = (int64_t)(solo_s * 1000), .gract = gract, .smact = smact };
	alloc_grow(s->workloads.list, s->workloads.n, s->workloads.cap);
	s->workloads.list[s->workloads.n] = w;
	return (uint32_t)s->workloads.n++;
}

static void arrive(struct scene *s, double at_s, uint32_t of)
{
	alloc_grow(s->trace.list, s->trace.n, s->trace.cap);
	s->trace.list[s->trace.n] = (struct sim_arrival){ .submit_ms = (int64_t)(at_s * 1000), .workload = of,
								  .line = (uint32_t)s->trace.n + 2 };
	s->trace.n++;
}

static void simulate(struct scene *s)
{
	sim_result_clear(&s->r);
	if (sim_run(&s->o, &s->r, &s->err))
		fail_msg("%s", s->err.text);
}

static void end_scene(struct scene *s)
{
	sim_result_clear(&s->r);
	sim_trace_clear(&s->trace);
	sim_workloads_clear(&s->workloads);
	free(s);
}

static void assert_near(double a, double b, double within)
{
	if (!(fabs(a - b) <= within))
		fail_msg("%.6f is not %.6f", a, b);
}

/* Two that keep the GPU busy, 100 s each by their clocks, and one that needs all memory. With the clocks told it is planned at
 * 100 s, and comes then; what the two did not do is told. */
static void company_does_not_lengthen_what_a_clock_ends(void **state)
{
	(void)state;
	struct scene *s = new_scene(1);
	uint32_t of = workload(s, 500, 10000, 1, 1, 1), all = workload(s, 50, 38000, 1, 1, 1);
	s->workloads.list[of].clock_ms = 90000;
	s->workloads.list[of].start_ms = 10000;
	set(s, "order", "plan");
	set(s, "share", "streams");
	s->o.loads = SIM_LOADS_GUESSED;
	arrive(s, 0, of);
	arrive(s, 0, of);
	arrive(s, 1, all);
	simulate(s);
	assert_int_equal(s->r.tasks[0].end_ms, 100000);
	assert_int_equal(s->r.tasks[1].end_ms, 100000);
	assert_in_range(s->r.tasks[2].start_ms, 100000, 102000);	/* when its memory is seen to be free */
	assert_near(s->r.undone_s, 2 * 90 * (1 - 0.92 / 2), 0.1);
	assert_near(s->r.lower_bound_s, 250, 50);
	/* Alone it does all that its clock allows for. */
	s->trace.n = 1;
	simulate(s);
	assert_int_equal(s->r.tasks[0].end_ms, 100000);
	assert_near(s->r.undone_s, 0, 1e-3);
	end_scene(s);
}

static void one_task_takes_its_time(void **state)
{
	(void)state;
	struct scene *s = new_scene(1);
	arrive(s, 500, workload(s, 1000, 10000, 1, .9, .5));
	simulate(s);
	const struct sim_task *t = &s->r.tasks[0];
	assert_int_equal(t->state, TASK_COMPLETED);
	assert_int_equal(t->submit_ms, 0);	/* a trace begins with its first task */
	assert_int_equal(t->end_ms, 1000000);
	assert_near(s->r.lower_bound_s, 1000, 0);
	assert_near(s->r.mean_smact, .5, 1e-6);
	/* 55 W + 345 W * (.06 + .94 * (.25 + .125)) */
	assert_near(s->r.energy_j, 1000 * 197.3125, 1);
	assert_near(t->attempts[0].seen.energy_j, s->r.energy_j, 1);
	assert_near(t->attempts[0].seen.mean_smact, .5, 1e-6);
	assert_near(t->attempts[0].seen.alone_s, 1000, 1e-6);
	assert_int_equal(t->attempts[0].seen.peak_mib, 10000);
	end_scene(s);
}

static void two_tasks_share_by_the_law(void **state)
{
	(void)state;
	struct scene *s = new_scene(1);
	uint32_t w = workload(s, 1000, 10000, 1, .9, .6);
	arrive(s, 0, w);
	arrive(s, 100, w);
	simulate(s);
	/* The window has 90 s of SMACT 0.6, below 0.8, so the second joins at once. The first has 900 s of work left; by the time they
	 * are done the second has done 900 s as well and ends alone. */
	const struct share_task both[2] = { { .9, .6 }, { .9, .6 } };
	double speed[2];
	share_speeds(both, 2, SHARE_MPS, speed);
	double together_s = 900 / speed[0];
	assert_true(speed[0] > .5 && speed[0] < .9);
	assert_int_equal(s->r.tasks[1].start_ms, 100000);
	assert_near((double)s->r.tasks[0].end_ms, 1000 * (100 + together_s), 2);
	assert_near((double)s->r.tasks[1].end_ms, 1000 * (200 + together_s), 2);
	assert_near(s->r.tasks[0].attempts[0].seen.alone_s, 100, 1e-2);
	assert_near(s->r.tasks[1].attempts[0].seen.alone_s, 100, 1e-2);
	assert_near(s->r.tasks[0].attempts[0].seen.mean_smact, (100 * .6 + together_s * 1.2 * speed[0]) / (100 + together_s), 1e-4);
	assert_near(s->r.tasks[0].attempts[0].seen.energy_j + s->r.tasks[1].attempts[0].seen.energy_j, s->r.energy_j, 1);
	end_scene(s);
}

/* Two that end together, one of which has hardly a kernel: it pays its half of the idle GPU and little else. Watts that were
 * measured alone count before those of the curve. */
static void energy_is_parted_by_what_each_adds(void **state)
{
	(void)state;
	for (int measured = 0; measured < 2; measured++) {
		struct scene *s = new_scene(1);
		const struct share_task both[2] = { { .95, .6 }, { .05, .02 } };
		const struct power_board board = { simdev_models[0].idle_w, simdev_models[0].peak_w, simdev_models[0].limit_w };
		const double alone[2] = { 260, 90 };
		double speed[2], part[2];
		share_speeds(both, 2, SHARE_MPS, speed);
		power_parts(both, speed, 2, part);
		s->o.loads = SIM_LOADS_KNOWN;
		for (size_t i = 0; i < 2; i++) {
			arrive(s, 0, workload(s, 1000 * speed[i], 5000, 1, both[i].gract, both[i].smact));
			s->workloads.list[i].watts = measured ? alone[i] : 0;
		}
		simulate(s);
		double watts = power_watts(&board, both, speed, 2, measured ? alone : NULL);
		assert_near(s->r.energy_j, 1000 * watts, 5);
		for (size_t i = 0; i < 2; i++)
			assert_near(s->r.tasks[i].attempts[0].seen.energy_j,
				    1000 * (board.idle_w / 2 + part[i] * (watts - board.idle_w)), 5);
		end_scene(s);
	}
}

/* Both begin with 100 s of loading data, side by side, of which the GPU sees nothing; then they share it. */
static void starts_disturb_nobody(void **state)
{
	(void)state;
	struct scene *s = new_scene(1);
	const struct share_task both[2] = { { .9, .6 }, { .9, .6 } };
	double speed[2];
	share_speeds(both, 2, SHARE_MPS, speed);
	uint32_t w = workload(s, 1000, 10000, 1, .9, .6);
	s->workloads.list[w].start_ms = 100000;
	arrive(s, 0, w);
	arrive(s, 0, w);
	simulate(s);
	for (size_t i = 0; i < 2; i++)
		assert_near((double)s->r.tasks[i].end_ms, 1000 * (100 + 900 / speed[0]), 2);
	assert_near(s->r.mean_smact, 2 * .6 * 900 / (100 + 900 / speed[0]), .02);	/* a start counts as .01 */
	assert_near(s->r.lower_bound_s, 2 * .6 * 900, 1);
	end_scene(s);
}

/* Its user said less than it takes: under MPS its fence ends it, and it gets more. */
static void who_says_too_little_is_fenced(void **state)
{
	(void)state;
	struct scene *s = new_scene(1);
	uint32_t w = workload(s, 100, 5000, 1, .9, .6);
	s->workloads.list[w].declared_mib = 4000;
	arrive(s, 0, w);
	simulate(s);
	const struct sim_task *t = &s->r.tasks[0];
	assert_int_equal(t->n_attempts, 2);
	assert_int_equal(t->attempts[0].claim_mib, 4000);
	assert_int_equal(t->attempts[0].verdict, VERDICT_OOM);
	assert_int_equal(t->attempts[1].verdict, VERDICT_OK);
	assert_true(t->attempts[1].claim_mib >= 5000);
	end_scene(s);
}

/* MiB for GiB: CUDA itself has no room, which says nothing of the program. And one whose half is three times its claim says
 * what it lacked. */
static void who_says_far_too_little_gets_far_more(void **state)
{
	(void)state;
	static const struct { uint64_t says, takes, next; } rows[] = { { 5, 5000, 5 + 5120 }, { 900, 6000, 3260 * 5 / 4 } };
	for (size_t i = 0; i < 2; i++) {
		struct scene *s = new_scene(1);
		uint32_t w = workload(s, 100, rows[i].takes, 1, .9, .6);
		s->workloads.list[w].declared_mib = rows[i].says;
		arrive(s, 0, w);
		simulate(s);
		const struct sim_task *t = &s->r.tasks[0];
		assert_int_equal(t->attempts[0].verdict, VERDICT_OOM);
		assert_int_equal(t->attempts[1].claim_mib, rows[i].next);
		assert_int_equal(t->state, TASK_COMPLETED);
		end_scene(s);
	}
}

/* What it takes is more than its fence, what it needs is not: it makes do. */
static void who_needs_less_than_he_takes_makes_do(void **state)
{
	(void)state;
	struct scene *s = new_scene(1);
	uint32_t w = workload(s, 100, 5000, 1, .9, .6);
	s->workloads.list[w].declared_mib = 4000;
	s->workloads.list[w].need_mib = 4000;
	arrive(s, 0, w);
	s->workloads.list[workload(s, 100, 5000, 1, .9, .6)].need_mib = 4001;
	s->workloads.list[w + 1].declared_mib = 4000;
	arrive(s, 1, w + 1);
	simulate(s);
	assert_int_equal(s->r.tasks[0].n_attempts, 1);
	assert_int_equal(s->r.tasks[0].attempts[0].claim_mib, 4000);
	assert_int_equal(s->r.tasks[1].attempts[0].verdict, VERDICT_OOM);
	end_scene(s);
}

static void a_task_of_two_gpus_runs_at_the_slower(void **state)
{
	(void)state;
	struct scene *s = new_scene(2);
	s->o.core.map.share = SHARE_STREAMS;
	s->o.core.map.max_gract = NAN;
	s->o.core.map.max_tasks = 0;
	arrive(s, 0, workload(s, 1000, 10000, 2, .92, .9));
	arrive(s, 100, workload(s, 1000, 10000, 1, .92, .9));
	simulate(s);
	/* Half of .92 each where both run; the wide task is so held back on the other GPU as well. */
	assert_int_equal(s->r.tasks[0].end_ms, 1900000);
	assert_int_equal(s->r.tasks[1].end_ms, 2000000);
	assert_int_equal(s->r.tasks[0].attempts[0].n_gpus, 2);
	end_scene(s);
}

/* Beside a GPU that is taken, in as long as it says, and as many at once as there are CPUs, where these are counted. */
static void one_without_gpus_waits_for_cpus_alone(void **state)
{
	(void)state;
	struct scene *s = new_scene(1);
	set(s, "host_cpus", "10");	/* four run, four are kept for the one that waits for the GPU */
	uint32_t train = workload(s, 1000, 30000, 1, .9, .5), prepare = workload(s, 100, 0, 0, 0, 0);
	s->workloads.list[train].cpus = 4;
	arrive(s, 0, train);
	arrive(s, 0, train);
	for (unsigned i = 0; i < 3; i++)
		arrive(s, 10, prepare);
	simulate(s);
	assert_int_equal(s->r.tasks[0].end_ms, 1000000);
	for (unsigned i = 0; i < 3; i++) {
		const struct sim_task *t = &s->r.tasks[2 + i];
		assert_int_equal(t->state, TASK_COMPLETED);
		assert_int_equal(t->end_ms, i < 2 ? 110000 : 210000);
		assert_int_equal(t->attempts[0].n_gpus, 0);
		assert_true(isnan(t->attempts[0].seen.energy_j));
	}
	assert_near(s->r.account.gpu_s, (double)s->r.tasks[1].end_ms / 1000, 1);
	end_scene(s);
}

/* Nobody knows what they need: the second finds no memory when its last buffers come, 20 s after its start. */
static void an_out_of_memory_wastes_its_time(void **state)
{
	(void)state;
	struct scene *s = new_scene(1);
	s->o.estimator = "none";
	s->o.core.map.ledger = false;
	s->o.core.map.min_free_mib = 0;
	s->o.core.map.max_smact = NAN;
	uint32_t w = workload(s, 600, 25000, 1, .4, .2);
	arrive(s, 0, w);
	arrive(s, 100, w);
	simulate(s);
	const struct sim_task *t = &s->r.tasks[1];
	assert_int_equal(s->r.account.ooms, 1);
	assert_int_equal(s->r.tasks[0].end_ms, 600000);
	assert_int_equal(t->n_attempts, 2);
	assert_int_equal(t->attempts[0].verdict, VERDICT_OOM);
	assert_int_equal(t->attempts[0].end_ms, 120000);
	assert_int_equal(t->times.lost_s, 20);
	/* Alone once the other is gone and seen to be, which a daemon sees at its next look. */
	assert_int_equal(t->attempts[1].start_ms, 601000);
	assert_int_equal(t->state, TASK_COMPLETED);
	end_scene(s);
}

static void what_is_known_keeps_them_apart(void **state)
{
	(void)state;
	struct scene *s = new_scene(1);
	uint32_t w = workload(s, 600, 25000, 1, .4, .2);
	arrive(s, 0, w);
	arrive(s, 100, w);
	simulate(s);
	assert_int_equal(s->r.account.ooms, 0);
	assert_int_equal(s->r.tasks[1].start_ms, 601000);
	end_scene(s);
}

static void what_fits_nowhere_is_refused(void **state)
{
	(void)state;
	struct scene *s = new_scene(2);
	arrive(s, 0, workload(s, 10, 1000, 1, .4, .2));
	arrive(s, 0, workload(s, 10, 50000, 1, .4, .2));
	assert_int_equal(sim_run(&s->o, &s->r, &s->err), -1);
	assert_non_null(strstr(s->err.text, "T.csv:3: w1 fits no device"));
	s->workloads.list[1].mem_mib = 1000;
	s->workloads.list[1].gpus = 3;
	sim_result_clear(&s->r);
	assert_int_equal(sim_run(&s->o, &s->r, &s->err), -1);
	assert_non_null(strstr(s->err.text, "3 GPUs wanted"));
	end_scene(s);
}

static void estimators_are_named(void **state)
{
	(void)state;
	struct scene *s = new_scene(1);
	arrive(s, 0, workload(s, 10, 1000, 1, .4, .2));
	s->o.estimator = "horus";
	assert_int_equal(sim_run(&s->o, &s->r, &s->err), -1);
	assert_non_null(strstr(s->err.text, "no column 'horus_mib'"));
	s->o.estimator = "crystal ball";
	assert_int_equal(sim_run(&s->o, &s->r, &s->err), -1);
	assert_non_null(strstr(s->err.text, "there are: oracle horus faketensor gpumemnet none"));
	s->o.estimator = "horus";
	s->workloads.has_estimates[0] = true;
	s->workloads.list[0].estimates_mib[0] = 3000;
	simulate(s);
	assert_int_equal(s->r.tasks[0].attempts[0].claim_mib, 3000);
	end_scene(s);
}

/* Random traces ---------------------------------------------------------------------------------------------------------- */

static uint64_t dice;

static unsigned draw(unsigned below)
{
	dice = dice * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)((dice >> 33) % below);
}

/* Tasks that do nothing at first. */
static void with_starts(struct scene *s)
{
	for (size_t i = 0; i < s->workloads.n; i++)
		s->workloads.list[i].start_ms = draw(3) ? s->workloads.list[i].solo_ms / (2 + draw(20)) : 0;
}

/* Users who say too little or too much. */
static void with_wrong_claims(struct scene *s)
{
	for (size_t i = 0; i < s->workloads.n; i++)
		if (!draw(4))
			s->workloads.list[i].declared_mib = s->workloads.list[i].mem_mib / 2 + draw((unsigned)s->workloads.list[i].mem_mib);
}

static struct scene *random_scene(uint64_t seed)
{
	static const char *const words[] = { "oracle", "none", "horus" };
	dice = seed;
	struct scene *s = new_scene(1 + draw(5));
	struct map_policy *map = &s->o.core.map;
	map->rank = (enum map_rank)draw(MAP_RANK_COUNT);
	map->share = draw(3) ? SHARE_MPS : draw(2) ? SHARE_STREAMS : SHARE_NEVER;
	map->max_smact = draw(4) ? .5 + draw(5) / 10. : NAN;
	map->max_gract = draw(4) ? .5 + draw(5) / 10. : NAN;
	map->ledger = draw(4);
	map->min_free_mib = draw(4) ? 5120 : 0;
	map->slack_mib = draw(2) ? 2048 : 0;
	s->o.core.recover.mode = (enum recover_mode)draw(3);
	s->o.estimator = words[draw(3)];
	s->workloads.has_estimates[0] = true;
	for (unsigned i = 0; i < 8; i++) {
		uint64_t mib = 600 + draw(25000);
		uint32_t w = workload(s, 5 + draw(3000), mib, draw(6) ? 1 : 1 + draw((unsigned)s->o.n_devices), (1 + draw(100)) / 100.,
				      (1 + draw(100)) / 100.);
		s->workloads.list[w].estimates_mib[0] = draw(4) ? mib / 2 + draw((unsigned)mib) : 0;
	}
	double at_s = 0;
	for (unsigned i = 0, n = 10 + draw(30); i < n; i++, at_s += draw(3) ? draw(400) / 4. : 0)
		arrive(s, at_s, draw(8));
	s->o.core.order = (enum core_order)draw(CORE_ORDER_COUNT);
	s->o.core.pass_max_ms = draw(1000) * 1000;
	map->max_slowdown = draw(3) ? 0 : 1 + draw(30) / 10.;
	s->o.loads = map->ledger && draw(2) ? seed % 3 ? SIM_LOADS_KNOWN : SIM_LOADS_GUESSED : SIM_LOADS_LEARNT;
	s->o.progress_lines = seed % 5 < 2;
	if (seed % 2)
		with_starts(s);
	return s;
}

static char *whole_result(const struct scene *s)
{
	scoped_json *result = sim_result_json(&s->o, &s->r);
	return json_dumps(result, JSON_INDENT(1));
}

static char *strip_meters(const struct scene *s)
{
	json_t *result = sim_result_json(&s->o, &s->r), *task, *attempt;
	size_t i, k;
	json_array_foreach(json_object_get(result, "tasks"), i, task)
		json_array_foreach(json_object_get(task, "attempts"), k, attempt) {
			json_object_del(attempt, "mean_smact");	/* sums of real numbers, rounded in another order */
			json_object_del(attempt, "energy_j");
		}
	char *text = json_dumps(result, JSON_INDENT(1));
	json_decref(result);
	return text;
}

struct compared { size_t events, looks, ooms, attempts; };

/* Runs it twice, from event to event and looking every second. */
static void compare_with_looking(struct scene *s, uint64_t seed, struct compared *sums)
{
	if (seed % 4 == 1)
		with_wrong_claims(s);
	/* Between plans that are equally good, the last bit of a sum decides. */
	if (s->o.core.order == ORDER_PLAN)
		s->o.core.order = ORDER_BACKFILL;
	simulate(s);
	scoped_free char *jumped = strip_meters(s);
	sums->events += s->r.events;
	sums->ooms += s->r.account.ooms;
	sums->attempts += s->r.account.attempts;
	s->o.sampled = true;
	simulate(s);
	scoped_free char *looked = strip_meters(s);
	sums->looks += s->r.events;
	size_t same = 0;
	while (jumped[same] && jumped[same] == looked[same])
		same++;
	if (jumped[same] || looked[same])
		fail_msg("seed %llu: they differ, from here on: ...%.300s\n...%.300s", (unsigned long long)seed,
			 jumped + (same < 200 ? 0 : same - 200), looked + (same < 200 ? 0 : same - 200));
}

/* To the last bit of every meter: nothing is done for a plan that cannot be made, not even a look at all GPUs. */
static void with_more_gpus_than_a_plan_holds_it_is_backfill(void **state)
{
	(void)state;
	char *text[2];
	for (int plan = 0; plan < 2; plan++) {
		struct device_model devices[65];
		struct scene *s = new_scene(0);
		for (size_t i = 0; i < 65; i++)
			devices[i] = simdev_models[0];
		s->o.devices = devices;
		s->o.n_devices = 65;
		s->o.core.map.rank = RANK_GAIN;
		s->o.core.order = plan ? ORDER_PLAN : ORDER_BACKFILL;
		for (uint32_t i = 0; i < 7; i++)
			workload(s, 300 + 77 * i, 4000 + 3000 * i, 1 + i / 6, .4 + .08 * i, .15 + .11 * i);
		for (uint32_t i = 0; i < 300; i++)
			arrive(s, 1.7 * i, i * i % 7);
		simulate(s);
		text[plan] = whole_result(s);
		end_scene(s);
	}
	assert_string_equal(text[0], text[1]);
	free(text[0]);
	free(text[1]);
}

/* The mean of a GPU moves for a window's length after a task there begins to compute: that is looked at where it passes a
 * limit, which is when the next one may join, and not once a second. */
static void a_mean_is_looked_at_where_it_passes_a_limit(void **state)
{
	(void)state;
	for (int above = 0; above < 2; above++) {
		struct scene *s = new_scene(1);
		uint32_t w = workload(s, 3000, 5000, 1, .6, above ? .8 : .2);
		s->workloads.list[w].start_ms = 60000;
		s->o.loads = SIM_LOADS_KNOWN;
		set(s, "max_smact", ".5");
		arrive(s, 0, w);
		arrive(s, 100, w);
		simulate(s);
		size_t moments = s->r.events;
		int64_t start_ms = s->r.tasks[1].start_ms;
		s->o.sampled = true;
		simulate(s);
		assert_int_equal(start_ms, s->r.tasks[1].start_ms);
		assert_true(moments < 60 && s->r.events > 2000);
		end_scene(s);
	}
}

static void jumping_places_as_looking_every_second(void **state)
{
	(void)state;
	struct compared sums = { 0 };
	for (uint64_t seed = 1; seed <= 60; seed++) {
		struct scene *s = random_scene(seed);
		compare_with_looking(s, seed, &sums);
		end_scene(s);
	}
	print_message("%zu attempts, %zu out-of-memory, %zu moments instead of %zu\n", sums.attempts, sums.ooms, sums.events,
		      sums.looks);
	assert_true(sums.ooms > 20 && sums.attempts > 1000 && sums.events * 5 < sums.looks);
}

/* A server's windows may be any; settle may even be longer than the window, which then counts for it. */
static void windows_of_any_length(void **state)
{
	(void)state;
	static const char *const windows[] = { "2", "7.5", "30", "90", "5m" }, *const settles[] = { "0", "0.5", "3", "30", "1m" };
	static const char *const warms[] = { "0", "1.5", "30", "2m" };
	struct compared sums = { 0 };
	for (uint64_t seed = 1; seed <= 60; seed++) {
		struct scene *s = random_scene(seed);
		set(s, "window", windows[draw(COUNT_OF(windows))]);
		set(s, "settle", settles[draw(COUNT_OF(settles))]);
		set(s, "warm", warms[draw(COUNT_OF(warms))]);
		compare_with_looking(s, seed, &sums);
		end_scene(s);
	}
	assert_true(sums.attempts > 1000 && sums.events < sums.looks);
}

static void nothing_beats_the_lower_bound(void **state)
{
	(void)state;
	for (uint64_t seed = 100; seed < 300; seed++) {
		struct scene *s = random_scene(seed);
		s->o.estimator = "oracle";
		s->o.core.map.ledger = true;
		/* Plans of long queues took nine tenths of this test's time. */
		if (s->o.core.order == ORDER_PLAN && s->trace.n > 16)
			s->trace.n = 16;
		simulate(s);
		double total_s = (double)s->r.tasks[0].end_ms / 1000;
		for (size_t i = 0; i < s->r.n; i++) {
			assert_int_equal(s->r.tasks[i].state, TASK_COMPLETED);
			total_s = fmax(total_s, (double)s->r.tasks[i].end_ms / 1000);
		}
		if (!(s->r.lower_bound_s > 0 && s->r.lower_bound_s <= total_s + 1e-3))
			fail_msg("seed %llu: %f s, and the bound is %f s", (unsigned long long)seed, total_s, s->r.lower_bound_s);
		end_scene(s);
	}
}

/* Each takes 30 GiB where nothing limits it, and works with nine: two run side by side for as long as alone. Where a task takes
 * no longer than its workload's start it computes from its beginning. */
static void the_lower_bound_counts_what_a_task_must_have(void **state)
{
	(void)state;
	struct scene *s = new_scene(1);
	uint32_t w = workload(s, 600, 30720, 1, .1, .05);
	s->workloads.list[w].need_mib = s->workloads.list[w].declared_mib = 9000;
	s->o.core.map.ledger = true;
	arrive(s, 0, w);
	arrive(s, 0, w);
	simulate(s);
	double total_s = fmax((double)s->r.tasks[0].end_ms, (double)s->r.tasks[1].end_ms) / 1000;
	assert_true(total_s < 650);
	assert_near(s->r.lower_bound_s, 600, 0);
	s->workloads.list[w].start_ms = 500000;
	s->trace.list[0].solo_ms = s->trace.list[1].solo_ms = 400000;
	s->workloads.list[w].smact = s->workloads.list[w].gract = .9;
	simulate(s);
	assert_near(s->r.lower_bound_s, 2 * .9 * 400, 1e-6);
	end_scene(s);
}

static void seeds_vary_and_repeat(void **state)
{
	(void)state;
	struct scene *s = random_scene(7);
	s->o.seed = 5;
	simulate(s);
	scoped_free char *first = whole_result(s);
	simulate(s);
	scoped_free char *again = whole_result(s);
	assert_string_equal(first, again);
	s->o.seed = 6;
	simulate(s);
	scoped_free char *other = whole_result(s);
	assert_string_not_equal(first, other);
	end_scene(s);
}

/* Two tasks that do not fit beside each other, a GPU, and slots of 600 s: both are done at the end, having taken turns; without
 * slots the second waits for all of the first. A start of 10 s comes again with each turn, and is what slots cost. */
static void slots_share_a_gpu_in_turns(void **state)
{
	(void)state;
	struct scene *s = new_scene(1);
	uint32_t w = workload(s, 6000, 30000, 1, .9, .5);
	s->workloads.list[w].start_ms = 10000;
	arrive(s, 0, w);
	arrive(s, 0, w);
	simulate(s);
	assert_int_equal(s->r.slots, 0);
	assert_near((double)s->r.tasks[1].start_ms / 1000, 6000, 2);
	set(s, "slot", "600");
	simulate(s);
	const struct sim_task *a = &s->r.tasks[0], *b = &s->r.tasks[1];
	assert_near((double)b->start_ms / 1000, 600, 3);
	assert_int_equal(a->state, TASK_COMPLETED);
	assert_int_equal(b->state, TASK_COMPLETED);
	assert_int_equal(s->r.slots, a->n_attempts + b->n_attempts - 2);
	assert_in_range(a->n_attempts, 10, 12);
	/* Each did all of its work once, and its start once an attempt. */
	for (int i = 0; i < 2; i++)
		assert_near(s->r.tasks[i].times.run_s, 5990 + 10 * s->r.tasks[i].n_attempts, 1);
	end_scene(s);
}

/* A start of five minutes, slots of one: who prints nothing while it loads has longer ones, turn by turn, until some do work.
 * They were as short as at first for a thousand turns each. */
static void a_start_is_no_progress(void **state)
{
	(void)state;
	struct scene *s = new_scene(1);
	uint32_t w = workload(s, 1000, 30000, 1, .9, .5);
	s->workloads.list[w].start_ms = 300000;
	arrive(s, 0, w);
	arrive(s, 0, w);
	set(s, "slot", "60");
	s->o.progress_lines = true;
	simulate(s);
	assert_in_range(s->r.slots, 2, 50);
	end_scene(s);
}

/* Sums over what two columns hold. */
struct pairs { double n, a, b, aa, bb, ab; };

static void note(struct pairs *p, double a, double b)
{
	p->n++;
	p->a += a, p->b += b;
	p->aa += a * a, p->bb += b * b, p->ab += a * b;
}

static double correlation(const struct pairs *p)
{
	double ab = p->ab - p->a * p->b / p->n, aa = p->aa - p->a * p->a / p->n, bb = p->bb - p->b * p->b / p->n;
	return ab / sqrt(aa * bb);
}

static double deviation(const struct pairs *p)
{
	return sqrt(p->aa / p->n - p->a / p->n * p->a / p->n);
}

static void throws_of_neighbouring_seeds_have_nothing_in_common(void **state)
{
	(void)state;
	struct pairs next = { 0 }, third = { 0 }, numbers = { 0 };
	for (uint64_t seed = 0; seed < 4000; seed++) {
		note(&next, known_throw(seed, 7), known_throw(seed + 1, 7));
		note(&third, known_throw(seed, 7), known_throw(seed + 3, 7));
		note(&numbers, known_throw(seed, 7), known_throw(seed, 8));
	}
	assert_near(deviation(&next), 1, .05);
	assert_near(correlation(&next), 0, .06);
	assert_near(correlation(&third), 0, .06);
	assert_near(correlation(&numbers), 0, .06);
}

static struct load_belief guessed(struct scene *s, uint64_t seed, uint32_t of)
{
	struct estimate_result r;
	struct spec *spec = spec_create();
	s->o.seed = seed;
	known_answer(&s->o, spec, of, &r);
	spec_unref(spec);
	return r.value.prior;
}

static uint32_t named(struct scene *s, const char *name, double gract, double smact)
{
	uint32_t w = workload(s, 1000, 5000, 1, gract, smact);
	free(s->workloads.list[w].name);
	s->workloads.list[w].name = alloc_string(name);
	return w;
}

/* As doc/results/load/errors.md has them of real captures. */
static void guesses_are_wrong_as_captures_are(void **state)
{
	(void)state;
	struct scene *s = new_scene(1);
	uint32_t busy = named(s, "vit", 1, .8), half = named(s, "resnet18", .5, .3), sister = named(s, "resnet34", .5, .3);
	uint32_t other = named(s, "lstm", .5, .3);
	struct pairs loads = { 0 }, times = { 0 }, sisters = { 0 }, others = { 0 }, full = { 0 };
	s->workloads.list[half].start_ms = 100000;
	for (uint64_t seed = 1; seed <= 4000; seed++) {
		struct load_belief b = guessed(s, seed, busy), h = guessed(s, seed, half);
		assert_near(b.load.gract, 1, 1e-9);
		assert_true(h.load.smact <= h.load.gract && h.load.gract <= 1 && h.host > 0 && h.host <= 1);
		note(&full, log(b.run_s / 1000), b.load.smact);
		note(&loads, h.load.gract, h.load.smact);
		note(&times, h.load.gract, log(h.run_s / 900));
		note(&sisters, h.load.smact, guessed(s, seed, sister).load.smact);
		note(&others, h.load.smact, guessed(s, seed, other).load.smact);
	}
	assert_near(deviation(&full), .18, .02);
	assert_near(deviation(&loads), .17, .02);
	assert_near(correlation(&loads), .85, .08);
	assert_near(correlation(&times), -.75, .1);
	assert_near(times.b / times.n, -.1, .05);	/* most hosts are slower than those of the fit */
	assert_true(correlation(&sisters) > correlation(&others) + .1);
	assert_true(correlation(&others) > .1);		/* one machine */
	end_scene(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(company_does_not_lengthen_what_a_clock_ends), cmocka_unit_test(one_task_takes_its_time),
		cmocka_unit_test(two_tasks_share_by_the_law),
		cmocka_unit_test(energy_is_parted_by_what_each_adds),
		cmocka_unit_test(starts_disturb_nobody),
		cmocka_unit_test(who_says_too_little_is_fenced),
		cmocka_unit_test(who_says_far_too_little_gets_far_more),
		cmocka_unit_test(who_needs_less_than_he_takes_makes_do),
		cmocka_unit_test(a_task_of_two_gpus_runs_at_the_slower),
		cmocka_unit_test(one_without_gpus_waits_for_cpus_alone),
		cmocka_unit_test(an_out_of_memory_wastes_its_time),
		cmocka_unit_test(what_is_known_keeps_them_apart),
		cmocka_unit_test(what_fits_nowhere_is_refused),
		cmocka_unit_test(estimators_are_named),
		cmocka_unit_test(with_more_gpus_than_a_plan_holds_it_is_backfill),
		cmocka_unit_test(a_mean_is_looked_at_where_it_passes_a_limit),
		cmocka_unit_test(jumping_places_as_looking_every_second), cmocka_unit_test(windows_of_any_length),
		cmocka_unit_test(nothing_beats_the_lower_bound),
		cmocka_unit_test(the_lower_bound_counts_what_a_task_must_have),
		cmocka_unit_test(seeds_vary_and_repeat),
		cmocka_unit_test(throws_of_neighbouring_seeds_have_nothing_in_common),
		cmocka_unit_test(guesses_are_wrong_as_captures_are),
		cmocka_unit_test(slots_share_a_gpu_in_turns), cmocka_unit_test(a_start_is_no_progress),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
