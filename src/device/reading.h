/* SPDX-License-Identifier: MIT
 *
 * What the GPUs said, once. Plain data: made by a kind of device (device.h) in the sampler process, read by everything else.
 * Unknown is not zero: a field counts only when its bit is set in `valid`.
 */
#ifndef RAD_DEVICE_READING_H
#define RAD_DEVICE_READING_H

#include "task/task.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum gpu_field {
	GPU_MEM_TOTAL = 1 << 0, GPU_MEM_USED = 1 << 1, GPU_MEM_RESERVED = 1 << 2,
	GPU_GRACT = 1 << 3, GPU_SMACT = 1 << 4, GPU_SMOCC = 1 << 5, GPU_DRAM = 1 << 6,
	GPU_PCIE = 1 << 7, GPU_POWER = 1 << 8, GPU_ENERGY = 1 << 9, GPU_UTIL = 1 << 10,
	GPU_PROCS = 1 << 11,		/* the process list of this GPU is complete */
	GPU_PROC_MEM = 1 << 12,		/* ... and each process's memory is known */
	GPU_TENSOR = 1 << 13, GPU_FP16 = 1 << 14, GPU_FP32 = 1 << 15, GPU_FP64 = 1 << 16, GPU_NVLINK = 1 << 17,
	GPU_CLOCKS = 1 << 18, GPU_THROTTLE = 1 << 19,	/* only of a reader that was asked for them: device_watch */
	GPU_TEMPERATURE = 1 << 20,
};

/* What holds a GPU's clocks below those it could run at: NVML's bits. The others that it may set (idle, clocks that somebody
 * chose, waiting for other GPUs) say nothing of power or heat. */
enum gpu_throttle {
	GPU_THROTTLE_POWER = 1 << 2, GPU_THROTTLE_HARDWARE = 1 << 3, GPU_THROTTLE_HEAT = 1 << 5, GPU_THROTTLE_HARDWARE_HEAT = 1 << 6,
	GPU_THROTTLE_BRAKE = 1 << 7,
};

/* One GPU, or one MIG instance (then `parent_uuid` is its GPU). A GPU in MIG mode is not listed itself: what runs, runs on
 * its instances. */
struct gpu_reading {
	char uuid[GPU_UUID_LEN];
	char parent_uuid[GPU_UUID_LEN];	/* "" for a whole GPU */
	char name[64];			/* "NVIDIA H200" */
	uint32_t index;			/* PCI order, as CUDA_DEVICE_ORDER=PCI_BUS_ID counts; of the parent for MIG */
	uint32_t sm_count;		/* 0: not known */
	bool mig;
	uint32_t instance;		/* of MIG: its number on its GPU, as nvidia-smi -L lists it ("Device 0"); holes are possible */
	bool mps_capable;		/* whether an MPS server could run on it */
	bool one_process;		/* a second process cannot compute on it (exclusive-process mode): an MPS server is one */
	bool fallen;			/* the driver lists it, and every call for it fails; its UUID may be "unreachable-N" */
	uint32_t valid;			/* enum gpu_field bits */
	uint64_t mem_total_mib, mem_used_mib, mem_reserved_mib;	/* used contains reserved as NVML v1 counts it */
	double gract, smact, smocc, dram;			/* 0..1 over the time since the sample before */
	double gpu_util;					/* 0..1; "some kernel ran", never SMACT */
	char smact_source[8];					/* where SMACT is from, in the kind's own word; "": nowhere */
	double tensor, fp16, fp32, fp64;			/* 0..1 of the time: those pipes; FP outside of tensor cores */
	double pcie_rx_mib_s, pcie_tx_mib_s, nvlink_rx_mib_s, nvlink_tx_mib_s;
	double sm_mhz, mem_mhz;					/* clocks, now */
	uint32_t throttle;					/* enum gpu_throttle, now; other bits too */
	double power_w, energy_j;				/* energy: a counter that only grows */
	double temperature_c;					/* of the chip, as nvidia-smi shows it */
};

#define PROC_PROGRAM_LEN 64
#define PROC_COMMAND_LEN 256
#define PROC_TOKEN_LEN 33

struct proc_reading {
	uint32_t gpu;		/* position in the snapshot's `gpus` */
	struct proc_id id;	/* start_ticks 0: never seen alive here (another pid namespace) */
	uid_t uid;		/* -1: not known */
	uint64_t mem_mib;	/* counts when that GPU has GPU_PROC_MEM */
	task_id claimed;	/* RAD_TASK_ID of its environment; 0: none. A claim, to be checked against the uid */
	char token[PROC_TOKEN_LEN];	/* RAD_TASK_TOKEN beside it, to be checked too; "": none */
	bool mps_server;	/* an MPS server: part of the GPU's overhead, nobody's task */
	int64_t started_ms;	/* wall; 0: not known */
	/* What it runs: for everybody, and with all its arguments; printable ASCII (monitor/program.h). "": not known. */
	char program[PROC_PROGRAM_LEN], command[PROC_COMMAND_LEN];
};

struct snapshot {
	int64_t mono_ms, wall_ms;	/* when reading began */
	uint32_t n_gpus, n_procs;
	uint32_t n_others;		/* GPUs of the machine that were not asked for: not read, not listed */
	struct gpu_reading *gpus;	/* owned */
	struct proc_reading *procs;	/* owned */
	/* Where only some were asked for, "UUID,UUID": those that the reader keeps to, whatever index they have by then; owned.
	 * NULL: all that there are. */
	char *chosen;
};

/* The word for people and scripts: "none" where SMACT comes from nowhere. */
const char *smact_source_name(const char *smact_source);

/* What people call it: "1", or "1:0" for a MIG instance, as NVIDIA's container tools do. */
#define GPU_NUMBER_LEN 24
const char *reading_number(uint32_t index, bool mig, uint32_t instance, char text[GPU_NUMBER_LEN]);

/* Energy that one GPU used over its readings. Zeroed memory has seen none. */
struct reading_energy {
	double used_j;
	bool known;		/* it was read at least once; */
	double counter_j;	/* and showed this last */
};
/* A counter that started over (the driver was loaded anew) takes nothing away. */
void reading_energy_add(struct reading_energy *e, const struct gpu_reading *r);

void snapshot_clear(struct snapshot *s);
/* Adds a zeroed element and returns it; valid until the next add. */
struct gpu_reading *snapshot_add_gpu(struct snapshot *s);
struct proc_reading *snapshot_add_proc(struct snapshot *s);
/* Which GPUs of how many, for people: "4 GPUs", "GPUs 0, 2 of 4". Free it. */
char *snapshot_describe(const struct snapshot *s);

#endif
