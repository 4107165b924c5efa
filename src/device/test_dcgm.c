/* SPDX-License-Identifier: MIT
 * DCGM against the fake library of tests/fake-nvml.
 */
#include "device/kinds.h"
#include "device/dcgm.h"
#include "device/test_fake.h"

#include <math.h>

#define NEAR(a, b) assert_true(fabs((a) - (b)) < 1e-6)
#define LOADS (GPU_GRACT | GPU_SMACT | GPU_SMOCC | GPU_DRAM | GPU_PCIE)

static void script(const char *text)
{
	fake_script("dcgm", text);
}

#define ENGINE(listens, more, gpus) "{\"listens\": \"" listens "\"" more ", \"gpus\": [" gpus "]}"
#define GPU(uuid, fields) "{\"id\": 3, \"uuid\": \"" uuid "\", \"fields\": {" fields "}}"
#define FIELDS "\"1001\": 0.9, \"1002\": 0.5, \"1003\": 0.25, \"1005\": 0.125, \"1009\": 2097152, \"1010\": 1048576"

static struct gpu_reading read_gpu(struct dcgm *d, const char *uuid, int64_t mono_ms)
{
	struct gpu_reading r = { 0 };
	snprintf(r.uuid, sizeof r.uuid, "%s", uuid);
	dcgm_read(d, mono_ms, &r);
	return r;
}

static int set_up(void **state)
{
	scoped_free char *path = fake_path("dcgm");
	fake_library("RAD_DCGM_LIBRARY", "libdcgm.so.4");
	setenv("RAD_FAKE_DCGM", path, 1);
	*state = dcgm_create();
	return 0;
}

static int tear_down(void **state)
{
	dcgm_destroy(*state);
	return 0;
}

static void test_values(void **state)
{
	script(ENGINE("127.0.0.1:5555", "", GPU("GPU-a", FIELDS)));
	struct gpu_reading r = read_gpu(*state, "GPU-a", 1000);
	assert_int_equal(r.valid, LOADS);
	assert_string_equal(r.smact_source, "dcgm");
	NEAR(r.gract, 0.9);
	NEAR(r.smact, 0.5);
	NEAR(r.smocc, 0.25);
	NEAR(r.dram, 0.125);
	NEAR(r.pcie_tx_mib_s, 2);
	NEAR(r.pcie_rx_mib_s, 1);
	assert_int_equal(read_gpu(*state, "GPU-b", 2000).valid, 0);
}

static void test_blank_is_unknown(void **state)
{
	/* What DCGM shows of a GPU it is blind to: only blanks. */
	script(ENGINE("127.0.0.1:5555", "", GPU("GPU-a", "")));
	assert_int_equal(read_gpu(*state, "GPU-a", 1000).valid, 0);
	script(ENGINE("127.0.0.1:5555", "", GPU("GPU-a", "\"1001\": 0.9, \"1002\": 9223372036854775792, \"1009\": 5")));
	struct gpu_reading r = read_gpu(*state, "GPU-a", 2000);
	assert_int_equal(r.valid, GPU_GRACT);
	assert_string_equal(r.smact_source, "");
}

static void test_stale_is_unknown(void **state)
{
	script(ENGINE("127.0.0.1:5555", "", "{\"id\": 3, \"uuid\": \"GPU-a\", \"age_ms\": 20000, \"fields\": {" FIELDS "}}"));
	assert_int_equal(read_gpu(*state, "GPU-a", 1000).valid, 0);
	/* By a clock that was set back since. */
	script(ENGINE("127.0.0.1:5555", "", "{\"id\": 3, \"uuid\": \"GPU-a\", \"age_ms\": -3600000, \"fields\": {" FIELDS "}}"));
	assert_int_equal(read_gpu(*state, "GPU-a", 2000).valid, 0);
}

static void test_socket(void **state)
{
	script(ENGINE("/tmp/nv-hostengine", "", GPU("GPU-a", FIELDS)));
	assert_int_equal(read_gpu(*state, "GPU-a", 1000).valid, LOADS);
}

static void test_comes_back(void **state)
{
	/* No engine yet. */
	script(ENGINE("", "", GPU("GPU-a", FIELDS)));
	assert_int_equal(read_gpu(*state, "GPU-a", 1000).valid, 0);
	script(ENGINE("127.0.0.1:5555", "", GPU("GPU-a", FIELDS)));
	/* Not tried with every sample. */
	assert_int_equal(read_gpu(*state, "GPU-a", 2000).valid, 0);
	assert_int_equal(read_gpu(*state, "GPU-a", 61000).valid, LOADS);
	/* The connection breaks, and comes back. */
	script(ENGINE("127.0.0.1:5555", ", \"fail\": {\"dcgmEntitiesGetLatestValues\": -21}", GPU("GPU-a", FIELDS)));
	assert_int_equal(read_gpu(*state, "GPU-a", 62000).valid, 0);
	script(ENGINE("127.0.0.1:5555", "", GPU("GPU-a", FIELDS)));
	assert_int_equal(read_gpu(*state, "GPU-a", 130000).valid, LOADS);
}

static void test_no_profiling(void **state)
{
	script(ENGINE("127.0.0.1:5555", ", \"fail\": {\"dcgmWatchFields\": -6}", GPU("GPU-a", FIELDS)));
	assert_int_equal(read_gpu(*state, "GPU-a", 1000).valid, 0);
}

static void test_embedded_as_root(void **state)
{
	script(ENGINE("", ", \"embedded\": true", GPU("GPU-a", FIELDS)));
	assert_int_equal(read_gpu(*state, "GPU-a", 1000).valid, geteuid() ? 0 : LOADS);
}

/* Through the kind "nvml": a GPU without GPM takes its load from DCGM, and then no utilization poses as load. */
static void test_beside_nvml(void **state)
{
	(void)state;
	fake_use_nvml();
	fake_script("nvml", "{\"devices\": [{\"uuid\": \"GPU-a\", \"name\": \"NVIDIA A100\", \"pci\": [0, 1, 0], "
		    "\"total_mib\": 40960, \"util\": 100}]}");
	script(ENGINE("127.0.0.1:5555", "", GPU("GPU-a", FIELDS)));
	struct device *device = device_create("nvml", NULL, NULL);
	assert_int_equal(device_open(device, NULL, NULL), 0);
	struct snapshot s = { .mono_ms = 1000 };
	assert_int_equal(device_sample(device, &s, NULL), 0);
	assert_string_equal(s.gpus[0].smact_source, "dcgm");
	assert_int_equal(s.gpus[0].valid & (LOADS | GPU_UTIL), LOADS);
	snapshot_clear(&s);
	device_destroy(device);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_values, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_blank_is_unknown, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_stale_is_unknown, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_socket, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_comes_back, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_no_profiling, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_embedded_as_root, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_beside_nvml, set_up, tear_down),
	};
	return cmocka_run_group_tests(tests, fake_group_set_up, fake_group_tear_down);
}
