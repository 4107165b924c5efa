/* SPDX-License-Identifier: MIT
 *
 * Free blocks in order of size, then address: short sorted rows, themselves in order, as the leaves of a B-tree of two levels.
 * A search is a few comparisons side by side in memory, none of which a processor has to guess; a replay takes half the
 * time it takes with a balanced tree of nodes. Moving what stands behind in a row is cheap at this length; rows move when one
 * is split or empty, at most once in ALLOC_ROW / 2 insertions, 4 bytes for each row.
 */
#include "estimate/alloc_private.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

typedef unsigned __int128 set_key;

struct alloc_row {
	set_key key[ALLOC_ROW];
	block_ref block[ALLOC_ROW];
	uint32_t n, next_unused;
};

/* Unmapped blocks are found by address only. */
static inline set_key key_of(const struct block *b)
{
	return (set_key)(b->mapped ? b->size : 0) << 64 | b->address;
}

static inline struct alloc_row *row_of(const struct alloc_sim *a, const struct alloc_set *s, uint32_t i)
{
	return &a->rows[s->rows[i]];
}

/* How many of a row are below the key, without a branch on what it compares. */
static inline uint32_t count_below(const struct alloc_row *r, set_key key)
{
	uint32_t n = r->n, base = 0;

	while (n > 1) {
		uint32_t half = n / 2;

		base += half & -(uint32_t)(r->key[base + half - 1] < key);
		n -= half;
	}
	return base + (n && r->key[base] < key);
}

/* The first place at or above the key; its row is s->n when there is none. */
static struct alloc_place find(const struct alloc_sim *a, const struct alloc_set *s, set_key key)
{
	uint32_t low = 0, high = s->n;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		const struct alloc_row *r = row_of(a, s, middle);

		if (r->key[r->n - 1] < key)
			low = middle + 1;
		else
			high = middle;
	}
	return (struct alloc_place){ low, low < s->n ? count_below(row_of(a, s, low), key) : 0 };
}

/* Puts an empty row into the set in front of its i-th. */
static struct alloc_row *add_row(struct alloc_sim *a, struct alloc_set *s, uint32_t i)
{
	uint32_t new = a->unused_row;

	if (new) {
		a->unused_row = a->rows[new].next_unused;
	} else {
		alloc_grow(a->rows, a->n_rows, a->cap_rows);
		new = a->n_rows++;
	}
	alloc_grow(s->rows, s->n, s->cap);
	memmove(s->rows + i + 1, s->rows + i, (s->n - i) * sizeof *s->rows);
	s->rows[i] = new;
	s->n++;
	a->rows[new].n = 0;
	return &a->rows[new];
}

static void split_row(struct alloc_sim *a, struct alloc_set *s, uint32_t i)
{
	struct alloc_row *upper = add_row(a, s, i + 1), *lower = row_of(a, s, i);

	lower->n = ALLOC_ROW / 2;
	upper->n = ALLOC_ROW - lower->n;
	memcpy(upper->key, lower->key + lower->n, upper->n * sizeof *upper->key);
	memcpy(upper->block, lower->block + lower->n, upper->n * sizeof *upper->block);
}

void alloc_set_insert(struct alloc_sim *a, struct alloc_set *s, block_ref b)
{
	set_key key = key_of(&a->blocks[b]);
	struct alloc_place p = find(a, s, key);
	struct alloc_row *r;

	if (!s->n)
		add_row(a, s, 0);
	if (p.row == s->n || s->n == 1)	/* above all: behind the last */
		p = (struct alloc_place){ s->n - 1, count_below(row_of(a, s, s->n - 1), key) };
	if (row_of(a, s, p.row)->n == ALLOC_ROW) {
		split_row(a, s, p.row);
		if (p.at > ALLOC_ROW / 2)
			p = (struct alloc_place){ p.row + 1, p.at - ALLOC_ROW / 2 };
	}
	r = row_of(a, s, p.row);
	memmove(r->key + p.at + 1, r->key + p.at, (r->n - p.at) * sizeof *r->key);
	memmove(r->block + p.at + 1, r->block + p.at, (r->n - p.at) * sizeof *r->block);
	r->key[p.at] = key;
	r->block[p.at] = b;
	r->n++;
}

/* Where a block stands: mostly where the last search ended. */
static struct alloc_place place_of(const struct alloc_sim *a, const struct alloc_set *s, block_ref b)
{
	struct alloc_place p = a->found;

	if (p.row < s->n && p.at < row_of(a, s, p.row)->n && row_of(a, s, p.row)->block[p.at] == b)
		return p;
	return find(a, s, key_of(&a->blocks[b]));
}

static void remove_at(struct alloc_sim *a, struct alloc_set *s, struct alloc_place p)
{
	struct alloc_row *r = row_of(a, s, p.row);

	r->n--;
	memmove(r->key + p.at, r->key + p.at + 1, (r->n - p.at) * sizeof *r->key);
	memmove(r->block + p.at, r->block + p.at + 1, (r->n - p.at) * sizeof *r->block);
	if (r->n)
		return;
	r->next_unused = a->unused_row;
	a->unused_row = s->rows[p.row];
	s->n--;
	memmove(s->rows + p.row, s->rows + p.row + 1, (s->n - p.row) * sizeof *s->rows);
}

void alloc_set_remove(struct alloc_sim *a, struct alloc_set *s, block_ref b)
{
	remove_at(a, s, place_of(a, s, b));
}

/* Whether a key may stand there, between its neighbours. At the ends of a row that is not looked into. */
static bool fits(const struct alloc_row *r, uint32_t at, set_key key)
{
	return at > 0 && at + 1 < r->n && r->key[at - 1] < key && key < r->key[at + 1];
}

void alloc_set_change(struct alloc_sim *a, struct alloc_set *s, block_ref b, uint64_t address, uint64_t size)
{
	struct alloc_place p = place_of(a, s, b);
	struct alloc_row *r = row_of(a, s, p.row);

	a->blocks[b].address = address;
	a->blocks[b].size = size;
	if (fits(r, p.at, key_of(&a->blocks[b]))) {
		r->key[p.at] = key_of(&a->blocks[b]);
		return;
	}
	remove_at(a, s, p);
	alloc_set_insert(a, s, b);
}

static block_ref at_or_above(struct alloc_sim *a, const struct alloc_set *s, set_key key)
{
	struct alloc_place p = a->found = find(a, s, key);

	return p.row < s->n ? row_of(a, s, p.row)->block[p.at] : 0;
}

block_ref alloc_set_at_least(struct alloc_sim *a, const struct alloc_set *s, uint64_t size)
{
	return at_or_above(a, s, (set_key)size << 64);
}

block_ref alloc_set_next(struct alloc_sim *a, const struct alloc_set *s, block_ref b)
{
	return at_or_above(a, s, key_of(&a->blocks[b]) + 1);
}

block_ref alloc_set_previous(const struct alloc_sim *a, const struct alloc_set *s, block_ref b)
{
	struct alloc_place p = find(a, s, key_of(&a->blocks[b]));
	const struct alloc_row *r;

	if (p.at)
		return row_of(a, s, p.row)->block[p.at - 1];
	if (!p.row)
		return 0;
	r = row_of(a, s, p.row - 1);
	return r->block[r->n - 1];
}

block_ref alloc_set_last(const struct alloc_sim *a, const struct alloc_set *s)
{
	const struct alloc_row *r = s->n ? row_of(a, s, s->n - 1) : NULL;

	return r ? r->block[r->n - 1] : 0;
}

uint32_t alloc_set_list(struct alloc_sim *a, const struct alloc_set *s, uint32_t n)
{
	for (uint32_t i = 0; i < s->n; i++) {
		const struct alloc_row *r = row_of(a, s, i);

		for (uint32_t k = 0; k < r->n; k++) {
			alloc_grow(a->list, n, a->cap_list);
			a->list[n++] = r->block[k];
		}
	}
	return n;
}
