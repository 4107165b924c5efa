/* SPDX-License-Identifier: MIT
 * The GPU of a bench: see bench_gpu.h. A driver is asked by a sampler process, which may hang without us; simulated devices are
 * a file.
 */
#include "cli/bench_gpu.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/proc.h"
#include "base/scope.h"
#include "cli/client.h"
#include "device/simdev.h"
#include "monitor/sampler.h"

#include <math.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#define INTERVAL_MS 250
#define FIRST_MS 20000	/* for the first reading of a driver */
#define FOREIGN_MIB 1024

/* A mean over time of what is known of it. */
struct mean { double sum, seconds; };

struct bench_gpu {
	char *file;		/* of simulated devices; NULL: a driver is asked */
	struct simdev *sim;
	struct device *device;
	struct sampler *sampler;
	struct snapshot now;
	char uuids[64][GPU_UUID_LEN];	/* the GPU, or its instances */
	size_t n;
	bool mig;
	char name[64];
	uint32_t index;
	int64_t read_ms;	/* the reading before; 0: the span has none yet */
	size_t counted;		/* instances in the span */
	struct mean gract, smact, smocc, dram, rx, tx, power, memory;
	double energy_j, energy_s;
	double before_j;	/* of the reading before; NaN: not known */
};

/* Reading ------------------------------------------------------------------------------------------------------------------ */

static const struct gpu_reading *find(const struct bench_gpu *g, const char *uuid)
{
	for (uint32_t i = 0; i < g->now.n_gpus; i++)
		if (!strcmp(g->now.gpus[i].uuid, uuid))
			return &g->now.gpus[i];
	return NULL;
}

static void mean_add(struct mean *m, double value, double seconds, bool known)
{
	m->sum += known ? value * seconds : 0;
	m->seconds += known ? seconds : 0;
}

static double mean_of(const struct mean *m)
{
	return m->seconds > 0 ? m->sum / m->seconds : NAN;
}

/* Activity is that of the time since the reading before, so what the first reading of a span shows lies before it. */
static void add_reading(struct bench_gpu *g)
{
	double s = (double)(g->now.mono_ms - g->read_ms) / 1000, joules = 0, power = 0, memory = 0;
	double before_j = g->before_j;
	bool first = !g->read_ms, energy = true, watts = true, used = true;
	g->read_ms = g->now.mono_ms;
	g->before_j = NAN;
	for (size_t i = 0; i < g->counted; i++) {
		const struct gpu_reading *r = find(g, g->uuids[i]);
		if (!r || r->fallen)
			return;
		joules += r->energy_j;
		power += r->power_w;
		memory += (double)r->mem_used_mib;
		energy &= !!(r->valid & GPU_ENERGY);
		watts &= !!(r->valid & GPU_POWER);
		used &= !!(r->valid & GPU_MEM_USED);
		if (first)
			continue;
		mean_add(&g->gract, r->gract, s, r->valid & GPU_GRACT);
		mean_add(&g->smact, r->smact, s, r->valid & GPU_SMACT);
		mean_add(&g->smocc, r->smocc, s, r->valid & GPU_SMOCC);
		mean_add(&g->dram, r->dram, s, r->valid & GPU_DRAM);
		mean_add(&g->rx, r->pcie_rx_mib_s, s, r->valid & GPU_PCIE);
		mean_add(&g->tx, r->pcie_tx_mib_s, s, r->valid & GPU_PCIE);
	}
	if (!first) {
		mean_add(&g->power, power, s, watts);
		mean_add(&g->memory, memory, s, used);
	}
	if (!energy)
		return;
	g->before_j = joules;
	if (!(joules >= before_j))	/* the counter started over: the driver was loaded anew */
		return;
	g->energy_j += joules - before_j;
	g->energy_s += s;
}

/* 1: there is a new one. */
static int read_sim(struct bench_gpu *g, struct error *err)
{
	if (g->now.n_gpus && clock_mono_ms() - g->now.mono_ms < INTERVAL_MS)
		return 0;
	snapshot_clear(&g->now);
	g->now.mono_ms = clock_mono_ms();
	int64_t at = g->now.mono_ms;
	if (simdev_snapshot(g->sim, &g->now, err))
		return -1;
	g->now.mono_ms = at;
	return 1;
}

static int read_driver(struct bench_gpu *g, struct error *err)
{
	struct snapshot next = { 0 };
	int rc = sampler_read(g->sampler, &next, err);
	if (rc <= 0) {
		snapshot_clear(&next);
		return rc;
	}
	snapshot_clear(&g->now);
	g->now = next;
	return 1;
}

int bench_gpu_read(struct bench_gpu *g, struct error *err)
{
	int rc;
	while ((rc = g->sim ? read_sim(g, err) : read_driver(g, err)) > 0)
		add_reading(g);
	return rc;
}

int bench_gpu_fd(const struct bench_gpu *g)
{
	return g->sampler ? sampler_fd(g->sampler) : -1;
}

void bench_gpu_mark(struct bench_gpu *g, size_t instances)
{
	g->read_ms = 0;
	g->counted = g->mig && instances < g->n ? instances : g->mig ? g->n : 1;
	g->gract = g->smact = g->smocc = g->dram = g->rx = g->tx = g->power = g->memory = (struct mean){ 0 };
	g->energy_j = g->energy_s = 0;
	g->before_j = NAN;
}

void bench_gpu_row(const struct bench_gpu *g, json_t *row)
{
	const struct { const char *name; const struct mean *m; } members[] = {
		{ "gract", &g->gract }, { "smact", &g->smact }, { "smocc", &g->smocc }, { "dram", &g->dram },
		{ "pcie_rx_mib_s", &g->rx }, { "pcie_tx_mib_s", &g->tx }, { "mem_used_mib", &g->memory },
	};
	for (size_t i = 0; i < COUNT_OF(members); i++)
		json_object_set_new(row, members[i].name, json_round3(mean_of(members[i].m)));
	/* The counter of energy sees what lies between two readings of the power. */
	json_object_set_new(row, "power_w", json_round3(g->energy_s > 0 ? g->energy_j / g->energy_s : mean_of(&g->power)));
}

/* Finding it --------------------------------------------------------------------------------------------------------------- */

static int open_reader(struct bench_gpu *g, struct error *err)
{
	const char *file = getenv("RAD_SIM_DEVICES");
	if (file && *file) {
		scoped_free char *folder = alloc_string(file);
		char *slash = strrchr(folder, '/');
		if (slash)
			*slash = 0;
		g->file = alloc_string(file);
		g->device = device_create("sim:", slash ? folder : ".", err);
		g->sim = g->device ? simdev_open(file, NULL, err) : NULL;
		return g->sim ? 0 : -1;
	}
	scoped_free char *radd = client_find_program("radd");
	if (!radd)
		return error_set(err, ERR_NOT_FOUND, "radd is neither beside rad nor in PATH: install it whole");
	unsetenv("CUDA_VISIBLE_DEVICES");	/* of a task: it would count as the choice of GPUs to read */
	g->device = device_create("nvml", NULL, err);
	if (!g->device)
		return -1;
	g->sampler = sampler_create(radd, g->device, INTERVAL_MS);
	return sampler_start(g->sampler, err);
}

static int first_reading(struct bench_gpu *g, struct error *err)
{
	for (int64_t until = clock_mono_ms() + FIRST_MS; !g->now.n_gpus;) {
		if (bench_gpu_read(g, err) < 0)
			return -1;
		if (clock_mono_ms() > until)
			return error_set(err, ERR_UNAVAILABLE, "the driver does not answer: see rad doctor");
		struct pollfd p = { bench_gpu_fd(g), POLLIN, 0 };
		if (!g->now.n_gpus)
			poll(&p, 1, 100);
	}
	return 0;
}

static void take_unit(struct bench_gpu *g, const struct gpu_reading *r)
{
	if (g->n >= COUNT_OF(g->uuids))
		return;
	snprintf(g->uuids[g->n++], GPU_UUID_LEN, "%s", r->uuid);
	snprintf(g->name, sizeof g->name, "%s", r->name);
	g->index = r->index;
	g->mig = r->mig;
}

static int choose(struct bench_gpu *g, int64_t index, struct error *err)
{
	const char *given = getenv("RAD_GPU_UUIDS");
	for (uint32_t i = 0; i < g->now.n_gpus; i++) {
		const struct gpu_reading *r = &g->now.gpus[i];
		bool wanted = index >= 0 ? r->index == index : given && device_place(given, r->uuid) >= 0;
		if (wanted && (!g->n || (r->mig && g->mig)))
			take_unit(g, r);
	}
	if (g->n)
		return 0;
	if (index < 0)
		return error_set(err, ERR_NOT_FOUND, "which GPU? Say --gpu N, or leave it to the queue (outside of a task)");
	return error_set(err, ERR_NOT_FOUND, "there is no GPU %lld: 'rad doctor' tells what is there", (long long)index);
}

struct bench_gpu *bench_gpu_open(int64_t index, struct error *err)
{
	struct bench_gpu *g = alloc_zero(sizeof *g);
	if (!open_reader(g, err) && !first_reading(g, err) && !choose(g, index, err)) {
		bench_gpu_mark(g, g->n);
		return g;
	}
	bench_gpu_close(g);
	return NULL;
}

void bench_gpu_close(struct bench_gpu *g)
{
	if (!g)
		return;
	snapshot_clear(&g->now);
	sampler_destroy(g->sampler);
	device_destroy(g->device);
	simdev_close(g->sim);
	free(g->file);
	free(g);
}

int bench_gpu_check_free(const struct bench_gpu *g, struct error *err)
{
	for (uint32_t i = 0; i < g->now.n_procs; i++) {
		const struct proc_reading *p = &g->now.procs[i];
		const struct gpu_reading *on = &g->now.gpus[p->gpu];
		bool ours = false;
		for (size_t k = 0; k < g->n; k++)
			ours |= !strcmp(on->uuid, g->uuids[k]);
		if (ours && p->mem_mib >= FOREIGN_MIB && !proc_descends(p->id.pid, getpid()))
			return error_set(err, ERR_CONFLICT, "GPU %u: process %d of another holds %.1f GiB there, and what is measured would "
					 "be of both; take a GPU that is free", g->index, (int)p->id.pid, (double)p->mem_mib / 1024);
	}
	return 0;
}

/* What it is --------------------------------------------------------------------------------------------------------------- */

const char *bench_gpu_name(const struct bench_gpu *g)
{
	return g->name;
}

const char *bench_gpu_uuid(const struct bench_gpu *g, size_t instance)
{
	return g->uuids[instance];
}

const struct device_kind *bench_gpu_kind(const struct bench_gpu *g)
{
	return device_kind(g->device);
}

size_t bench_gpu_instances(const struct bench_gpu *g)
{
	return g->mig ? g->n : 0;
}

const char *bench_gpu_file(const struct bench_gpu *g)
{
	return g->file;
}

void bench_gpu_variables(const struct bench_gpu *g, size_t instance, const char *pipe, struct bench_variable *out)
{
	*out++ = (struct bench_variable){ "PYTHONUNBUFFERED", "1" };
	*out++ = (struct bench_variable){ "CUDA_MPS_PIPE_DIRECTORY", pipe };
	*out++ = (struct bench_variable){ "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", NULL };
	*out++ = (struct bench_variable){ "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", NULL };
	for (const struct device_variable *v = bench_gpu_kind(g)->variables; v->name; v++)
		*out++ = (struct bench_variable){ v->name, v->says == DEVICE_SAYS_GPUS ? g->uuids[instance] :
						  v->says == DEVICE_SAYS_FILE ? g->file : v->text };
	*out = (struct bench_variable){ NULL, NULL };
}
