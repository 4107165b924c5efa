/* SPDX-License-Identifier: MIT
 *
 * The part of NVIDIA's management library (NVML, libnvidia-ml.so.1) that is used here, with declarations of our own: the
 * library comes with the driver, its header with neither the driver nor the distribution. Layouts are those of the
 * library's documented ABI on 64-bit Linux; tests/fake-nvml/test_layout.c compares them with nvml.h where there is one.
 * The library may be absent at build and at run time.
 */
#ifndef RAD_DEVICE_NVML_API_H
#define RAD_DEVICE_NVML_API_H

#include "base/error.h"

#include <stdint.h>

typedef struct nvml_device_opaque *nvml_device;
typedef struct nvml_sample_opaque *nvml_sample;

enum nvml_result {
	NVML_OK = 0,
	NVML_NOT_SUPPORTED = 3,
	NVML_NO_PERMISSION = 4,
	NVML_NOT_FOUND = 6,
	NVML_INSUFFICIENT_SIZE = 7,
	NVML_DRIVER_NOT_LOADED = 9,
	NVML_FUNCTION_NOT_FOUND = 13,
	NVML_GPU_LOST = 15,
	NVML_RESET_REQUIRED = 16,
	NVML_VERSION_MISMATCH = 18,	/* of library and kernel module */
	NVML_GPU_NOT_FOUND = 28,
	NVML_UNKNOWN = 999,
};

/* Who may use a GPU at a time; 1 is of old. */
enum nvml_compute_mode { NVML_COMPUTE_DEFAULT = 0, NVML_COMPUTE_PROHIBITED = 2, NVML_COMPUTE_ONE_PROCESS = 3 };

#define NVML_NOT_AVAILABLE UINT64_MAX		/* in place of a memory size */
#define NVML_MIG_ENABLED 1u
#define NVML_VERSIONED(type, version) ((uint32_t)sizeof(type) | (uint32_t)(version) << 24)

struct nvml_memory { uint64_t total, free, used; };			/* bytes; used contains the driver's own */
struct nvml_memory_v2 { uint32_t version; uint64_t total, reserved, free, used; };
struct nvml_utilization { uint32_t gpu, memory; };			/* percent */
struct nvml_process { uint32_t pid; uint64_t used; uint32_t gpu_instance, compute_instance; };
struct nvml_pci {
	char bus_id_legacy[16];
	uint32_t domain, bus, device, pci_device_id, pci_subsystem_id;
	char bus_id[32];
};
struct nvml_attributes {
	uint32_t multiprocessors, copy_engines, decoders, encoders, jpegs, ofas, gpu_slices, compute_slices;
	uint64_t memory_mib;
};

enum nvml_clock { NVML_CLOCK_SM = 1, NVML_CLOCK_MEM = 2 };
enum nvml_sensor { NVML_SENSOR_GPU = 0 };

/* GPU performance monitoring (GPM): a metric is the difference of two samples. */
enum nvml_gpm_id {
	GPM_GRACT = 1, GPM_SMACT = 2, GPM_SMOCC = 3, GPM_DRAM = 10,	/* percent */
	GPM_TENSOR = 5, GPM_FP64 = 11, GPM_FP32 = 12, GPM_FP16 = 13,	/* percent */
	GPM_PCIE_TX = 20, GPM_PCIE_RX = 21,				/* MiB/s, as the GPU sees them */
	GPM_NVLINK_RX = 60, GPM_NVLINK_TX = 61,				/* MiB/s, all links */
};
struct nvml_gpm_metric {
	uint32_t id;
	int result;
	double value;
	const char *short_name, *long_name, *unit;
};
/* The library's own array grows from release to release (98 entries in CUDA 12.1, 477 in 13) under the same version; it touches
 * only `n` entries, and ours is longer in any case. */
struct nvml_gpm_get {
	uint32_t version, n;
	nvml_sample before, after;
	struct nvml_gpm_metric metrics[1024];
};
struct nvml_gpm_support { uint32_t version, supported; };
#define NVML_GPM_VERSION 1

typedef int nvml_processes_fn(nvml_device, uint32_t *n, void *processes);

struct nvml_api {
	void *library;
	int (*init)(void);
	int (*shutdown)(void);
	const char *(*error_string)(int);
	int (*driver_version)(char *, uint32_t);
	int (*count)(uint32_t *);
	int (*by_index)(uint32_t, nvml_device *);
	int (*uuid)(nvml_device, char *, uint32_t);
	int (*name)(nvml_device, char *, uint32_t);
	int (*pci)(nvml_device, struct nvml_pci *);
	int (*compute_capability)(nvml_device, int *, int *);
	int (*cores)(nvml_device, uint32_t *);
	int (*attributes)(nvml_device, struct nvml_attributes *);
	int (*memory)(nvml_device, struct nvml_memory *);
	int (*memory_v2)(nvml_device, struct nvml_memory_v2 *);
	nvml_processes_fn *processes, *mps_processes;
	int (*power)(nvml_device, uint32_t *);		/* mW */
	int (*temperature)(nvml_device, int sensor, uint32_t *);	/* degrees Celsius; enum nvml_sensor */
	int (*energy)(nvml_device, uint64_t *);		/* mJ since the driver was loaded */
	int (*utilization)(nvml_device, struct nvml_utilization *);
	int (*clock)(nvml_device, int which, uint32_t *);	/* MHz; enum nvml_clock */
	int (*throttle)(nvml_device, uint64_t *);	/* bits as enum gpu_throttle */
	int (*compute_mode)(nvml_device, int *);
	int (*mig_mode)(nvml_device, uint32_t *now, uint32_t *pending);
	int (*mig_max)(nvml_device, uint32_t *);
	int (*mig_by_index)(nvml_device, uint32_t, nvml_device *);
	int (*gpu_instance)(nvml_device, uint32_t *);
	int (*gpm_support)(nvml_device, struct nvml_gpm_support *);
	int (*gpm_alloc)(nvml_sample *);
	int (*gpm_free)(nvml_sample);
	int (*gpm_get)(nvml_device, nvml_sample);
	int (*gpm_mig_get)(nvml_device, uint32_t gpu_instance, nvml_sample);
	int (*gpm_metrics)(struct nvml_gpm_get *);
};

/* Loads the library and initializes it. A function that the installed driver lacks stays NULL, unless nothing works
 * without it. RAD_NVML_LIBRARY names another file (for tests). Returns 0; or -1 with an error that says what to do. */
int nvml_api_load(struct nvml_api *api, struct error *err);
void nvml_api_unload(struct nvml_api *api);

#endif
