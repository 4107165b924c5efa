/* SPDX-License-Identifier: MIT
 * What the kind `nvml` keeps of each GPU between samples. Private to nvml.c (which GPUs there are) and nvml_read.c (what
 * they say).
 */
#ifndef RAD_DEVICE_NVML_DEVICE_H
#define RAD_DEVICE_NVML_DEVICE_H

#include "device/nvml_api.h"
#include "device/reading.h"

struct dcgm;

/* What has a reading of its own: a GPU, or one MIG instance of it. */
struct nvml_unit {
	nvml_device handle;
	struct gpu_reading fixed;	/* what does not change: UUIDs, name, index, SMs */
	uint32_t gpu_instance;		/* of a MIG instance: what GPM calls it by */
	bool gpm;			/* has GPM */
	nvml_sample before, after;	/* NULL until first used */
	int64_t before_ms;		/* when `before` was taken; 0: it holds nothing */
	bool reported_fallen, reported_mode;
	/* Energy: the counter when it was last read and when, that as it is told, what power adds since, and what was told last. */
	double counter_j, counted_j, since_j, energy_j;
	int64_t counter_ms, energy_ms;	/* 0: never */
};

struct nvml_gpu {
	struct nvml_unit whole;
	uint64_t pci;			/* sorts as CUDA_DEVICE_ORDER=PCI_BUS_ID does */
	bool unreachable;		/* the driver counts it but gives no handle */
	bool mig_able, mig_on;
	const char *reported;		/* why it is not listed, as it was last told; NULL: it is */
	struct nvml_unit *mig;		/* owned */
	uint32_t n_mig;
};

struct nvml_state {
	struct nvml_api api;
	struct nvml_gpu *gpus;		/* owned */
	uint32_t n_gpus;
	char *chosen;			/* owned; "UUID,UUID" of the GPUs and instances that were asked for; NULL: all */
	bool clocks;			/* are wanted */
	uint32_t counted;		/* what the driver counted when they were listed */
	int64_t relist_ms;		/* 0, or when to look again for GPUs that have fallen */
	int64_t relist_pause_ms;	/* how long after the last look that is */
	struct dcgm *dcgm;		/* for GPUs without GPM; NULL until one is met */
	struct nvml_gpm_get *query;	/* scratch */
	struct nvml_process *processes;	/* scratch */
	uint32_t processes_cap;
};

/* Whether a call's result says that the GPU is gone, or no use until it is reset. */
bool nvml_is_lost(int rc);
/* Adds the reading of one unit, and its processes, to the snapshot. `gpu` is the GPU the unit is, or belongs to. */
void nvml_read_unit(struct nvml_state *n, const struct nvml_gpu *gpu, struct nvml_unit *unit, struct snapshot *out);
/* Adds a reading that says only that the unit has fallen. */
void nvml_read_fallen(struct nvml_unit *unit, struct snapshot *out);

#endif
