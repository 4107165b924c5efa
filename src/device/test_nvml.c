/* SPDX-License-Identifier: MIT
 * The kind "nvml" against the fake library of tests/fake-nvml.
 */
#include "device/kinds.h"
#include "device/test_fake.h"

#include <math.h>

#define NEAR(a, b) assert_true(fabs((a) - (b)) < 1e-6)

#define H200(uuid, pci) "{\"uuid\": \"" uuid "\", \"name\": \"NVIDIA H200\", \"pci\": " pci ", " \
	"\"cc\": [9, 0], \"cores\": 16896, \"total_mib\": 143771, \"reserved_mib\": 600, \"used_mib\": 1000, " \
	"\"power_mw\": 75500, \"energy_mj\": 123456, \"util\": 12, \"processes\": [[4711, 740]], \"mps\": [], \"mig\": null, " \
	"\"gpm\": {\"1\": 97.5, \"2\": 75.0, \"3\": 30.0, \"10\": 20.0, \"20\": 1.5, \"21\": 2.5}, \"fail\": {}}"

static void script(const char *text)
{
	fake_script("nvml", text);
}

/* Changes what the script says: `from` occurs once. */
static void script_change(const char *from, const char *to)
{
	scoped_buf b = { 0 };
	scoped_free char *path = fake_path("nvml");
	assert_int_equal(io_read_file(path, 1 << 20, &b, NULL), 0);
	const char *at = strstr(buf_text(&b), from);
	assert_non_null(at);
	assert_null(strstr(at + 1, from));
	scoped_free char *text = alloc_printf("%.*s%s%s", (int)(at - b.data), b.data, to, at + strlen(from));
	script(text);
}

static int set_up(void **state)
{
	*state = NULL;
	fake_use_nvml();
	setenv("RAD_DCGM_LIBRARY", "/nonexistent/libdcgm.so", 1);
	unsetenv("CUDA_VISIBLE_DEVICES");
	unsetenv("CUDA_DEVICE_ORDER");
	return 0;
}

static int tear_down(void **state)
{
	device_destroy(*state);
	unsetenv("CUDA_VISIBLE_DEVICES");
	unsetenv("CUDA_DEVICE_ORDER");
	return 0;
}

/* Closes what was open. */
static struct device *open_as(void **state, const char *setting, const char *chosen)
{
	struct error err = ERROR_INIT;
	device_destroy(*state);
	*state = device_create(setting, NULL, &err);
	assert_non_null(*state);
	device_open(*state, chosen, &err);
	assert_string_equal(err.text, "");
	return *state;
}

static struct device *open_all(void **state)
{
	return open_as(state, "nvml", NULL);
}

static struct snapshot sample(struct device *device, int64_t mono_ms)
{
	struct snapshot s = { .mono_ms = mono_ms };
	struct error err = ERROR_INIT;
	device_sample(device, &s, &err);
	assert_string_equal(err.text, "");
	return s;
}

static struct error refused(const char *setting)
{
	struct error err = ERROR_INIT;
	struct device *d = device_create(setting, NULL, &err);
	assert_non_null(d);
	assert_int_equal(device_open(d, NULL, &err), -1);
	device_destroy(d);
	return err;
}

static void assert_open_fails_as(enum error_code code, const char *needle, const char *advice)
{
	struct error err = refused("nvml");
	assert_int_equal(err.code, code);
	assert_non_null(strstr(err.text, needle));
	assert_non_null(strstr(err.text, advice));
}

static void assert_open_fails(const char *needle, const char *advice)
{
	assert_open_fails_as(ERR_UNAVAILABLE, needle, advice);
}

static void test_no_driver(void **state)
{
	(void)state;
	setenv("RAD_NVML_LIBRARY", "/nonexistent/libnvidia-ml.so.1", 1);
	assert_open_fails_as(ERR_NOT_FOUND, "/nonexistent/libnvidia-ml.so.1 was not found: install", "RAD_DEVICES=sim:4xa100-40g");
	setenv("RAD_NVML_LIBRARY", "/proc/self/cmdline", 1);
	assert_open_fails_as(ERR_NOT_FOUND, "it cannot be loaded (/proc/self/cmdline: ", "RAD_DEVICES=sim:4xa100-40g");
	fake_library("RAD_NVML_LIBRARY", "libdcgm.so.4");
	assert_open_fails("has no nvmlInit_v2", "driver 450 or newer");
	fake_library("RAD_NVML_LIBRARY", "libnvidia-ml.so.1");
	script("{\"fail\": {\"nvmlInit_v2\": 9}}");
	assert_open_fails("fake error 9", "modprobe nvidia");
	script("{\"fail\": {\"nvmlInit_v2\": 18}}");
	assert_open_fails("fake error 18", "reboot");
	script("{\"fail\": {\"nvmlDeviceGetCount_v2\": 999}}");
	assert_open_fails("fake error 999", "no GPU could be listed");
	script("{\"devices\": []}");
	assert_open_fails("sees no GPU", "sim:4xa100-40g");
}

static void test_reading(void **state)
{
	script("{\"devices\": [" H200("GPU-a", "[0, 26, 0]") "]}");
	struct snapshot s = sample(open_all(state), 1000);
	assert_int_equal(s.n_gpus, 1);
	const struct gpu_reading *r = &s.gpus[0];
	assert_string_equal(r->uuid, "GPU-a");
	assert_string_equal(r->parent_uuid, "");
	assert_string_equal(r->name, "NVIDIA H200");
	assert_int_equal(r->sm_count, 132);
	assert_true(r->mps_capable && !r->mig && !r->fallen);
	assert_int_equal(r->mem_total_mib, 143771);
	assert_int_equal(r->mem_used_mib, 1600);	/* contains the reserved part */
	assert_int_equal(r->mem_reserved_mib, 600);
	NEAR(r->power_w, 75.5);
	NEAR(r->energy_j, 123.456);
	const uint32_t always = GPU_MEM_TOTAL | GPU_MEM_USED | GPU_MEM_RESERVED | GPU_POWER | GPU_ENERGY | GPU_PROCS | GPU_PROC_MEM;
	/* No load before there are two samples; what is known then is no SMACT and does not pose as it. */
	assert_int_equal(r->valid, always | GPU_UTIL);
	NEAR(r->gpu_util, 0.12);
	snapshot_clear(&s);

	s = sample(*state, 2000);
	r = &s.gpus[0];
	assert_int_equal(r->valid, always | GPU_GRACT | GPU_SMACT | GPU_SMOCC | GPU_DRAM | GPU_PCIE);
	assert_string_equal(r->smact_source, "gpm");
	NEAR(r->gract, 0.975);
	NEAR(r->smact, 0.75);
	NEAR(r->smocc, 0.30);
	NEAR(r->dram, 0.20);
	NEAR(r->pcie_tx_mib_s, 1.5);
	NEAR(r->pcie_rx_mib_s, 2.5);
	snapshot_clear(&s);
}

/* What only somebody who watches is told; and that half a pair of rates, or of clocks, is none. */
static void test_what_a_watcher_reads(void **state)
{
	struct error err = ERROR_INIT;
	script("{\"devices\": [" H200("GPU-a", "[0, 26, 0]") "]}");
	script_change("\"20\": 1.5", "\"5\": 40, \"11\": 1, \"12\": 2, \"13\": 3, \"60\": 7, \"20\": 1.5");
	script_change("\"energy_mj\"", "\"clocks\": [1980, 3201], \"throttle\": 36, \"celsius\": 61, \"energy_mj\"");
	*state = device_create("nvml", NULL, &err);
	device_watch(*state, false);
	assert_int_equal(device_open(*state, NULL, &err), 0);
	struct snapshot s = sample(*state, 1000);
	snapshot_clear(&s);
	s = sample(*state, 2000);
	const struct gpu_reading *r = &s.gpus[0];
	const uint32_t more = GPU_TENSOR | GPU_FP16 | GPU_FP32 | GPU_FP64 | GPU_NVLINK | GPU_CLOCKS | GPU_THROTTLE | GPU_TEMPERATURE;
	assert_int_equal(r->valid & more, more & ~(uint32_t)GPU_NVLINK);
	NEAR(r->tensor, 0.40);
	NEAR(r->fp64, 0.01);
	NEAR(r->fp32, 0.02);
	NEAR(r->fp16, 0.03);
	NEAR(r->sm_mhz, 1980);
	NEAR(r->mem_mhz, 3201);
	NEAR(r->temperature_c, 61);
	assert_int_equal(r->throttle, GPU_THROTTLE_POWER | GPU_THROTTLE_HEAT);
	snapshot_clear(&s);

	script_change("\"60\": 7", "\"60\": 7, \"61\": 8");
	script_change("\"throttle\": 36", "\"throttle\": 0");
	script_change("\"celsius\": 61", "\"celsius\": 4294967295");
	script_change("\"fail\": {}", "\"fail\": {\"nvmlDeviceGetClockInfo\": 3}");
	s = sample(*state, 3000);
	assert_int_equal(s.gpus[0].valid & more, more & ~(uint32_t)(GPU_CLOCKS | GPU_TEMPERATURE));
	NEAR(s.gpus[0].nvlink_rx_mib_s, 7);
	NEAR(s.gpus[0].nvlink_tx_mib_s, 8);
	assert_int_equal(s.gpus[0].throttle, 0);
	snapshot_clear(&s);
}

static double energy_at(void **state, int64_t mono_ms)
{
	struct snapshot s = sample(*state, mono_ms);
	double j = s.gpus[0].energy_j;
	assert_true(s.gpus[0].valid & GPU_ENERGY);
	snapshot_clear(&s);
	return j;
}

/* The counter stands still in the script, so what moves is carried on by power: 75.5 W. */
static void test_energy_between_readings_of_the_counter(void **state)
{
	script("{\"devices\": [" H200("GPU-a", "[0, 26, 0]") "]}");
	open_all(state);
	NEAR(energy_at(state, 1000), 123.456);
	NEAR(energy_at(state, 3000), 123.456 + 151);
	NEAR(energy_at(state, 10000), 123.456 + 679.5);
	NEAR(energy_at(state, 11000), 123.456 + 679.5);	/* the counter says less than was told: told energy does not go back */
	script_change("\"energy_mj\": 123456", "\"energy_mj\": 9000000");
	NEAR(energy_at(state, 21000), 9000);
	script_change("\"energy_mj\": 9000000", "\"energy_mj\": 5000");
	NEAR(energy_at(state, 31000), 5);	/* the driver was loaded anew */
}

/* Power that is told as more than the counter counts: what is told stays with the counter, however long that goes on. */
static void test_energy_stays_with_the_counter(void **state)
{
	scoped_free char *before = alloc_string("\"energy_mj\": 123456");
	double first = 0, last = 0;
	script("{\"devices\": [" H200("GPU-a", "[0, 26, 0]") "]}");
	open_all(state);
	for (int64_t s = 1; s <= 601; s++) {	/* 50 W */
		scoped_free char *now = alloc_printf("\"energy_mj\": %lld", 123456 + (long long)(s - 1) * 50000);
		script_change(before, now);
		free(before);
		before = steal(now);
		double j = energy_at(state, s * 1000);
		assert_true(j >= last);
		first = s == 1 ? j : first;
		last = j;
	}
	assert_true(last - first >= 30000 && last - first < 30000 + 10 * (75.5 - 50) + 1);
}

/* Each answers with all bits set for a moment: no energy and no power of theirs is believed. */
static void test_nonsense_of_power_and_energy(void **state)
{
	script("{\"lie\": {}, \"devices\": [" H200("GPU-a", "[0, 26, 0]") "]}");
	open_all(state);
	NEAR(energy_at(state, 1000), 123.456);
	script_change("\"lie\": {}", "\"lie\": {\"nvmlDeviceGetPowerUsage\": 255, \"nvmlDeviceGetTotalEnergyConsumption\": 255}");
	struct snapshot s = sample(*state, 2000);
	assert_false(s.gpus[0].valid & GPU_POWER);
	NEAR(s.gpus[0].energy_j, 123.456);
	snapshot_clear(&s);
	script_change("{\"nvmlDeviceGetPowerUsage\": 255, \"nvmlDeviceGetTotalEnergyConsumption\": 255}", "{}");
	script_change("\"energy_mj\": 123456", "\"energy_mj\": 900000");
	energy_at(state, 3000);
	NEAR(energy_at(state, 12000), 900);
}

/* Nor any memory: claims are cut to the largest GPU that there ever was, and to have seen 16 EiB would end that. */
static void test_nonsense_of_memory(void **state)
{
	static const char *const answers[] = {
		"\"lie\": {\"nvmlDeviceGetMemoryInfo_v2\": 255}",
		"\"lie\": {\"nvmlDeviceGetMemoryInfo\": 127}, \"fail\": {\"nvmlDeviceGetMemoryInfo_v2\": 3}",
	};
	for (size_t i = 0; i < COUNT_OF(answers); i++) {
		scoped_free char *text = alloc_printf("{%s, \"devices\": [" H200("GPU-a", "[0, 26, 0]") "]}", answers[i]);
		script(text);
		struct snapshot s = sample(open_all(state), 1000);
		assert_int_equal(s.gpus[0].valid & (GPU_MEM_TOTAL | GPU_MEM_USED | GPU_MEM_RESERVED), 0);
		assert_true(s.gpus[0].valid & GPU_PROCS);
		snapshot_clear(&s);
	}
}

static void test_gpm_edges(void **state)
{
	script("{\"devices\": [" H200("GPU-a", "[0, 26, 0]") "]}");
	struct snapshot s = sample(open_all(state), 1000);
	snapshot_clear(&s);
	/* Too close to the sample before: unknown, not zero. */
	s = sample(*state, 1050);
	assert_false(s.gpus[0].valid & GPU_SMACT);
	snapshot_clear(&s);
	script_change("\"2\": 75.0", "\"2\": 100.4");
	script_change("\"10\": 20.0, ", "");
	script_change("\"21\": 2.5", "\"21\": -1");
	s = sample(*state, 1100);
	NEAR(s.gpus[0].smact, 1);
	assert_int_equal(s.gpus[0].valid & (GPU_GRACT | GPU_SMACT | GPU_SMOCC | GPU_DRAM | GPU_PCIE),
			 GPU_GRACT | GPU_SMACT | GPU_SMOCC);
	snapshot_clear(&s);
	/* A sample that fails makes the next one a first one again. */
	script_change("\"fail\": {}", "\"fail\": {\"nvmlGpmSampleGet\": 999}");
	s = sample(*state, 2000);
	assert_false(s.gpus[0].valid & GPU_SMACT);
	snapshot_clear(&s);
	script_change("\"nvmlGpmSampleGet\": 999", "");
	s = sample(*state, 3000);
	assert_false(s.gpus[0].valid & GPU_SMACT);
	snapshot_clear(&s);
	s = sample(*state, 4000);
	assert_true(s.gpus[0].valid & GPU_SMACT);
	snapshot_clear(&s);
}

static void test_pci_order(void **state)
{
	script("{\"devices\": [" H200("GPU-c", "[1, 3, 0]") ", " H200("GPU-b", "[0, 200, 1]") ", " H200("GPU-a", "[0, 200, 0]") "]}");
	struct snapshot s = sample(open_all(state), 1000);
	assert_int_equal(s.n_gpus, 3);
	for (uint32_t i = 0; i < 3; i++) {
		assert_int_equal(s.gpus[i].index, i);
		assert_int_equal(s.gpus[i].uuid[4], 'a' + (int)i);
	}
	/* Each process points at its GPU. */
	assert_int_equal(s.n_procs, 3);
	assert_int_equal(s.procs[2].gpu, 2);
	snapshot_clear(&s);
}

static void test_processes(void **state)
{
	script("{\"devices\": [" H200("GPU-a", "[0, 26, 0]") "]}");
	script_change("[[4711, 740]], \"mps\": []", "[[4711, 740], [4712, 66], [4713, null]], "
		      "\"mps\": [[4711, 740], [4713, 90], [4714, 5]]");
	struct snapshot s = sample(open_all(state), 1000);
	assert_int_equal(s.n_procs, 4);
	assert_int_equal(s.procs[0].id.pid, 4711);
	assert_int_equal(s.procs[0].mem_mib, 740);
	assert_int_equal(s.procs[2].mem_mib, 90);	/* known from the other list */
	assert_int_equal(s.procs[3].id.pid, 4714);
	assert_true(s.gpus[0].valid & GPU_PROC_MEM);
	snapshot_clear(&s);

	script_change("[4714, 5]", "[4714, null]");
	s = sample(*state, 2000);
	assert_int_equal(s.n_procs, 4);
	assert_int_equal(s.procs[3].mem_mib, 0);
	assert_true(s.gpus[0].valid & GPU_PROCS);
	assert_false(s.gpus[0].valid & GPU_PROC_MEM);
	snapshot_clear(&s);

	script_change("[4714, null]", "[4714, 143772]");	/* more than there is */
	s = sample(*state, 2500);
	assert_int_equal(s.procs[0].mem_mib, 740);
	assert_int_equal(s.procs[3].mem_mib, 0);
	assert_false(s.gpus[0].valid & GPU_PROC_MEM);
	snapshot_clear(&s);

	script_change("\"fail\": {}", "\"fail\": {\"nvmlDeviceGetComputeRunningProcesses_v3\": 4}");
	s = sample(*state, 3000);
	assert_false(s.gpus[0].valid & (GPU_PROCS | GPU_PROC_MEM));
	assert_false(s.gpus[0].fallen);
	snapshot_clear(&s);
}

static void test_many_processes(void **state)
{
	scoped_buf list = { 0 };
	buf_add_text(&list, "[[1, 1]");
	for (int i = 2; i <= 3000; i++)
		buf_printf(&list, ", [%d, 1]", i);
	buf_add_text(&list, "]");
	script("{\"devices\": [" H200("GPU-a", "[0, 26, 0]") "]}");
	script_change("[[4711, 740]]", list.data);
	struct snapshot s = sample(open_all(state), 1000);
	assert_int_equal(s.n_procs, 3000);
	assert_int_equal(s.procs[2999].id.pid, 3000);
	snapshot_clear(&s);
}

/* Drivers 535.43 to 535.86: longer entries behind the same symbol. */
static void test_long_entries(void **state)
{
	script("{\"driver_version\": \"535.54.03\", \"long_entries\": true, \"devices\": [" H200("GPU-a", "[0, 26, 0]") "]}");
	script_change("[[4711, 740]]", "[[4711, 740], [4712, 66]]");
	struct snapshot s = sample(open_all(state), 1000);
	assert_int_equal(s.n_procs, 2);
	assert_int_equal(s.procs[1].id.pid, 4712);
	assert_int_equal(s.procs[1].mem_mib, 66);
	snapshot_clear(&s);
}

static void test_old_driver(void **state)
{
	script("{\"devices\": [" H200("GPU-a", "[0, 26, 0]") "]}");
	script_change("\"cc\": [9, 0], \"cores\": 16896", "\"cc\": [8, 0], \"cores\": 6912");
	fake_library("RAD_NVML_LIBRARY", "libnvidia-ml-old.so.1");
	struct snapshot s = sample(open_all(state), 1000);
	snapshot_clear(&s);
	s = sample(*state, 2000);
	const struct gpu_reading *r = &s.gpus[0];
	assert_int_equal(r->valid, GPU_MEM_TOTAL | GPU_MEM_USED | GPU_POWER | GPU_UTIL | GPU_PROCS | GPU_PROC_MEM);
	assert_int_equal(r->mem_used_mib, 1600);
	assert_string_equal(r->smact_source, "");
	assert_int_equal(r->sm_count, 108);
	NEAR(r->gpu_util, 0.12);
	assert_int_equal(s.n_procs, 1);
	snapshot_clear(&s);
}

/* The symbol is there, but the driver behind it does not know it. */
static void test_function_missing(void **state)
{
	script("{\"fail\": {\"nvmlDeviceGetMemoryInfo_v2\": 13, \"nvmlDeviceGetMPSComputeRunningProcesses_v3\": 13, "
	       "\"nvmlDeviceGetTotalEnergyConsumption\": 3}, \"devices\": [" H200("GPU-a", "[0, 26, 0]") "]}");
	struct snapshot s = sample(open_all(state), 1000);
	assert_int_equal(s.gpus[0].valid, GPU_MEM_TOTAL | GPU_MEM_USED | GPU_POWER | GPU_UTIL | GPU_PROCS | GPU_PROC_MEM);
	assert_int_equal(s.gpus[0].mem_used_mib, 1600);
	snapshot_clear(&s);
}

static void test_gpu_falls(void **state)
{
	script("{\"devices\": [" H200("GPU-a", "[0, 1, 0]") ", " H200("GPU-b", "[0, 2, 0]") "]}");
	struct snapshot s = sample(open_all(state), 1000);
	snapshot_clear(&s);
	script("{\"devices\": [" H200("GPU-a", "[0, 1, 0]") ", {\"uuid\": \"GPU-b\", \"fail\": {\"*\": 15}}]}");
	s = sample(*state, 2000);
	assert_int_equal(s.n_gpus, 2);
	assert_false(s.gpus[0].fallen);
	assert_true(s.gpus[0].valid & GPU_SMACT);
	assert_true(s.gpus[1].fallen);
	assert_int_equal(s.gpus[1].valid, 0);
	assert_string_equal(s.gpus[1].uuid, "GPU-b");
	assert_int_equal(s.n_procs, 1);
	snapshot_clear(&s);
	/* A minute later the driver is asked again for all of them: the healthy one loses no reading by that. */
	for (int64_t t = 60000; t <= 63000; t += 1000) {
		s = sample(*state, t);
		assert_true(s.gpus[0].valid & GPU_SMACT);
		assert_true(s.gpus[1].fallen);
		assert_string_equal(s.gpus[1].uuid, "GPU-b");
		assert_int_equal(s.gpus[1].index, 1);
		snapshot_clear(&s);
	}
	script("{\"devices\": [" H200("GPU-a", "[0, 1, 0]") ", " H200("GPU-b", "[0, 2, 0]") "]}");
	s = sample(*state, 124000);
	assert_false(s.gpus[1].fallen);
	assert_true(s.gpus[1].valid & GPU_MEM_TOTAL);
	assert_true(s.gpus[0].valid & GPU_SMACT);
	snapshot_clear(&s);
}

static void test_unreachable_from_the_start(void **state)
{
	script("{\"devices\": [{\"uuid\": \"GPU-x\", \"fail\": {\"*\": 15}}, " H200("GPU-a", "[0, 1, 0]") "]}");
	struct snapshot s = sample(open_all(state), 1000);
	assert_int_equal(s.n_gpus, 2);
	assert_string_equal(s.gpus[0].uuid, "GPU-a");
	assert_int_equal(s.gpus[0].index, 0);
	assert_true(s.gpus[1].fallen);
	snapshot_clear(&s);
	s = sample(*state, 70000);
	assert_int_equal(s.n_gpus, 2);
	assert_string_equal(s.gpus[0].uuid, "GPU-a");
	assert_false(s.gpus[0].fallen);
	assert_string_equal(s.gpus[1].name, "unreachable GPU");
	snapshot_clear(&s);
}

static bool second_fallen(void **state, int64_t mono_ms)
{
	struct snapshot s = sample(*state, mono_ms);
	assert_int_equal(s.n_gpus, 2);
	bool fallen = s.gpus[1].fallen;
	snapshot_clear(&s);
	return fallen;
}

/* One that was reset is away for seconds. It is looked for 1, 2, 4, ... s after the last look, and never more than a minute. */
static void test_soon_looked_for_again(void **state)
{
	static const char lost[] = "{\"devices\": [" H200("GPU-a", "[0, 1, 0]") ", {\"uuid\": \"GPU-x\", \"fail\": {\"*\": 15}}]}",
		there[] = "{\"devices\": [" H200("GPU-a", "[0, 1, 0]") ", " H200("GPU-x", "[0, 2, 0]") "]}";
	int64_t looked_ms = 1000, pause_ms = 1000;
	script(lost);
	open_all(state);
	assert_true(second_fallen(state, looked_ms));
	for (int i = 0; i < 8; i++, looked_ms += pause_ms, pause_ms = pause_ms < 32000 ? 2 * pause_ms : 60000) {
		script(there);		/* it is back just before the next look, and away again at that */
		assert_true(second_fallen(state, looked_ms + pause_ms - 1));
		script(lost);
		assert_true(second_fallen(state, looked_ms + pause_ms));
	}
	script(there);
	assert_true(second_fallen(state, looked_ms + 59999));
	assert_false(second_fallen(state, looked_ms + 60000));
}

/* More of them than before: two of one name would be one GPU to radd. */
static void test_more_become_unreachable(void **state)
{
	script("{\"devices\": [{\"uuid\": \"GPU-x\", \"fail\": {\"*\": 15}}, " H200("GPU-a", "[0, 1, 0]") "]}");
	struct snapshot s = sample(open_all(state), 1000);
	snapshot_clear(&s);
	script("{\"devices\": [{\"uuid\": \"GPU-x\", \"fail\": {\"*\": 15}}, {\"uuid\": \"GPU-y\", \"fail\": {\"*\": 15}}, "
	       H200("GPU-a", "[0, 1, 0]") "]}");
	s = sample(*state, 2000);
	assert_int_equal(s.n_gpus, 3);
	assert_string_equal(s.gpus[1].uuid, "unreachable-0");
	assert_string_equal(s.gpus[2].uuid, "unreachable-1");
	snapshot_clear(&s);
}

/* By what is no name a task's log could not be read again. */
static void test_what_is_no_name(void **state)
{
	static const char *const lies[] = { "nvmlDeviceGetUUID\": 255", "nvmlDeviceGetUUID\": 32", "nvmlDeviceGetUUID\": 0",
					    "nvmlDeviceGetName\": 255" };
	for (size_t i = 0; i < COUNT_OF(lies); i++) {
		scoped_free char *text = alloc_printf("{\"lie\": {\"%s}, \"devices\": [" H200("GPU-a", "[0, 1, 0]") "]}", lies[i]);
		script(text);
		struct snapshot s = sample(open_all(state), 1000);
		assert_int_equal(s.n_gpus, 1);
		assert_string_equal(s.gpus[0].name, "unreachable GPU");
		snapshot_clear(&s);
		device_destroy(*state);
		*state = NULL;
	}
}

static void test_not_permitted_is_not_ours(void **state)
{
	script("{\"devices\": [{\"uuid\": \"GPU-x\", \"fail\": {\"*\": 4}}, " H200("GPU-a", "[0, 1, 0]") "]}");
	struct snapshot s = sample(open_all(state), 1000);
	assert_int_equal(s.n_gpus, 1);
	assert_string_equal(s.gpus[0].uuid, "GPU-a");
	snapshot_clear(&s);
}

static void test_gpus_come_and_go(void **state)
{
	script("{\"devices\": [" H200("GPU-b", "[0, 2, 0]") "]}");
	struct snapshot s = sample(open_all(state), 1000);
	assert_int_equal(s.n_gpus, 1);
	snapshot_clear(&s);
	script("{\"devices\": [" H200("GPU-b", "[0, 2, 0]") ", " H200("GPU-a", "[0, 1, 0]") "]}");
	s = sample(*state, 2000);
	assert_int_equal(s.n_gpus, 2);
	assert_string_equal(s.gpus[0].uuid, "GPU-a");
	assert_int_equal(s.gpus[1].index, 1);
	assert_true(s.gpus[1].valid & GPU_SMACT);
	snapshot_clear(&s);
	script("{\"devices\": [" H200("GPU-a", "[0, 1, 0]") "]}");
	s = sample(*state, 3000);
	assert_int_equal(s.n_gpus, 1);
	assert_string_equal(s.gpus[0].uuid, "GPU-a");
	snapshot_clear(&s);
	script("{\"fail\": {\"nvmlDeviceGetCount_v2\": 1}}");
	struct error err = ERROR_INIT;
	struct snapshot none = { 0 };
	assert_int_equal(device_sample(*state, &none, &err), -1);
	assert_non_null(strstr(err.text, "no GPU could be listed"));
}

#define MIG(uuid, gi, gpm) "{\"uuid\": \"" uuid "\", \"name\": \"NVIDIA H200 MIG 1g.18gb\", \"gi\": " gi ", \"sms\": 16, " \
	"\"total_mib\": 16384, \"reserved_mib\": 20, \"used_mib\": 100, \"processes\": [[5000, 90]], \"power_mw\": 1, " \
	"\"gpm\": {\"1\": " gpm ", \"2\": 40.0}}"

static void test_mig(void **state)
{
	script("{\"devices\": [" H200("GPU-a", "[0, 1, 0]") ", " H200("GPU-b", "[0, 2, 0]") "]}");
	struct snapshot s = sample(open_all(state), 1000);
	snapshot_clear(&s);
	/* An administrator turns MIG on for the first: instances with a hole between them. */
	scoped_buf text = { 0 };
	buf_add_text(&text, "{\"devices\": [" H200("GPU-a", "[0, 1, 0]") ", " H200("GPU-b", "[0, 2, 0]") "]}");
	char *first = strstr(text.data, "\"mig\": null");
	scoped_free char *with = alloc_printf("%.*s\"mig\": [" MIG("MIG-1", "7", "50.0") ", null, " MIG("MIG-2", "9", "25.0") "]%s",
					      (int)(first - text.data), text.data, first + strlen("\"mig\": null"));
	script(with);
	s = sample(*state, 2000);
	assert_int_equal(s.n_gpus, 3);
	snapshot_clear(&s);
	s = sample(*state, 3000);
	const struct gpu_reading *r = &s.gpus[1];
	assert_string_equal(r->uuid, "MIG-2");
	assert_string_equal(r->parent_uuid, "GPU-a");
	assert_string_equal(r->name, "NVIDIA H200 MIG 1g.18gb");
	assert_true(r->mig && !r->mps_capable && !r->fallen);
	assert_true(r->index == 0 && r->instance == 2);
	assert_int_equal(r->sm_count, 16);
	assert_int_equal(r->mem_total_mib, 16384);
	NEAR(r->gract, 0.25);
	NEAR(r->smact, 0.40);
	/* Power and energy belong to the whole GPU. */
	assert_int_equal(r->valid, GPU_MEM_TOTAL | GPU_MEM_USED | GPU_MEM_RESERVED | GPU_PROCS | GPU_PROC_MEM | GPU_GRACT | GPU_SMACT);
	assert_int_equal(s.procs[1].gpu, 1);
	assert_string_equal(s.gpus[2].uuid, "GPU-b");
	assert_int_equal(s.gpus[2].index, 1);
	assert_true(s.gpus[2].valid & GPU_POWER);
	snapshot_clear(&s);
}

/* UUIDs and indices of what is listed, "GPU-a 0,GPU-c 2", and how many others there are. */
static void assert_listed(struct device *d, int64_t mono_ms, const char *expected, uint32_t others)
{
	struct snapshot s = sample(d, mono_ms);
	scoped_buf list = { 0 };
	for (uint32_t i = 0; i < s.n_gpus; i++)
		buf_printf(&list, "%s%s %u%s", i ? "," : "", s.gpus[i].uuid, s.gpus[i].index, s.gpus[i].fallen ? " fallen" : "");
	assert_string_equal(buf_text(&list), expected);
	assert_int_equal(s.n_others, others);
	snapshot_clear(&s);
}

static void test_mig_falls_and_goes(void **state)
{
	const char *with = "{\"devices\": [{\"uuid\": \"GPU-a\", \"name\": \"A\", \"pci\": [0, 1, 0], \"cc\": [8, 0], \"mig\": [null, "
			   MIG("MIG-1", "7", "50.0") "]%s}, " H200("GPU-b", "[0, 2, 0]") "]}";
	scoped_free char *well = alloc_printf(with, ""), *lost = alloc_printf(with, ", \"fail\": {\"*\": 15}");
	script(well);
	struct snapshot s = sample(open_all(state), 1000);
	assert_string_equal(s.gpus[0].uuid, "MIG-1");
	snapshot_clear(&s);
	script(lost);
	/* Before and after the driver is asked anew. */
	for (int64_t t = 2000; t < 130000; t += 61000) {
		s = sample(*state, t);
		assert_int_equal(s.n_gpus, 2);
		assert_string_equal(s.gpus[0].uuid, "MIG-1");
		assert_true(s.gpus[0].fallen);
		assert_false(s.gpus[1].fallen);
		snapshot_clear(&s);
	}
	/* One that fails when it is asked for its instances alone has not lost them. */
	static const char *const asked[] = { "nvmlDeviceGetMaxMigDeviceCount", "nvmlDeviceGetMigDeviceHandleByIndex" };
	for (size_t i = 0; i < COUNT_OF(asked); i++) {
		scoped_free char *fails = alloc_printf(", \"fail\": {\"%s\": 15}", asked[i]), *half = alloc_printf(with, fails);
		const int64_t t = 130000 + (int64_t)i * 70000;
		script(well);
		s = sample(*state, t);
		snapshot_clear(&s);
		assert_listed(*state, t + 61000, "MIG-1 0,GPU-b 1", 0);
		script(half);
		assert_listed(*state, t + 62000, "MIG-1 0 fallen,GPU-b 1", 0);
		script(well);
		assert_listed(*state, t + 63000, "MIG-1 0,GPU-b 1", 0);
	}
	/* MIG mode without instances: nothing can run there. */
	script("{\"devices\": [{\"uuid\": \"GPU-a\", \"name\": \"A\", \"pci\": [0, 1, 0], \"cc\": [8, 0], \"mig\": []}, "
	       H200("GPU-b", "[0, 2, 0]") "]}");
	s = sample(*state, 300000);
	snapshot_clear(&s);
	s = sample(*state, 301000);
	assert_int_equal(s.n_gpus, 1);
	assert_string_equal(s.gpus[0].uuid, "GPU-b");
	assert_int_equal(s.gpus[0].index, 1);
	snapshot_clear(&s);
}

/* What says for a moment nothing of its mode is not taken for a GPU on which tasks run; lost, it is looked for again. */
static void test_mig_mode_not_told(void **state)
{
	const char *const gpu = "{\"devices\": [{\"uuid\": \"GPU-a\", \"name\": \"A\", \"pci\": [0, 1, 0], \"cc\": [8, 0], "
				"\"total_mib\": 40960, \"mig\": [], \"fail\": {%s}}]}";
	scoped_free char *untold = alloc_printf(gpu, "\"nvmlDeviceGetMigMode\": 999"), *told = alloc_printf(gpu, "");
	scoped_free char *lost = alloc_printf(gpu, "\"*\": 15");
	script(untold);
	open_all(state);
	assert_listed(*state, 1000, "GPU-a 0", 0);	/* never told */
	script(told);
	assert_listed(*state, 2000, "", 0);
	script(untold);
	assert_listed(*state, 3000, "", 0);
	script(lost);
	assert_listed(*state, 4000, "GPU-a 0 fallen", 0);
	script(told);
	assert_listed(*state, 70000, "", 0);
}

#define FOUR "{\"devices\": [" H200("GPU-a", "[0, 1, 0]") ", " H200("GPU-b", "[0, 2, 0]") ", " H200("GPU-c", "[0, 3, 0]") ", " \
	H200("GPU-d", "[0, 4, 0]") "]}"

static void test_part_of_the_machine(void **state)
{
	script(FOUR);
	struct snapshot s = sample(open_as(state, "nvml:2,0", NULL), 1000);
	/* In PCI order, with the machine's numbers; processes of the others are nobody's business. */
	assert_string_equal(s.chosen, "GPU-c,GPU-a");
	assert_int_equal(s.n_procs, 2);
	assert_int_equal(s.procs[1].gpu, 1);
	snapshot_clear(&s);
	assert_listed(*state, 2000, "GPU-a 0,GPU-c 2", 2);
	s = sample(open_all(state), 1000);
	assert_null(s.chosen);
	assert_int_equal(s.n_others, 0);
	snapshot_clear(&s);
}

/* A part of the machine is not asked for anything but its names: where every other call for a GPU would fail, none is made. */
static void test_others_are_not_read(void **state)
{
	scoped_free char *text = alloc_printf("{\"devices\": [%s, " H200("GPU-b", "[0, 2, 0]") "]}",
		"{\"uuid\": \"GPU-a\", \"name\": \"A\", \"pci\": [0, 1, 0], \"cc\": [9, 0], "
		"\"fail\": {\"nvmlDeviceGetMemoryInfo_v2\": 15, \"nvmlDeviceGetMemoryInfo\": 15}}");
	script(text);
	assert_listed(open_as(state, "nvml:1", NULL), 1000, "GPU-b 1", 1);
	/* Read, it would be listed as fallen. */
	assert_listed(open_all(state), 1000, "GPU-a 0 fallen,GPU-b 1", 0);
}

static void test_part_by_environment(void **state)
{
	script(FOUR);
	setenv("CUDA_VISIBLE_DEVICES", "3,1,7,0", 1);
	assert_listed(open_all(state), 1000, "GPU-b 1,GPU-d 3", 2);
	assert_listed(open_as(state, "nvml:0", NULL), 1000, "GPU-a 0", 3);	/* the setting's own list counts in its place */
	setenv("CUDA_DEVICE_ORDER", "FASTEST_FIRST", 1);	/* no difference among equal ones */
	assert_listed(open_all(state), 1000, "GPU-b 1,GPU-d 3", 2);
	static const char *const none[] = { "", "-1", "NoDevFiles", "4", "1,1" };
	for (size_t i = 0; i < COUNT_OF(none); i++) {
		setenv("CUDA_VISIBLE_DEVICES", none[i], 1);
		struct error err = refused("nvml");
		assert_int_equal(err.code, ERR_INVALID);
		assert_non_null(strstr(err.text, "there are 0 (GPU-a), 1 (GPU-b), 2 (GPU-c), 3 (GPU-d)"));
	}
}

/* Numbers move up behind a GPU that is gone; the choice does not. Neither does it in a reader that starts only then. */
static void test_choice_is_kept_by_uuid(void **state)
{
	script(FOUR);
	assert_listed(open_as(state, "nvml:1,2", NULL), 1000, "GPU-b 1,GPU-c 2", 2);
	script("{\"devices\": [" H200("GPU-a", "[0, 1, 0]") ", " H200("GPU-c", "[0, 3, 0]") ", " H200("GPU-d", "[0, 4, 0]") "]}");
	assert_listed(*state, 2000, "GPU-c 1", 2);
	assert_listed(open_as(state, "nvml:1,2", "GPU-b,GPU-c"), 1000, "GPU-c 1", 2);
	script(FOUR);
	assert_listed(*state, 2000, "GPU-b 1,GPU-c 2", 2);
	/* What is missing at the first start is a mistake; later it is only not there. */
	script("{\"devices\": [" H200("GPU-a", "[0, 1, 0]") "]}");
	assert_non_null(strstr(refused("nvml:0,GPU-c").text, "GPU-c names no GPU here"));
	assert_listed(open_as(state, "nvml:1,2", "GPU-b,GPU-c"), 1000, "", 1);
}

/* Chosen or not, a GPU that falls is what it was: one of ours is listed as fallen, and no other takes its place. */
static void test_part_with_a_fallen_gpu(void **state)
{
	script(FOUR);
	assert_listed(open_as(state, "nvml:1,2", NULL), 1000, "GPU-b 1,GPU-c 2", 2);
	script("{\"devices\": [{\"uuid\": \"GPU-a\", \"fail\": {\"*\": 15}}, {\"uuid\": \"GPU-b\", \"fail\": {\"*\": 15}}, "
	       H200("GPU-c", "[0, 3, 0]") ", " H200("GPU-d", "[0, 4, 0]") "]}");
	for (int64_t t = 2000; t < 130000; t += 61000)
		assert_listed(*state, t, "GPU-b 1 fallen,GPU-c 2", 2);
	/* With a GPU that nothing is known of, the others' numbers are guesses. */
	assert_non_null(strstr(refused("nvml:1").text, "name GPUs by UUID"));
	assert_listed(open_as(state, "nvml:GPU-d", NULL), 1000, "GPU-d 1", 3);
}

static void test_instances_of_a_part(void **state)
{
	script("{\"devices\": [{\"uuid\": \"GPU-a\", \"name\": \"A\", \"pci\": [0, 1, 0], \"cc\": [9, 0], \"mig\": ["
	       MIG("MIG-1", "7", "50.0") ", " MIG("MIG-2", "9", "25.0") "]}, " H200("GPU-b", "[0, 2, 0]") "]}");
	assert_listed(open_as(state, "nvml:0", NULL), 1000, "MIG-1 0,MIG-2 0", 1);
	assert_listed(open_as(state, "nvml:MIG-2", NULL), 1000, "MIG-2 0", 1);
	assert_listed(open_as(state, "nvml:1,MIG-1", NULL), 1000, "MIG-1 0,GPU-b 1", 0);
	assert_non_null(strstr(refused("nvml:MIG-3").text, "0 (GPU-a), MIG-1, MIG-2, 1 (GPU-b)"));
	setenv("CUDA_VISIBLE_DEVICES", "MIG-2", 1);
	assert_listed(open_all(state), 1000, "MIG-2 0", 1);
	/* An administrator ends MIG mode: the GPU was not asked for whole. */
	script(FOUR);
	assert_listed(*state, 2000, "", 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_no_driver, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_what_a_watcher_reads, set_up, tear_down),
	cmocka_unit_test_setup_teardown(test_reading, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_energy_between_readings_of_the_counter, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_energy_stays_with_the_counter, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_nonsense_of_power_and_energy, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_nonsense_of_memory, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_gpm_edges, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_pci_order, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_processes, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_many_processes, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_long_entries, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_old_driver, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_function_missing, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_gpu_falls, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_soon_looked_for_again, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_unreachable_from_the_start, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_more_become_unreachable, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_what_is_no_name, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_not_permitted_is_not_ours, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_gpus_come_and_go, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_mig, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_mig_falls_and_goes, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_mig_mode_not_told, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_instances_of_a_part, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_part_with_a_fallen_gpu, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_choice_is_kept_by_uuid, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_part_by_environment, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_others_are_not_read, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_part_of_the_machine, set_up, tear_down),
	};
	return cmocka_run_group_tests(tests, fake_group_set_up, fake_group_tear_down);
}
