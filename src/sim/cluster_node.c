/* SPDX-License-Identifier: MIT
 * Nodes of a simulated cluster, each with a core of its own, as each has a radd. Only those on which something happened are
 * shown anything and have a turn: a moment costs what changed in it, however many nodes there are.
 */
#include "sim/cluster_private.h"

#include "base/alloc.h"
#include "sim/known.h"
#include "sim/look.h"

#include <stdlib.h>
#include <string.h>

#define CLUSTER_UID 1000

static void mark(struct cluster_nodes *ns, uint32_t node)
{
	if (ns->list[node].dirty)
		return;
	ns->list[node].dirty = true;
	ns->dirty[ns->n_dirty++] = node;
}

/* What cores say and ask -------------------------------------------------------------------------------------------- */

static void on_event(void *ctx, const struct event *ev, const struct task *t)
{
	struct cluster_node *n = ctx;
	struct cluster_nodes *ns = n->all;
	if (ev->kind != EV_PLACED)
		return;
	alloc_grow(ns->placed, ns->n_placed, ns->cap_placed);
	ns->placed[ns->n_placed++] = (struct cluster_placed){ (uint32_t)(n - ns->list), TASK_JOB(t->id) };
}

/* Answered where it was submitted, which is the only time that a core asks. */
static void on_estimate(void *ctx, int64_t question, const struct estimator *row, struct spec *spec, uint64_t declared_mib,
			const struct estimate_context *c)
{
	(void)row, (void)spec, (void)declared_mib, (void)c;
	((struct cluster_node *)ctx)->question = question;
}

static void answer(struct cluster_nodes *ns, struct cluster_node *n, const struct spec *spec, uint32_t workload)
{
	struct estimate_result r;
	bool spoke = known_answer(ns->o->sim, spec, workload, &r);
	core_estimated(n->core, n->question, spoke, &r, look_now(ns->now_ms));
	n->question = 0;
}

/* Begin and end ----------------------------------------------------------------------------------------------------- */

/* One that ran out of memory is the outer scheduler's again. A claim that rests on no measurement is not enforced. */
static struct core_config config_of(struct cluster_nodes *ns)
{
	const struct sim_options *o = ns->o->sim;
	struct core_config config = o->core;
	ns->estimator = known_estimator(o, estimate_find("declared", NULL));
	config.estimator = &ns->estimator;
	config.recover.mode = RECOVER_OFF;
	config.host_cpus = CORE_HOST_AUTO;	/* the outer scheduler counts them */
	config.readings_stand = true;
	config.fence = config.fence && (!strcmp(o->estimator, "oracle") || !strcmp(o->estimator, "replay"));
	return config;
}

void cluster_nodes_create(struct cluster_nodes *ns, const struct cluster_options *o, struct world *world)
{
	const struct sim_options *sim = o->sim;
	*ns = (struct cluster_nodes){ .o = o, .world = world, .n = o->n_nodes, .per_node = (uint32_t)(sim->n_devices / o->n_nodes) };
	const struct core_config config = config_of(ns);
	ns->list = alloc_zero(ns->n * sizeof *ns->list);
	ns->dirty = alloc_resize(NULL, ns->n, sizeof *ns->dirty);
	for (size_t i = 0; i < ns->n; i++) {
		struct cluster_node *n = &ns->list[i];
		struct core_ops ops = look_ops(n);
		ops.event = on_event;
		ops.estimate = on_estimate;
		n->all = ns;
		n->core = core_create(&config, &ops);
		if (sim->loads == SIM_LOADS_KNOWN)
			known_remember(sim, sim->devices + i * ns->per_node, ns->per_node, n->core);
	}
	for (uint32_t i = 0; i < world->n_gpus; i++)
		world_touch(world, i);
	cluster_nodes_turn(ns);
}

void cluster_nodes_destroy(struct cluster_nodes *ns)
{
	for (size_t i = 0; i < ns->n; i++)
		core_destroy(ns->list[i].core);
	free(ns->list);
	heap_free(&ns->looks);
	heap_free(&ns->dues);
	free(ns->dirty);
	free(ns->placed);
	snapshot_clear(&ns->snap);
}

/* Tasks ------------------------------------------------------------------------------------------------------------- */

static struct spec *spec_for(const struct cluster_nodes *ns, const struct cluster_part *p)
{
	const struct sim_options *o = ns->o->sim;
	const struct sim_workload *w = &o->workloads->list[p->workload];
	struct spec *spec = spec_create();
	spec->uid = CLUSTER_UID;
	spec->name = alloc_string(w->name);
	spec->signature = o->core.map.ledger ? alloc_string(w->name) : NULL;
	spec->gpus = p->gpus;
	spec->share = o->share;
	spec->exclusive = p->alone;
	spec->requeue = false;		/* not by this radd */
	spec->gpu_mem_mib = p->claim_mib;
	return spec;
}

int cluster_nodes_feasible(const struct cluster_nodes *ns, const struct cluster_part *p, struct error *err)
{
	struct spec *spec = spec_for(ns, p);
	int rc = core_feasible(ns->list[0].core, spec, err);
	spec_unref(spec);
	return rc;
}

void cluster_nodes_submit(struct cluster_nodes *ns, uint32_t node, const struct cluster_part *p)
{
	struct cluster_node *n = &ns->list[node];
	struct spec *spec = spec_for(ns, p);
	core_submit(n->core, p->serial, spec_ref(spec), look_now(ns->now_ms));
	if (n->question)
		answer(ns, n, spec, p->workload);
	spec_unref(spec);
	mark(ns, node);
}

void cluster_nodes_started(struct cluster_nodes *ns, uint32_t node, uint32_t serial)
{
	core_started(ns->list[node].core, TASK_ID(serial, -1), (struct proc_id){ (pid_t)serial, 1 }, look_now(ns->now_ms));
	mark(ns, node);
}

/* What it holds is free once a later look has shown it. In the world it may never have been, or on fewer of its GPUs. */
static void note_left(struct cluster_nodes *ns, const struct task *t)
{
	const struct attempt *a = task_attempt(t);
	for (uint32_t i = 0; i < a->n_gpus; i++) {
		uint32_t place = look_place(a->gpus[i]);
		ns->world->gpus[place].left_ms = ns->now_ms;
		world_touch(ns->world, place);
	}
}

void cluster_nodes_withdraw(struct cluster_nodes *ns, uint32_t node, uint32_t serial)
{
	struct core *core = ns->list[node].core;
	task_id id = TASK_ID(serial, -1);
	const struct task *t = core_task(core, id);
	bool placed = t && t->state == TASK_RUNNING;
	struct exit_report r = { .have_record = true, .exit_code = 143 };
	if (!t)
		return;
	core_cancel(core, id, CLUSTER_UID, look_now(ns->now_ms), NULL);
	if (placed) {
		cluster_nodes_started(ns, node, serial);
		note_left(ns, t);
		core_exited(core, id, &r, look_now(ns->now_ms));
	}
	mark(ns, node);
}

const struct attempt *cluster_nodes_placed(const struct cluster_nodes *ns, uint32_t node, uint32_t serial, uint32_t *gpus)
{
	const struct attempt *a = task_attempt(core_task(ns->list[node].core, TASK_ID(serial, -1)));
	for (uint32_t i = 0; i < a->n_gpus; i++)
		gpus[i] = look_place(a->gpus[i]);
	return a;
}

void cluster_nodes_exited(struct cluster_nodes *ns, uint32_t node, uint32_t serial, const struct world_task *refused)
{
	const struct exit_report r = look_exit(refused);
	struct core *core = ns->list[node].core;
	note_left(ns, core_task(core, TASK_ID(serial, -1)));
	core_exited(core, TASK_ID(serial, -1), &r, look_now(ns->now_ms));
	mark(ns, node);
}

/* Turns ------------------------------------------------------------------------------------------------------------- */

int64_t cluster_nodes_next(const struct cluster_nodes *ns)
{
	int64_t look = heap_first(&ns->looks), due = heap_first(&ns->dues);
	return look < due ? look : due;
}

static void show(struct cluster_nodes *ns, uint32_t node)
{
	struct now now = look_now(ns->now_ms);
	struct core *core = ns->list[node].core;
	ns->snap.n_gpus = ns->snap.n_procs = 0;
	ns->snap.mono_ms = now.mono_ms;
	ns->snap.wall_ms = now.wall_ms;
	world_read_some(ns->world, node * ns->per_node, ns->per_node, &ns->snap);
	if (!ns->snap.n_gpus)
		return;
	core_snapshot(core, &ns->snap, ns->o->sim->without_mps ? CORE_MPS_NONE : CORE_MPS_TOGETHER, now);
	for (uint32_t i = 0; i < ns->snap.n_gpus; i++) {
		uint32_t place = look_place(ns->snap.gpus[i].uuid);
		heap_set(&ns->looks, place, look_next(ns->o->sim, core, &ns->world->gpus[place], ns->now_ms));
	}
}

static void turn_of(struct cluster_nodes *ns, uint32_t node)
{
	int64_t due_ms = core_turn(ns->list[node].core, look_now(ns->now_ms));
	ns->list[node].dirty = false;
	heap_set(&ns->dues, node, due_ms == INT64_MAX ? due_ms : due_ms - LOOK_MONO_MS);
}

void cluster_nodes_turn(struct cluster_nodes *ns)
{
	while (heap_first(&ns->looks) <= ns->now_ms)
		world_touch(ns->world, heap_take(&ns->looks));
	while (heap_first(&ns->dues) <= ns->now_ms)
		mark(ns, heap_take(&ns->dues));
	for (size_t i = 0; i < ns->world->n_touched; i++)
		mark(ns, ns->world->touched[i] / ns->per_node);
	for (size_t i = 0; i < ns->n_dirty; i++)
		show(ns, ns->dirty[i]);
	world_forget_touched(ns->world);
	for (size_t i = 0; i < ns->n_dirty; i++)
		turn_of(ns, ns->dirty[i]);
	ns->n_dirty = 0;
}
