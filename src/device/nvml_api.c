/* SPDX-License-Identifier: MIT
 *
 * Loading libnvidia-ml.so.1: one table of symbols, newest spelling first. By dlopen, so that one build of radd runs on every
 * driver from 450 on and without any: only what nothing can do without is required, all else is a reading that stays unknown.
 */
#include "device/nvml_api.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIBRARY "libnvidia-ml.so.1"
#define TRY_SIM "; without a GPU, RAD_DEVICES=sim:4xa100-40g (in rad.conf: devices: sim:4xa100-40g) simulates four"

#define SLOT(member) offsetof(struct nvml_api, member)

/* The first symbol found fills its slot. */
static const struct symbol { const char *name; size_t slot; bool required; } symbols[] = {
	{ "nvmlInit_v2", SLOT(init), true },
	{ "nvmlShutdown", SLOT(shutdown), true },
	{ "nvmlErrorString", SLOT(error_string), true },
	{ "nvmlSystemGetDriverVersion", SLOT(driver_version), false },
	{ "nvmlDeviceGetCount_v2", SLOT(count), true },
	{ "nvmlDeviceGetHandleByIndex_v2", SLOT(by_index), true },
	{ "nvmlDeviceGetUUID", SLOT(uuid), true },
	{ "nvmlDeviceGetName", SLOT(name), true },
	{ "nvmlDeviceGetPciInfo_v3", SLOT(pci), true },
	{ "nvmlDeviceGetCudaComputeCapability", SLOT(compute_capability), false },
	{ "nvmlDeviceGetNumGpuCores", SLOT(cores), false },
	{ "nvmlDeviceGetAttributes_v2", SLOT(attributes), false },
	{ "nvmlDeviceGetMemoryInfo", SLOT(memory), true },
	{ "nvmlDeviceGetMemoryInfo_v2", SLOT(memory_v2), false },
	{ "nvmlDeviceGetComputeRunningProcesses_v3", SLOT(processes), false },
	{ "nvmlDeviceGetComputeRunningProcesses_v2", SLOT(processes), false },
	{ "nvmlDeviceGetMPSComputeRunningProcesses_v3", SLOT(mps_processes), false },
	{ "nvmlDeviceGetMPSComputeRunningProcesses_v2", SLOT(mps_processes), false },
	{ "nvmlDeviceGetPowerUsage", SLOT(power), false },
	{ "nvmlDeviceGetTemperature", SLOT(temperature), false },
	{ "nvmlDeviceGetTotalEnergyConsumption", SLOT(energy), false },
	{ "nvmlDeviceGetUtilizationRates", SLOT(utilization), false },
	{ "nvmlDeviceGetClockInfo", SLOT(clock), false },
	{ "nvmlDeviceGetCurrentClocksEventReasons", SLOT(throttle), false },
	{ "nvmlDeviceGetCurrentClocksThrottleReasons", SLOT(throttle), false },	/* as drivers before 535 call it */
	{ "nvmlDeviceGetComputeMode", SLOT(compute_mode), false },
	{ "nvmlDeviceGetMigMode", SLOT(mig_mode), false },
	{ "nvmlDeviceGetMaxMigDeviceCount", SLOT(mig_max), false },
	{ "nvmlDeviceGetMigDeviceHandleByIndex", SLOT(mig_by_index), false },
	{ "nvmlDeviceGetGpuInstanceId", SLOT(gpu_instance), false },
	{ "nvmlGpmQueryDeviceSupport", SLOT(gpm_support), false },
	{ "nvmlGpmSampleAlloc", SLOT(gpm_alloc), false },
	{ "nvmlGpmSampleFree", SLOT(gpm_free), false },
	{ "nvmlGpmSampleGet", SLOT(gpm_get), false },
	{ "nvmlGpmMigSampleGet", SLOT(gpm_mig_get), false },
	{ "nvmlGpmMetricsGet", SLOT(gpm_metrics), false },
};

static void fill_slot(struct nvml_api *api, size_t slot, const char *name)
{
	void *found = dlsym(api->library, name);
	if (found)
		memcpy((char *)api + slot, &found, sizeof found);
}

/* Slots are read and written as bytes: function pointers of other types must not alias them. */
static bool slot_empty(const struct nvml_api *api, size_t slot)
{
	void *now;
	memcpy(&now, (const char *)api + slot, sizeof now);
	return !now;
}

static int resolve(struct nvml_api *api, struct error *err)
{
	for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
		const struct symbol *s = &symbols[i];
		if (slot_empty(api, s->slot))
			fill_slot(api, s->slot, s->name);
		if (s->required && slot_empty(api, s->slot))
			return error_set(err, ERR_UNAVAILABLE, "NVIDIA driver: " LIBRARY " has no %s: "
					 "it is too old, install driver 450 or newer", s->name);
	}
	return 0;
}

/* Drivers 535.43 to 535.86 return longer process entries from the _v3 calls than all before and after them. */
static void avoid_long_entries(struct nvml_api *api)
{
	char version[80] = "";
	int major = 0, minor = 0;
	if (!api->driver_version || api->driver_version(version, sizeof version) || sscanf(version, "%d.%d", &major, &minor) != 2)
		return;
	if (major != 535 || minor >= 98)
		return;
	api->processes = api->mps_processes = NULL;
	fill_slot(api, SLOT(processes), "nvmlDeviceGetComputeRunningProcesses_v2");
	fill_slot(api, SLOT(mps_processes), "nvmlDeviceGetMPSComputeRunningProcesses_v2");
}

static int initialize(struct nvml_api *api, struct error *err)
{
	int rc = api->init();
	if (!rc)
		return 0;
	const char *help = "run nvidia-smi to see more";
	if (rc == NVML_DRIVER_NOT_LOADED)
		help = "load it (modprobe nvidia), or install the driver" TRY_SIM;
	else if (rc == NVML_VERSION_MISMATCH)
		help = "the driver was updated while the old one was running: reload the kernel module, or reboot";
	else if (rc == NVML_NO_PERMISSION)
		help = "this user may not open /dev/nvidiactl: ask for access to it";
	return error_set(err, ERR_UNAVAILABLE, "NVIDIA driver: %s: %s", api->error_string(rc), help);
}

int nvml_api_load(struct nvml_api *api, struct error *err)
{
	const char *other = getenv("RAD_NVML_LIBRARY"), *path = other && *other ? other : LIBRARY;
	memset(api, 0, sizeof *api);
	api->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	const char *why = api->library ? NULL : dlerror();
	if (why && strstr(why, "No such file"))
		return error_set(err, ERR_NOT_FOUND, "NVIDIA driver: %s was not found: install the driver" TRY_SIM, path);
	if (!api->library)
		return error_set(err, ERR_NOT_FOUND, "NVIDIA driver: it cannot be loaded (%s): install it anew" TRY_SIM, why ? why : path);
	if (!resolve(api, err) && !initialize(api, err)) {
		avoid_long_entries(api);
		return 0;
	}
	dlclose(api->library);
	api->library = NULL;
	return -1;
}

void nvml_api_unload(struct nvml_api *api)
{
	if (!api->library)
		return;
	api->shutdown();
	dlclose(api->library);
	api->library = NULL;
}
