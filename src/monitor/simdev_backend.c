/* SPDX-License-Identifier: MIT
 * The monitor backend "sim": the file of simulated devices named by RAD_SIM_DEVICES.
 */
#include "monitor/backends.h"
#include "monitor/simdev.h"

#include <stdlib.h>

static void *backend_open(const char *spec, struct error *err)
{
	const char *path = getenv("RAD_SIM_DEVICES");
	if (!*spec) {
		error_set(err, ERR_INVALID, "sim: which devices? Say sim:4xa100-40g, or sim:FILE.yaml");
		return NULL;
	}
	if (!path || !*path) {
		error_set(err, ERR_INVALID, "sim: RAD_SIM_DEVICES is not set; it names the file of the devices");
		return NULL;
	}
	return simdev_open(path, spec, err);
}

static int backend_sample(void *state, struct snapshot *out, struct error *err)
{
	return simdev_snapshot(state, out, err);
}

static void backend_close(void *state)
{
	simdev_close(state);
}

const struct monitor_backend simdev_backend = { "sim", backend_open, backend_sample, backend_close };
