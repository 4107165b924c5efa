/* SPDX-License-Identifier: MIT
 * CSV from anywhere: what is accepted, written again with every field quoted, reads the same; lines only go up.
 */
#include "sim/csv.h"

#include "fuzz.h"

#include <string.h>

static void write_fields(struct buf *out, char **fields, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		buf_add_text(out, i ? ",\"" : "\"");
		for (const char *p = fields[i]; *p; p++)
			buf_add(out, *p == '"' ? "\"\"" : p, *p == '"' ? 2 : 1);
		buf_add_text(out, "\"");
	}
	buf_add_text(out, "\n");
}

/* 0 and the same file in the plainest form, or -1. */
static int normal_form(const char *bytes, size_t n, struct buf *out)
{
	struct csv c;
	struct error err;
	size_t line = 0;
	int rc = csv_open_text(&c, "F", bytes, n, &err);
	if (!rc)
		write_fields(out, c.columns, c.n_columns);
	while (!rc && (rc = csv_next(&c, &err)) > 0) {
		FUZZ_HOLDS(c.n == c.n_columns && c.line > line);
		line = c.line;
		write_fields(out, c.fields, c.n);
		rc = 0;
		if (c.at >= c.text.data + c.text.len)
			break;
	}
	FUZZ_HOLDS(rc == 0 || !strncmp(err.text, "F:", 2));
	csv_clear(&c);
	return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct buf first = { 0 }, second = { 0 };
	if (!normal_form((const char *)data, size, &first)) {
		FUZZ_HOLDS(!normal_form(first.data, first.len, &second));
		FUZZ_HOLDS(first.len == second.len && !memcmp(first.data, second.data, first.len));
	}
	buf_free(&first);
	buf_free(&second);
	return 0;
}
