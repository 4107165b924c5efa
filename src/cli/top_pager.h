/* SPDX-License-Identifier: MIT
 *
 * What another verb prints (`rad logs -f 12`, `rad why 12`), to be looked through on the whole screen while it still comes.
 */
#ifndef RAD_CLI_TOP_PAGER_H
#define RAD_CLI_TOP_PAGER_H

#include "base/error.h"
#include "cli/term.h"

#include <stdbool.h>
#include <stdio.h>

#define TOP_PAGER_WORDS 8

struct top_pager;

/* Starts `rad` with these words (ends with NULL), for a window of that width. `end`: begins at the end and stays there while
 * more comes. */
struct top_pager *top_pager_create(const char *const words[], bool end, unsigned width, struct error *err);
/* Ends the program, too. Takes NULL. */
void top_pager_destroy(struct top_pager *p);
/* Where more comes from; -1: that was all. */
int top_pager_fd(const struct top_pager *p);
/* Takes what has come. */
void top_pager_read(struct top_pager *p);
/* So many lines further down, columns further right. */
void top_pager_move(struct top_pager *p, long lines, long columns);
/* Shows so many lines of it. Returns how many were written. */
unsigned top_pager_print(struct top_pager *p, unsigned lines, const struct term *term, FILE *out);
/* "lines 1-20 of 300" for the foot. */
void top_pager_place(const struct top_pager *p, unsigned lines, char *text, size_t size);

#endif
