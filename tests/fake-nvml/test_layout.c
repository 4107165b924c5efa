/* SPDX-License-Identifier: MIT
 *
 * Compares the declarations of src/monitor/nvml_api.h with NVIDIA's nvml.h. Compiled where that header is installed; all of
 * it happens in the compiler.
 */
#include "device/nvml_api.h"

#include <nvml.h>
#include <stddef.h>

#define SAME_SIZE(ours, theirs) _Static_assert(sizeof(ours) == sizeof(theirs), #theirs)
#define SAME_PLACE(ours, a, theirs, b) _Static_assert(offsetof(ours, a) == offsetof(theirs, b), #theirs "." #b)

_Static_assert((int)NVML_COMPUTE_PROHIBITED == NVML_COMPUTEMODE_PROHIBITED, "nvmlComputeMode_t");
_Static_assert((int)NVML_COMPUTE_ONE_PROCESS == NVML_COMPUTEMODE_EXCLUSIVE_PROCESS, "nvmlComputeMode_t");
SAME_SIZE(nvml_device, nvmlDevice_t);
SAME_SIZE(nvml_sample, nvmlGpmSample_t);
SAME_SIZE(struct nvml_memory, nvmlMemory_t);
SAME_PLACE(struct nvml_memory, free, nvmlMemory_t, free);
SAME_SIZE(struct nvml_memory_v2, nvmlMemory_v2_t);
SAME_PLACE(struct nvml_memory_v2, reserved, nvmlMemory_v2_t, reserved);
SAME_PLACE(struct nvml_memory_v2, free, nvmlMemory_v2_t, free);
_Static_assert(NVML_VERSIONED(struct nvml_memory_v2, 2) == nvmlMemory_v2, "version of nvmlMemory_v2_t");
SAME_SIZE(struct nvml_utilization, nvmlUtilization_t);
SAME_SIZE(struct nvml_process, nvmlProcessInfo_t);
SAME_PLACE(struct nvml_process, used, nvmlProcessInfo_t, usedGpuMemory);
SAME_PLACE(struct nvml_process, gpu_instance, nvmlProcessInfo_t, gpuInstanceId);
SAME_SIZE(struct nvml_pci, nvmlPciInfo_t);
SAME_PLACE(struct nvml_pci, domain, nvmlPciInfo_t, domain);
SAME_PLACE(struct nvml_pci, bus, nvmlPciInfo_t, bus);
SAME_PLACE(struct nvml_pci, device, nvmlPciInfo_t, device);
SAME_SIZE(struct nvml_attributes, nvmlDeviceAttributes_t);
SAME_PLACE(struct nvml_attributes, multiprocessors, nvmlDeviceAttributes_t, multiprocessorCount);
SAME_SIZE(struct nvml_gpm_metric, nvmlGpmMetric_t);
SAME_PLACE(struct nvml_gpm_metric, value, nvmlGpmMetric_t, value);
SAME_PLACE(struct nvml_gpm_get, before, nvmlGpmMetricsGet_t, sample1);
SAME_PLACE(struct nvml_gpm_get, metrics, nvmlGpmMetricsGet_t, metrics);
_Static_assert(sizeof(struct nvml_gpm_get) >= sizeof(nvmlGpmMetricsGet_t), "room for all metrics");
SAME_SIZE(struct nvml_gpm_support, nvmlGpmSupport_t);
_Static_assert(NVML_GPM_VERSION == NVML_GPM_METRICS_GET_VERSION && NVML_GPM_VERSION == NVML_GPM_SUPPORT_VERSION, "GPM");
_Static_assert((int)GPM_GRACT == (int)NVML_GPM_METRIC_GRAPHICS_UTIL && (int)GPM_SMACT == (int)NVML_GPM_METRIC_SM_UTIL &&
	       (int)GPM_SMOCC == (int)NVML_GPM_METRIC_SM_OCCUPANCY && (int)GPM_DRAM == (int)NVML_GPM_METRIC_DRAM_BW_UTIL &&
	       (int)GPM_PCIE_TX == (int)NVML_GPM_METRIC_PCIE_TX_PER_SEC &&
	       (int)GPM_PCIE_RX == (int)NVML_GPM_METRIC_PCIE_RX_PER_SEC, "GPM ids");
_Static_assert((int)NVML_OK == (int)NVML_SUCCESS && (int)NVML_NOT_SUPPORTED == (int)NVML_ERROR_NOT_SUPPORTED &&
	       (int)NVML_NO_PERMISSION == (int)NVML_ERROR_NO_PERMISSION && (int)NVML_NOT_FOUND == (int)NVML_ERROR_NOT_FOUND &&
	       (int)NVML_INSUFFICIENT_SIZE == (int)NVML_ERROR_INSUFFICIENT_SIZE &&
	       (int)NVML_DRIVER_NOT_LOADED == (int)NVML_ERROR_DRIVER_NOT_LOADED &&
	       (int)NVML_GPU_LOST == (int)NVML_ERROR_GPU_IS_LOST && (int)NVML_RESET_REQUIRED == (int)NVML_ERROR_RESET_REQUIRED &&
	       (int)NVML_VERSION_MISMATCH == (int)NVML_ERROR_LIB_RM_VERSION_MISMATCH, "results");

int main(void)
{
	return 0;
}
