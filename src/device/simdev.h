/* SPDX-License-Identifier: MIT
 *
 * Simulated devices for trying RAD-RM without a GPU: `sim:4xa100-40g`, or a YAML file. Real processes run on them
 * (`rad simtask`). Which process holds how much memory of which device lies in one locked file; an entry lives as long as
 * its process (pid and start time), so that the devices survive the daemon as real ones do.
 *
 * The file is a header and a page per device. A change of a device is one write of less than a page under a lock of that page,
 * so a process killed at any moment leaves the old state or the new, and the kernel drops its lock. All processes must be
 * in one pid namespace.
 */
#ifndef RAD_DEVICE_SIMDEV_H
#define RAD_DEVICE_SIMDEV_H

#include "base/error.h"
#include "device/reading.h"

#define SIMDEV_MAX_DEVICES 1024	/* in that file */
#define SIMDEV_MAX_NAMED 131072	/* of a list, which nobody but the simulator can use whole */
#define SIMDEV_MAX_CLIENTS 48	/* processes on one device */

/* A kind of device, or one line of a YAML file. */
struct device_model {
	char name[64];		/* "a100-40g", as in specs */
	char gpu_name[64];	/* "NVIDIA A100-SXM4-40GB", as drivers say it */
	uint64_t mem_total_mib, mem_reserved_mib;
	uint32_t sm_count;
	double idle_w, peak_w;	/* empty; at an SMACT of 1 */
	double limit_w;		/* the board is held to this; 0: only to its peak */
	uint32_t gpu;		/* its index, as people count GPUs; set by simdev_parse */
	/* Of a MIG instance. All above are then its own: memory, SMs, and its part of the board's watts. */
	char profile[16];	/* "3g.20gb"; "": a whole GPU */
	uint32_t instance;	/* its number on its GPU; set by simdev_parse */
	double sm_part;		/* of the GPU's SMs; 1: a whole GPU */
};

/* "4xa100-40g,1xh200-141g" ("a100-40g" alone is one), "2xa100-40g/mig=3g.20gb+2g.10gb" (two GPUs with two MIG instances
 * each, which are listed in their place) or a path that ends in .yaml or .yml (models/devices.example.yaml explains
 * the keys). *out has one element a device, *n of them, at most SIMDEV_MAX_NAMED, and is to be freed. */
int simdev_parse(const char *spec, struct device_model **out, size_t *n, struct error *err);
/* As before, or "512x8xa100-40g": 512 nodes, each with the list that follows the first x. *out has the devices of one node
 * after those of the other, *n in all; *nodes is 1 for what simdev_parse takes. */
int simdev_parse_nodes(const char *spec, struct device_model **out, size_t *n, size_t *nodes, struct error *err);
/* The built-in table, ends with an empty name: a100-40g a100-80g h100-80g h200-141g v100-16g v100-32g. */
extern const struct device_model simdev_models[];
/* The UUID of a new device, always the same for the same model and place: "GPU-<both>-<model>-4000-8000-<place>", of an
 * instance "MIG-...". Those of one model differ in their first group, since people type no more of it. */
void simdev_uuid(const struct device_model *m, uint32_t place, char uuid[GPU_UUID_LEN]);
/* What readings say of it besides what is measured. */
void simdev_identify(const struct device_model *m, uint32_t place, struct gpu_reading *r);

/* How the memory of a simulated training task grows, whether it is a process (`rad simtask`), arithmetic (`rad simulate`) or
 * a lower bound: the CUDA context at once, then evenly to all of it over a ramp of a third of its work, at most 20 s.
 * simdev_ramp_ms is the length of that ramp in a task that takes `solo_ms` alone; simdev_ramp_mib what it holds when `part` of
 * the ramp (0..1, or more) is behind it. */
#define SIMDEV_CONTEXT_MIB 520
int64_t simdev_ramp_ms(int64_t solo_ms);
uint64_t simdev_ramp_mib(uint64_t mem_mib, double part);

struct simdev;

/* Opens the shared file of devices at `path`; all processes of one daemon use the same, given to tasks in RAD_SIM_DEVICES.
 * With a spec it is made if missing, and made anew if it holds other devices and no process is on them (ERR_CONFLICT if
 * one is). With NULL it must be there, and is taken as it is. A file that is not ours or is damaged is refused, unchanged. */
struct simdev *simdev_open(const char *path, const char *spec, struct error *err);
/* Whether these are the devices of that spec: 0, or -1 with an error that says which they are (ERR_CONFLICT). */
int simdev_check(struct simdev *s, const char *spec, struct error *err);
/* Takes NULL. What this process holds stays held until it leaves or ends. */
void simdev_close(struct simdev *s);

/* A process comes to a device with its load when alone; memory starts at 0. `mps`: whether it is an MPS client.
 * Returns 0, or -1 (no such device, or SIMDEV_MAX_CLIENTS are on it). */
int simdev_join(struct simdev *s, const char *uuid, double gract, double smact, bool mps, struct error *err);
/* Sets this process's memory on that device. 0; 1 when the device is full (nothing changed; *free_mib tells what there was);
 * -1. Less memory than it has always fits. free_mib may be NULL. */
int simdev_set_memory(struct simdev *s, const char *uuid, uint64_t mem_mib, uint64_t *free_mib, struct error *err);
/* The speed, above 0 and at most 1, at which this process now runs on that device, by the model in `share`: MPS if all
 * processes there are MPS clients, else streams. 0: it is not on it. Negative: the fault of another MPS client ended it. */
double simdev_speed(struct simdev *s, const char *uuid);
/* A fault of this process: all MPS clients of that device are ended with it, if it is one itself. */
void simdev_fault(struct simdev *s, const char *uuid);
void simdev_leave(struct simdev *s, const char *uuid);

/* Reads everything, as a driver would: memory with dead processes gone, loads, power, energy, processes. Loads are those of
 * the moment; GPU_SMOCC, GPU_DRAM and GPU_PCIE are not valid. */
int simdev_snapshot(struct simdev *s, struct snapshot *out, struct error *err);

#endif
