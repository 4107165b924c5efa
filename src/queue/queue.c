/* SPDX-License-Identifier: MIT
 *
 * The pending tasks in order, as a treap: a binary tree by key that is also a heap by a number drawn at random, which keeps
 * it balanced in expectation whatever the order of pushes. Keys are copied into the nodes and found again from the task
 * itself, so tasks need no link back.
 *
 * Why a tree and not a list or a heap: a pass looks at the first few of up to 100,000 and takes some out of the middle, people
 * cancel anywhere, and `rad queue` walks all of it in order. A treap does each of these in O(log n) in a page of code. Walking
 * goes by key, not by pointer, so the tree may change between two steps.
 *
 * The invariant that callers keep: the key of a task does not change while it is in here. To change a priority: remove, change,
 * push. A key that changed unseen would make the task impossible to find, and so to remove.
 */
#include "queue/queue.h"

#include "base/alloc.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>

struct key {
	bool main;		/* not in the recovery queue, which goes first */
	int64_t priority;	/* higher first; all alike in the recovery queue */
	int64_t queued_ms;
	task_id id;
};

struct node {
	struct key key;
	uint64_t weight;	/* no child is heavier */
	struct task *task;
	struct node *before, *after;
};

struct queue {
	struct node *root;
	size_t length;
	uint64_t coin;		/* never 0 */
};

struct queue *queue_create(void)
{
	struct queue *q = alloc_zero(sizeof *q);

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
	if (!q)
		return;
	free_tree(q->root);
	free(q);
}

/* In the recovery queue all priorities are alike: it is served in the order of failing (section 6.2.3), and a user must not
 * be able to have his crashes handled before others' by a priority. */
static struct key key_of(const struct task *t)
{
	bool main = t->queue == QUEUE_MAIN;

	return (struct key){ main, main ? t->priority : 0, t->queued_ms, t->id };
}

/* Negative: a goes before b. */
static int queue_compare(const struct key *a, const struct key *b)
{
	if (a->main != b->main)
		return a->main ? 1 : -1;
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
static void queue_split(struct node *n, const struct key *key, struct node **before, struct node **after)
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
static struct node **queue_find(struct node **at, const struct key *key)
{
	while (*at) {
		int c = queue_compare(key, &(*at)->key);

		if (c == 0)
			break;
		at = c < 0 ? &(*at)->before : &(*at)->after;
	}
	return at;
}

/* Down to the first node that is lighter; that subtree is parted by the key and hangs below the new node. */
void queue_push(struct queue *q, struct task *t)
{
	struct key key = key_of(t);
	struct node *n, **at = &q->root;

	assert(t->state == TASK_PENDING);	/* whoever takes the first one places it */
	if (*queue_find(&q->root, &key))
		return;
	n = alloc_zero(sizeof *n);
	n->key = key;
	n->task = t;
	n->weight = next_weight(q);
	while (*at && (*at)->weight >= n->weight)
		at = queue_compare(&key, &(*at)->key) < 0 ? &(*at)->before : &(*at)->after;
	queue_split(*at, &key, &n->before, &n->after);
	*at = n;
	q->length++;
}

/* What hung below the node is joined in its place: both halves are in order and heaps already. */
bool queue_remove(struct queue *q, struct task *t)
{
	struct key key = key_of(t);
	struct node **at = queue_find(&q->root, &key), *n = *at;

	if (!n)
		return false;
	*at = queue_join(n->before, n->after);
	free(n);
	q->length--;
	return true;
}

bool queue_contains(const struct queue *q, const struct task *t)
{
	struct key key = key_of(t);
	struct node *root = q->root;

	return *queue_find(&root, &key) != NULL;
}

size_t queue_length(const struct queue *q)
{
	return q->length;
}

struct task *queue_first(const struct queue *q)
{
	const struct node *n = q->root;

	while (n && n->before)
		n = n->before;
	return n ? n->task : NULL;
}

/* Looks for the place behind the key, whether or not the task is still there: the last turn to the left on the way down. */
struct task *queue_next(const struct queue *q, const struct task *t)
{
	struct key key = key_of(t);
	struct task *next = NULL;

	for (const struct node *n = q->root; n;) {
		if (queue_compare(&key, &n->key) < 0) {
			next = n->task;
			n = n->before;
		} else {
			n = n->after;
		}
	}
	return next;
}
