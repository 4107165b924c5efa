/* SPDX-License-Identifier: MIT
 *
 * Claims of other daemons, which any user may have written: any bytes are a page or none, and one that was read can be written
 * and read again, and means the same.
 */
#include "fuzz.h"

#include "base/buf.h"
#include "base/crc.h"
#include "daemon/claims_page.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void use(const struct claims_page *page)
{
	struct buf out = { 0 };
	struct claims_page *again = calloc(1, sizeof *again);
	FUZZ_HOLDS(page->n <= CLAIMS_ROWS && page->owner.pid > 0);
	for (size_t i = 0; i < page->n; i++)
		FUZZ_HOLDS(*page->rows[i].uuid && page->runs[i].n <= CLAIMS_RUNS && page->rows[i].held_mib <= CLAIMS_MIB && page->rows[i].observed_mib <= CLAIMS_MIB);
	claims_page_write(page, &out);
	FUZZ_HOLDS(!claims_page_read(out.data, out.len, again) && again->n == page->n);
	for (size_t i = 0; i < page->n; i++)
		FUZZ_HOLDS(!strcmp(again->rows[i].uuid, page->rows[i].uuid) && again->rows[i].held_mib == page->rows[i].held_mib &&
			   again->rows[i].n_tasks == page->rows[i].n_tasks && again->rows[i].uid == page->rows[i].uid &&
			   again->runs[i].n == page->runs[i].n &&
			   !memcmp(again->runs[i].id, page->runs[i].id, page->runs[i].n * sizeof *page->runs[i].id));
	buf_free(&out);
	free(again);
}

/* As they are; and, since hardly any have the right sum, with it behind them. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct claims_page *page = calloc(1, sizeof *page);
	struct buf whole = { 0 };
	if (!claims_page_read((const char *)data, size, page))
		use(page);
	buf_add(&whole, data, size < CLAIMS_BYTES ? size : CLAIMS_BYTES);
	buf_add_text(&whole, "\n");
	buf_printf(&whole, "end %08x\n", (unsigned)crc_of(whole.data, whole.len));
	if (!claims_page_read(whole.data, whole.len, page))
		use(page);
	buf_free(&whole);
	free(page);
	return 0;
}
