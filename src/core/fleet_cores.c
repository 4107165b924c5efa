/* SPDX-License-Identifier: MIT
 * The cores that attempts take, and whether one more would gain anything: see fleet.h.
 */
#include "core/fleet_private.h"

#include <math.h>

#define LAUNCHING (2 / 3.0)	/* of a task's first core */
#define NEED_MOVED 0.1		/* by less, nothing is asked anew */
#define STARTING_MS 120000	/* a start that takes longer is none */

static double need_of(const struct fleet *f, double wanted)
{
	double cores = fmin(wanted, fleet_cores_there(f));
	return cores - fmin(cores, 1) * (1 - LAUNCHING);
}

/* While it starts it imports and reads, with a core, whatever its loaders take later. */
static double wanted_by(const struct run *r)
{
	double seen = r->cores.busy + r->cores.waiting;
	bool starts = r->cores_expected > 1 && !r->warm && r->cpu.ran_ms < STARTING_MS;
	return isnan(seen) || (starts && seen < r->cores_expected) ? r->cores_expected : seen;
}

static struct fleet_cores rates(const struct cpu_sums *was, const struct cpu_sums *is)
{
	double ms = (double)(is->ran_ms - was->ran_ms);
	bool tells = is->wait_ms >= 0 && was->wait_ms >= 0;
	return (struct fleet_cores){ .busy = fmax((double)(is->cpu_ms - was->cpu_ms), 0) / ms,
				     .waiting = tells ? fmax((double)(is->wait_ms - was->wait_ms), 0) / ms : NAN };
}

/* The mean of the last span and of what was before it: seconds in which a task loads its next part move it by half. */
void fleet_note_cpu(struct fleet *f, task_id id, const struct cpu_sums *sums)
{
	struct run *r = fleet_run(f, id);
	if (!r || sums->ran_ms <= r->cpu.ran_ms)
		return;
	struct fleet_cores last = rates(&r->cpu, sums);
	if (!isnan(r->cores.busy))
		last.busy = (last.busy + r->cores.busy) / 2;
	if (!isnan(r->cores.waiting))
		last.waiting = (last.waiting + r->cores.waiting) / 2;
	last.need = r->cores.need;
	r->cpu = *sums;
	r->cores = last;
	double need = need_of(f, wanted_by(r));
	if (fabs(need - last.need) < NEED_MOVED)
		return;
	r->cores.need = need;
	fleet_cores_moved(f);
}

bool fleet_places_by_cores(const struct fleet *f)
{
	return fleet_cores_there(f) > 0;
}

uint64_t fleet_cores_version(const struct fleet *f)
{
	return f->cores_version;
}

struct fleet_cores fleet_cores_of(const struct fleet *f, task_id id)
{
	const struct run *r = fleet_run(f, id);
	struct fleet_cores of = r ? r->cores : (struct fleet_cores){ NAN, NAN, NAN };
	of.need = r && fleet_cores_there(f) > 0 ? need_of(f, wanted_by(r)) : NAN;
	return of;
}

/* Of n tasks that together need so much, in tasks that run as if they had all cores they need. */
static double worth(double n, double need, double have)
{
	return need > have ? n * have / need : n;
}

void fleet_cores_judge(struct map_cores *c, double n)
{
	c->gain = worth(n + 1, c->need + c->more, c->have) - worth(n, c->need, c->have);
	c->used_up = !(c->gain > MAP_CORES_GAIN + 1e-9);	/* of equal tasks on an odd number of cores it is just that */
}

struct map_cores fleet_cores_room(const struct fleet *f, double wanted, fleet_gone *gone, const void *ctx)
{
	struct map_cores c = { .have = fleet_cores_there(f), .wanted = wanted };
	double n = 0;
	size_t at = 0;
	if (!(c.have > 0))
		return c;
	for (const struct run *r; (r = idmap_next(&f->runs, &at));) {
		if (gone && gone(ctx, r->t->id))
			continue;
		c.need += need_of(f, wanted_by(r));
		n++;
	}
	c.more = need_of(f, wanted);
	fleet_cores_judge(&c, n);
	return c;
}
