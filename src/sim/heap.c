/* SPDX-License-Identifier: MIT
 * An indexed binary heap.
 */
#include "sim/heap.h"

#include "base/alloc.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

void heap_free(struct heap *h)
{
	free(h->items);
	free(h->at);
	*h = (struct heap){ 0 };
}

static bool before(const struct heap_item *a, const struct heap_item *b)
{
	return a->t_ms != b->t_ms ? a->t_ms < b->t_ms : a->thing < b->thing;
}

static void put(struct heap *h, size_t i, struct heap_item item)
{
	h->items[i] = item;
	h->at[item.thing] = (uint32_t)i + 1;
}

static void rise(struct heap *h, size_t i, struct heap_item item)
{
	for (; i > 0 && before(&item, &h->items[(i - 1) / 2]); i = (i - 1) / 2)
		put(h, i, h->items[(i - 1) / 2]);
	put(h, i, item);
}

static void sink(struct heap *h, size_t i, struct heap_item item)
{
	for (size_t child; (child = 2 * i + 1) < h->n; i = child) {
		if (child + 1 < h->n && before(&h->items[child + 1], &h->items[child]))
			child++;
		if (!before(&h->items[child], &item))
			break;
		put(h, i, h->items[child]);
	}
	put(h, i, item);
}

static void place(struct heap *h, size_t i, struct heap_item item)
{
	if (i > 0 && before(&item, &h->items[(i - 1) / 2]))
		rise(h, i, item);
	else
		sink(h, i, item);
}

static void drop(struct heap *h, size_t i)
{
	h->at[h->items[i].thing] = 0;
	struct heap_item last = h->items[--h->n];
	if (i < h->n)
		place(h, i, last);
}

static void know(struct heap *h, uint32_t thing)
{
	if (thing < h->n_things)
		return;
	size_t n = h->n_things ? h->n_things : 64;
	while (n <= thing)
		n *= 2;
	h->at = alloc_resize(h->at, n, sizeof *h->at);
	memset(h->at + h->n_things, 0, (n - h->n_things) * sizeof *h->at);
	h->n_things = n;
}

void heap_set(struct heap *h, uint32_t thing, int64_t t_ms)
{
	know(h, thing);
	size_t at = h->at[thing];
	if (t_ms == INT64_MAX) {
		if (at)
			drop(h, at - 1);
		return;
	}
	if (!at) {
		alloc_grow(h->items, h->n, h->cap);
		at = ++h->n;
	}
	place(h, at - 1, (struct heap_item){ t_ms, thing });
}

int64_t heap_first(const struct heap *h)
{
	return h->n ? h->items[0].t_ms : INT64_MAX;
}

uint32_t heap_take(struct heap *h)
{
	uint32_t thing = h->items[0].thing;
	drop(h, 0);
	return thing;
}
