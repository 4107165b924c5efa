/* SPDX-License-Identifier: MIT
 * Lists and files of simulated devices. What is accepted are devices that can be: with memory, power in its order, and names that are
 * text.
 */
#include "fuzz_file.h"

#include "base/alloc.h"
#include "base/scope.h"
#include "device/simdev.h"

static void check(const struct device_model *list, size_t n)
{
	FUZZ_HOLDS(n > 0 && n <= SIMDEV_MAX_NAMED);
	for (size_t i = 0; i < n; i++) {
		const struct device_model *m = &list[i];
		char uuid[GPU_UUID_LEN];
		FUZZ_HOLDS(memchr(m->name, 0, sizeof m->name) && *m->gpu_name && memchr(m->gpu_name, 0, sizeof m->gpu_name));
		FUZZ_HOLDS(m->mem_total_mib > m->mem_reserved_mib && m->sm_count > 0);
		FUZZ_HOLDS(m->idle_w >= 0 && m->peak_w >= m->idle_w && m->limit_w >= 0 && m->sm_part > 0);
		FUZZ_HOLDS(!i || m->gpu == m[-1].gpu || m->gpu == m[-1].gpu + 1);
		simdev_uuid(m, (uint32_t)i, uuid);
		FUZZ_HOLDS(memchr(uuid, 0, sizeof uuid));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct device_model *list = NULL;
	struct error err;
	size_t n = 0, nodes = 0;
	scoped_free char *text = alloc_printf("%.*s", (int)size, (const char *)data);
	if (!simdev_parse(fuzz_file(data, size), &list, &n, &err))
		check(list, n);
	free(list);
	list = NULL;
	/* That would be the name of another file. */
	if (strstr(text, ".y"))
		return 0;
	if (!simdev_parse_nodes(text, &list, &n, &nodes, &err)) {
		FUZZ_HOLDS(nodes > 0 && n % nodes == 0);
		check(list, n);
	}
	free(list);
	return 0;
}
