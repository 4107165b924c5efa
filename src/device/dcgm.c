/* SPDX-License-Identifier: MIT
 *
 * DCGM by dlopen, with declarations of our own: its library comes with the package datacenter-gpu-manager, and its
 * profiling fields need a host engine that runs as root. The running engine is asked first (TCP, then its socket); only as
 * root and only once is an engine started in this process.
 */
#include "device/dcgm.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/scope.h"
#include "base/units.h"

#include <dlfcn.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

/* DCGM's ABI, the same in versions 3 and 4. */
#define DCGM_OK 0
#define DCGM_MAX_DEVICES 32
#define DCGM_ENTITY_GPU 1
#define DCGM_GROUP_ALL_GPUS ((uintptr_t)0x7fffffff)
#define DCGM_OPERATION_AUTO 1
#define DCGM_FLAG_LIVE 1u
#define DCGM_TYPE_DOUBLE 'd'
#define DCGM_TYPE_INT64 'i'
#define DCGM_TYPE_STRING 's'
/* These and the 15 values after them say why there is no value. */
#define DCGM_BLANK_DOUBLE 140737488355328.0
#define DCGM_BLANK_INT64 0x7ffffffffffffff0ll

enum { FIELD_UUID = 54, FIELD_GRACT = 1001, FIELD_SMACT, FIELD_SMOCC, FIELD_DRAM = 1005, FIELD_PCIE_TX = 1009, FIELD_PCIE_RX };

struct dcgm_connect_params { uint32_t version, persist, timeout_ms, is_socket; };
struct dcgm_entity { uint32_t group, id; };
struct dcgm_value {
	uint32_t version, entity_group, entity;
	uint16_t field, type;
	int32_t status;
	uint32_t unused;
	int64_t ts_us;		/* since 1970 */
	union { int64_t i64; double dbl; char text[4096]; } v;
};
_Static_assert(sizeof(struct dcgm_value) == 4128 && offsetof(struct dcgm_value, v) == 32, "DCGM's ABI");

static const uint16_t fields[] = { FIELD_GRACT, FIELD_SMACT, FIELD_SMOCC, FIELD_DRAM, FIELD_PCIE_TX, FIELD_PCIE_RX };
#define N_FIELDS COUNT_OF(fields)

#define STALE_MS 10000
#define RETRY_MS 60000
#define CONNECT_MS 1000

struct dcgm_api {
	int (*init)(void);
	int (*shutdown)(void);
	int (*connect)(const char *, struct dcgm_connect_params *, uintptr_t *);
	int (*disconnect)(uintptr_t);
	int (*start_embedded)(int, uintptr_t *);
	int (*stop_embedded)(uintptr_t);
	int (*devices)(uintptr_t, uint32_t *, int *);
	int (*field_group)(uintptr_t, int, const uint16_t *, const char *, uintptr_t *);
	int (*watch)(uintptr_t, uintptr_t, uintptr_t, long long, double, int);
	int (*latest)(uintptr_t, struct dcgm_entity *, uint32_t, const uint16_t *, uint32_t, uint32_t, struct dcgm_value *);
};

#define SLOT(member) offsetof(struct dcgm_api, member)
static const struct { const char *name; size_t slot; } symbols[] = {
	{ "dcgmInit", SLOT(init) },
	{ "dcgmShutdown", SLOT(shutdown) },
	{ "dcgmConnect_v2", SLOT(connect) },
	{ "dcgmDisconnect", SLOT(disconnect) },
	{ "dcgmStartEmbedded", SLOT(start_embedded) },
	{ "dcgmStopEmbedded", SLOT(stop_embedded) },
	{ "dcgmGetAllSupportedDevices", SLOT(devices) },
	{ "dcgmFieldGroupCreate", SLOT(field_group) },
	{ "dcgmWatchFields", SLOT(watch) },
	{ "dcgmEntitiesGetLatestValues", SLOT(latest) },
};

struct dcgm {
	void *library;
	struct dcgm_api api;
	bool connected, embedded, embedded_tried, reported;
	int64_t retry_ms;
	uintptr_t handle;
	int n_gpus;
	struct { uint32_t id; char uuid[GPU_UUID_LEN]; } gpus[DCGM_MAX_DEVICES];
	struct dcgm_value values[N_FIELDS];	/* scratch */
};

struct dcgm *dcgm_create(void)
{
	return alloc_zero(sizeof(struct dcgm));
}

/* Also when a read fails: the engine was restarted, perhaps, and its handle and groups are void. */
static void dcgm_disconnect(struct dcgm *d)
{
	if (d->connected && d->embedded)
		d->api.stop_embedded(d->handle);
	else if (d->connected)
		d->api.disconnect(d->handle);
	d->connected = d->embedded = false;
}

void dcgm_destroy(struct dcgm *d)
{
	if (!d)
		return;
	dcgm_disconnect(d);
	if (d->library) {
		d->api.shutdown();
		dlclose(d->library);
	}
	free(d);
}

static int dcgm_load(struct dcgm *d, struct error *err)
{
	const char *other = getenv("RAD_DCGM_LIBRARY");	/* for tests */
	void *library = other && *other ? dlopen(other, RTLD_NOW | RTLD_LOCAL) : dlopen("libdcgm.so.4", RTLD_NOW | RTLD_LOCAL);
	if (!library && !(other && *other))
		library = dlopen("libdcgm.so.3", RTLD_NOW | RTLD_LOCAL);
	if (!library)
		return error_set(err, ERR_UNAVAILABLE, "%s", dlerror());
	for (size_t i = 0; i < COUNT_OF(symbols); i++) {
		void *found = dlsym(library, symbols[i].name);
		memcpy((char *)&d->api + symbols[i].slot, &found, sizeof found);
		if (!found) {
			dlclose(library);
			return error_set(err, ERR_UNAVAILABLE, "libdcgm has no %s", symbols[i].name);
		}
	}
	if (d->api.init()) {
		dlclose(library);
		return error_set(err, ERR_UNAVAILABLE, "dcgmInit failed");
	}
	d->library = library;
	return 0;
}

static bool dcgm_connect(struct dcgm *d, const char *address, bool is_socket)
{
	struct dcgm_connect_params p = { .timeout_ms = CONNECT_MS, .is_socket = is_socket };
	p.version = (uint32_t)sizeof p | 2u << 24;
	return d->api.connect(address, &p, &d->handle) == DCGM_OK;
}

static int find_engine(struct dcgm *d, struct error *err)
{
	if (dcgm_connect(d, "127.0.0.1:5555", false) || dcgm_connect(d, "/tmp/nv-hostengine", true)) {
		d->connected = true;
		return 0;
	}
	/* Its profiling needs root, and it costs more than it gives without. */
	if (geteuid() == 0 && !d->embedded_tried && d->api.start_embedded(DCGM_OPERATION_AUTO, &d->handle) == DCGM_OK)
		d->connected = d->embedded = true;
	d->embedded_tried = true;
	return d->connected ? 0 : error_set(err, ERR_UNAVAILABLE, "no nv-hostengine answers (systemctl start nvidia-dcgm)");
}

/* DCGM numbers GPUs on its own; UUIDs join its numbers to NVML's devices. */
static void learn_uuids(struct dcgm *d, const uint32_t *ids, int count)
{
	static const uint16_t field = FIELD_UUID;
	struct dcgm_value *v = &d->values[0];
	d->n_gpus = 0;
	for (int i = 0; i < count && i < DCGM_MAX_DEVICES; i++) {
		struct dcgm_entity entity = { DCGM_ENTITY_GPU, ids[i] };
		memset(v, 0, sizeof *v);
		if (d->api.latest(d->handle, &entity, 1, &field, 1, DCGM_FLAG_LIVE, v) || v->status || v->type != DCGM_TYPE_STRING)
			continue;
		d->gpus[d->n_gpus].id = ids[i];
		snprintf(d->gpus[d->n_gpus++].uuid, GPU_UUID_LEN, "%.*s", GPU_UUID_LEN - 1, v->v.text);
	}
}

static int dcgm_watch(struct dcgm *d, struct error *err)
{
	uint32_t ids[DCGM_MAX_DEVICES];
	int count = 0;
	uintptr_t group;
	char name[32];
	snprintf(name, sizeof name, "rad-%d", (int)getpid());
	if (d->api.devices(d->handle, ids, &count))
		return error_set(err, ERR_UNAVAILABLE, "nv-hostengine lists no GPU");
	learn_uuids(d, ids, count);
	/* Once a second, kept for long enough to be read. */
	if (d->api.field_group(d->handle, (int)N_FIELDS, fields, name, &group) ||
	    d->api.watch(d->handle, DCGM_GROUP_ALL_GPUS, group, 1000000, 30, 4))
		return error_set(err, ERR_UNAVAILABLE, "nv-hostengine cannot watch the profiling fields (it needs root, a "
				 "data-centre GPU and the package with the profiling module)");
	return 0;
}

/* Connected, or so after a try that is due. Tries are rare: one may last longer than the time between two samples. */
static bool dcgm_ready(struct dcgm *d, int64_t mono_ms)
{
	struct error err = ERROR_INIT;
	if (d->connected)
		return true;
	if (d->retry_ms && mono_ms < d->retry_ms)
		return false;
	d->retry_ms = mono_ms + RETRY_MS;
	if ((d->library || !dcgm_load(d, &err)) && !find_engine(d, &err) && !dcgm_watch(d, &err)) {
		d->reported = false;
		return true;
	}
	dcgm_disconnect(d);
	if (!d->reported)
		log_info("dcgm: %s: the activity of GPUs without GPM is not known", err.text);
	d->reported = true;
	return false;
}

/* The number a value holds, unless it is blank, stale, or an error. One from times to come is of before the clock was set back,
 * and would count until the clock is there. */
static bool value_number(const struct dcgm_value *v, int64_t wall_ms, double *out)
{
	int64_t ms = v->ts_us / 1000;
	if (v->status != DCGM_OK || ms < wall_ms - STALE_MS || ms > wall_ms + STALE_MS)
		return false;
	if (v->type == DCGM_TYPE_DOUBLE && v->v.dbl >= 0 && v->v.dbl < DCGM_BLANK_DOUBLE)
		*out = v->v.dbl;
	else if (v->type == DCGM_TYPE_INT64 && v->v.i64 >= 0 && v->v.i64 < DCGM_BLANK_INT64)
		*out = (double)v->v.i64;
	else
		return false;
	return true;
}

static void fill_reading(const struct dcgm *d, struct gpu_reading *r)
{
	/* Each field by itself: that one is blank says nothing of the others. */
	double value[N_FIELDS];
	bool known[N_FIELDS];
	int64_t wall_ms = clock_wall_ms();
	for (size_t i = 0; i < N_FIELDS; i++)
		known[i] = d->values[i].field == fields[i] && value_number(&d->values[i], wall_ms, &value[i]);
	const struct { uint32_t bit; double *to; } ratios[] = {
		{ GPU_GRACT, &r->gract }, { GPU_SMACT, &r->smact }, { GPU_SMOCC, &r->smocc }, { GPU_DRAM, &r->dram },
	};
	for (size_t i = 0; i < COUNT_OF(ratios); i++) {
		if (!known[i])
			continue;
		*ratios[i].to = fmin(value[i], 1);
		r->valid |= ratios[i].bit;
	}
	if (r->valid & GPU_SMACT)
		strcpy(r->smact_source, "dcgm");
	if (known[4] && known[5]) {
		r->pcie_tx_mib_s = value[4] / (double)MIB;
		r->pcie_rx_mib_s = value[5] / (double)MIB;
		r->valid |= GPU_PCIE;
	}
}

void dcgm_read(struct dcgm *d, int64_t mono_ms, struct gpu_reading *r)
{
	if (!dcgm_ready(d, mono_ms))
		return;
	for (int i = 0; i < d->n_gpus; i++) {
		if (strcmp(d->gpus[i].uuid, r->uuid))
			continue;
		struct dcgm_entity entity = { DCGM_ENTITY_GPU, d->gpus[i].id };
		memset(d->values, 0, sizeof d->values);
		if (d->api.latest(d->handle, &entity, 1, fields, N_FIELDS, 0, d->values) == DCGM_OK)
			fill_reading(d, r);
		else
			dcgm_disconnect(d);
		return;
	}
}
