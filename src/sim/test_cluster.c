/* SPDX-License-Identifier: MIT
 * Simulated clusters whose result can be worked out by hand, in the four ways, and what holds for any of them.
 */
#include "sim/cluster.h"

#include "base/alloc.h"
#include "base/scope.h"
#include "sim/known.h"
#include "sim/philly.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <math.h>

#define MAX_DEVICES 64

struct scene {
	struct cluster_options o;
	struct sim_options sim;
	struct sim_workloads workloads;
	struct sim_trace trace;
	struct device_model devices[MAX_DEVICES];
	struct cluster_result r;
	struct error err;
};

static struct scene *new_scene(enum cluster_way way, size_t nodes, size_t gpus)
{
	struct scene *s = alloc_zero(sizeof *s);
	for (size_t i = 0; i < nodes * gpus; i++)
		s->devices[i] = simdev_models[0];	/* a100-40g: 40360 MiB for tasks, 39 shards */
	s->sim = (struct sim_options){ .core = core_config_default(), .estimator = "oracle", .devices = s->devices,
				       .n_devices = nodes * gpus, .workloads = &s->workloads, .trace = &s->trace };
	s->sim.core.map.rank = RANK_MAGM;
	s->sim.core.order = ORDER_FIFO;
	s->o = cluster_options_default();
	s->o.sim = &s->sim;
	s->o.n_nodes = nodes;
	s->o.way = way;
	s->workloads.path = alloc_string("W.csv");
	s->trace.path = alloc_string("T.csv");
	return s;
}

/* A job of its own kind. Its user says half as much again. */
static void arrive(struct scene *s, double at_s, double solo_s, uint64_t mib, unsigned gpus, double load)
{
	struct sim_workload w = { .name = alloc_printf("w%zu", s->workloads.n), .gpus = gpus, .mem_mib = mib,
				  .declared_mib = mib + mib / 2, .solo_ms = (int64_t)(solo_s * 1000), .gract = load, .smact = load,
				  .class = -1 };
	alloc_grow(s->workloads.list, s->workloads.n, s->workloads.cap);
	s->workloads.list[s->workloads.n] = w;
	alloc_grow(s->trace.list, s->trace.n, s->trace.cap);
	s->trace.list[s->trace.n] = (struct sim_arrival){ .submit_ms = (int64_t)(at_s * 1000), .workload = (uint32_t)s->workloads.n++,
							  .line = (uint32_t)s->trace.n + 2 };
	s->trace.n++;
}

static void simulate(struct scene *s)
{
	cluster_result_clear(&s->r);
	if (cluster_run(&s->o, &s->r, &s->err))
		fail_msg("%s", s->err.text);
}

static void end_scene(struct scene *s)
{
	cluster_result_clear(&s->r);
	sim_trace_clear(&s->trace);
	sim_workloads_clear(&s->workloads);
	free(s);
}

static void assert_ends(const struct scene *s, size_t job, double at_s)
{
	if (fabs((double)s->r.jobs[job].end_ms / 1000 - at_s) > 1e-6)
		fail_msg("job %zu ended at %g s, not at %g s", job, (double)s->r.jobs[job].end_ms / 1000, at_s);
}

static void whole_gpus_are_nobody_elses(void **state)
{
	(void)state;
	struct scene *s = new_scene(CLUSTER_WHOLE, 1, 1);
	arrive(s, 50, 100, 1000, 1, .1);
	arrive(s, 50, 100, 1000, 1, .1);
	simulate(s);
	assert_ends(s, 0, 100);
	assert_ends(s, 1, 200);
	assert_int_equal(s->r.jobs[1].run_ms, 100000);
	const struct cluster_spread wait = cluster_waits(&s->r), jct = cluster_jcts(&s->r);
	assert_true(wait.mean_s == 50 && wait.median_s == 0 && wait.p95_s == 100 && jct.mean_s == 150);
	assert_true(fabs(s->r.gpu_hours - 200. / 3600) < 1e-9 && s->r.lower_bound_s == 200 && s->r.span_ms == 200000);
	end_scene(s);
}

/* Declared are 15 GiB each, so two fit and the third waits; what they take would let a third in: 39 shards are 13 each. */
static void shards_count_what_is_asked(void **state)
{
	(void)state;
	for (int estimated = 0; estimated < 2; estimated++) {
		struct scene *s = new_scene(estimated ? CLUSTER_SHARD_ESTIMATED : CLUSTER_SHARD_DECLARED, 1, 1);
		for (int i = 0; i < 3; i++)
			arrive(s, 0, 100, 10240, 1, .1);
		simulate(s);
		const struct cluster_spread wait = cluster_waits(&s->r);
		assert_true(estimated ? wait.p95_s == 0 : wait.p95_s > 99);
		assert_int_equal(s->r.ooms, 0);
		assert_true(s->r.gpu_hours * 3600 < 300);
		end_scene(s);
	}
}

/* They say 15 GiB and take 25: the second finds the GPU full, and has one to itself two minutes later. */
static void who_runs_out_of_memory_gets_a_whole_gpu(void **state)
{
	(void)state;
	struct scene *s = new_scene(CLUSTER_SHARD_DECLARED, 2, 1);
	for (int i = 0; i < 2; i++)
		arrive(s, i, 300, 25600, 1, .1);
	for (size_t i = 0; i < 2; i++)
		s->workloads.list[i].declared_mib = 15360;
	arrive(s, 2, 60, 1000, 1, .1);
	s->workloads.list[2].declared_mib = 39 * 1024;
	simulate(s);
	assert_int_equal(s->r.ooms, 1);
	const struct cluster_job *hit = &s->r.jobs[s->r.jobs[0].ooms ? 0 : 1];
	assert_true(hit->ooms == 1 && !hit->failed && hit->lost_ms > 0 && hit->run_ms == hit->lost_ms + 300000);
	assert_true(hit->end_ms - hit->submit_ms == hit->run_ms + s->o.requeue_ms);
	end_scene(s);
}

/* Two GPUs with 15 GiB left each are no GPU with 20: the total says that there is room. At 0, 150, 300 .. s the node is asked,
 * for 30 s. */
static void a_node_sends_back_what_finds_no_room(void **state)
{
	(void)state;
	struct scene *s = new_scene(CLUSTER_NODE, 1, 2);
	arrive(s, 0, 1000, 25600, 1, .1);
	arrive(s, 0, 1000, 25600, 1, .1);
	arrive(s, 0, 100, 20480, 1, .1);
	simulate(s);
	assert_int_equal(s->r.sent_back, 7);
	assert_int_equal(s->r.jobs[2].sent_back, 7);
	assert_ends(s, 2, 1150);
	assert_int_equal(s->r.jobs[2].run_ms, 100000);
	s->o.requeue_ms = 10000;
	simulate(s);
	assert_int_equal(s->r.sent_back, 25);
	assert_ends(s, 2, 1101);	/* asked at 1000: that the memory is free is seen a second later */
	s->o.requeue_ms = 120000;
	s->o.node_wait_ms = 3600000;	/* it is let in where it waits: when memory is seen to be free, a second later at most */
	simulate(s);
	assert_int_equal(s->r.sent_back, 0);
	assert_true(s->r.jobs[2].end_ms <= 1101000);
	end_scene(s);
}

/* A job of two nodes that the first one places and the second does not, which has to see first that its memory is free: the
 * first one is as free as it was when it is asked again. It waited for a look that never came, and both were asked for ever. */
static void a_node_that_placed_in_vain_is_free_again(void **state)
{
	(void)state;
	struct scene *s = new_scene(CLUSTER_NODE, 2, 1);
	arrive(s, 0, 50, 1000, 1, .1);
	arrive(s, 0, 100, 40000, 1, .1);
	arrive(s, 1, 100, 1000, 2, .1);
	s->o.node_wait_ms = 0;
	simulate(s);
	assert_int_equal(s->r.sent_back, 1);
	assert_ends(s, 2, 320);
	end_scene(s);
}

/* Six GPUs on two nodes of four: the two of the last node that are held and not used are free afterwards, too. They were not,
 * and whoever wanted that whole node was sent back for ever. */
static void gpus_that_a_wide_job_leaves_idle_are_free_again(void **state)
{
	(void)state;
	struct scene *s = new_scene(CLUSTER_NODE, 2, 4);
	arrive(s, 0, 10, 1000, 6, .1);
	arrive(s, 60, 10, 1000, 8, .1);
	simulate(s);
	assert_int_equal(s->r.sent_back, 0);
	assert_ends(s, 1, 70);
	end_scene(s);
}

/* The outer scheduler counts memory alone: the load is the node's to mind. */
static void a_node_minds_the_load(void **state)
{
	(void)state;
	struct scene *s = new_scene(CLUSTER_NODE, 1, 1);
	arrive(s, 0, 500, 4096, 1, .9);
	arrive(s, 200, 100, 4096, 1, .9);
	simulate(s);
	assert_true(s->r.sent_back > 0 && s->r.jobs[0].run_ms == 500000);
	s->o.way = CLUSTER_SHARD_ESTIMATED;
	simulate(s);
	assert_true(s->r.jobs[0].run_ms > 590000);
	end_scene(s);
}

static void jobs_wider_than_a_node_get_whole_nodes(void **state)
{
	(void)state;
	for (enum cluster_way way = 0; way < CLUSTER_WAY_COUNT; way++) {
		struct scene *s = new_scene(way, 3, 2);
		arrive(s, 0, 100, 1000, 1, .1);
		arrive(s, 0, 100, 20000, 3, .9);
		arrive(s, 0, 100, 20000, 4, .9);
		simulate(s);
		assert_ends(s, 0, 100);
		assert_ends(s, 1, 100);
		assert_true(s->r.jobs[2].end_ms >= 200000 && s->r.jobs[2].end_ms <= 202000 && s->r.sent_back == 0);
		assert_true(fabs(s->r.gpu_hours - 800. / 3600) < 1e-6);
		end_scene(s);
	}
}

static void refused(struct scene *s, const char *text)
{
	assert_int_equal(cluster_run(&s->o, &s->r, &s->err), -1);
	if (!strstr(s->err.text, text))
		fail_msg("'%s' does not say '%s'", s->err.text, text);
	end_scene(s);
}

static struct scene *one_job(enum cluster_way way, uint64_t mib, unsigned gpus)
{
	struct scene *s = new_scene(way, 2, 2);
	arrive(s, 0, 100, mib, gpus, .1);
	return s;
}

static void what_cannot_be_is_said(void **state)
{
	(void)state;
	refused(one_job(CLUSTER_WHOLE, 1000, 5), "T.csv:2: w0 wants 5 GPUs: no 2 nodes of 2 GPUs could ever run it");
	refused(one_job(CLUSTER_NODE, 50000, 1), "T.csv:2: w0 takes 50000 MiB of each GPU, the largest there has 40360");
	struct scene *s = one_job(CLUSTER_NODE, 1000, 1);
	s->sim.estimator = "none";
	refused(s, "no estimator 'none' for clusters; there are: replay oracle");
	s = one_job(CLUSTER_NODE, 1000, 1);
	s->sim.estimator = "horus";
	refused(s, "W.csv: has no column 'horus_mib'");
	s = one_job(CLUSTER_NODE, 1000, 1);
	s->o.n_nodes = 1;
	s->sim.n_devices = MAX_DEVICES + 1;
	refused(s, "a node of a cluster has at most 64 GPUs, not 65");
	s = one_job(CLUSTER_NODE, 1000, 1);
	snprintf(s->devices[1].profile, sizeof s->devices[1].profile, "1g.5gb");
	refused(s, "clusters are of whole GPUs");
	s = one_job(CLUSTER_SHARD_ESTIMATED, 500, 1);	/* of no shard: no GPU of the node was taken, nor any told */
	s->devices[0].mem_total_mib = s->devices[1].mem_total_mib = s->devices[0].mem_reserved_mib + 1023;
	refused(s, "a100-40g has less than 1 GiB for tasks");
	s = one_job(CLUSTER_NODE, 1000, 1);
	s->sim.share = SHARE_MIG;	/* which no node of whole GPUs would ever place */
	refused(s, "T.csv:2: w0 fits no node: ");
}

/* Two jobs of one workload, whose estimates lie on both sides of what the smaller GPU has: it was never said, and the second
 * was sent back for ever. */
static void each_jobs_claim_is_looked_at(void **state)
{
	(void)state;
	struct scene *s = new_scene(CLUSTER_NODE, 1, 2);
	while (known_throw(s->sim.seed, 0) > known_throw(s->sim.seed, 1) - .2)
		s->sim.seed++;
	double between = (known_throw(s->sim.seed, 0) + known_throw(s->sim.seed, 1)) / 2;
	s->devices[1].mem_total_mib *= 2;
	s->sim.estimator = "replay";
	arrive(s, 0, 100, (uint64_t)(40360 / (1.081 + .038 * between)), 2, .1);
	arrive(s, 0, 100, 1000, 1, .1);
	s->trace.list[1].workload = 0;
	refused(s, "T.csv:3: w0 fits no node: ");
}

static uint32_t kind(struct scene *s, int class, uint64_t mib, double load)
{
	struct sim_workload w = { .name = alloc_printf("k%zu", s->workloads.n), .gpus = 1, .mem_mib = mib, .solo_ms = 1000,
				  .gract = load, .smact = load * .8, .class = class };
	alloc_grow(s->workloads.list, s->workloads.n, s->workloads.cap);
	s->workloads.list[s->workloads.n] = w;
	return (uint32_t)s->workloads.n++;
}

/* Every job gets done, none quicker than alone, GPUs are not used by nobody, and it comes out the same again. */
static void traces_like_phillys_get_done(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 2 * CLUSTER_WAY_COUNT; i++) {
		struct scene *s = new_scene((enum cluster_way)(i % CLUSTER_WAY_COUNT), 8, 8);
		kind(s, 0, 2000, .3);
		kind(s, 1, 12000, .7);
		kind(s, 2, 24000, 1);
		sim_trace_clear(&s->trace);
		const struct philly_options philly = { .n = 600, .interval_ms = 400000, .longest_s = 86400, .seed = 7 };
		assert_int_equal(philly_trace(&philly, &s->workloads, &s->trace, &s->err), 0);
		for (size_t k = 0; k < s->trace.n; k++)	/* nobody wants more than there is */
			if (s->workloads.list[s->trace.list[k].workload].gpus > 64)
				s->trace.list[k].workload = 0;
		s->sim.estimator = "replay";
		s->sim.loads = i < CLUSTER_WAY_COUNT ? SIM_LOADS_LEARNT : SIM_LOADS_GUESSED;
		s->o.spread = i >= CLUSTER_WAY_COUNT;
		simulate(s);
		int64_t sum = 0;
		for (size_t k = 0; k < s->r.n; k++) {
			const struct cluster_job *j = &s->r.jobs[k];
			assert_true(!j->failed && j->end_ms - j->submit_ms >= j->run_ms);
			assert_true(j->run_ms - j->lost_ms >= s->trace.list[k].solo_ms - 1);
			sum += j->end_ms;
		}
		assert_true((double)s->r.span_ms / 1000 >= s->r.lower_bound_s - .001);
		simulate(s);
		for (size_t k = 0; k < s->r.n; k++)
			sum -= s->r.jobs[k].end_ms;
		assert_int_equal(sum, 0);
		end_scene(s);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(whole_gpus_are_nobody_elses), cmocka_unit_test(shards_count_what_is_asked),
		cmocka_unit_test(who_runs_out_of_memory_gets_a_whole_gpu), cmocka_unit_test(a_node_sends_back_what_finds_no_room),
		cmocka_unit_test(a_node_that_placed_in_vain_is_free_again),
		cmocka_unit_test(gpus_that_a_wide_job_leaves_idle_are_free_again),
		cmocka_unit_test(a_node_minds_the_load), cmocka_unit_test(jobs_wider_than_a_node_get_whole_nodes),
		cmocka_unit_test(what_cannot_be_is_said), cmocka_unit_test(each_jobs_claim_is_looked_at),
		cmocka_unit_test(traces_like_phillys_get_done),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
