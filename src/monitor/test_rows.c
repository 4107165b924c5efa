/* SPDX-License-Identifier: MIT
 * Readings as lines: every line has as many fields as the header, what is not known is empty, numbers have no digits to spare.
 */
#include "monitor/rows.h"


#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static size_t fields(const char *line)
{
	size_t n = 1;
	for (; *line && *line != '\n'; line++)
		n += *line == ',';
	return n;
}

static const struct gpu_reading full = {
	.uuid = "GPU-1", .index = 3, .valid = ~0u & ~(uint32_t)GPU_UTIL, .gract = 0.99996, .smact = 0.5, .smocc = 1, .dram = 0,
	.tensor = 0.12344, .fp16 = 0.01, .fp32 = 0.2, .fp64 = 0.003, .pcie_rx_mib_s = 1234.56, .pcie_tx_mib_s = 0.04,
	.power_w = 700, .energy_j = 123456789.12, .mem_used_mib = 100000, .mem_total_mib = 143771, .nvlink_rx_mib_s = 1,
	.nvlink_tx_mib_s = 2, .sm_mhz = 1980, .mem_mhz = 3201, .temperature_c = 61,
	.throttle = GPU_THROTTLE_POWER | GPU_THROTTLE_BRAKE | 1,
};

static void a_gpu(void **state)
{
	scoped_buf out = { 0 };
	(void)state;
	rows_add_gpu(&out, 1700000000123, &full);
	assert_string_equal(out.data, "2023-11-14T22:13:20.123Z,3,1,0.5,1,0.1234,0,0.01,0.2,0.003,1234.6,0,700,123456789.1,100000,"
			    "143771,1,2,1980,3201,,power+brake,,,,,,,,,,61\n");
	assert_int_equal(fields(out.data), fields(rows_header));
}

static void nothing_is_known(void **state)
{
	scoped_buf out = { 0 };
	(void)state;
	rows_add_gpu(&out, 1700000000123, &(struct gpu_reading){ .uuid = "MIG-7", .mig = true });
	assert_string_equal(out.data, "2023-11-14T22:13:20.123Z,MIG-7,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,\n");
	assert_int_equal(fields(out.data), fields(rows_header));
}

static void numbers_that_are_none(void **state)
{
	struct gpu_reading r = { .valid = GPU_GRACT | GPU_POWER | GPU_ENERGY | GPU_THROTTLE, .gract = NAN, .power_w = INFINITY,
				 .energy_j = 1e300 };
	scoped_buf out = { 0 };
	(void)state;
	rows_add_gpu(&out, 0, &r);
	assert_string_equal(out.data, ",0,,,,,,,,,,,,1e+300,,,,,,,,none,,,,,,,,,,\n");
}

static void a_process(void **state)
{
	struct rows_process p = { .gpus = "0 1", .pid = 42, .task = TASK_ID(12, 3), .mem_known = true, .mem_mib = 740,
				  .program = "a,\"b\"", .usage = { 1.5, 2048.4, 0.001, NAN, 10, 20.25 } };
	scoped_buf out = { 0 };
	(void)state;
	rows_add_process(&out, 1700000000123, &p);
	assert_string_equal(out.data, "2023-11-14T22:13:20.123Z,0 1,,,,,,,,,,,,,740,,,,,,,,42,12_3,1.5,2048,0,,10,20.25,"
			    "\"a,\"\"b\"\"\",\n");
	p = (struct rows_process){ .gpus = "", .pid = 7, .program = "=x" };
	p.usage = (struct usage_figures){ NAN, NAN, NAN, NAN, NAN, NAN };
	out.len = 0;
	rows_add_process(&out, 1700000000123, &p);
	assert_string_equal(out.data, "2023-11-14T22:13:20.123Z,,,,,,,,,,,,,,,,,,,,,,7,,,,,,,,\"'=x\",\n");
	assert_int_equal(fields(out.data), fields(rows_header));
}

/* The header is text, the columns are a table: they are the same names in the same order. Who reads columns by number relies on
 * those that were there first: what came later is at the end. */
static void the_header_names_the_columns(void **state)
{
	(void)state;
	const char *at = strstr(rows_header, "gpu,") + strlen("gpu,");
	for (size_t i = 0; i < rows_n_columns; i++) {
		if (!strcmp(rows_columns[i].name, "temperature_c"))
			at = strstr(at, "program,") + strlen("program,");
		assert_memory_equal(at, rows_columns[i].name, strlen(rows_columns[i].name));
		at += strlen(rows_columns[i].name) + 1;
	}
	assert_string_equal(at - 1, "\n");
	assert_non_null(strstr(rows_header, "mem_mhz,gpu_util,throttle,pid,task,"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_gpu), cmocka_unit_test(nothing_is_known), cmocka_unit_test(numbers_that_are_none),
		cmocka_unit_test(a_process), cmocka_unit_test(the_header_names_the_columns),
	};
	return cmocka_run_group_tests_name("rows", tests, NULL, NULL);
}
