/* SPDX-License-Identifier: MIT
 *
 * Simulated devices for trying RAD-RM without a GPU: `sim:4xa100-40g`, or a YAML file. Real processes run on them
 * (`rad simtask`). Which process holds how much memory of which device lies in one locked file; an entry lives as long as
 * its process (pid and start time), so that the devices survive the daemon as real ones do.
 */
#ifndef RAD_MONITOR_SIMDEV_H
#define RAD_MONITOR_SIMDEV_H

#include "base/error.h"
#include "monitor/reading.h"

/* A kind of device, or one line of a YAML file. */
struct device_model {
	char name[64];		/* "a100-40g", as in specs */
	char gpu_name[64];	/* "NVIDIA A100-SXM4-40GB", as drivers say it */
	uint64_t mem_total_mib, mem_reserved_mib;
	uint32_t sm_count;
	double idle_w, peak_w;
};

/* "4xa100-40g,1xh200-141g" or a path that ends in .yaml or .yml. *out is to be freed. */
int simdev_parse(const char *spec, struct device_model **out, size_t *n, struct error *err);
/* The built-in table, ends with an empty name: a100-40g a100-80g h100-80g h200-141g v100-16g v100-32g. */
extern const struct device_model simdev_models[];

struct simdev;

/* Opens the shared file of devices (made if missing) at `path`; all processes of one daemon use the same, given to tasks in
 * RAD_SIM_DEVICES. The spec counts only when the file is made. */
struct simdev *simdev_open(const char *path, const char *spec, struct error *err);
void simdev_close(struct simdev *s);

/* A process comes to a device with its load when alone; memory starts at 0. `mps`: whether it is an MPS client.
 * Returns 0, or -1 (no such device). */
int simdev_join(struct simdev *s, const char *uuid, double gract, double smact, bool mps, struct error *err);
/* Sets this process's memory on that device. 0; 1 when the device is full (nothing changed; *free_mib tells what there was). */
int simdev_set_memory(struct simdev *s, const char *uuid, uint64_t mem_mib, uint64_t *free_mib, struct error *err);
/* The speed, 0..1, at which this process now runs on that device, by the model in `share`. */
double simdev_speed(struct simdev *s, const char *uuid);
void simdev_leave(struct simdev *s, const char *uuid);

/* Reads everything, as a driver would: memory with dead processes gone, loads, power, energy. */
int simdev_snapshot(struct simdev *s, struct snapshot *out, struct error *err);

#endif
