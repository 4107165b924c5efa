/* SPDX-License-Identifier: MIT
 *
 * Simulations of clusters: an outer scheduler that gives jobs nodes (sim/outer.h), and what happens on the nodes (sim/world.h).
 * The same trace can be run in the ways that a site with Slurm has:
 *	whole		gres/gpu: every job has its GPUs to itself
 *	shard-declared	gres/shard, one for each GiB: jobs of one GPU ask for what their users declared, and share GPUs by that alone;
 *			jobs of several GPUs have them to themselves
 *	shard-estimated	the same, asking for what is estimated
 *	node		Slurm counts a node's memory only (`gres/radmem`, in GiB, what is estimated of all GPUs of a job), and the node's
 *			radd places: each node is a core (core/core.h) of its own, with the settings given. Where it finds no room within
 *			`node_wait_ms`, the job is sent back
 * Tasks of more GPUs than a node has ask for whole nodes in every way.
 *
 * A job that is sent back or ran out of GPU memory waits for `requeue_ms` until it may start again, at its place in the queue;
 * after an out-of-memory it asks for whole GPUs (all shards; `radmem` of whole GPUs, to be alone), and if that is too little
 * it failed.
 *
 * What nodes learn they keep to themselves. Not modelled: the network between nodes, CPUs' speed, host memory, users and their
 * priorities, time limits that end jobs (how many ran on past theirs is counted), nodes that fail, and what Slurm itself takes.
 */
#ifndef RAD_SIM_CLUSTER_H
#define RAD_SIM_CLUSTER_H

#include "sim/sim.h"

/* Name, word, meaning. */
#define CLUSTER_WAYS(X) \
	X(CLUSTER_WHOLE, "whole", "whole GPUs, as with gres/gpu") \
	X(CLUSTER_SHARD_DECLARED, "shard-declared", "shards of what users declared") \
	X(CLUSTER_SHARD_ESTIMATED, "shard-estimated", "shards of what is estimated") \
	X(CLUSTER_NODE, "node", "the outer scheduler counts memory, each node's radd places")

enum cluster_way {
#define X(name, word, help) name,
	CLUSTER_WAYS(X)
#undef X
	CLUSTER_WAY_COUNT
};

const char *cluster_way_name(enum cluster_way way);

/* Estimators of clusters: `replay` (the truth, off by what estimates from captures are off by, and their margin), `oracle` (the
 * truth), and the columns of the workloads. */
struct cluster_options {
	/* `devices` are those of all nodes, one node after the other; `share` and `loads` are for nodes that place. */
	const struct sim_options *sim;
	size_t n_nodes;
	enum cluster_way way;
	bool spread;			/* nodes with most left first (CR_LLN), instead of the first that fits */
	bool wide_alone;		/* in the way `node`: jobs of several GPUs ask to have them to themselves, as with shards */
	bool least_gpu;			/* shards on the GPU with most left (LL_SHARED_GRES), instead of the first that fits */
	enum share_mode shard_share;	/* how tasks with shards share a GPU: SHARE_STREAMS, or SHARE_MPS */
	uint32_t node_cpus, gpu_cpus;	/* of a node, and what a task asks for with each GPU; 0: CPUs are not counted */
	int64_t requeue_ms, node_wait_ms;
	int64_t backfill_ms;
	unsigned backfill_depth;	/* jobs; 0: nothing passes one that does not fit */
	int64_t limit_ms;		/* the time limit of jobs whose trace says none */
};

/* What holds where nothing else is said: 120 s, 30 s, 30 s, 500, a day; packed, streams, no CPUs. */
struct cluster_options cluster_options_default(void);

/* Times are ms from the first submission. */
struct cluster_job {
	int64_t submit_ms, end_ms;
	int64_t run_ms, lost_ms;	/* over its attempts; of those that ran out of memory */
	uint32_t ooms, sent_back;
	bool failed;
};

struct cluster_result {
	struct cluster_job *jobs;	/* each at its place in the trace */
	size_t n;
	size_t ooms, sent_back, failed;
	size_t past_limit;		/* attempts that ran for longer than their job's time limit */
	int64_t span_ms;		/* from the first submission to the last end */
	double gpu_hours;		/* in which a GPU had tasks, of all GPUs together */
	double energy_j, mean_smact;	/* of all devices over that span */
	double lower_bound_s;
	size_t moments;			/* how often the clock stopped */
};

/* Returns 0; or -1 when a job fits nowhere, or an option cannot be. */
int cluster_run(const struct cluster_options *o, struct cluster_result *out, struct error *err);
void cluster_result_clear(struct cluster_result *r);
/* The object of `rad simulate --json` for clusters. */
json_t *cluster_result_json(const struct cluster_options *o, const struct cluster_result *r);

/* Mean, median and the 95th percentile, in seconds. */
struct cluster_spread { double mean_s, median_s, p95_s; };
struct cluster_spread cluster_waits(const struct cluster_result *r);
struct cluster_spread cluster_jcts(const struct cluster_result *r);

#endif
