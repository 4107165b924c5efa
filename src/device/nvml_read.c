/* SPDX-License-Identifier: MIT
 *
 * The kind `nvml`: what one GPU or MIG instance says now. Percent becomes 0..1, bytes MiB, milliwatts watts; "not
 * available" becomes a missing bit.
 */
#include "base/alloc.h"
#include "base/log.h"
#include "base/scope.h"
#include "base/units.h"
#include "device/dcgm.h"
#include "device/nvml_device.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#define GPM_MIN_MS 100		/* closer samples give zeros */
#define MAX_PROCESSES 65536u
#define UNKNOWN_MIB UINT64_MAX
#define MOST_CELSIUS 1000	/* more is no reading */
#define MOST_WATTS 10000	/* nor is that */
#define MOST_MIB (UINT64_C(1) << 24)

/* How a unit answered during one reading. */
struct answers { bool some; int lost; };	/* lost: as what, 0: it is not */

bool nvml_is_lost(int rc)
{
	return rc == NVML_GPU_LOST || rc == NVML_RESET_REQUIRED || rc == NVML_GPU_NOT_FOUND;
}

static bool answered(struct answers *a, int rc)
{
	if (rc == NVML_OK)
		a->some = true;
	if (nvml_is_lost(rc))
		a->lost = rc;
	return rc == NVML_OK;
}

/* Rounded up: a process that holds anything holds a MiB, and sums err on the side of a full GPU. */
static uint64_t mib_up(uint64_t bytes)
{
	return bytes / MIB + (bytes % MIB != 0);
}

/* Used is what is not free: so it contains the reserved part whichever way a driver counts its own `used`. What no GPU has is
 * no reading: it would look like the emptiest of them. */
static bool set_memory(struct gpu_reading *r, uint64_t total, uint64_t free)
{
	if (free > total || total / MIB > MOST_MIB)
		return false;
	r->mem_total_mib = total / MIB;
	r->mem_used_mib = mib_up(total - free);
	r->valid |= GPU_MEM_TOTAL | GPU_MEM_USED;
	return true;
}

static void read_memory(const struct nvml_api *api, nvml_device handle, struct answers *a, struct gpu_reading *r)
{
	struct nvml_memory_v2 v2 = { .version = NVML_VERSIONED(struct nvml_memory_v2, 2) };
	struct nvml_memory v1;
	if (api->memory_v2 && answered(a, api->memory_v2(handle, &v2))) {
		if (!set_memory(r, v2.total, v2.free))
			return;
		r->mem_reserved_mib = mib_up(v2.reserved);
		r->valid |= GPU_MEM_RESERVED;
	} else if (!a->lost && answered(a, api->memory(handle, &v1))) {
		set_memory(r, v1.total, v1.free);
	}
}

/* Calls `list` with room enough. Returns the number of entries in n->processes, or -1. */
static int64_t list_processes(struct nvml_state *n, nvml_processes_fn *list, nvml_device handle, struct answers *a)
{
	for (int attempt = 0; attempt < 4; attempt++) {
		uint32_t count = n->processes_cap;
		int rc = list(handle, &count, n->processes);
		if (rc != NVML_INSUFFICIENT_SIZE)
			return answered(a, rc) && count <= n->processes_cap ? (int64_t)count : -1;
		/* More may start before the next call. */
		uint32_t room = count < MAX_PROCESSES / 2 ? count * 2 + 32 : MAX_PROCESSES;
		if (room <= n->processes_cap)
			return -1;
		n->processes = alloc_resize(n->processes, room, sizeof *n->processes);
		n->processes_cap = room;
	}
	return -1;
}

/* Both lists may name a process; the one that knows its memory counts. */
static void add_process(struct snapshot *out, uint32_t gpu, uint32_t first, const struct nvml_process *p)
{
	uint64_t mem = p->used == NVML_NOT_AVAILABLE ? UNKNOWN_MIB : mib_up(p->used);
	for (uint32_t i = first; i < out->n_procs; i++) {
		struct proc_reading *r = &out->procs[i];
		if (r->id.pid != (pid_t)p->pid)
			continue;
		if (r->mem_mib == UNKNOWN_MIB || (mem != UNKNOWN_MIB && mem > r->mem_mib))
			r->mem_mib = mem;
		return;
	}
	struct proc_reading *r = snapshot_add_proc(out);
	r->gpu = gpu;
	r->id.pid = (pid_t)p->pid;
	r->uid = (uid_t)-1;
	r->mem_mib = mem;
}

/* Returns the bits that hold: the list is complete, every memory is known. */
static uint32_t read_processes(struct nvml_state *n, nvml_device handle, struct answers *a, struct snapshot *out)
{
	nvml_processes_fn *const lists[] = { n->api.processes, n->api.mps_processes };
	uint32_t gpu = out->n_gpus - 1, first = out->n_procs, bits = GPU_PROCS | GPU_PROC_MEM;
	for (size_t k = 0; k < 2; k++) {
		int64_t count = lists[k] ? list_processes(n, lists[k], handle, a) : -1;
		/* The compute list holds MPS clients too; the MPS list only adds to it. */
		if (count < 0 && k == 0)
			bits = 0;
		for (int64_t i = 0; i < count; i++)
			if (n->processes[i].pid)
				add_process(out, gpu, first, &n->processes[i]);
	}
	/* More than the GPU has is no reading; believed once, it would be what such tasks take for ever. */
	const struct gpu_reading *r = &out->gpus[gpu];
	uint64_t most = r->valid & GPU_MEM_TOTAL ? r->mem_total_mib : UNKNOWN_MIB - 1;
	for (uint32_t i = first; i < out->n_procs; i++) {
		if (out->procs[i].mem_mib <= most)
			continue;
		out->procs[i].mem_mib = 0;
		bits &= ~(uint32_t)GPU_PROC_MEM;
	}
	return bits;
}

static bool take_sample(const struct nvml_state *n, const struct nvml_gpu *gpu, const struct nvml_unit *u, nvml_sample into,
			struct answers *a)
{
	/* An instance has no samples of its own: they are taken of its GPU and the instance's number. */
	int rc = u->fixed.mig ? n->api.gpm_mig_get(gpu->whole.handle, u->gpu_instance, into) : n->api.gpm_get(u->handle, into);
	return answered(a, rc);
}

/* A metric that the GPU gave; the value may be anything, so it is checked before it is believed. */
static bool metric(const struct nvml_gpm_get *q, uint32_t i, double scale, double max, double *value)
{
	const struct nvml_gpm_metric *m = &q->metrics[i];
	if (m->result != NVML_OK || !isfinite(m->value) || m->value < 0)
		return false;
	*value = fmin(m->value / scale, max);
	return true;
}

/* One after the other, as they are asked for: what a share of the time is, in percent; then pairs of rates. */
static const struct { enum nvml_gpm_id id; uint32_t bit; size_t member; } gpm_shares[] = {
	{ GPM_GRACT, GPU_GRACT, offsetof(struct gpu_reading, gract) }, { GPM_SMACT, GPU_SMACT, offsetof(struct gpu_reading, smact) },
	{ GPM_SMOCC, GPU_SMOCC, offsetof(struct gpu_reading, smocc) }, { GPM_DRAM, GPU_DRAM, offsetof(struct gpu_reading, dram) },
	{ GPM_TENSOR, GPU_TENSOR, offsetof(struct gpu_reading, tensor) }, { GPM_FP16, GPU_FP16, offsetof(struct gpu_reading, fp16) },
	{ GPM_FP32, GPU_FP32, offsetof(struct gpu_reading, fp32) }, { GPM_FP64, GPU_FP64, offsetof(struct gpu_reading, fp64) },
};
#define GPM_SHARES (uint32_t)COUNT_OF(gpm_shares)
static const uint32_t gpm_rates[] = { GPM_PCIE_TX, GPM_PCIE_RX, GPM_NVLINK_TX, GPM_NVLINK_RX };

static void ask_metrics(struct nvml_gpm_get *q)
{
	q->n = GPM_SHARES + (uint32_t)COUNT_OF(gpm_rates);
	for (uint32_t i = 0; i < q->n; i++)
		q->metrics[i] = (struct nvml_gpm_metric){
			.id = i < GPM_SHARES ? gpm_shares[i].id : gpm_rates[i - GPM_SHARES], .result = -1 };
}

static void read_metrics(const struct nvml_gpm_get *q, struct gpu_reading *r)
{
	for (uint32_t i = 0; i < GPM_SHARES; i++)
		if (metric(q, i, 100, 1, (double *)((char *)r + gpm_shares[i].member)))
			r->valid |= gpm_shares[i].bit;
	if (r->valid & GPU_SMACT)
		strcpy(r->smact_source, "gpm");
	uint32_t at = GPM_SHARES;
	if (metric(q, at, 1, INFINITY, &r->pcie_tx_mib_s) && metric(q, at + 1, 1, INFINITY, &r->pcie_rx_mib_s))
		r->valid |= GPU_PCIE;
	if (metric(q, at + 2, 1, INFINITY, &r->nvlink_tx_mib_s) && metric(q, at + 3, 1, INFINITY, &r->nvlink_rx_mib_s))
		r->valid |= GPU_NVLINK;
}

static void read_gpm(struct nvml_state *n, const struct nvml_gpu *gpu, struct nvml_unit *u, int64_t mono_ms, struct answers *a,
		     struct gpu_reading *r)
{
	struct nvml_gpm_get *q = n->query;
	if ((!u->before && n->api.gpm_alloc(&u->before)) || (!u->after && n->api.gpm_alloc(&u->after)))
		return;
	if (u->before_ms && mono_ms - u->before_ms < GPM_MIN_MS)
		return;
	nvml_sample into = u->before_ms ? u->after : u->before;
	if (!take_sample(n, gpu, u, into, a)) {
		u->before_ms = 0;
		return;
	}
	if (u->before_ms) {
		q->version = NVML_GPM_VERSION;
		q->before = u->before;
		q->after = u->after;
		ask_metrics(q);
		if (answered(a, n->api.gpm_metrics(q)))
			read_metrics(q, r);
		/* The newer one is the next pair's older: each second is counted once. */
		u->after = u->before;
		u->before = into;
	}
	u->before_ms = mono_ms;
}

#define ENERGY_EVERY_MS 10000

/* A counter that goes back was begun anew, and so is what is told; a step that no GPU can have made is not told. */
static void count_energy(struct nvml_unit *u, double counter_j, int64_t mono_ms)
{
	double step_j = counter_j - u->counter_j, most_j = MOST_WATTS * (double)(mono_ms - u->counter_ms) / 1e3;
	if (!u->counter_ms || step_j < 0)
		u->counted_j = u->energy_j = counter_j;
	else if (step_j <= most_j)
		u->counted_j += step_j;
	else
		u->counted_j = u->energy_j;
	u->counter_j = counter_j;
	u->counter_ms = mono_ms;
	u->since_j = 0;
}

/* The counter costs 3.4 ms of CPU a call (H200, driver 580), a hundred times what any other figure does; so it is read every
 * 10 s, and power carries it on in between. Where that was too much, what is told stands until the counter is there. */
static void read_energy(const struct nvml_api *api, struct nvml_unit *u, int64_t mono_ms, struct answers *a,
			struct gpu_reading *r)
{
	uint64_t mj;
	if (u->counter_ms && mono_ms - u->counter_ms < ENERGY_EVERY_MS && r->valid & GPU_POWER) {
		u->since_j += r->power_w * (double)(mono_ms - u->energy_ms) / 1e3;
	} else {
		if (!api->energy || !answered(a, api->energy(u->handle, &mj)))
			return;
		count_energy(u, (double)mj / 1e3, mono_ms);
	}
	u->energy_ms = mono_ms;
	u->energy_j = fmax(u->energy_j, u->counted_j + u->since_j);
	r->energy_j = u->energy_j;
	r->valid |= GPU_ENERGY;
}

/* Its bit also decides how energy is read: without power, the counter is asked at every sample. */
static void read_power(const struct nvml_api *api, nvml_device handle, struct answers *a, struct gpu_reading *r)
{
	uint32_t mw;
	if (!api->power || !answered(a, api->power(handle, &mw)) || mw > MOST_WATTS * 1000)
		return;
	r->power_w = mw / 1e3;
	r->valid |= GPU_POWER;
}

static void read_temperature(const struct nvml_api *api, nvml_device handle, struct answers *a, struct gpu_reading *r)
{
	uint32_t celsius;
	if (!api->temperature || !answered(a, api->temperature(handle, NVML_SENSOR_GPU, &celsius)) || celsius > MOST_CELSIUS)
		return;
	r->temperature_c = celsius;
	r->valid |= GPU_TEMPERATURE;
}

static void read_clocks(const struct nvml_api *api, nvml_device handle, struct answers *a, struct gpu_reading *r)
{
	uint32_t sm, mem;
	uint64_t reasons;
	if (api->clock && answered(a, api->clock(handle, NVML_CLOCK_SM, &sm)) &&
	    answered(a, api->clock(handle, NVML_CLOCK_MEM, &mem))) {
		r->sm_mhz = sm;
		r->mem_mhz = mem;
		r->valid |= GPU_CLOCKS;
	}
	if (!a->lost && api->throttle && answered(a, api->throttle(handle, &reasons))) {
		r->throttle = (uint32_t)reasons;
		r->valid |= GPU_THROTTLE;
	}
}

/* Where GPM gave no load: DCGM if the GPU has no GPM; and where that has nothing either, the utilization that is no SMACT,
 * under its own name. */
static void read_other_load(struct nvml_state *n, const struct nvml_unit *u, int64_t mono_ms, struct answers *a,
			    struct gpu_reading *r)
{
	struct nvml_utilization percent;
	if (!u->gpm && !n->dcgm)
		n->dcgm = dcgm_create();
	if (!u->gpm)
		dcgm_read(n->dcgm, mono_ms, r);
	if (r->valid & GPU_GRACT || !n->api.utilization || !answered(a, n->api.utilization(u->handle, &percent)))
		return;
	r->gpu_util = percent.gpu < 100 ? percent.gpu / 100.0 : 1;
	r->valid |= GPU_UTIL;
}

static void report_fallen(struct nvml_unit *u, bool fallen, const char *why)
{
	if (fallen && !u->reported_fallen)
		log_warn("nvml: GPU %u (%s) no longer answers%s%s; the others go on", u->fixed.index, u->fixed.uuid, why ? ": " : "",
			 why ? why : "");
	else if (!fallen && u->reported_fallen)
		log_info("nvml: GPU %u (%s) answers again", u->fixed.index, u->fixed.uuid);
	u->reported_fallen = fallen;
}

void nvml_read_fallen(struct nvml_unit *unit, struct snapshot *out)
{
	struct gpu_reading *r = snapshot_add_gpu(out);
	*r = unit->fixed;
	r->fallen = true;
	report_fallen(unit, true, NULL);
}

void nvml_read_unit(struct nvml_state *n, const struct nvml_gpu *gpu, struct nvml_unit *u, struct snapshot *out)
{
	struct answers a = { 0 };
	struct gpu_reading *r = snapshot_add_gpu(out);
	uint32_t first_proc = out->n_procs;
	*r = u->fixed;
	read_memory(&n->api, u->handle, &a, r);
	/* Every call to a lost GPU may be slow: the first that says so is the last. */
	if (!a.lost)
		r->valid |= read_processes(n, u->handle, &a, out);
	if (!a.lost && u->gpm)
		read_gpm(n, gpu, u, out->mono_ms, &a, r);
	if (!a.lost && !u->fixed.mig)
		read_power(&n->api, u->handle, &a, r);
	if (!a.lost && !u->fixed.mig)
		read_energy(&n->api, u, out->mono_ms, &a, r);
	if (!a.lost && !u->fixed.mig)
		read_temperature(&n->api, u->handle, &a, r);
	if (!a.lost && !u->fixed.mig && n->clocks)
		read_clocks(&n->api, u->handle, &a, r);
	if (!a.lost && !u->fixed.mig && !(r->valid & GPU_GRACT))
		read_other_load(n, u, out->mono_ms, &a, r);
	/* Half a reading would look like an empty GPU, which placement likes best. */
	if (a.lost || !a.some) {
		*r = u->fixed;
		r->fallen = true;
		out->n_procs = first_proc;
	}
	report_fallen(u, r->fallen, a.lost ? n->api.error_string(a.lost) : NULL);
}
