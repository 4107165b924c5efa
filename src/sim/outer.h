/* SPDX-License-Identifier: MIT
 *
 * The scheduler of a cluster as Slurm's select/cons_tres and sched/backfill are one: it gives jobs nodes by counts, and knows
 * nothing of what runs there. Pure: time comes in as an argument.
 *
 * A job asks for one of: whole nodes; GPUs of one node; shards, which are of one GPU; a part of a node's memory total (a gres
 * that is only counted, as `gres/radmem`). The last three ask for CPUs as well.
 *	order	by number, which is the order of submission: a requeued job keeps its place, as under priority/basic
 *	pass	jobs start in that order, up to the first that does not fit: the head
 *	backfill	at most every `backfill_ms`: for the head the earliest time is found at which nodes have what it asks for, if
 *		every running job took until its time limit; so many jobs after it start where they leave those nodes alone, or
 *		are over before that time. Slurm plans so for every job that it tests, here only the head is promised anything
 *	nodes	the first that fits; with `spread`, that with most of what is asked for left (CR_LLN)
 *	GPUs	the first of the node that fit; with `least_gpu` shards are of the one that has most left (LL_SHARED_GRES). One with
 *		shards in use is no whole GPU, and the other way round
 */
#ifndef RAD_SIM_OUTER_H
#define RAD_SIM_OUTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OUTER_GPUS 64	/* of one node, at most */

struct outer_config {
	size_t n_nodes, n_jobs;		/* both above 0; jobs have numbers below n_jobs */
	unsigned gpus;			/* of each node */
	const uint32_t *shards;		/* of each of these GPUs */
	uint32_t mem, cpus;		/* of each node */
	bool spread, least_gpu;
	int64_t backfill_ms;		/* bf_interval */
	unsigned backfill_depth;	/* bf_max_job_test; 0: no backfill */
};

struct outer_ask {
	uint32_t nodes;			/* above 0: nothing below counts */
	uint32_t gpus, shards, mem, cpus;
	int64_t limit_ms;		/* its time limit, by which others are planned; it is not ended then */
};

/* Where a job runs: on all of these nodes, or on those GPUs of the only one (none where only memory is counted). */
struct outer_place { const uint32_t *nodes; uint32_t n_nodes; uint64_t gpus; int64_t end_ms; };

struct outer;

/* `shards` may go after the call. */
struct outer *outer_create(const struct outer_config *c);
void outer_destroy(struct outer *o);
/* Whether an empty cluster could run that. */
bool outer_feasible(const struct outer *o, const struct outer_ask *ask);
/* It waits from now on. */
void outer_queue(struct outer *o, uint32_t job, const struct outer_ask *ask);
/* Starts what can start; the jobs are in *started, until the next call. Returns how many. */
size_t outer_pass(struct outer *o, int64_t now_ms, const uint32_t **started);
/* When a pass may start something though nothing happens until then (the next backfill); INT64_MAX: never. */
int64_t outer_due(const struct outer *o);
/* Of one that was started and has not ended. */
struct outer_place outer_place(const struct outer *o, uint32_t job);
/* It runs no more: what it had is free. */
void outer_release(struct outer *o, uint32_t job);

#endif
