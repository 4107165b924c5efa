/* SPDX-License-Identifier: MIT
 *
 * A map from a non-zero int64 (task ids) to pointers that others own. Open addressing, linear probing.
 */
#ifndef RAD_BASE_IDMAP_H
#define RAD_BASE_IDMAP_H

#include <stddef.h>
#include <stdint.h>

struct idmap {
	int64_t *keys;	/* 0: free */
	void **values;
	size_t n, cap;	/* cap: 0 or a power of two */
};

/* The value of that key, NULL if there is none. */
void *idmap_get(const struct idmap *m, int64_t key);
/* Sets or replaces. */
void idmap_put(struct idmap *m, int64_t key, void *value);
/* Removes it and returns the value; NULL if there was none. */
void *idmap_remove(struct idmap *m, int64_t key);
/* Walks in no particular order: start with *at = 0; NULL at the end. The map must not change during a walk. */
void *idmap_next(const struct idmap *m, size_t *at);
void idmap_free(struct idmap *m);
/* With its values, each an allocation of its own. */
void idmap_free_all(struct idmap *m);

#endif
