/* SPDX-License-Identifier: MIT
 * Constraints on the model of GPU: names as drivers tell them, sizes as vendors do, and what cannot be read.
 */
#include "task/constraint.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void names_and_sizes(void **state)
{
	(void)state;
	static const struct { const char *text, *name; uint64_t mib; bool met; } rows[] = {
		{ "a100", "NVIDIA A100-SXM4-40GB", 40960, true }, { "A100-SXM4", "NVIDIA A100-SXM4-40GB", 40960, true },
		{ "a10", "NVIDIA A100-SXM4-40GB", 40960, false }, { "100", "NVIDIA A100-SXM4-40GB", 40960, false },
		{ "h100", "NVIDIA GH100", 81559, false }, { "rtx3090", "NVIDIA GeForce RTX 3090", 24576, true },
		{ "rtx_3090", "NVIDIA GeForce RTX 3090", 24576, true }, { "3090", "NVIDIA GeForce RTX 3090", 24576, true },
		{ "rtx309", "NVIDIA GeForce RTX 3090", 24576, false }, { "nvidia", "NVIDIA H200", 143771, true },
		{ "a100|h100", "NVIDIA H100 80GB HBM3", 81559, true }, { "a100|h100", "NVIDIA H200", 143771, false },
		{ "mem>=80G", "NVIDIA H100 80GB HBM3", 81559, true }, { "mem>=80G", "NVIDIA A100-SXM4-40GB", 40960, false },
		{ "mem>40G", "NVIDIA A100-SXM4-40GB", 40960, false }, { "mem>40G", "NVIDIA H100 80GB HBM3", 81559, true },
		{ "mem<80G", "NVIDIA H100 80GB HBM3", 81559, false }, { "mem<80G", "NVIDIA A100-SXM4-40GB", 40960, true },
		{ "mem<=40G", "NVIDIA A100-SXM4-40GB", 40960, true }, { "mem=80G", "NVIDIA H100 80GB HBM3", 81559, true },
		{ "mem=40G", "NVIDIA H100 80GB HBM3", 81559, false }, { "MEM>=40960", "x", 40960, true },
		{ "a100&mem>=70G", "NVIDIA A100-SXM4-40GB", 40960, false }, { "a100,mem>=70G", "NVIDIA A100-SXM4-80GB", 81920, true },
		{ "a100&mem>=70G|h200", "NVIDIA H200", 143771, true }, { "h200|a100&mem>=70G", "NVIDIA A100-SXM4-40GB", 40960, false },
		{ "!mig", "NVIDIA A100-SXM4-40GB MIG 3g.20gb", 19968, false }, { "!mig", "NVIDIA A100-SXM4-40GB", 40960, true },
		{ "a100&!mig", "NVIDIA H200", 143771, false }, { "!mem<40G", "NVIDIA H200", 143771, true },
		{ "!a100|a100", "NVIDIA A100", 1, true },
		{ "!mig", NULL, 1, true }, { NULL, "anything", 1, true }, { "a100", NULL, 1, false },
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		if (constraint_met(rows[i].text, rows[i].name, rows[i].mib) != rows[i].met)
			fail_msg("'%s' and %s", rows[i].text, rows[i].name);
}

static void what_cannot_be_read_is_said(void **state)
{
	(void)state;
	static const char *const bad[] = {
		"", "|", "a100|", "&a100", "a100&&h100", "mem>=", "mem>=lots", "mem=>40G", "mem==40G", "mem><40G", "mem>=0", "a100;rm",
		"[a100]", "a100*2", "---", "mem<=-1", "!", "!!mig", "a!100", "! ",
		"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
	};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		struct error err = ERROR_INIT;
		if (!constraint_check(bad[i], &err) || !*err.text)
			fail_msg("'%s' is taken", bad[i]);
		assert_false(constraint_met(bad[i], "NVIDIA A100", 40960));
	}
	char many[CONSTRAINT_MAX + 2];
	struct error err = ERROR_INIT;
	assert_int_equal(constraint_check("a100&mem>=80", &err), -1);
	assert_non_null(strstr(err.text, "'mem>=80': no GPU has so little; a number alone is MiB: write mem>=80G"));
	assert_true(constraint_met("mem>=80", "NVIDIA A100", 40960));	/* as accepted by an earlier release */
	memset(many, 'a', sizeof many - 1);
	for (size_t i = 1; i < sizeof many - 1; i += 2)
		many[i] = '|';
	many[sizeof many - 1] = 0;
	assert_int_equal(constraint_check(many, NULL), -1);
	many[CONSTRAINT_MAX - 1] = 0;
	assert_int_equal(constraint_check(many, NULL), 0);
	memset(many, 'a', 70);
	many[70] = 0;
	assert_int_equal(constraint_check(many, &err), -1);
	assert_non_null(strstr(err.text, "is longer than 63 bytes"));
	many[63] = 0;
	assert_int_equal(constraint_check(many, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_and_sizes),
		cmocka_unit_test(what_cannot_be_read_is_said),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
