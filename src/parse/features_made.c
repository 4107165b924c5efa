/* SPDX-License-Identifier: MIT
 *
 * Features as their readers and makers handle them: names, notes, what to free.
 */
#include "base/text.h"
#include "parse/features_private.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

const char *features_family_name(enum features_family family)
{
	static const char *const names[] = {
#define X(name, word) word,
		FEATURES_FAMILIES(X)
#undef X
	};
	return names[family];
}

void features_note(struct features *f, const char *fmt, ...)
{
	if (f->n_notes == FEATURES_MAX_NOTES)
		return;
	va_list args;
	va_start(args, fmt);
	text_vprintf(f->notes[f->n_notes], sizeof f->notes[0], fmt, args);
	va_end(args);
	f->n_notes++;
}

void features_clear(struct features *f)
{
	free(f->types);
	free(f->list);
	f->types = NULL;
	f->list = NULL;
}
