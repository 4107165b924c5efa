/* SPDX-License-Identifier: MIT
 *
 * The pending tasks in order: a lane for each user, in the order of time within a priority, and one for the recovery queue. A
 * walk joins the lanes: it goes through each priority user by user, as queue/fair.h says whose turn it is, and counts what it
 * has come by as his who had it, so that it is the order in which all would be placed if all fitted.
 *
 * A lane is a treap: a binary tree by key that is also a heap by a number drawn at random, which keeps it balanced in
 * expectation whatever the order of pushes. Keys are copied into the nodes and found again from the task itself, so tasks need
 * no link back.
 *
 * Why trees and not lists or heaps: a pass looks at the first few of up to 100,000 and takes some out of the middle, people
 * cancel anywhere, and `rad queue` walks all of it in order. A treap does each of these in O(log n) in a page of code. Walking
 * goes by key, not by pointer, so the trees may change between two steps. A walk costs one look at each user who has a task
 * here, and O(log users) a step; who is next among them is found anew by each, since it changes with time alone. Nodes know the
 * next one of their lane too, so that a step of a walk during which nothing came or went is one pointer away: most of what a
 * pass looks at stays.
 *
 * The invariant that callers keep: the key of a task does not change while it is in here. To change a priority: remove, change,
 * push. A key that changed unseen would make the task impossible to find, and so to remove.
 */
#include "queue/queue.h"

#include "base/alloc.h"
#include "base/idmap.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>

struct node {
	struct queue_key key;
	uint64_t weight;	/* no child is heavier */
	struct task *task;
	struct node *before, *after;
	struct node *next;	/* of the lane, in order */
	uint64_t aside;		/* the mark under which the task was set aside; 0: it was not; */
	uint32_t events;	/* and how many events it had then */
};

struct queue_lane {
	struct node *root, *first;
	struct fair_user *user;		/* NULL: of the recovery queue */
};

struct queue {
	struct fair *fair;
	struct queue_lane recovery;
	struct idmap by_user;		/* uid + 1 -> struct queue_lane, made with a user's first task and kept */
	size_t length, n_users;		/* n_users: who have a task in their lane */
	uint64_t changes;
	uint64_t coin;			/* never 0 */
};

struct queue *queue_create(struct fair *fair)
{
	struct queue *q = alloc_zero(sizeof *q);

	q->fair = fair;
	q->coin = 1;
	return q;
}

static void free_tree(struct node *n)
{
	if (!n)
		return;
	free_tree(n->before);
	free_tree(n->after);
	free(n);
}

void queue_destroy(struct queue *q)
{
	size_t at = 0;

	if (!q)
		return;
	for (struct queue_lane *l; (l = idmap_next(&q->by_user, &at));) {
		free_tree(l->root);
		free(l);
	}
	idmap_free(&q->by_user);
	free_tree(q->recovery.root);
	free(q);
}

static struct queue_lane *lane_of(const struct queue *q, const struct task *t)
{
	if (t->queue == QUEUE_RECOVERY)
		return (struct queue_lane *)&q->recovery;
	return idmap_get(&q->by_user, (int64_t)t->spec->uid + 1);
}

/* In the recovery queue all priorities are alike: it is served in the order of failing (section 6.2.3), and a user must not
 * be able to have his crashes handled before others' by a priority. */
static struct queue_key key_of(const struct task *t)
{
	return (struct queue_key){ t->queue == QUEUE_MAIN ? t->priority : 0, t->queued_ms, t->id };
}

/* Negative: a goes before b. */
static int queue_compare(const struct queue_key *a, const struct queue_key *b)
{
	if (a->priority != b->priority)
		return a->priority > b->priority ? -1 : 1;
	if (a->queued_ms != b->queued_ms)
		return a->queued_ms < b->queued_ms ? -1 : 1;
	return (a->id > b->id) - (a->id < b->id);
}

/* Marsaglia, "Xorshift RNGs": any fair coin will do; one of the queue's own makes equal runs equal trees. */
static uint64_t next_weight(struct queue *q)
{
	q->coin ^= q->coin << 13;
	q->coin ^= q->coin >> 7;
	q->coin ^= q->coin << 17;
	return q->coin;
}

/* Parts a tree into what goes before `key` and what goes after it. */
static void queue_split(struct node *n, const struct queue_key *key, struct node **before, struct node **after)
{
	while (n) {
		if (queue_compare(&n->key, key) < 0) {
			*before = n;
			before = &n->after;
			n = n->after;
		} else {
			*after = n;
			after = &n->before;
			n = n->before;
		}
	}
	*before = *after = NULL;
}

/* The reverse: everything in `a` goes before everything in `b`. */
static struct node *queue_join(struct node *a, struct node *b)
{
	struct node *root = NULL, **at = &root;

	while (a && b) {
		if (a->weight > b->weight) {
			*at = a;
			at = &a->after;
			a = a->after;
		} else {
			*at = b;
			at = &b->before;
			b = b->before;
		}
	}
	*at = a ? a : b;
	return root;
}

/* The place that points to the node of that key, or to NULL. */
static struct node **queue_find(struct node **at, const struct queue_key *key)
{
	while (*at) {
		int c = queue_compare(key, &(*at)->key);

		if (c == 0)
			break;
		at = c < 0 ? &(*at)->before : &(*at)->after;
	}
	return at;
}

static struct queue_lane *make_lane(struct queue *q, const struct task *t)
{
	struct queue_lane *l = alloc_zero(sizeof *l);
	l->user = fair_user_of(q->fair, t->spec->uid);
	idmap_put(&q->by_user, (int64_t)t->spec->uid + 1, l);
	return l;
}

/* The last of a lane that stands before the key; NULL: none does. The last turn to the right on the way down. */
static struct node *lane_before(const struct queue_lane *l, const struct queue_key *key)
{
	struct node *found = NULL;

	for (struct node *n = l->root; n;) {
		if (queue_compare(&n->key, key) < 0) {
			found = n;
			n = n->after;
		} else {
			n = n->before;
		}
	}
	return found;
}

static struct node **link_to(struct queue_lane *l, const struct queue_key *key)
{
	struct node *n = lane_before(l, key);

	return n ? &n->next : &l->first;
}

/* Down to the first node that is lighter; that subtree is parted by the key and hangs below the new node. */
void queue_push(struct queue *q, struct task *t)
{
	struct queue_key key = key_of(t);
	struct queue_lane *l = lane_of(q, t);
	struct node *n, **at, **link;

	assert(t->state == TASK_PENDING);	/* whoever takes the first one places it */
	if (!l)
		l = make_lane(q, t);
	if (*queue_find(&l->root, &key))
		return;
	n = alloc_zero(sizeof *n);
	n->key = key;
	n->task = t;
	n->weight = next_weight(q);
	link = link_to(l, &key);
	n->next = *link;
	*link = n;
	q->n_users += l->user && !l->root;
	for (at = &l->root; *at && (*at)->weight >= n->weight;)
		at = queue_compare(&key, &(*at)->key) < 0 ? &(*at)->before : &(*at)->after;
	queue_split(*at, &key, &n->before, &n->after);
	*at = n;
	q->changes++;
	q->length++;
}

/* What hung below the node is joined in its place: both halves are in order and heaps already. */
bool queue_remove(struct queue *q, struct task *t)
{
	struct queue_key key = key_of(t);
	struct queue_lane *l = lane_of(q, t);
	struct node **at = l ? queue_find(&l->root, &key) : NULL, *n = at ? *at : NULL;

	if (!n)
		return false;
	*link_to(l, &key) = n->next;
	*at = queue_join(n->before, n->after);
	free(n);
	q->changes++;
	q->n_users -= l->user && !l->root;
	q->length--;
	return true;
}

bool queue_contains(const struct queue *q, const struct task *t)
{
	struct queue_key key = key_of(t);
	struct queue_lane *l = lane_of(q, t);

	return l && *queue_find(&l->root, &key);
}

size_t queue_length(const struct queue *q)
{
	return q->length;
}

size_t queue_users(const struct queue *q)
{
	return q->n_users;
}

/* Walking -------------------------------------------------------------------------------------------------------------- */

/* The first of a lane that stands at the key or behind it; behind it only if `after`. The last turn to the left on the way
 * down. */
static const struct node *lane_from(const struct queue_lane *l, const struct queue_key *key, bool after)
{
	const struct node *found = NULL;

	for (const struct node *n = l->root; n;) {
		int c = queue_compare(key, &n->key);
		if (c < 0 || (c == 0 && !after)) {
			found = n;
			n = n->before;
		} else {
			n = n->after;
		}
	}
	return found;
}

/* Negative: the next task of a goes before that of b. */
static int cursor_compare(const struct queue_cursor *a, const struct queue_cursor *b)
{
	struct queue_key x = a->key, y = b->key;

	if (x.priority != y.priority)
		return x.priority > y.priority ? -1 : 1;
	int c = fair_compare(a->place, b->place);
	return c ? c : queue_compare(&x, &y);
}

/* The first cursor goes down to where it belongs. */
static void walk_sift(struct queue_walk *w, size_t at)
{
	struct queue_cursor moved = w->cursors[at];

	for (size_t child; (child = 2 * at + 1) < w->n; at = child) {
		if (child + 1 < w->n && cursor_compare(&w->cursors[child + 1], &w->cursors[child]) < 0)
			child++;
		if (cursor_compare(&moved, &w->cursors[child]) <= 0)
			break;
		w->cursors[at] = w->cursors[child];
	}
	w->cursors[at] = moved;
}

static void walk_drop_first(struct queue_walk *w)
{
	w->cursors[0] = w->cursors[--w->n];
	walk_sift(w, 0);
}

/* Sets the cursor on that node. One of the recovery queue stands before all others by being the only one. */
static void cursor_set(const struct queue_walk *w, struct queue_cursor *c, const struct node *n)
{
	c->key = n->key;
	c->node = n;
	c->changes = w->q->changes;
	if (!c->lane->user)
		return;
	c->place = n->task->gpus ? fair_place_of(w->q->fair, c->lane->user, n->key.id, &c->ahead) :
		   fair_cpu_place_of(w->q->fair, c->lane->user, &c->ahead);
}

/* The first from there on that the walk comes by. */
static const struct node *walk_past(const struct queue_walk *w, const struct node *n)
{
	while (n && w->past && n->aside == w->past && n->events == n->task->n_events)
		n = n->next;
	return n;
}

static void walk_take_lane(struct queue_walk *w, const struct queue_lane *l)
{
	struct queue_cursor c = { .lane = l };
	const struct node *first = walk_past(w, l->first);

	if (!first)
		return;
	cursor_set(w, &c, first);
	w->cursors[w->n++] = c;
}

static void walk_enter(struct queue_walk *w, enum task_queue queue)
{
	size_t at = 0;

	w->cursors = alloc_resize(w->cursors, w->q->by_user.n + 1, sizeof *w->cursors);
	w->n = 0;
	w->queue = queue;
	w->came_by = NULL;
	if (queue == QUEUE_RECOVERY)
		walk_take_lane(w, &w->q->recovery);
	else
		for (struct queue_lane *l; (l = idmap_next(&w->q->by_user, &at));)
			walk_take_lane(w, l);
	for (size_t i = w->n / 2; i--;)
		walk_sift(w, i);
}

void queue_walk_begin_past(struct queue_walk *w, const struct queue *q, enum task_queue from, uint64_t mark)
{
	*w = (struct queue_walk){ .q = q, .past = mark };
	walk_enter(w, from);
}

void queue_walk_begin(struct queue_walk *w, const struct queue *q, enum task_queue from)
{
	queue_walk_begin_past(w, q, from, 0);
}

void queue_walk_end(struct queue_walk *w)
{
	free(w->cursors);
	w->cursors = NULL;
	w->n = 0;
}

/* The one that was returned last is his whose lane stands first still. */
static void walk_go_behind_last(struct queue_walk *w)
{
	struct queue_cursor *c = &w->cursors[0];
	const struct node *n = walk_past(w, c->changes == w->q->changes ? c->node->next : lane_from(c->lane, &c->key, true));

	c->ahead.tasks += w->takes.tasks;
	c->ahead.gpus += w->takes.gpus;
	w->came_by = NULL;
	if (!n) {
		walk_drop_first(w);
		return;
	}
	cursor_set(w, c, n);
	walk_sift(w, 0);
}

struct task *queue_walk_next(struct queue_walk *w)
{
	if (w->came_by)
		walk_go_behind_last(w);
	while (!w->n && w->queue == QUEUE_RECOVERY)
		walk_enter(w, QUEUE_MAIN);
	while (w->n) {
		struct queue_cursor *c = &w->cursors[0];
		const struct node *n = c->changes == w->q->changes ? c->node : walk_past(w, lane_from(c->lane, &c->key, false));
		if (n && !queue_compare(&n->key, &c->key)) {
			w->takes = (struct fair_taken){ .tasks = 1, .gpus = n->task->gpus };
			return w->came_by = n->task;
		}
		if (n) {	/* the one it stood at was taken out meanwhile */
			cursor_set(w, c, n);
			walk_sift(w, 0);
		} else {
			walk_drop_first(w);
		}
	}
	return NULL;
}

void queue_walk_leave_user(struct queue_walk *w)
{
	if (!w->came_by || w->queue == QUEUE_RECOVERY)
		return;
	w->came_by = NULL;
	walk_drop_first(w);
}

void queue_walk_pass_over(struct queue_walk *w)
{
	w->takes = (struct fair_taken){ 0 };
}

void queue_walk_set_aside(struct queue_walk *w)
{
	const struct task *t = w->came_by;
	struct queue_key key = key_of(t);
	struct node *n = *queue_find(&lane_of(w->q, t)->root, &key);

	n->aside = w->past;
	n->events = t->n_events;
	queue_walk_pass_over(w);
}

struct task *queue_first_of(const struct queue *q, uid_t uid)
{
	const struct queue_lane *l = idmap_get(&q->by_user, (int64_t)uid + 1);

	return l && l->first ? l->first->task : NULL;
}
