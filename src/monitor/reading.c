/* SPDX-License-Identifier: MIT
 * Snapshots: plain arrays that grow by one.
 */
#include "monitor/reading.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

const char *smact_source_name(enum smact_source s)
{
	static const char *const names[] = { "none", "gpm", "dcgm", "sim" };
	return (size_t)s < sizeof names / sizeof *names ? names[s] : "none";
}

void snapshot_clear(struct snapshot *s)
{
	free(s->gpus);
	free(s->procs);
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
