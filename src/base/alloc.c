/* SPDX-License-Identifier: MIT
 * Allocation that ends the process when there is none: see alloc.h.
 */
#include "base/alloc.h"

#include "base/text.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void out_of_memory(size_t size) __attribute__((noreturn));
static void out_of_memory(size_t size)
{
	fprintf(stderr, "rad: out of host memory: could not allocate %zu bytes\n", size);
	abort();
}

void *alloc_zero(size_t size)
{
	void *p = calloc(1, size ? size : 1);
	if (!p)
		out_of_memory(size);
	return p;
}

void *alloc_resize(void *old, size_t count, size_t size)
{
	size_t bytes;
	if (__builtin_mul_overflow(count, size, &bytes))
		out_of_memory(SIZE_MAX);
	void *p = realloc(old, bytes ? bytes : 1);
	if (!p)
		out_of_memory(bytes);
	return p;
}

char *alloc_string(const char *s)
{
	char *p = strdup(s);
	if (!p)
		out_of_memory(strlen(s));
	return p;
}

char *alloc_string_or_null(const char *s)
{
	return s ? alloc_string(s) : NULL;
}

size_t alloc_count(char *const *list)
{
	size_t n = 0;
	while (list && list[n])
		n++;
	return n;
}

char **alloc_words(char *const *words)
{
	size_t n = alloc_count(words), bytes = 0;
	for (size_t i = 0; i < n; i++)
		bytes += strlen(words[i]) + 1;
	char **copy = alloc_zero((n + 1) * sizeof *copy + bytes), *at = (char *)(copy + n + 1);
	for (size_t i = 0; i < n; i++) {
		copy[i] = at;
		at = stpcpy(at, words[i]) + 1;
	}
	return copy;
}

void alloc_free_list(char **list)
{
	for (char **e = list; e && *e; e++)
		free(*e);
	free(list);
}

/* Printed once where it is short, as most texts are. */
char *alloc_printf(const char *fmt, ...)
{
	char brief[256];
	va_list ap, again;
	va_start(ap, fmt);
	va_copy(again, ap);
	int n = text_vprintf(brief, sizeof brief, fmt, ap);
	if (n < 0)	/* longer than printf can count */
		out_of_memory(SIZE_MAX);
	const size_t room = (size_t)n + 1;
	char *p = alloc_zero(room);
	if (room <= sizeof brief)
		memcpy(p, brief, room);
	else
		text_vprintf(p, room, fmt, again);
	va_end(again);
	va_end(ap);
	return p;
}
