/* SPDX-License-Identifier: MIT
 *
 * CSV as RFC 4180 has it, read strictly: a quote stands around a whole field or not at all. Lines may end in LF or CRLF; a
 * byte order mark at the beginning and empty lines are passed over. Errors say "FILE:LINE".
 */
#ifndef RAD_SIM_CSV_H
#define RAD_SIM_CSV_H

#include "base/buf.h"
#include "base/error.h"

#include <stddef.h>

#define CSV_MAX_FILE ((size_t)512 << 20)
#define CSV_MAX_FIELDS 1000	/* in one record */

/* Fields point into `text` and live as long as it; the header's too. */
struct csv {
	const char *name;	/* of the file, borrowed */
	struct buf text;	/* fields are cut out of it in place */
	char *at;		/* the next byte */
	size_t line, next_line;	/* where the record read last begins; where the next one does */
	char **fields;
	size_t n, cap;
	char **columns;		/* the header */
	size_t n_columns;
};

/* Reads the file and its header: names of columns, none twice. csv_clear is needed after a failure too. */
int csv_open(struct csv *c, const char *path, struct error *err);
/* The same from bytes in memory; `name` is for errors. */
int csv_open_text(struct csv *c, const char *name, const char *bytes, size_t n, struct error *err);
void csv_clear(struct csv *c);

/* The next record, with as many fields as the header has columns. 1, 0 at the end, -1. */
int csv_next(struct csv *c, struct error *err);
/* The place of that column, -1 if there is none. */
int csv_column(const struct csv *c, const char *name);
/* The places of n columns of these names. `map`: "solo_s=solo_s_a100,mem_mib=mem_mib_2025", those that the file has under
 * another name; NULL: none. The first n_needed must be there, and what the map says. */
int csv_columns(const struct csv *c, const char *const *names, size_t n, size_t n_needed, const char *map, int *at,
		struct error *err);
/* Prepends "FILE:LINE" of the record read last. Returns -1. */
int csv_wrong(const struct csv *c, struct error *err);

#endif
