/* SPDX-License-Identifier: MIT
 * Snapshots: plain arrays that grow by one.
 */
#include "device/reading.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/scope.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *smact_source_name(const char *smact_source)
{
	return *smact_source ? smact_source : "none";
}

const char *reading_number(uint32_t index, bool mig, uint32_t instance, char text[GPU_NUMBER_LEN])
{
	int n = snprintf(text, GPU_NUMBER_LEN, "%u", index);
	if (mig)
		snprintf(text + n, GPU_NUMBER_LEN - (size_t)n, ":%u", instance);
	return text;
}

void reading_energy_add(struct reading_energy *e, const struct gpu_reading *r)
{
	if (!(r->valid & GPU_ENERGY))
		return;
	if (e->known && r->energy_j > e->counter_j)
		e->used_j += r->energy_j - e->counter_j;
	e->counter_j = r->energy_j;
	e->known = true;
}

void snapshot_clear(struct snapshot *s)
{
	free(s->gpus);
	free(s->procs);
	free(s->chosen);
	memset(s, 0, sizeof *s);
}

/* No capacity is kept: the array has room for the next power of two, at least 8. */
static void *grow_by_one(void *array, uint32_t n, size_t size)
{
	if (!n || (n >= 8 && !(n & (n - 1))))
		array = alloc_resize(array, n ? (size_t)n * 2 : 8, size);
	memset((char *)array + n * size, 0, size);
	return array;
}

struct gpu_reading *snapshot_add_gpu(struct snapshot *s)
{
	s->gpus = grow_by_one(s->gpus, s->n_gpus, sizeof *s->gpus);
	return &s->gpus[s->n_gpus++];
}

struct proc_reading *snapshot_add_proc(struct snapshot *s)
{
	s->procs = grow_by_one(s->procs, s->n_procs, sizeof *s->procs);
	return &s->procs[s->n_procs++];
}

/* A GPU's instances follow each other and share its index: it counts once. */
char *snapshot_describe(const struct snapshot *s)
{
	scoped_buf list = { 0 };
	uint32_t n = 0;
	for (uint32_t i = 0; i < s->n_gpus; i++) {
		if (i && s->gpus[i].index == s->gpus[i - 1].index)
			continue;
		buf_printf(&list, "%s%u", n++ ? ", " : "", s->gpus[i].index);
	}
	if (!s->n_others)
		return alloc_printf("%u GPU%s", n, n == 1 ? "" : "s");
	if (!n)
		return alloc_printf("none of %u GPUs", s->n_others);
	return alloc_printf("GPU%s %s of %u", n == 1 ? "" : "s", buf_text(&list), n + s->n_others);
}
