/* SPDX-License-Identifier: MIT
 *
 * A stand-in for NVIDIA's libnvidia-ml.so.1, for tests without a GPU. The file named by RAD_FAKE_NVML says what it
 * answers (README.md beside this file shows the form); it is read again at every nvmlDeviceGetCount_v2, so a test changes
 * the GPUs between two samples by writing the file. Built a second time with FAKE_NVML_OLD, it lacks what old drivers lack.
 */
#include "device/nvml_api.h"

#include "script.h"

#include <stdio.h>

#define MIB ((uint64_t)1 << 20)
#define INVALID_ARGUMENT 2

struct nvml_device_opaque { char uuid[96], parent[96]; };
struct nvml_sample_opaque { json_t *values; };

static json_t *script;
static struct nvml_device_opaque handles[512];

static nvml_device handle_of(const char *uuid, const char *parent)
{
	struct nvml_device_opaque *h = handles;
	while (*h->uuid && strcmp(h->uuid, uuid))
		h++;
	snprintf(h->uuid, sizeof h->uuid, "%s", uuid);
	snprintf(h->parent, sizeof h->parent, "%s", parent);
	return h;
}

static json_t *find(json_t *list, const char *uuid)
{
	size_t i;
	json_t *item;
	json_array_foreach(list, i, item) {
		const char *u = json_string_value(json_object_get(item, "uuid"));
		if (u && !strcmp(u, uuid))
			return item;
	}
	return NULL;
}

static json_t *device_of(nvml_device h)
{
	json_t *devices = json_object_get(script, "devices");
	if (!*h->parent)
		return find(devices, h->uuid);
	return find(json_object_get(find(devices, h->parent), "mig"), h->uuid);
}

/* Hangs, fails, or lets the call go on with *device set. */
static int enter(const char *function, nvml_device h, json_t **device)
{
	script_hang(script, function);
	int code = script_failure(script, function);
	*device = h ? device_of(h) : NULL;
	if (!code && h)
		code = *device ? script_failure(*device, function) : NVML_GPU_LOST;
	return code;
}

#define ENTER(h) \
	json_t *dev; \
	int code = enter(__func__, (h), &dev); \
	if (code) \
		return code

/* What every byte of its answer is when it lies; -1: it does not. */
static int lie_of(const char *function)
{
	const json_t *byte = json_object_get(json_object_get(script, "lie"), function);
	return json_is_integer(byte) ? (int)json_integer_value(byte) & 255 : -1;
}

/* Answers nonsense, and says that all is well. */
#define LIE(out, size) do { \
	if (lie_of(__func__) >= 0) { \
		memset((out), lie_of(__func__), (size)); \
		return NVML_OK; \
	} \
} while (0)

static uint64_t number(const json_t *dev, const char *key)
{
	return (uint64_t)json_integer_value(json_object_get(dev, key));
}

static int text(const json_t *dev, const char *key, char *out, uint32_t size)
{
	const char *value = json_string_value(json_object_get(dev, key));
	if (!value)
		return NVML_NOT_SUPPORTED;
	return (size_t)snprintf(out, size, "%s", value) < size ? NVML_OK : NVML_INSUFFICIENT_SIZE;
}

EXPORT int nvmlInit_v2(void);
EXPORT int nvmlInit_v2(void)
{
	script_read("RAD_FAKE_NVML", &script);
	ENTER(NULL);
	return NVML_OK;
}

__attribute__((destructor)) static void forget(void)
{
	json_decref(script);
	script = NULL;
}

EXPORT int nvmlShutdown(void);
EXPORT int nvmlShutdown(void)
{
	forget();
	return NVML_OK;
}

EXPORT const char *nvmlErrorString(int code);
EXPORT const char *nvmlErrorString(int code)
{
	static char words[40];
	snprintf(words, sizeof words, "fake error %d", code);
	return words;
}

EXPORT int nvmlSystemGetDriverVersion(char *out, uint32_t size);
EXPORT int nvmlSystemGetDriverVersion(char *out, uint32_t size)
{
	return text(script, "driver_version", out, size);
}

EXPORT int nvmlDeviceGetCount_v2(uint32_t *count);
EXPORT int nvmlDeviceGetCount_v2(uint32_t *count)
{
	script_read("RAD_FAKE_NVML", &script);
	ENTER(NULL);
	LIE(count, sizeof *count);
	*count = (uint32_t)json_array_size(json_object_get(script, "devices"));
	return NVML_OK;
}

EXPORT int nvmlDeviceGetHandleByIndex_v2(uint32_t i, nvml_device *h);
EXPORT int nvmlDeviceGetHandleByIndex_v2(uint32_t i, nvml_device *h)
{
	const char *uuid = json_string_value(json_object_get(json_array_get(json_object_get(script, "devices"), i), "uuid"));
	if (!uuid)
		return INVALID_ARGUMENT;
	nvml_device found = handle_of(uuid, "");
	ENTER(found);
	*h = found;
	return NVML_OK;
}

EXPORT int nvmlDeviceGetUUID(nvml_device h, char *out, uint32_t size);
EXPORT int nvmlDeviceGetUUID(nvml_device h, char *out, uint32_t size)
{
	ENTER(h);
	out[size - 1] = 0;
	LIE(out, size - 1);
	return text(dev, "uuid", out, size);
}

EXPORT int nvmlDeviceGetName(nvml_device h, char *out, uint32_t size);
EXPORT int nvmlDeviceGetName(nvml_device h, char *out, uint32_t size)
{
	ENTER(h);
	out[size - 1] = 0;
	LIE(out, size - 1);
	return text(dev, "name", out, size);
}

EXPORT int nvmlDeviceGetPciInfo_v3(nvml_device h, struct nvml_pci *pci);
EXPORT int nvmlDeviceGetPciInfo_v3(nvml_device h, struct nvml_pci *pci)
{
	ENTER(h);
	LIE(pci, sizeof *pci);
	const json_t *at = json_object_get(dev, "pci");
	memset(pci, 0, sizeof *pci);
	pci->domain = (uint32_t)json_integer_value(json_array_get(at, 0));
	pci->bus = (uint32_t)json_integer_value(json_array_get(at, 1));
	pci->device = (uint32_t)json_integer_value(json_array_get(at, 2));
	return NVML_OK;
}

EXPORT int nvmlDeviceGetCudaComputeCapability(nvml_device h, int *major, int *minor);
EXPORT int nvmlDeviceGetCudaComputeCapability(nvml_device h, int *major, int *minor)
{
	ENTER(h);
	LIE(minor, sizeof *minor);
	*major = (int)json_integer_value(json_array_get(json_object_get(dev, "cc"), 0));
	*minor = (int)json_integer_value(json_array_get(json_object_get(dev, "cc"), 1));
	return NVML_OK;
}

EXPORT int nvmlDeviceGetNumGpuCores(nvml_device h, uint32_t *cores);
EXPORT int nvmlDeviceGetNumGpuCores(nvml_device h, uint32_t *cores)
{
	ENTER(h);
	LIE(cores, sizeof *cores);
	*cores = (uint32_t)number(dev, "cores");
	return NVML_OK;
}

EXPORT int nvmlDeviceGetMemoryInfo(nvml_device h, struct nvml_memory *m);
EXPORT int nvmlDeviceGetMemoryInfo(nvml_device h, struct nvml_memory *m)
{
	ENTER(h);
	LIE(m, sizeof *m);
	m->total = number(dev, "total_mib") * MIB;
	m->used = (number(dev, "reserved_mib") + number(dev, "used_mib")) * MIB;
	m->free = m->total - m->used;
	return NVML_OK;
}

static int running(json_t *dev, const char *key, uint32_t *count, void *out, size_t entry)
{
	json_t *list = json_object_get(dev, key), *item;
	uint32_t room = *count;
	size_t i;
	*count = (uint32_t)json_array_size(list);
	if (*count > room)
		return NVML_INSUFFICIENT_SIZE;
	json_array_foreach(list, i, item) {
		const json_t *mib = json_array_get(item, 1);
		struct nvml_process p = { .pid = (uint32_t)json_integer_value(json_array_get(item, 0)) };
		p.used = json_is_null(mib) ? NVML_NOT_AVAILABLE : (uint64_t)json_integer_value(mib) * MIB;
		memset((char *)out + i * entry, 0, entry);
		memcpy((char *)out + i * entry, &p, sizeof p);
	}
	return NVML_OK;
}

EXPORT int nvmlDeviceGetComputeRunningProcesses_v2(nvml_device h, uint32_t *count, void *out);
EXPORT int nvmlDeviceGetComputeRunningProcesses_v2(nvml_device h, uint32_t *count, void *out)
{
	ENTER(h);
	if (lie_of(__func__) >= 0)
		memset(out, lie_of(__func__), *count * 24);
	LIE(count, sizeof *count);
	return running(dev, "processes", count, out, sizeof(struct nvml_process));
}

EXPORT int nvmlDeviceGetPowerUsage(nvml_device h, uint32_t *mw);
EXPORT int nvmlDeviceGetPowerUsage(nvml_device h, uint32_t *mw)
{
	ENTER(h);
	LIE(mw, sizeof *mw);
	*mw = (uint32_t)number(dev, "power_mw");
	return NVML_OK;
}

EXPORT int nvmlDeviceGetTemperature(nvml_device h, int sensor, uint32_t *celsius);
EXPORT int nvmlDeviceGetTemperature(nvml_device h, int sensor, uint32_t *celsius)
{
	ENTER(h);
	LIE(celsius, sizeof *celsius);
	if (!json_object_get(dev, "celsius"))
		return NVML_NOT_SUPPORTED;
	if (sensor != NVML_SENSOR_GPU)
		return INVALID_ARGUMENT;
	*celsius = (uint32_t)number(dev, "celsius");
	return NVML_OK;
}

EXPORT int nvmlDeviceGetClockInfo(nvml_device h, int which, uint32_t *mhz);
EXPORT int nvmlDeviceGetClockInfo(nvml_device h, int which, uint32_t *mhz)
{
	ENTER(h);
	LIE(mhz, sizeof *mhz);
	const json_t *clocks = json_object_get(dev, "clocks");	/* [SM, memory] */
	if (!clocks)
		return NVML_NOT_SUPPORTED;
	if (which != NVML_CLOCK_SM && which != NVML_CLOCK_MEM)
		return INVALID_ARGUMENT;
	*mhz = (uint32_t)json_integer_value(json_array_get(clocks, which == NVML_CLOCK_MEM));
	return NVML_OK;
}

EXPORT int nvmlDeviceGetCurrentClocksThrottleReasons(nvml_device h, uint64_t *reasons);
EXPORT int nvmlDeviceGetCurrentClocksThrottleReasons(nvml_device h, uint64_t *reasons)
{
	ENTER(h);
	LIE(reasons, sizeof *reasons);
	if (!json_object_get(dev, "throttle"))
		return NVML_NOT_SUPPORTED;
	*reasons = number(dev, "throttle");
	return NVML_OK;
}

EXPORT int nvmlDeviceGetComputeMode(nvml_device h, int *mode);
EXPORT int nvmlDeviceGetComputeMode(nvml_device h, int *mode)
{
	ENTER(h);
	LIE(mode, sizeof *mode);
	*mode = (int)number(dev, "compute_mode");
	return NVML_OK;
}

EXPORT int nvmlDeviceGetUtilizationRates(nvml_device h, struct nvml_utilization *u);
EXPORT int nvmlDeviceGetUtilizationRates(nvml_device h, struct nvml_utilization *u)
{
	ENTER(h);
	LIE(u, sizeof *u);
	u->gpu = (uint32_t)number(dev, "util");
	u->memory = 0;
	return NVML_OK;
}

#ifndef FAKE_NVML_OLD

EXPORT int nvmlDeviceGetMemoryInfo_v2(nvml_device h, struct nvml_memory_v2 *m);
EXPORT int nvmlDeviceGetMemoryInfo_v2(nvml_device h, struct nvml_memory_v2 *m)
{
	ENTER(h);
	LIE(m, sizeof *m);
	if (m->version != (40 | 2u << 24))
		return 25;
	m->total = number(dev, "total_mib") * MIB;
	m->reserved = number(dev, "reserved_mib") * MIB;
	m->used = number(dev, "used_mib") * MIB;
	m->free = m->total - m->reserved - m->used;
	return NVML_OK;
}

EXPORT int nvmlDeviceGetComputeRunningProcesses_v3(nvml_device h, uint32_t *count, void *out);
EXPORT int nvmlDeviceGetComputeRunningProcesses_v3(nvml_device h, uint32_t *count, void *out)
{
	ENTER(h);
	if (lie_of(__func__) >= 0)
		memset(out, lie_of(__func__), *count * 24);
	LIE(count, sizeof *count);
	return running(dev, "processes", count, out, json_is_true(json_object_get(script, "long_entries")) ? 32 : 24);
}

EXPORT int nvmlDeviceGetMPSComputeRunningProcesses_v3(nvml_device h, uint32_t *count, void *out);
EXPORT int nvmlDeviceGetMPSComputeRunningProcesses_v3(nvml_device h, uint32_t *count, void *out)
{
	ENTER(h);
	if (lie_of(__func__) >= 0)
		memset(out, lie_of(__func__), *count * 24);
	LIE(count, sizeof *count);
	return running(dev, "mps", count, out, sizeof(struct nvml_process));
}

EXPORT int nvmlDeviceGetAttributes_v2(nvml_device h, struct nvml_attributes *a);
EXPORT int nvmlDeviceGetAttributes_v2(nvml_device h, struct nvml_attributes *a)
{
	ENTER(h);
	LIE(a, sizeof *a);
	memset(a, 0, sizeof *a);
	a->multiprocessors = (uint32_t)number(dev, "sms");
	return *h->parent ? NVML_OK : NVML_NOT_SUPPORTED;
}

EXPORT int nvmlDeviceGetTotalEnergyConsumption(nvml_device h, uint64_t *mj);
EXPORT int nvmlDeviceGetTotalEnergyConsumption(nvml_device h, uint64_t *mj)
{
	ENTER(h);
	LIE(mj, sizeof *mj);
	*mj = number(dev, "energy_mj");
	return NVML_OK;
}

EXPORT int nvmlDeviceGetMigMode(nvml_device h, uint32_t *now, uint32_t *pending);
EXPORT int nvmlDeviceGetMigMode(nvml_device h, uint32_t *now, uint32_t *pending)
{
	ENTER(h);
	LIE(pending, sizeof *pending);
	json_t *mig = json_object_get(dev, "mig");
	if (!mig)
		return NVML_NOT_SUPPORTED;
	*now = *pending = json_is_array(mig) ? NVML_MIG_ENABLED : 0;
	return NVML_OK;
}

EXPORT int nvmlDeviceGetMaxMigDeviceCount(nvml_device h, uint32_t *count);
EXPORT int nvmlDeviceGetMaxMigDeviceCount(nvml_device h, uint32_t *count)
{
	ENTER(h);
	LIE(count, sizeof *count);
	*count = 7;
	return NVML_OK;
}

EXPORT int nvmlDeviceGetMigDeviceHandleByIndex(nvml_device h, uint32_t i, nvml_device *instance);
EXPORT int nvmlDeviceGetMigDeviceHandleByIndex(nvml_device h, uint32_t i, nvml_device *instance)
{
	ENTER(h);
	const char *uuid = json_string_value(json_object_get(json_array_get(json_object_get(dev, "mig"), i), "uuid"));
	if (!uuid)
		return NVML_NOT_FOUND;
	*instance = handle_of(uuid, h->uuid);
	return NVML_OK;
}

EXPORT int nvmlDeviceGetGpuInstanceId(nvml_device h, uint32_t *id);
EXPORT int nvmlDeviceGetGpuInstanceId(nvml_device h, uint32_t *id)
{
	ENTER(h);
	LIE(id, sizeof *id);
	*id = (uint32_t)number(dev, "gi");
	return *h->parent ? NVML_OK : INVALID_ARGUMENT;
}

EXPORT int nvmlGpmQueryDeviceSupport(nvml_device h, struct nvml_gpm_support *s);
EXPORT int nvmlGpmQueryDeviceSupport(nvml_device h, struct nvml_gpm_support *s)
{
	ENTER(h);
	LIE(s, sizeof *s);
	if (s->version != 1)
		return 25;
	s->supported = json_is_object(json_object_get(dev, "gpm"));
	return NVML_OK;
}

EXPORT int nvmlGpmSampleAlloc(nvml_sample *s);
EXPORT int nvmlGpmSampleAlloc(nvml_sample *s)
{
	*s = calloc(1, sizeof **s);
	return NVML_OK;
}

EXPORT int nvmlGpmSampleFree(nvml_sample s);
EXPORT int nvmlGpmSampleFree(nvml_sample s)
{
	json_decref(s->values);
	free(s);
	return NVML_OK;
}

static int take(nvml_sample s, const json_t *dev)
{
	json_t *gpm = json_object_get(dev, "gpm");
	if (!gpm)
		return NVML_NOT_SUPPORTED;
	json_decref(s->values);
	s->values = json_incref(gpm);
	return NVML_OK;
}

EXPORT int nvmlGpmSampleGet(nvml_device h, nvml_sample s);
EXPORT int nvmlGpmSampleGet(nvml_device h, nvml_sample s)
{
	ENTER(h);
	return take(s, dev);
}

EXPORT int nvmlGpmMigSampleGet(nvml_device h, uint32_t gi, nvml_sample s);
EXPORT int nvmlGpmMigSampleGet(nvml_device h, uint32_t gi, nvml_sample s)
{
	ENTER(h);
	size_t i;
	json_t *instance;
	json_array_foreach(json_object_get(dev, "mig"), i, instance)
		if (!json_is_null(instance) && number(instance, "gi") == gi)
			return take(s, instance);
	return NVML_NOT_FOUND;
}

EXPORT int nvmlGpmMetricsGet(struct nvml_gpm_get *q);
EXPORT int nvmlGpmMetricsGet(struct nvml_gpm_get *q)
{
	ENTER(NULL);
	LIE(q->metrics, sizeof q->metrics);
	if (q->version != 1 || q->before == q->after || !q->before->values || !q->after->values)
		return INVALID_ARGUMENT;
	for (uint32_t i = 0; i < q->n; i++) {
		char id[12];
		snprintf(id, sizeof id, "%u", q->metrics[i].id);
		const json_t *value = json_object_get(q->after->values, id);
		q->metrics[i].result = value ? NVML_OK : NVML_NOT_SUPPORTED;
		q->metrics[i].value = json_number_value(value);
	}
	return NVML_OK;
}

#endif
