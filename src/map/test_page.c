/* SPDX-License-Identifier: MIT
 * The example of doc/placement.md, computed by ledger and map; every line of arithmetic on that page must be what comes out.
 */
#include "base/buf.h"
#include "base/io.h"
#include "map/ledger.h"
#include "map/map.h"
#include "models/margins.h"

#include <stdarg.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static char *page;

static void on_page(const char *text)
{
	if (!strstr(page, text))
		fail_msg("doc/placement.md does not say '%s'", text);
}

/* Fills the four ledgers as the page tells, and makes of them what the map sees. */
static void set_up(struct ledger l[4], struct map_gpu g[4])
{
	static const struct { uint64_t claim, observed, foreign; bool for_life, warm; double smact; } is[4] = {
		{ 20774, 20100, 0, true, true, 0.62 }, { 12578, 9000, 0, false, true, 0.85 },
		{ 5120, 1900, 0, false, false, 0.30 }, { 0, 0, 7000, false, false, 0 },
	};
	for (uint32_t i = 0; i < 4; i++) {
		ledger_read(&l[i], &(struct ledger_reading){ .total_mib = 40960, .reserved_mib = 512, .used_known = true,
			.used_mib = 512 + is[i].observed + is[i].foreign, .proc_mem_known = true });
		if (is[i].claim)
			ledger_enter(&l[i], TASK_ID(i + 1, -1), is[i].claim, is[i].for_life);
		ledger_observe(&l[i], TASK_ID(i + 1, -1), is[i].observed, is[i].warm);
		g[i] = (struct map_gpu){
			.slot = i, .index = i, .total_mib = ledger_capacity(&l[i]), .available_mib = ledger_available(&l[i]),
			.foreign_mib = ledger_foreign(&l[i]), .n_tasks = is[i].claim > 0, .mode = SHARE_MPS, .mps_uid = 1000,
			.load = { .smact = is[i].smact, .smact_known = true }, .mps_capable = true, .n_cold = i == 2,
			.usual_mib = MARGIN_USUAL_MIB, .usual_mean_mib = MARGIN_USUAL_MEAN_MIB,
		};
	}
}

static void row_on_page(const struct ledger *l, uint32_t i, const char *smact)
{
	char row[100];
	snprintf(row, sizeof row, "\n| %u | %ju | %ju | %ju | %s\n", i, (uintmax_t)ledger_held(l), (uintmax_t)ledger_foreign(l),
		 (uintmax_t)ledger_available(l), smact);
	on_page(row);
}

/* Asks and checks the lines of those GPUs whose bit is set; returns who got it, or -1. */
static int ask(const struct map_gpu g[4], uint64_t claim, enum map_rank rank, unsigned lines)
{
	struct map_policy p = map_policy_default();
	struct map_request r = { .task = TASK_ID(9, -1), .gpus = 1, .claim_mib = claim, .uid = 1000 };
	struct map_finding f[4];
	struct placement out;
	uint32_t turn = 0;
	p.rank = rank;
	bool placed = map_place(&(struct map_scene){ &p, g, 4, &turn }, &r, &out, f);
	for (unsigned i = 0; i < 4; i++) {
		char line[250], text[256];
		snprintf(text, sizeof text, "    %s\n", map_explain(&p, &g[i], &r, &f[i], line, sizeof line));
		if (lines & (1u << i))
			on_page(text);
	}
	return placed ? (int)out.slots[0] : -1;
}

static void example(void **state)
{
	(void)state;
	struct ledger l[4] = { 0 };
	struct map_gpu g[4];
	set_up(l, g);
	row_on_page(&l[0], 0, "0.62 |");
	row_on_page(&l[1], 1, "0.85 |");
	row_on_page(&l[2], 2, "0.30 |");
	row_on_page(&l[3], 3, "|");
	assert_int_equal(ask(g, 14131, RANK_LUG, 0xf), 2);
	assert_int_equal(ask(g, 14131, RANK_MUG, 0), 0);
	assert_int_equal(ask(g, 14131, RANK_FF, 0), 0);
	assert_int_equal(ask(g, 14131, RANK_RR, 0), 0);
	assert_int_equal(ask(g, 14131, RANK_EXCLUSIVE, 0), -1);
	assert_int_equal(ask(g, 14131, RANK_MAGM, 0), 2);

	ledger_enter(&l[2], TASK_ID(9, -1), 14131, false);
	g[2].available_mib = ledger_available(&l[2]);
	g[2].n_tasks = 2;
	assert_int_equal(g[2].available_mib, 21197);
	on_page("GPU 2 has 21197 MiB left");
	assert_int_equal(ask(g, 30000, RANK_MAGM, 1 | 4), -1);
	assert_int_equal(ask(g, 0, RANK_MAGM, 4), 0);
	for (size_t i = 0; i < 4; i++)
		ledger_clear(&l[i]);
}

static int read_page(void **state)
{
	(void)state;
	const char *root = getenv("RAD_SOURCE_ROOT");
	char path[4096];
	snprintf(path, sizeof path, "%s/doc/placement.md", root ? root : ".");
	struct buf text = { 0 };
	struct error err = ERROR_INIT;
	if (io_read_file(path, 1 << 20, &text, &err)) {
		print_error("%s\n", err.text);
		return -1;
	}
	page = buf_steal(&text);
	return 0;
}

static int free_page(void **state)
{
	(void)state;
	free(page);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(example) };
	return cmocka_run_group_tests(tests, read_page, free_page);
}
