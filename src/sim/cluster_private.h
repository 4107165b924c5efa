/* SPDX-License-Identifier: MIT
 *
 * The insides of a simulated cluster, for its own files alone, each using only those above it:
 *	cluster_node.c	a node whose radd places
 *	cluster.c	the loop, what jobs ask for, and what becomes of them
 */
#ifndef RAD_SIM_CLUSTER_PRIVATE_H
#define RAD_SIM_CLUSTER_PRIVATE_H

#include "sim/cluster.h"
#include "sim/outer.h"
#include "sim/world.h"

/* A radd, and what it has said since somebody listened. */
struct cluster_node {
	struct cluster_nodes *all;
	struct core *core;
	bool dirty;			/* its core is to have a turn */
	int64_t question;		/* it asked for an estimate; 0: no */
};

struct cluster_nodes {
	const struct cluster_options *o;
	struct world *world;
	struct cluster_node *list;
	size_t n;
	uint32_t per_node;		/* GPUs */
	struct heap looks;		/* at each GPU */
	struct heap dues;		/* of each core */
	uint32_t *dirty;		/* nodes */
	size_t n_dirty;
	struct cluster_placed { uint32_t node, serial; } *placed;
	size_t n_placed, cap_placed;
	struct estimator estimator;
	struct snapshot snap;		/* scratch */
	int64_t now_ms;
};

/* One submission to a node's radd. `serial` is another for each. */
struct cluster_part {
	uint32_t serial, workload;
	unsigned gpus;
	uint64_t claim_mib;
	bool alone;
};

/* `world` must outlive it. */
void cluster_nodes_create(struct cluster_nodes *ns, const struct cluster_options *o, struct world *world);
void cluster_nodes_destroy(struct cluster_nodes *ns);
/* When some core wants its turn or a GPU is to be looked at; INT64_MAX: never. */
int64_t cluster_nodes_next(const struct cluster_nodes *ns);
/* Whether a node with nobody on it would place that. */
int cluster_nodes_feasible(const struct cluster_nodes *ns, const struct cluster_part *p, struct error *err);
void cluster_nodes_submit(struct cluster_nodes *ns, uint32_t node, const struct cluster_part *p);
/* It was not started: it goes, placed or not. */
void cluster_nodes_withdraw(struct cluster_nodes *ns, uint32_t node, uint32_t serial);
/* Where it was placed there; the task's own GPUs, as places in the list of devices. */
const struct attempt *cluster_nodes_placed(const struct cluster_nodes *ns, uint32_t node, uint32_t serial, uint32_t *gpus);
void cluster_nodes_started(struct cluster_nodes *ns, uint32_t node, uint32_t serial);
void cluster_nodes_exited(struct cluster_nodes *ns, uint32_t node, uint32_t serial, const struct world_task *refused);
/* Shows every core what changed on its GPUs, and gives those a turn that may have something to say; what they placed is
 * added to ns->placed. */
void cluster_nodes_turn(struct cluster_nodes *ns);

#endif
