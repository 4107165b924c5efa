/* SPDX-License-Identifier: MIT
 *
 * The kind `nvml`: which GPUs and MIG instances there are, in PCI order, and which of them are radd's.
 *
 * A part of the machine is chosen once, at the start, by the setting's list or else by CUDA_VISIBLE_DEVICES, and kept to by
 * UUID from then on: numbers move up when a GPU falls off the bus, and the one that then has it is somebody else's. What was
 * not chosen is counted and no more.
 *
 * One GPU that fails is listed as fallen and the others go on. It is looked for again after a second, and each time after twice
 * as long, up to a minute: one that was reset is back within as long as it was away, and one that is gone for good is hardly
 * asked, as each call to it may be slow. What the driver does not say stays unknown. A GPU in MIG mode is not listed itself:
 * its instances are, and without any instance nothing can run on it. Power and energy exist only for whole GPUs; so does DCGM
 * here.
 *
 * Untested on hardware: MIG, the fallback to DCGM, and GPUs that fall off the bus have only ever run against the fake
 * libraries of tests/fake-nvml.
 */
#include "base/alloc.h"
#include "base/least.h"
#include "base/log.h"
#include "base/scope.h"
#include "device/dcgm.h"
#include "device/kinds.h"
#include "device/nvml_choice.h"
#include "device/nvml_device.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_GPUS 256u
#define MAX_INSTANCES 64u
#define FIRST_RELIST_MS 1000
#define MAX_RELIST_MS 60000

/* Samples of GPM are the library's own memory. */
static void unit_release(struct nvml_state *n, struct nvml_unit *u)
{
	if (u->before)
		n->api.gpm_free(u->before);
	if (u->after)
		n->api.gpm_free(u->after);
	u->before = u->after = NULL;
}

static void gpus_release(struct nvml_state *n, struct nvml_gpu *gpus, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		unit_release(n, &gpus[i].whole);
		for (uint32_t k = 0; k < gpus[i].n_mig; k++)
			unit_release(n, &gpus[i].mig[k]);
		free(gpus[i].mig);
	}
	free(gpus);
}

/* Streaming multiprocessors of a whole GPU, from its CUDA cores; 0 where the cores of one SM are not known. */
static uint32_t count_sms(const struct nvml_api *api, nvml_device handle, int major, int minor)
{
	uint32_t cores;
	if (major < 7 || !api->cores || api->cores(handle, &cores))
		return 0;
	return cores / (major == 7 || (major == 8 && minor == 0) ? 64 : 128);
}

static bool has_gpm(const struct nvml_api *api, nvml_device handle)
{
	struct nvml_gpm_support support = { .version = NVML_GPM_VERSION };
	return api->gpm_support && api->gpm_alloc && api->gpm_free && api->gpm_get && api->gpm_metrics &&
	       !api->gpm_support(handle, &support) && support.supported;
}

/* A driver that answers nonsense says that all is well. What is no name is not taken for one: it would stand in the logs of
 * tasks, which could not be read again. */
static bool is_name(const char *text, size_t size, char least)
{
	size_t n = strnlen(text, size);
	for (size_t i = 0; i < n; i++)
		if (text[i] < least || text[i] > '~')
			return false;
	return n;
}

/* Fills what never changes of a GPU. Returns NVML's result. */
static int identify(const struct nvml_api *api, uint32_t nvml_index, struct nvml_gpu *g)
{
	struct nvml_unit *u = &g->whole;
	struct nvml_pci pci;
	char uuid[96], name[96];
	int rc = api->by_index(nvml_index, &u->handle);
	if (!rc)
		rc = api->uuid(u->handle, uuid, sizeof uuid);
	if (!rc)
		rc = api->name(u->handle, name, sizeof name);
	if (!rc)
		rc = api->pci(u->handle, &pci);
	if (!rc && (!is_name(uuid, sizeof uuid, '!') || !is_name(name, sizeof name, ' ')))
		rc = NVML_UNKNOWN;
	if (rc)
		return rc;
	g->pci = (uint64_t)pci.domain << 32 | (pci.bus & 0xff) << 8 | (pci.device & 0xff);
	snprintf(u->fixed.uuid, sizeof u->fixed.uuid, "%.*s", (int)sizeof u->fixed.uuid - 1, uuid);
	snprintf(u->fixed.name, sizeof u->fixed.name, "%.*s", (int)sizeof u->fixed.name - 1, name);
	int major = 0, minor = 0;
	uint32_t now, pending;
	if (api->compute_capability && api->compute_capability(u->handle, &major, &minor))
		major = 0;
	u->fixed.sm_count = count_sms(api, u->handle, major, minor);
	u->fixed.mps_capable = major >= 7;
	u->gpm = has_gpm(api, u->handle);
	/* Only that answer says no: what it is just now is asked with every sample. */
	g->mig_able = api->mig_mode && api->mig_max && api->mig_by_index &&
		      api->mig_mode(u->handle, &now, &pending) != NVML_NOT_SUPPORTED;
	return 0;
}

/* The UUID is the only name that stays: index and handle may be others after a listing. */
static struct nvml_gpu *find_gpu(struct nvml_gpu *gpus, uint32_t count, const char *uuid)
{
	for (uint32_t i = 0; i < count; i++)
		if (!strcmp(gpus[i].whole.fixed.uuid, uuid))
			return &gpus[i];
	return NULL;
}

/* GPUs that the driver counts but gives no handle for: first those known from before, then nameless ones. */
static uint32_t add_unreachable(struct nvml_state *n, struct nvml_gpu *fresh, uint32_t got, uint32_t missing)
{
	for (uint32_t i = 0; i < n->n_gpus && missing; i++) {
		const char *uuid = n->gpus[i].whole.fixed.uuid;
		if (!*uuid || find_gpu(fresh, got, uuid))	/* "": keep_state took it over */
			continue;
		fresh[got] = n->gpus[i];
		memset(&n->gpus[i], 0, sizeof n->gpus[i]);
		fresh[got++].unreachable = true;
		missing--;
	}
	for (uint32_t i = 0; missing; i++) {
		struct nvml_gpu *g = &fresh[got];
		snprintf(g->whole.fixed.uuid, sizeof g->whole.fixed.uuid, "unreachable-%" PRIu32, i);
		if (find_gpu(fresh, got, g->whole.fixed.uuid))	/* of an earlier listing */
			continue;
		snprintf(g->whole.fixed.name, sizeof g->whole.fixed.name, "unreachable GPU");
		g->unreachable = true;
		g->pci = UINT64_MAX;
		got++;
		missing--;
	}
	return got;
}

static int by_pci(const void *a, const void *b)
{
	const struct nvml_gpu *x = a, *y = b;
	return x->pci < y->pci ? -1 : x->pci > y->pci;
}

/* A GPU that is still the same one goes on with its samples, so that looking again costs no reading. */
static void keep_state(struct nvml_state *n, struct nvml_gpu *fresh)
{
	struct nvml_gpu *old = find_gpu(n->gpus, n->n_gpus, fresh->whole.fixed.uuid);
	if (!old || old->whole.handle != fresh->whole.handle || old->unreachable)
		return;
	*fresh = *old;
	memset(old, 0, sizeof *old);
}

/* Lists the `count` GPUs of the driver anew. */
static void list_gpus(struct nvml_state *n, uint32_t count)
{
	struct nvml_gpu *fresh = alloc_zero((count + 1) * sizeof *fresh);
	uint32_t got = 0, missing = 0;
	for (uint32_t i = 0; i < count; i++) {
		int rc = identify(&n->api, i, &fresh[got]);
		if (!rc)
			keep_state(n, &fresh[got++]);
		else
			memset(&fresh[got], 0, sizeof *fresh);
		/* Without permission it is not ours to use, and CUDA does not count it either. */
		if (rc && rc != NVML_NO_PERMISSION) {
			missing++;
			log_warn_limited("nvml: GPU %" PRIu32 ": %s", i, n->api.error_string(rc));
		}
	}
	got = add_unreachable(n, fresh, got, missing);
	qsort(fresh, got, sizeof *fresh, by_pci);
	for (uint32_t i = 0; i < got; i++) {
		fresh[i].whole.fixed.index = i;
		for (uint32_t k = 0; k < fresh[i].n_mig; k++)
			fresh[i].mig[k].fixed.index = i;
	}
	gpus_release(n, n->gpus, n->n_gpus);
	n->gpus = fresh;
	n->n_gpus = got;
}

static struct nvml_unit *find_instance(const struct nvml_gpu *g, const char *uuid)
{
	for (uint32_t k = 0; k < g->n_mig; k++)
		if (!strcmp(g->mig[k].fixed.uuid, uuid))
			return &g->mig[k];
	return NULL;
}

/* Fills what never changes of a MIG instance; handle and UUID are there already. */
static void identify_instance(const struct nvml_api *api, const struct nvml_gpu *g, struct nvml_unit *u)
{
	char name[96];
	struct nvml_attributes attributes;
	u->fixed.mig = true;
	u->fixed.index = g->whole.fixed.index;
	memcpy(u->fixed.parent_uuid, g->whole.fixed.uuid, sizeof u->fixed.parent_uuid);
	memcpy(u->fixed.name, g->whole.fixed.name, sizeof u->fixed.name);
	if (!api->name(u->handle, name, sizeof name) && is_name(name, sizeof name, ' '))
		snprintf(u->fixed.name, sizeof u->fixed.name, "%.*s", (int)sizeof u->fixed.name - 1, name);
	if (api->attributes && !api->attributes(u->handle, &attributes))
		u->fixed.sm_count = attributes.multiprocessors;
	u->gpm = g->whole.gpm && api->gpm_mig_get && api->gpu_instance && !api->gpu_instance(u->handle, &u->gpu_instance);
}

/* 1; 0 if there is no instance at this place, as the driver's numbering has holes; -1 if the GPU is lost. */
static int ask_instance(const struct nvml_api *api, const struct nvml_gpu *g, uint32_t place, struct nvml_unit *u)
{
	char uuid[96];
	int rc = api->mig_by_index(g->whole.handle, place, &u->handle);
	if (!rc)
		rc = api->uuid(u->handle, uuid, sizeof uuid);
	if (rc || !is_name(uuid, sizeof uuid, '!'))
		return nvml_is_lost(rc) ? -1 : 0;
	snprintf(u->fixed.uuid, sizeof u->fixed.uuid, "%.*s", (int)sizeof u->fixed.uuid - 1, uuid);
	u->fixed.instance = place;
	return 1;
}

/* One known from before goes on. */
static void take_instance(const struct nvml_state *n, const struct nvml_gpu *g, struct nvml_unit *u)
{
	const struct nvml_unit asked = *u;
	struct nvml_unit *old = find_instance(g, u->fixed.uuid);
	if (!old) {
		identify_instance(&n->api, g, u);
		return;
	}
	*u = *old;
	old->before = old->after = NULL;
	u->handle = asked.handle;
	u->fixed.instance = asked.fixed.instance;
}

/* The instances may be changed by an administrator at any time, so they are listed for every sample. Returns NVML's result: if
 * it is an error, those that are known stay. */
static int list_instances(struct nvml_state *n, struct nvml_gpu *g)
{
	uint32_t places = 0, got = 0;
	int rc = g->mig_on ? n->api.mig_max(g->whole.handle, &places) : NVML_OK;
	if (rc)
		return rc;
	places = places < MAX_INSTANCES ? places : MAX_INSTANCES;
	struct nvml_unit *fresh = places ? alloc_zero(places * sizeof *fresh) : NULL;
	for (uint32_t i = 0; i < places; i++) {
		int there = ask_instance(&n->api, g, i, &fresh[got]);
		if (there < 0) {
			free(fresh);
			return NVML_GPU_LOST;
		}
		got += (uint32_t)there;
	}
	for (uint32_t i = 0; i < got; i++)
		take_instance(n, g, &fresh[i]);
	for (uint32_t k = 0; k < g->n_mig; k++)
		unit_release(n, &g->mig[k]);
	free(g->mig);
	g->mig = fresh;
	g->n_mig = got;
	return 0;
}

/* Nor does one that was in MIG mode, or was not, cease to be so because it does not say so now. */
static int look_at_mig(struct nvml_state *n, struct nvml_gpu *g)
{
	uint32_t mode, pending;
	int rc = g->mig_able ? n->api.mig_mode(g->whole.handle, &mode, &pending) : NVML_OK;
	if (rc || !g->mig_able)
		return rc;
	g->mig_on = mode == NVML_MIG_ENABLED;
	return g->mig_on || g->n_mig ? list_instances(n, g) : NVML_OK;
}

/* One on which nothing can run is not listed; told once for each reason. NULL: it is listed. */
static void report_unusable(struct nvml_gpu *g, const char *why)
{
	if (why && g->reported != why)
		log_warn("nvml: GPU %" PRIu32 " (%s) is %s", g->whole.fixed.index, g->whole.fixed.uuid, why);
	g->reported = why;
}

static const char *const in_mig_mode = "in MIG mode without instances: nothing can run on it until an administrator makes some "
				       "(nvidia-smi mig) or turns MIG off";
static const char *const prohibited = "in prohibited mode: nothing can run on it until an administrator allows it "
				      "(nvidia-smi --compute-mode=DEFAULT)";

/* Under MPS its one process is the server, so tasks share it all the same; but whatever wants it beside a server cannot. */
static void note_one_process(struct nvml_unit *u, bool now)
{
	if (now && !u->reported_mode)
		log_warn("nvml: GPU %" PRIu32 " (%s) is in exclusive-process mode: tasks share it under MPS only, and one that wants it "
			 "without MPS fails while a server is there (nvidia-smi --compute-mode=DEFAULT)", u->fixed.index, u->fixed.uuid);
	u->fixed.one_process = u->reported_mode = now;
}

/* False: nobody may compute there. An administrator may change it at any time. */
static bool may_compute(const struct nvml_state *n, struct nvml_gpu *g)
{
	int mode;
	if (!n->api.compute_mode || n->api.compute_mode(g->whole.handle, &mode))
		return true;
	note_one_process(&g->whole, mode == NVML_COMPUTE_ONE_PROCESS);
	return mode != NVML_COMPUTE_PROHIBITED;
}

/* An instance is chosen by its own name here; that of its GPU, which stands for all of them, is looked at by the callers. */
static bool is_chosen(const struct nvml_state *n, const struct nvml_unit *u)
{
	return !n->chosen || device_place(n->chosen, u->fixed.uuid) >= 0;
}

static void read_instances(struct nvml_state *n, struct nvml_gpu *g, bool fallen, struct snapshot *out)
{
	bool all = is_chosen(n, &g->whole);
	for (uint32_t k = 0; k < g->n_mig; k++) {
		if (!all && !is_chosen(n, &g->mig[k]))
			continue;
		if (fallen)
			nvml_read_fallen(&g->mig[k], out);
		else
			nvml_read_unit(n, g, &g->mig[k], out);
	}
}

/* Whether anything of it can be radd's: of a GPU that was not asked for, an instance may have been. */
static bool concerns_us(const struct nvml_state *n, const struct nvml_gpu *g)
{
	return is_chosen(n, &g->whole) || ((g->mig_able || g->n_mig) && strstr(n->chosen, "MIG-"));
}

/* What there is of it is listed as fallen: the driver no longer knows what it is. */
static void read_lost(struct nvml_state *n, struct nvml_gpu *g, struct snapshot *out)
{
	if (g->n_mig)
		read_instances(n, g, true, out);
	else if (is_chosen(n, &g->whole))
		nvml_read_fallen(&g->whole, out);
}

static void read_whole(struct nvml_state *n, struct nvml_gpu *g, struct snapshot *out)
{
	report_unusable(g, NULL);
	nvml_read_unit(n, g, &g->whole, out);
}

static void read_gpu(struct nvml_state *n, struct nvml_gpu *g, struct snapshot *out)
{
	if (!concerns_us(n, g))
		return;
	if (g->unreachable) {
		read_lost(n, g, out);
		return;
	}
	int rc = look_at_mig(n, g);
	/* It answered this before: something is wrong with the GPU. What was there is listed on, as fallen. */
	if (rc && g->n_mig) {
		read_instances(n, g, true, out);
		return;
	}
	if (g->n_mig)
		read_instances(n, g, false, out);
	else if (!is_chosen(n, &g->whole))
		return;
	else if (nvml_is_lost(rc) || (!g->mig_on && may_compute(n, g)))
		read_whole(n, g, out);
	else
		report_unusable(g, g->mig_on ? in_mig_mode : prohibited);
}

static int count_gpus(struct nvml_state *n, uint32_t *count, struct error *err)
{
	int rc = n->api.count(count);
	if (rc)
		return error_set(err, ERR_UNAVAILABLE, "NVIDIA driver: no GPU could be listed: %s", n->api.error_string(rc));
	if (*count > MAX_GPUS)
		*count = MAX_GPUS;
	return 0;
}

/* What there is to choose from. Free the names; they point into the GPUs. */
static struct nvml_name *name_machine(struct nvml_state *n, struct nvml_machine *m)
{
	size_t room = 0;
	*m = (struct nvml_machine){ 0 };
	for (uint32_t i = 0; i < n->n_gpus; i++) {
		struct nvml_gpu *g = &n->gpus[i];
		if (!g->unreachable)
			look_at_mig(n, g);
		room += 1 + g->n_mig;
	}
	struct nvml_name *names = alloc_zero((room + 1) * sizeof *names);
	for (uint32_t i = 0; i < n->n_gpus; i++) {
		const struct nvml_gpu *g = &n->gpus[i];
		const struct gpu_reading *is = &g->whole.fixed;
		m->unsure = m->unsure || g->unreachable;
		if (g->unreachable)
			continue;
		names[m->n++] = (struct nvml_name){ .uuid = is->uuid, .model = is->name, .index = is->index };
		for (uint32_t k = 0; k < g->n_mig; k++)
			names[m->n++] = (struct nvml_name){ .uuid = g->mig[k].fixed.uuid, .model = g->mig[k].fixed.name,
							    .parent = is->uuid, .index = is->index };
	}
	m->names = names;
	return names;
}

/* A list that ends early is no error, as it is none to CUDA; but whoever wrote it should hear of it. */
static int choose_as_cuda(const struct nvml_machine *m, const char *visible, struct buf *chosen, struct error *err)
{
	const char *order = getenv("CUDA_DEVICE_ORDER"), *ended;
	if (nvml_choice_cuda(m, visible, order && !strcmp(order, "FASTEST_FIRST"), chosen, &ended, err))
		return -1;
	if (ended)
		log_warn("nvml: CUDA_VISIBLE_DEVICES=%s: \"%s\" names no GPU here, so the list ends before it, as it does in CUDA",
			 visible, ended);
	log_info("nvml: CUDA_VISIBLE_DEVICES=%s: no other GPUs are used", visible);
	return 0;
}

/* Fills n->chosen, which stays NULL where nobody asked for a part of the machine. */
static int choose(struct nvml_state *n, const struct device_opening *how, struct error *err)
{
	const char *visible = getenv("CUDA_VISIBLE_DEVICES");
	struct nvml_machine m;
	scoped_buf chosen = { 0 };
	/* An earlier choice is not judged again: what is missing of it has fallen since, and the rest goes on. */
	if (how->chosen || (!how->spec && !visible)) {
		n->chosen = how->chosen ? alloc_string(how->chosen) : NULL;
		return 0;
	}
	list_gpus(n, n->counted);
	scoped_free struct nvml_name *names = name_machine(n, &m);
	int rc = how->spec ? nvml_choice_setting(&m, how->spec, &chosen, err) : choose_as_cuda(&m, visible, &chosen, err);
	n->chosen = buf_steal(&chosen);
	return rc;
}

static void kind_close(void *state)
{
	struct nvml_state *n = state;
	gpus_release(n, n->gpus, n->n_gpus);
	dcgm_destroy(n->dcgm);
	nvml_api_unload(&n->api);
	free(n->chosen);
	free(n->query);
	free(n->processes);
	free(n);
}

static void *kind_open(const struct device_opening *how, struct error *err)
{
	struct nvml_state *n = alloc_zero(sizeof *n);
	n->clocks = how->watch;
	n->query = alloc_zero(sizeof *n->query);
	if (nvml_api_load(&n->api, err) || count_gpus(n, &n->counted, err))
		goto fail;
	if (!n->counted) {
		error_set(err, ERR_UNAVAILABLE, "NVIDIA driver: it runs but sees no GPU: check nvidia-smi; to try without, "
			  "RAD_DEVICES=sim:4xa100-40g (in rad.conf: devices: sim:4xa100-40g) simulates four");
		goto fail;
	}
	if (!choose(n, how, err))
		return n;
fail:
	kind_close(n);
	return NULL;
}

static bool any_fallen(const struct snapshot *s)
{
	for (uint32_t i = 0; i < s->n_gpus; i++)
		if (s->gpus[i].fallen)
			return true;
	return false;
}

/* `listed`: they were, for this sample; `anew`: since something changed, so that nothing is known of how long it stays so. */
static void plan_relist(struct nvml_state *n, const struct snapshot *s, bool listed, bool anew)
{
	if (!any_fallen(s)) {
		n->relist_ms = 0;
		return;
	}
	if (n->relist_ms && !listed)
		return;
	anew = anew || !n->relist_ms;
	n->relist_pause_ms = anew ? FIRST_RELIST_MS : least_of(2 * n->relist_pause_ms, MAX_RELIST_MS);
	n->relist_ms = s->mono_ms + n->relist_pause_ms;
}

static int kind_sample(void *state, struct snapshot *out, struct error *err)
{
	struct nvml_state *n = state;
	uint32_t count;
	if (count_gpus(n, &count, err))
		return -1;
	bool anew = count != n->counted || !n->gpus;
	bool listed = anew || (n->relist_ms && out->mono_ms >= n->relist_ms);
	if (listed)
		list_gpus(n, count);
	n->counted = count;
	/* With every snapshot, so that it does not matter which one the daemon heard first. */
	out->chosen = n->chosen ? alloc_string(n->chosen) : NULL;
	for (uint32_t i = 0; i < n->n_gpus; i++) {
		uint32_t before = out->n_gpus;
		read_gpu(n, &n->gpus[i], out);
		/* One in MIG mode without instances adds nothing either, and is ours all the same. */
		if (out->n_gpus == before && !is_chosen(n, &n->gpus[i].whole))
			out->n_others++;
	}
	plan_relist(n, out, listed, anew);
	return 0;
}

const struct device_kind nvml_kind = {
	.name = "nvml",
	.example = "nvml, nvml:0,2 (some of the GPUs, also by UUID)",
	.needs_driver = true,
	.mps = DEVICE_MPS_SERVER,
	.mps_process = "nvidia-cuda-mps-server",
	.variables = {
		{ "CUDA_VISIBLE_DEVICES", DEVICE_SAYS_GPUS, NULL },
		{ "CUDA_DEVICE_ORDER", DEVICE_SAYS_TEXT, "PCI_BUS_ID" },
	},
	.open = kind_open,
	.sample = kind_sample,
	.close = kind_close,
};
