/* SPDX-License-Identifier: MIT
 * Open addressing with linear probing; removal moves the rest of the run back, so there are no tombstones.
 */
#include "base/idmap.h"

#include "base/alloc.h"

#include <stdlib.h>

static size_t home(const struct idmap *m, int64_t key)
{
	return (size_t)(((uint64_t)key * 0x9E3779B97F4A7C15u) >> 20) & (m->cap - 1);
}

/* Where the key is, or where it would go. */
static size_t find(const struct idmap *m, int64_t key)
{
	size_t i = home(m, key);
	while (m->keys[i] && m->keys[i] != key)
		i = (i + 1) & (m->cap - 1);
	return i;
}

void *idmap_get(const struct idmap *m, int64_t key)
{
	if (!m->cap)
		return NULL;
	size_t i = find(m, key);
	return m->keys[i] ? m->values[i] : NULL;
}

static void grow(struct idmap *m)
{
	struct idmap old = *m;
	m->cap = old.cap ? old.cap * 2 : 64;
	m->keys = alloc_zero(m->cap * sizeof *m->keys);
	m->values = alloc_zero(m->cap * sizeof *m->values);
	for (size_t i = 0; i < old.cap; i++) {
		if (!old.keys[i])
			continue;
		size_t j = find(m, old.keys[i]);
		m->keys[j] = old.keys[i];
		m->values[j] = old.values[i];
	}
	free(old.keys);
	free(old.values);
}

void idmap_put(struct idmap *m, int64_t key, void *value)
{
	if ((m->n + 1) * 4 > m->cap * 3)
		grow(m);
	size_t i = find(m, key);
	if (!m->keys[i])
		m->n++;
	m->keys[i] = key;
	m->values[i] = value;
}

void *idmap_remove(struct idmap *m, int64_t key)
{
	size_t hole = m->cap ? find(m, key) : 0;
	if (!m->cap || !m->keys[hole])
		return NULL;
	void *value = m->values[hole];
	for (size_t i = (hole + 1) & (m->cap - 1); m->keys[i]; i = (i + 1) & (m->cap - 1)) {
		size_t from_home = (i - home(m, m->keys[i])) & (m->cap - 1), from_hole = (i - hole) & (m->cap - 1);
		if (from_home < from_hole)
			continue;
		m->keys[hole] = m->keys[i];
		m->values[hole] = m->values[i];
		hole = i;
	}
	m->keys[hole] = 0;
	m->values[hole] = NULL;
	m->n--;
	return value;
}

void *idmap_next(const struct idmap *m, size_t *at)
{
	while (*at < m->cap) {
		size_t i = (*at)++;
		if (m->keys[i])
			return m->values[i];
	}
	return NULL;
}

void idmap_free(struct idmap *m)
{
	free(m->keys);
	free(m->values);
	*m = (struct idmap){ 0 };
}

void idmap_free_all(struct idmap *m)
{
	size_t at = 0;
	for (void *value; (value = idmap_next(m, &at));)
		free(value);
	idmap_free(m);
}
