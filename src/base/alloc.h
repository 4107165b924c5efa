/* SPDX-License-Identifier: MIT
 *
 * Allocation that never returns NULL: a machine without a few more kilobytes cannot be helped by code paths that nobody
 * has ever run. What was accepted is in the store, so stopping loses nothing. Sizes that come from outside are bounded
 * before they get here.
 */
#ifndef RAD_BASE_ALLOC_H
#define RAD_BASE_ALLOC_H

#include <stddef.h>

void *alloc_zero(size_t size) __attribute__((malloc, returns_nonnull));
/* Room for `count` of `size` bytes each; the multiplication is checked. Old content is kept, the new part is not zeroed. */
void *alloc_resize(void *old, size_t count, size_t size) __attribute__((returns_nonnull));
char *alloc_string(const char *s) __attribute__((returns_nonnull));
/* As alloc_string, but NULL stays NULL. */
char *alloc_string_or_null(const char *s);
/* A list of texts that ends with NULL, as exec takes it: list and texts in one piece, which free() frees. */
char **alloc_words(char *const *words) __attribute__((returns_nonnull));
/* How many texts a list has that ends with NULL; NULL has none. */
size_t alloc_count(char *const *list);
/* Frees a list that ends with NULL, and each of its texts; not one of alloc_words. Takes NULL. */
void alloc_free_list(char **list);
char *alloc_printf(const char *fmt, ...) __attribute__((returns_nonnull, format(printf, 1, 2)));

/* Grows `array` (of `*cap` elements) so that one more fits after `n`; doubles. */
#define alloc_grow(array, n, cap) do { \
	if ((n) >= (cap)) { \
		(cap) = (cap) ? (cap) * 2 : 8; \
		(array) = alloc_resize((array), (cap), sizeof *(array)); \
	} \
} while (0)

#endif
