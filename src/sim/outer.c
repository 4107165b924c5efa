/* SPDX-License-Identifier: MIT
 * Which node a job gets. A tree over the nodes holds the most that any below has of each resource, so that the first node which
 * fits is found by going down, whatever the cluster's size; waiting jobs are bits in the order of their numbers.
 */
#include "sim/outer.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

#define NONE SIZE_MAX

/* What a node has, or the most that any node of a part of the tree has: the freest GPU's shards, idle GPUs, memory, CPUs, and
 * whether nobody is there. */
enum key { KEY_SHARDS, KEY_GPUS, KEY_MEM, KEY_CPUS, KEY_EMPTY, N_KEYS };
struct keys { uint32_t k[N_KEYS]; };

/* A job on a node, and until when at the latest. */
struct tenancy { int64_t end_ms; uint32_t job; };

struct outer_node {
	uint32_t *shards;		/* free, of each GPU */
	uint32_t mem, cpus;		/* free */
	struct tenancy *jobs;		/* the one that ends first comes first */
	size_t n, cap;
};

struct outer_job {
	struct outer_ask ask;
	int64_t end_ms;
	uint64_t gpus;			/* of its node */
	uint32_t *nodes;		/* of one that asks for whole ones */
	uint32_t node;			/* else */
};

struct outer {
	struct outer_config c;
	uint32_t *whole;		/* shards of each GPU of a node */
	struct outer_node *nodes;
	uint32_t *free_shards;		/* of all GPUs of all nodes; nodes point into it */
	struct keys *tree;		/* n_leaves leaves from n_leaves on, the root at 1 */
	size_t n_leaves;
	struct outer_job *jobs;
	uint64_t *waiting, *some;	/* a bit a job; a bit for each word of these */
	uint32_t *started;
	size_t n_started, cap_started;
	size_t head;			/* the first that waits and did not fit; NONE */
	bool look_again;		/* the head may fit now, or is another */
	bool moved;			/* since the last backfill */
	int64_t backfill_at_ms;
	bool *kept;			/* of each node: it is kept for the head, */
	int64_t kept_until_ms;		/* which is to start there then */
	uint32_t *some_nodes;		/* scratch, n_nodes of them */
};

/* Waiting jobs ------------------------------------------------------------------------------------------------------------ */

static void wait_for(struct outer *o, size_t job, bool waits)
{
	uint64_t *word = &o->waiting[job / 64], *above = &o->some[job / 4096], bit = (uint64_t)1 << job / 64 % 64;
	*word = waits ? *word | (uint64_t)1 << job % 64 : *word & ~((uint64_t)1 << job % 64);
	*above = *word ? *above | bit : *above & ~bit;
}

/* The first that waits, from that one on. */
static size_t next_waiting(const struct outer *o, size_t job)
{
	if (job >= o->c.n_jobs)
		return NONE;
	uint64_t here = o->waiting[job / 64] >> job % 64;
	if (here)
		return job + (size_t)__builtin_ctzll(here);
	for (size_t word = job / 64 + 1; word <= (o->c.n_jobs - 1) / 64;) {
		uint64_t words = o->some[word / 64] >> word % 64;
		if (words) {
			word += (size_t)__builtin_ctzll(words);
			return word * 64 + (size_t)__builtin_ctzll(o->waiting[word]);
		}
		word = (word / 64 + 1) * 64;
	}
	return NONE;
}

/* The tree ---------------------------------------------------------------------------------------------------------------- */

static bool has(const struct keys *have, const struct keys *want)
{
	for (unsigned i = 0; i < N_KEYS; i++)
		if (have->k[i] < want->k[i])
			return false;
	return true;
}

static struct keys keys_wanted(const struct outer_ask *ask)
{
	if (ask->nodes)
		return (struct keys){ .k = { [KEY_EMPTY] = 1 } };
	return (struct keys){ .k = { [KEY_SHARDS] = ask->shards, [KEY_GPUS] = ask->gpus, [KEY_MEM] = ask->mem,
				     [KEY_CPUS] = ask->cpus } };
}

static struct keys keys_of(const struct outer *o, const uint32_t *shards, uint32_t mem, uint32_t cpus, bool empty)
{
	struct keys k = { .k = { [KEY_MEM] = mem, [KEY_CPUS] = cpus, [KEY_EMPTY] = empty } };
	for (unsigned i = 0; i < o->c.gpus; i++) {
		k.k[KEY_SHARDS] = shards[i] > k.k[KEY_SHARDS] ? shards[i] : k.k[KEY_SHARDS];
		k.k[KEY_GPUS] += shards[i] == o->whole[i];
	}
	return k;
}

static void note_node(struct outer *o, size_t node)
{
	const struct outer_node *n = &o->nodes[node];
	size_t at = o->n_leaves + node;
	o->tree[at] = keys_of(o, n->shards, n->mem, n->cpus, !n->n);
	while (at /= 2)
		for (unsigned i = 0; i < N_KEYS; i++) {
			uint32_t a = o->tree[2 * at].k[i], b = o->tree[2 * at + 1].k[i];
			o->tree[at].k[i] = a > b ? a : b;
		}
}

struct outer_search { struct keys want; size_t from; bool kept_too; };

/* The first node from `from` on that has it, in the part of the tree below `at`, whose leaves are first to first + n - 1. */
static size_t find_first(const struct outer *o, const struct outer_search *s, size_t at, size_t first, size_t n)
{
	if (first + n <= s->from || !has(&o->tree[at], &s->want))
		return NONE;
	if (n == 1)
		return first < o->c.n_nodes && (s->kept_too || !o->kept[first]) ? first : NONE;
	size_t found = find_first(o, s, 2 * at, first, n / 2);
	return found != NONE ? found : find_first(o, s, 2 * at + 1, first + n / 2, n / 2);
}

/* The node with most left of `key`. */
static void find_emptiest(const struct outer *o, const struct outer_search *s, enum key key, size_t at, size_t *best)
{
	if (!has(&o->tree[at], &s->want) ||
	    (*best != NONE && o->tree[at].k[key] <= o->tree[o->n_leaves + *best].k[key]))
		return;
	if (at >= o->n_leaves) {
		size_t node = at - o->n_leaves;
		*best = node < o->c.n_nodes && (s->kept_too || !o->kept[node]) ? node : *best;
		return;
	}
	bool right = o->tree[2 * at + 1].k[key] > o->tree[2 * at].k[key];
	find_emptiest(o, s, key, 2 * at + right, best);
	find_emptiest(o, s, key, 2 * at + !right, best);
}

static size_t find_node(const struct outer *o, const struct outer_ask *ask, bool kept_too)
{
	const struct outer_search s = { keys_wanted(ask), 0, kept_too };
	size_t best = NONE;
	if (!o->c.spread)
		return find_first(o, &s, 1, 0, o->n_leaves);
	find_emptiest(o, &s, ask->shards ? KEY_SHARDS : ask->gpus ? KEY_GPUS : KEY_MEM, 1, &best);
	return best;
}

/* Empty nodes into o->some_nodes; whether there are so many. */
static bool find_empty(struct outer *o, uint32_t n, bool kept_too)
{
	struct outer_search s = { { .k = { [KEY_EMPTY] = 1 } }, 0, kept_too };
	for (uint32_t i = 0; i < n; i++) {
		size_t node = find_first(o, &s, 1, 0, o->n_leaves);
		if (node == NONE)
			return false;
		o->some_nodes[i] = (uint32_t)node;
		s.from = node + 1;
	}
	return true;
}

/* Taking and giving back -------------------------------------------------------------------------------------------------- */

/* The GPU of a node that has so many shards; there is one. */
static unsigned gpu_for(const struct outer *o, const uint32_t *shards, uint32_t want)
{
	unsigned best = 0;
	while (shards[best] < want)
		best++;
	for (unsigned i = best + 1; o->c.least_gpu && i < o->c.gpus; i++)
		best = shards[i] > shards[best] ? i : best;
	return best;
}

/* The GPUs of a node that it gets, and what is left of them. */
static uint64_t take_gpus(const struct outer *o, uint32_t *shards, const struct outer_ask *ask)
{
	uint64_t taken = 0;
	if (ask->shards) {
		unsigned gpu = gpu_for(o, shards, ask->shards);
		shards[gpu] -= ask->shards;
		return (uint64_t)1 << gpu;
	}
	uint32_t left = ask->gpus;
	for (unsigned i = 0; left; i++) {
		if (shards[i] != o->whole[i])
			continue;
		shards[i] = 0;
		taken |= (uint64_t)1 << i;
		left--;
	}
	return taken;
}

static void give_gpus(const struct outer *o, uint32_t *shards, const struct outer_job *j)
{
	for (unsigned i = 0; i < o->c.gpus; i++)
		if (j->gpus >> i & 1)
			shards[i] = j->ask.shards ? shards[i] + j->ask.shards : o->whole[i];
}

static void come(struct outer_node *n, uint32_t job, int64_t end_ms)
{
	alloc_grow(n->jobs, n->n, n->cap);
	size_t at = n->n++;
	for (; at > 0 && n->jobs[at - 1].end_ms > end_ms; at--)
		n->jobs[at] = n->jobs[at - 1];
	n->jobs[at] = (struct tenancy){ end_ms, job };
}

static void go(struct outer_node *n, uint32_t job)
{
	size_t at = 0;
	while (n->jobs[at].job != job)
		at++;
	memmove(&n->jobs[at], &n->jobs[at + 1], (--n->n - at) * sizeof *n->jobs);
}

static void start_on_node(struct outer *o, uint32_t job, size_t node)
{
	struct outer_job *j = &o->jobs[job];
	struct outer_node *n = &o->nodes[node];
	j->node = (uint32_t)node;
	j->gpus = take_gpus(o, n->shards, &j->ask);
	n->mem -= j->ask.mem;
	n->cpus -= j->ask.cpus;
	come(n, job, j->end_ms);
	note_node(o, node);
}

/* On the first of o->some_nodes. */
static void start_on_nodes(struct outer *o, uint32_t job)
{
	struct outer_job *j = &o->jobs[job];
	j->nodes = alloc_resize(NULL, j->ask.nodes, sizeof *j->nodes);
	memcpy(j->nodes, o->some_nodes, j->ask.nodes * sizeof *j->nodes);
	for (uint32_t i = 0; i < j->ask.nodes; i++) {
		struct outer_node *n = &o->nodes[j->nodes[i]];
		memset(n->shards, 0, o->c.gpus * sizeof *n->shards);
		n->mem = n->cpus = 0;
		come(n, job, j->end_ms);
		note_node(o, j->nodes[i]);
	}
}

/* False: it does not fit now. */
static bool try_start(struct outer *o, size_t job, int64_t now_ms, bool kept_too)
{
	struct outer_job *j = &o->jobs[job];
	size_t node = j->ask.nodes ? 0 : find_node(o, &j->ask, kept_too);
	if (j->ask.nodes ? !find_empty(o, j->ask.nodes, kept_too) : node == NONE)
		return false;
	j->end_ms = now_ms + j->ask.limit_ms;
	if (j->ask.nodes)
		start_on_nodes(o, (uint32_t)job);
	else
		start_on_node(o, (uint32_t)job, node);
	wait_for(o, job, false);
	alloc_grow(o->started, o->n_started, o->cap_started);
	o->started[o->n_started++] = (uint32_t)job;
	return true;
}

static void leave_node(struct outer *o, uint32_t job, uint32_t node)
{
	const struct outer_job *j = &o->jobs[job];
	struct outer_node *n = &o->nodes[node];
	go(n, job);
	if (j->ask.nodes) {
		memcpy(n->shards, o->whole, o->c.gpus * sizeof *n->shards);
		n->mem = o->c.mem;
		n->cpus = o->c.cpus;
	} else {
		give_gpus(o, n->shards, j);
		n->mem += j->ask.mem;
		n->cpus += j->ask.cpus;
	}
	note_node(o, node);
}

void outer_release(struct outer *o, uint32_t job)
{
	struct outer_job *j = &o->jobs[job];
	for (uint32_t i = 0; i < j->ask.nodes; i++)
		leave_node(o, job, j->nodes[i]);
	if (!j->ask.nodes)
		leave_node(o, job, j->node);
	free(j->nodes);
	j->nodes = NULL;
	o->look_again = o->moved = true;
}

struct outer_place outer_place(const struct outer *o, uint32_t job)
{
	const struct outer_job *j = &o->jobs[job];
	return j->ask.nodes ? (struct outer_place){ j->nodes, j->ask.nodes, 0, j->end_ms }
			    : (struct outer_place){ &j->node, 1, j->gpus, j->end_ms };
}

/* What the head is promised ----------------------------------------------------------------------------------------------- */

static int64_t later(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

/* When that node has what is asked for, if nobody is there for longer than planned; INT64_MAX: not before `best_ms`. */
static int64_t node_has_ms(const struct outer *o, const struct outer_node *n, const struct keys *want, int64_t now_ms,
			   int64_t best_ms)
{
	uint32_t shards[OUTER_GPUS], mem = n->mem, cpus = n->cpus;
	memcpy(shards, n->shards, o->c.gpus * sizeof *shards);
	for (size_t i = 0; i < n->n && later(n->jobs[i].end_ms, now_ms) < best_ms; i++) {
		const struct outer_job *j = &o->jobs[n->jobs[i].job];
		if (j->ask.nodes) {
			memcpy(shards, o->whole, o->c.gpus * sizeof *shards);
			mem = o->c.mem;
			cpus = o->c.cpus;
		} else {
			give_gpus(o, shards, j);
			mem += j->ask.mem;
			cpus += j->ask.cpus;
		}
		const struct keys have = keys_of(o, shards, mem, cpus, i + 1 == n->n);
		if (has(&have, want))
			return later(n->jobs[i].end_ms, now_ms);
	}
	return INT64_MAX;
}

struct freed { int64_t at_ms; uint32_t node; };

static int by_time(const void *x, const void *y)
{
	const struct freed *a = x, *b = y;
	return a->at_ms != b->at_ms ? (a->at_ms > b->at_ms) - (a->at_ms < b->at_ms) : (a->node > b->node) - (a->node < b->node);
}

/* The nodes that are empty first. */
static void keep_nodes(struct outer *o, uint32_t n, int64_t now_ms)
{
	struct freed *list = alloc_resize(NULL, o->c.n_nodes, sizeof *list);
	for (size_t i = 0; i < o->c.n_nodes; i++) {
		const struct outer_node *node = &o->nodes[i];
		list[i] = (struct freed){ node->n ? later(node->jobs[node->n - 1].end_ms, now_ms) : now_ms, (uint32_t)i };
	}
	qsort(list, o->c.n_nodes, sizeof *list, by_time);
	for (uint32_t i = 0; i < n; i++)
		o->kept[list[i].node] = true;
	o->kept_until_ms = list[n - 1].at_ms;
	free(list);
}

static void keep_for_head(struct outer *o, int64_t now_ms)
{
	const struct outer_ask *ask = &o->jobs[o->head].ask;
	const struct keys want = keys_wanted(ask);
	size_t best = NONE;
	memset(o->kept, 0, o->c.n_nodes * sizeof *o->kept);
	o->kept_until_ms = INT64_MAX;
	if (ask->nodes) {
		keep_nodes(o, ask->nodes, now_ms);
		return;
	}
	for (size_t i = 0; i < o->c.n_nodes; i++) {
		int64_t at_ms = node_has_ms(o, &o->nodes[i], &want, now_ms, o->kept_until_ms);
		if (at_ms < o->kept_until_ms) {
			o->kept_until_ms = at_ms;
			best = i;
		}
	}
	if (best != NONE)
		o->kept[best] = true;
}

/* Passes ------------------------------------------------------------------------------------------------------------------ */

static void backfill(struct outer *o, int64_t now_ms)
{
	size_t job = o->head;
	keep_for_head(o, now_ms);
	for (unsigned i = 0; i < o->c.backfill_depth && (job = next_waiting(o, job + 1)) != NONE; i++)
		try_start(o, job, now_ms, now_ms + o->jobs[job].ask.limit_ms <= o->kept_until_ms);
	o->moved = false;
	o->backfill_at_ms = now_ms + o->c.backfill_ms;
}

size_t outer_pass(struct outer *o, int64_t now_ms, const uint32_t **started)
{
	o->n_started = 0;
	if (o->look_again) {
		o->look_again = false;
		while ((o->head = next_waiting(o, 0)) != NONE && try_start(o, o->head, now_ms, true))
			;
		o->moved |= o->n_started > 0;
	}
	if (o->head != NONE && o->moved && now_ms >= o->backfill_at_ms && o->c.backfill_depth)
		backfill(o, now_ms);
	*started = o->started;
	return o->n_started;
}

int64_t outer_due(const struct outer *o)
{
	bool more = o->head != NONE && o->moved && o->c.backfill_depth && next_waiting(o, o->head + 1) != NONE;
	return more ? o->backfill_at_ms : INT64_MAX;
}

void outer_queue(struct outer *o, uint32_t job, const struct outer_ask *ask)
{
	o->jobs[job].ask = *ask;
	wait_for(o, job, true);
	o->look_again |= o->head == NONE || job < o->head;
	o->moved = true;
}

bool outer_feasible(const struct outer *o, const struct outer_ask *ask)
{
	const struct keys all = keys_of(o, o->whole, o->c.mem, o->c.cpus, true), want = keys_wanted(ask);
	return ask->nodes ? ask->nodes <= o->c.n_nodes : has(&all, &want);
}

/* Begin and end ----------------------------------------------------------------------------------------------------------- */

struct outer *outer_create(const struct outer_config *c)
{
	struct outer *o = alloc_zero(sizeof *o);
	o->c = *c;
	o->c.shards = NULL;
	o->whole = alloc_resize(NULL, c->gpus, sizeof *o->whole);
	memcpy(o->whole, c->shards, c->gpus * sizeof *o->whole);
	for (o->n_leaves = 1; o->n_leaves < c->n_nodes;)
		o->n_leaves *= 2;
	o->tree = alloc_zero(2 * o->n_leaves * sizeof *o->tree);
	o->nodes = alloc_zero(c->n_nodes * sizeof *o->nodes);
	o->free_shards = alloc_resize(NULL, c->n_nodes * c->gpus, sizeof *o->free_shards);
	for (size_t i = 0; i < c->n_nodes; i++) {
		o->nodes[i] = (struct outer_node){ .shards = o->free_shards + i * c->gpus, .mem = c->mem, .cpus = c->cpus };
		memcpy(o->nodes[i].shards, o->whole, c->gpus * sizeof *o->whole);
		note_node(o, i);
	}
	o->jobs = alloc_zero(c->n_jobs * sizeof *o->jobs);
	o->waiting = alloc_zero((c->n_jobs / 64 + 1) * sizeof *o->waiting);
	o->some = alloc_zero((c->n_jobs / 4096 + 1) * sizeof *o->some);
	o->kept = alloc_zero(c->n_nodes * sizeof *o->kept);
	o->some_nodes = alloc_zero(c->n_nodes * sizeof *o->some_nodes);
	o->head = NONE;
	return o;
}

void outer_destroy(struct outer *o)
{
	if (!o)
		return;
	for (size_t i = 0; i < o->c.n_nodes; i++)
		free(o->nodes[i].jobs);
	for (size_t i = 0; i < o->c.n_jobs; i++)
		free(o->jobs[i].nodes);
	free(o->whole);
	free(o->nodes);
	free(o->free_shards);
	free(o->tree);
	free(o->jobs);
	free(o->waiting);
	free(o->some);
	free(o->started);
	free(o->kept);
	free(o->some_nodes);
	free(o);
}
