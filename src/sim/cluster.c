/* SPDX-License-Identifier: MIT
 * The loop of a simulated cluster: jobs come and wait, the outer scheduler starts them, they run, and end or come back.
 */
#include "sim/cluster.h"

#include "base/alloc.h"
#include "base/scope.h"
#include "sim/bound.h"
#include "sim/cluster_private.h"
#include "sim/known.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define GIB_MIB 1024
/* What a claim from a capture is above what the task takes: half are more than 8.1 % over, 1.6 % are below
 * (doc/results/memory). Thrown for each job, for each is another program. */
#define REPLAY_OVER 0.081
#define REPLAY_SD 0.038

enum job_state { JOB_WAITS, JOB_ASKS, JOB_RUNS };

struct cluster_work {
	enum job_state state;
	bool whole;			/* it ran out of memory: whole GPUs from now on */
	uint32_t serial;		/* of this attempt */
	uint32_t placed;		/* parts of it, on as many nodes */
	int64_t start_ms;		/* since when it runs */
	struct world_task *runs;
};

struct cluster {
	const struct cluster_options *o;
	struct cluster_result *out;
	struct outer *outer;
	struct world world;
	struct cluster_nodes nodes;	/* in the way `node` */
	struct cluster_work *jobs;
	uint32_t *job_of;		/* of each serial */
	size_t n_serials, cap_serials;
	uint32_t per_node;
	uint64_t gpu_mib;		/* of the largest GPU, empty */
	struct heap again;		/* when jobs that were sent back may start */
	struct heap patience;		/* until when nodes are asked */
	int64_t now_ms;
	size_t next, ended;
	int column;			/* of the workloads, that claims are read from; -1: none */
};

const char *cluster_way_name(enum cluster_way way)
{
	static const char *const names[] = {
#define X(name, word, help) word,
		CLUSTER_WAYS(X)
#undef X
	};
	return names[way];
}

struct cluster_options cluster_options_default(void)
{
	return (struct cluster_options){ .n_nodes = 1, .way = CLUSTER_NODE, .shard_share = SHARE_STREAMS, .requeue_ms = 120000,
					 .node_wait_ms = 30000, .backfill_ms = 30000, .backfill_depth = 500, .limit_ms = 86400000 };
}

/* What jobs ask for ------------------------------------------------------------------------------------------------- */

static const struct sim_workload *workload_of(const struct cluster *c, uint32_t job)
{
	return &c->o->sim->workloads->list[c->o->sim->trace->list[job].workload];
}

/* On each GPU; at most all of one. */
static uint64_t claim_mib(const struct cluster *c, uint32_t job)
{
	const struct sim_workload *w = workload_of(c, job);
	double mib = (double)w->mem_mib;
	if (c->o->way == CLUSTER_SHARD_DECLARED)
		mib = (double)(w->declared_mib ? w->declared_mib : w->mem_mib);
	else if (c->column >= 0)
		mib = (double)w->estimates_mib[c->column];
	else if (!strcmp(c->o->sim->estimator, "replay"))
		mib *= 1 + REPLAY_OVER + REPLAY_SD * known_throw(c->o->sim->seed, job);
	uint64_t claim = (uint64_t)ceil(mib > 1 ? mib : 1);
	return claim < c->gpu_mib ? claim : c->gpu_mib;
}

/* It asks nodes for whole GPUs. */
static bool is_alone(const struct cluster *c, uint32_t job)
{
	unsigned gpus = workload_of(c, job)->gpus;
	return c->jobs[job].whole || gpus > c->per_node || (gpus > 1 && c->o->wide_alone);
}

static uint32_t gib_for(const struct cluster *c, uint32_t job)
{
	uint64_t most = c->gpu_mib / GIB_MIB, gib = (claim_mib(c, job) + GIB_MIB - 1) / GIB_MIB;
	return (uint32_t)(is_alone(c, job) || gib > most ? most : gib);
}

static struct outer_ask ask_of(const struct cluster *c, uint32_t job)
{
	const struct sim_arrival *a = &c->o->sim->trace->list[job];
	unsigned gpus = workload_of(c, job)->gpus;
	uint32_t cpus = gpus * c->o->gpu_cpus;
	struct outer_ask ask = { .limit_ms = a->limit_ms ? a->limit_ms : c->o->limit_ms };
	if (gpus > c->per_node) {
		ask.nodes = (gpus + c->per_node - 1) / c->per_node;
		return ask;
	}
	ask.cpus = !c->o->node_cpus ? 0 : cpus < c->o->node_cpus ? cpus : c->o->node_cpus;
	if (c->o->way == CLUSTER_NODE)
		ask.mem = gpus * gib_for(c, job);
	else if (c->o->way == CLUSTER_WHOLE || gpus > 1 || c->jobs[job].whole)
		ask.gpus = gpus;
	else
		ask.shards = gib_for(c, job);
	return ask;
}

static void queue(struct cluster *c, uint32_t job)
{
	const struct outer_ask ask = ask_of(c, job);
	c->jobs[job].state = JOB_WAITS;
	outer_queue(c->outer, job, &ask);
}

/* What becomes of them ---------------------------------------------------------------------------------------------- */

static void send_again(struct cluster *c, uint32_t job)
{
	outer_release(c->outer, job);
	c->jobs[job].state = JOB_WAITS;
	heap_set(&c->again, job, c->now_ms + (c->o->requeue_ms > 0 ? c->o->requeue_ms : 1));
}

static void finish(struct cluster *c, uint32_t job, bool failed)
{
	struct cluster_job *out = &c->out->jobs[job];
	outer_release(c->outer, job);
	out->end_ms = c->now_ms;
	out->failed = failed;
	c->out->failed += failed;
	c->ended++;
	if (c->o->sim->progress && c->ended % 64 == 0)
		c->o->sim->progress(c->o->sim->ctx, c->ended, c->out->n);
}

/* The attempt is over. */
static void leave(struct cluster *c, uint32_t job, enum world_event met)
{
	struct cluster_work *j = &c->jobs[job];
	struct cluster_job *out = &c->out->jobs[job];
	const struct outer_place place = outer_place(c->outer, job);
	bool oom = met == WORLD_OUT_OF_MEMORY, last = j->whole || c->o->way == CLUSTER_WHOLE;
	int64_t ran_ms = c->now_ms - j->start_ms;
	for (uint32_t i = 0; i < place.n_nodes && c->o->way == CLUSTER_NODE; i++)
		cluster_nodes_exited(&c->nodes, place.nodes[i], j->serial, oom ? j->runs : NULL);
	world_end(&c->world, j->runs);
	j->runs = NULL;
	out->run_ms += ran_ms;
	c->out->past_limit += c->now_ms > place.end_ms;
	out->ooms += oom;
	c->out->ooms += oom;
	out->lost_ms += oom ? ran_ms : 0;
	j->whole = j->whole || oom;
	if (oom && !last)
		send_again(c, job);
	else
		finish(c, job, oom);
}

static void run(struct cluster *c, uint32_t job, const uint32_t *gpus, enum share_mode mode, uint64_t fence_mib)
{
	struct cluster_work *j = &c->jobs[job];
	enum world_event met;
	j->state = JOB_RUNS;
	j->start_ms = c->now_ms;
	j->runs = world_start(&c->world, &(struct world_begin){
		.id = TASK_ID(j->serial, -1), .of = workload_of(c, job), .solo_ms = known_solo_ms(c->o->sim, job), .mode = mode,
		.fence_mib = fence_mib, .gpus = gpus, .n_gpus = workload_of(c, job)->gpus }, &met);
	if (met != WORLD_NOTHING)
		leave(c, job, met);
}

/* Where the outer scheduler says. */
static void start(struct cluster *c, uint32_t job)
{
	const struct outer_place place = outer_place(c->outer, job);
	const struct sim_workload *w = workload_of(c, job);
	uint32_t gpus[SIM_MAX_GPUS], n = 0;
	for (uint32_t i = 0; i < place.n_nodes; i++)
		for (uint32_t k = 0; k < c->per_node && n < w->gpus; k++)
			if (place.n_nodes > 1 || place.gpus >> k & 1)
				gpus[n++] = place.nodes[i] * c->per_node + k;
	bool shared = c->o->way != CLUSTER_WHOLE && w->gpus == 1 && !c->jobs[job].whole;
	run(c, job, gpus, shared ? c->o->shard_share : SHARE_NEVER, 0);
}

/* What each of its nodes is to place. */
static struct cluster_part part_of(const struct cluster *c, uint32_t job)
{
	unsigned gpus = workload_of(c, job)->gpus;
	bool alone = is_alone(c, job);
	return (struct cluster_part){ .serial = c->jobs[job].serial, .workload = c->o->sim->trace->list[job].workload, .alone = alone,
				      .gpus = gpus > c->per_node ? c->per_node : gpus,
				      .claim_mib = alone ? 0 : claim_mib(c, job) };
}

/* The radds of its nodes are asked. */
static void ask_nodes(struct cluster *c, uint32_t job)
{
	const struct outer_place place = outer_place(c->outer, job);
	const struct cluster_part part = part_of(c, job);
	struct cluster_work *j = &c->jobs[job];
	j->state = JOB_ASKS;
	j->placed = 0;
	for (uint32_t i = 0; i < place.n_nodes; i++)
		cluster_nodes_submit(&c->nodes, place.nodes[i], &part);
	heap_set(&c->patience, job, c->now_ms + c->o->node_wait_ms);
}

static void begin_job(struct cluster *c, uint32_t job)
{
	alloc_grow(c->job_of, c->n_serials, c->cap_serials);
	c->job_of[c->n_serials++] = job;
	c->jobs[job].serial = (uint32_t)c->n_serials;
	if (c->o->way == CLUSTER_NODE)
		ask_nodes(c, job);
	else
		start(c, job);
}

/* One of its nodes has placed it; all have: it runs. */
static void note_placed(struct cluster *c, uint32_t serial)
{
	uint32_t job = c->job_of[serial - 1], gpus[SIM_MAX_GPUS + SPEC_MAX_GPUS], n = 0;
	struct cluster_work *j = &c->jobs[job];
	if (j->serial != serial || j->state != JOB_ASKS)
		return;
	const struct outer_place place = outer_place(c->outer, job);
	const struct attempt *a = NULL;
	if (++j->placed < place.n_nodes)
		return;
	heap_set(&c->patience, job, INT64_MAX);
	for (uint32_t i = 0; i < place.n_nodes && n < SIM_MAX_GPUS; i++, n += a->n_gpus)
		a = cluster_nodes_placed(&c->nodes, place.nodes[i], serial, gpus + n);
	enum share_mode mode = a->mode;
	uint64_t fence_mib = a->fence_mib;
	for (uint32_t i = 0; i < place.n_nodes; i++)
		cluster_nodes_started(&c->nodes, place.nodes[i], serial);
	run(c, job, gpus, mode, fence_mib);
}

static void send_back(struct cluster *c, uint32_t job)
{
	const struct outer_place place = outer_place(c->outer, job);
	for (uint32_t i = 0; i < place.n_nodes; i++)
		cluster_nodes_withdraw(&c->nodes, place.nodes[i], c->jobs[job].serial);
	c->out->jobs[job].sent_back++;
	c->out->sent_back++;
	send_again(c, job);
}

/* Time -------------------------------------------------------------------------------------------------------------- */

static int64_t arrival_ms(const struct cluster *c, size_t job)
{
	const struct sim_trace *t = c->o->sim->trace;
	return t->list[job].submit_ms - t->list[0].submit_ms;
}

static int64_t sooner(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static int64_t next_moment(const struct cluster *c)
{
	int64_t next = c->next < c->out->n ? arrival_ms(c, c->next) : INT64_MAX;
	next = sooner(next, outer_due(c->outer));
	next = sooner(next, world_next(&c->world));
	next = sooner(next, sooner(heap_first(&c->again), heap_first(&c->patience)));
	return c->o->way == CLUSTER_NODE ? sooner(next, cluster_nodes_next(&c->nodes)) : next;
}

static void come(struct cluster *c)
{
	for (; c->next < c->out->n && arrival_ms(c, c->next) <= c->now_ms; c->next++) {
		c->out->jobs[c->next].submit_ms = arrival_ms(c, c->next);
		queue(c, (uint32_t)c->next);
	}
	while (heap_first(&c->again) <= c->now_ms)
		queue(c, heap_take(&c->again));
}

/* What radds say, until they have nothing more to say; then those who waited for long enough are sent back. */
static bool hear_nodes(struct cluster *c)
{
	bool heard = false;
	if (c->o->way != CLUSTER_NODE)
		return false;
	do {
		cluster_nodes_turn(&c->nodes);
		for (size_t i = 0; i < c->nodes.n_placed; i++)
			note_placed(c, c->nodes.placed[i].serial);
		heard = heard || c->nodes.n_placed;
		c->nodes.n_placed = 0;
	} while (c->nodes.n_dirty || c->world.n_touched);
	for (; heap_first(&c->patience) <= c->now_ms; heard = true)
		send_back(c, heap_take(&c->patience));
	return heard;
}

/* Until nothing follows from what was done. */
static void settle(struct cluster *c)
{
	const uint32_t *started;
	size_t n;
	do {
		n = outer_pass(c->outer, c->now_ms, &started);
		for (size_t i = 0; i < n; i++)
			begin_job(c, started[i]);
	} while (hear_nodes(c) || n);
}

static void moment(struct cluster *c)
{
	struct world_task *t;
	enum world_event met;
	world_go(&c->world, c->now_ms);
	c->nodes.now_ms = c->now_ms;
	come(c);
	while ((t = world_happen(&c->world, &met)))
		leave(c, c->job_of[TASK_JOB(t->id) - 1], met);
	settle(c);
	if (c->o->way != CLUSTER_NODE)
		world_forget_touched(&c->world);
	c->out->moments++;
}

static int run_all(struct cluster *c, struct error *err)
{
	while (c->ended < c->out->n) {
		int64_t next = next_moment(c);
		if (next == INT64_MAX)
			return error_set(err, ERR_INVALID, "%zu of %zu jobs never get a node under these settings", c->out->n - c->ended,
					 c->out->n);
		c->now_ms = next > c->now_ms ? next : c->now_ms;
		moment(c);
	}
	return 0;
}

/* Begin and end ----------------------------------------------------------------------------------------------------- */

static int check_options(struct cluster *c, struct error *err)
{
	const struct sim_options *o = c->o->sim;
	if (c->per_node > OUTER_GPUS)
		return error_set(err, ERR_INVALID, "a node of a cluster has at most %d GPUs, not %u", OUTER_GPUS, c->per_node);
	for (size_t i = 0; i < c->per_node; i++)
		if (*o->devices[i].profile)
			return error_set(err, ERR_INVALID, "clusters are of whole GPUs: MIG instances are simulated on one server only");
		else if (o->devices[i].mem_total_mib - o->devices[i].mem_reserved_mib < GIB_MIB)
			return error_set(err, ERR_INVALID, "%s has less than 1 GiB for tasks, by which clusters count GPUs", o->devices[i].name);
	if (sim_workloads_estimates(o->workloads, o->estimator, &c->column, err))
		return -1;
	if (c->column < 0 && strcmp(o->estimator, "replay") && strcmp(o->estimator, "oracle"))
		return error_set(err, ERR_INVALID, "no estimator '%.40s' for clusters; there are: replay oracle horus faketensor gpumemnet",
				 o->estimator);
	return 0;
}

static int check_fits(struct cluster *c, struct error *err)
{
	const struct sim_trace *t = c->o->sim->trace;
	for (uint32_t i = 0; i < t->n; i++) {
		const struct sim_workload *w = workload_of(c, i);
		const struct outer_ask ask = ask_of(c, i);
		if (!w->gpus)
			return error_set(err, ERR_INVALID, "%s:%u: %s has no GPU; in a simulated cluster every job has one: leave it out", t->path,
					 t->list[i].line, w->name);
		if (w->mem_mib > c->gpu_mib)
			return error_set(err, ERR_INVALID, "%s:%u: %s takes %llu MiB of each GPU, the largest there has %llu", t->path,
					 t->list[i].line, w->name, (unsigned long long)w->mem_mib, (unsigned long long)c->gpu_mib);
		if (!outer_feasible(c->outer, &ask))
			return error_set(err, ERR_INVALID, "%s:%u: %s wants %u GPUs: no %zu nodes of %u GPUs could ever run it", t->path,
					 t->list[i].line, w->name, w->gpus, c->o->n_nodes, c->per_node);
	}
	return 0;
}

/* What no radd would ever place would be sent back for ever. Nodes are alike, and of one workload it is the largest claim that
 * decides: under `replay` each job has its own. */
static int check_nodes_place(struct cluster *c, struct error *err)
{
	const struct sim_trace *t = c->o->sim->trace;
	scoped_free bool *seen = alloc_zero(c->o->sim->workloads->n * sizeof *seen);
	scoped_free uint64_t *most_mib = alloc_zero(c->o->sim->workloads->n * sizeof *most_mib);
	for (uint32_t i = 0; i < t->n; i++) {
		const struct cluster_part part = part_of(c, i);
		if (seen[part.workload] && part.claim_mib <= most_mib[part.workload])
			continue;
		if (cluster_nodes_feasible(&c->nodes, &part, err))
			return error_wrap(err, "%s:%u: %s fits no node", t->path, t->list[i].line, workload_of(c, i)->name);
		seen[part.workload] = true;
		most_mib[part.workload] = part.claim_mib;
	}
	return 0;
}

static void create_outer(struct cluster *c)
{
	const struct device_model *d = c->o->sim->devices;
	scoped_free uint32_t *shards = alloc_resize(NULL, c->per_node, sizeof *shards);
	uint32_t mem = 0;
	for (uint32_t i = 0; i < c->per_node; i++) {
		uint64_t mib = d[i].mem_total_mib - d[i].mem_reserved_mib;
		mem += shards[i] = (uint32_t)(mib / GIB_MIB);
		c->gpu_mib = mib > c->gpu_mib ? mib : c->gpu_mib;
	}
	const struct outer_config config = { .n_nodes = c->o->n_nodes, .n_jobs = c->out->n, .gpus = c->per_node, .shards = shards,
					     .mem = mem, .cpus = c->o->node_cpus, .spread = c->o->spread, .least_gpu = c->o->least_gpu,
					     .backfill_ms = c->o->backfill_ms, .backfill_depth = c->o->backfill_depth };
	c->outer = outer_create(&config);
}

static int begin(struct cluster *c, struct error *err)
{
	const struct sim_options *o = c->o->sim;
	world_create(&c->world, o->devices, o->n_devices);
	if (c->o->way != CLUSTER_NODE)
		return 0;
	cluster_nodes_create(&c->nodes, c->o, &c->world);
	return check_nodes_place(c, err);
}

static void end(struct cluster *c)
{
	if (c->nodes.list)
		cluster_nodes_destroy(&c->nodes);
	world_destroy(&c->world);
	outer_destroy(c->outer);
	heap_free(&c->again);
	heap_free(&c->patience);
	free(c->jobs);
	free(c->job_of);
}

static void conclude(struct cluster *c)
{
	const struct sim_options *o = c->o->sim;
	struct cluster_result *out = c->out;
	scoped_free int64_t *solo_ms = alloc_resize(NULL, out->n, sizeof *solo_ms);
	for (size_t i = 0; i < out->n; i++)
		solo_ms[i] = known_solo_ms(o, i);
	out->span_ms = c->now_ms;
	out->gpu_hours = (double)world_used_ms(&c->world) / 3600000;
	out->energy_j = world_energy_j(&c->world);
	out->mean_smact = world_mean_smact(&c->world);
	out->lower_bound_s = bound_total_s(o->trace, o->workloads, o->devices, o->n_devices,
					   c->o->way == CLUSTER_WHOLE ? SHARE_NEVER : SHARE_MPS, solo_ms);
}

int cluster_run(const struct cluster_options *o, struct cluster_result *out, struct error *err)
{
	struct cluster c = { .o = o, .out = out, .per_node = (uint32_t)(o->sim->n_devices / o->n_nodes) };
	*out = (struct cluster_result){ .n = o->sim->trace->n };
	if (check_options(&c, err))
		return -1;
	out->jobs = alloc_zero(out->n * sizeof *out->jobs);
	c.jobs = alloc_zero(out->n * sizeof *c.jobs);
	create_outer(&c);
	int rc = check_fits(&c, err) || begin(&c, err) || run_all(&c, err) ? -1 : 0;
	if (!rc)
		conclude(&c);
	end(&c);
	return rc;
}
