/* SPDX-License-Identifier: MIT
 *
 * The kind "sim": simulated devices for whoever has no GPU. They live in one file beside the state, so that they outlast the
 * daemon as real ones do; tasks find it by RAD_SIM_DEVICES, and take part in MPS by pointing at it. What would name real GPUs
 * (CUDA_VISIBLE_DEVICES in radd's own environment) says nothing of them.
 */
#include "base/scope.h"
#include "device/kinds.h"
#include "device/simdev.h"

#include <unistd.h>

static int want_spec(const char *spec, struct error *err)
{
	return spec && *spec ? 0 : error_set(err, ERR_INVALID, "sim: which devices? Say sim:4xa100-40g, or sim:FILE.yaml");
}

static int kind_check(const char *spec, struct error *err)
{
	scoped_free struct device_model *models = NULL;
	size_t n = 0;
	return want_spec(spec, err) ? -1 : simdev_parse(spec, &models, &n, err);
}

static void *kind_open(const struct device_opening *how, struct error *err)
{
	if (want_spec(how->spec, err))
		return NULL;
	if (!how->file) {
		error_set(err, ERR_INVALID, "sim: there is no state folder for the file of the devices");
		return NULL;
	}
	/* A watcher takes devices as they are: other ones are made by radd, whose tasks run on them. */
	bool there = how->watch && !access(how->file, F_OK);
	struct simdev *s = simdev_open(how->file, there ? NULL : how->spec, err);
	if (!s || !there || !how->as_given || !simdev_check(s, how->spec, err))
		return s;
	simdev_close(s);
	return NULL;
}

static int kind_sample(void *state, struct snapshot *out, struct error *err)
{
	return simdev_snapshot(state, out, err);
}

static void kind_close(void *state)
{
	simdev_close(state);
}

const struct device_kind simdev_kind = {
	.name = "sim",
	.example = "sim:4xa100-40g, or sim:FILE.yaml",
	.file = "sim-devices",
	.mps = DEVICE_MPS_FILE,
	.variables = {
		{ "CUDA_VISIBLE_DEVICES", DEVICE_SAYS_GPUS, NULL },
		{ "CUDA_DEVICE_ORDER", DEVICE_SAYS_TEXT, "PCI_BUS_ID" },
		{ "RAD_SIM_DEVICES", DEVICE_SAYS_FILE, NULL },
	},
	.check = kind_check,
	.open = kind_open,
	.sample = kind_sample,
	.close = kind_close,
};
