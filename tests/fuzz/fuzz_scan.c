/* SPDX-License-Identifier: MIT
 *
 * The output scanner: any bytes, cut anywhere, give the same result, and what is kept of them is bounded printable UTF-8.
 */
#include "fuzz.h"

#include "recover/scan.h"

#include <stdbool.h>
#include <string.h>

static void scan_pieces(const char *bytes, size_t n, size_t piece, struct scan_result *out)
{
	struct scan *s = scan_create();

	for (size_t at = 0; at < n; at += piece) {
		scan_feed(s, bytes + at, piece < n - at ? piece : n - at);
		if (piece > 1)
			scan_finish(s, out);
	}
	scan_finish(s, out);
	scan_destroy(s);
}

static bool same(const struct scan_result *a, const struct scan_result *b)
{
	return a->kind == b->kind && !strcmp(a->line, b->line) && !strcmp(a->source, b->source) && a->offset == b->offset &&
	       a->survived == b->survived && a->oom_near == b->oom_near && a->oom_seen == b->oom_seen &&
	       a->tried_mib == b->tried_mib && a->held_mib == b->held_mib;
}

/* Lead bytes are followed by as many continuation bytes as they say, and those stand nowhere else. */
static bool printable_utf8(const char *text)
{
	int due = 0;

	for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
		bool continues = (*p & 0xc0) == 0x80;

		if (continues != (due > 0) || *p < 0x20 || *p == 0x7f || *p > 0xf4)
			return false;
		due = continues ? due - 1 : *p < 0x80 ? 0 : *p < 0xe0 ? 1 : *p < 0xf0 ? 2 : 3;
	}
	return due == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct scan_result whole, bytes, pieces;

	scan_pieces((const char *)data, size, size ? size : 1, &whole);
	scan_pieces((const char *)data, size, 1, &bytes);
	scan_pieces((const char *)data, size, 251, &pieces);
	FUZZ_HOLDS(same(&whole, &bytes));
	FUZZ_HOLDS(same(&whole, &pieces));
	FUZZ_HOLDS(memchr(whole.line, 0, sizeof whole.line) && memchr(whole.source, 0, sizeof whole.source));
	FUZZ_HOLDS(printable_utf8(whole.line));
	FUZZ_HOLDS(whole.kind <= SCAN_OTHER_ERROR);
	FUZZ_HOLDS(whole.offset <= size);
	FUZZ_HOLDS(whole.kind != SCAN_GPU_OOM || (whole.oom_seen && !whole.oom_near));
	FUZZ_HOLDS(whole.kind != SCAN_NOTHING || (!whole.line[0] && !whole.survived && !whole.oom_seen));
	return 0;
}
