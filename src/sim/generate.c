/* SPDX-License-Identifier: MIT
 * Traces made by dice.
 */
#include "sim/generate.h"

#include "base/alloc.h"
#include "base/scope.h"
#include "base/units.h"
#include "sim/dice.h"

#include <string.h>

/* How many tasks of each class: rounded down, and the rest to the largest remainders. */
static void split(const struct generate_options *o, size_t count[SIM_CLASSES])
{
	uint64_t sum = 0, rest[SIM_CLASSES];
	size_t left = o->n;
	for (unsigned i = 0; i < SIM_CLASSES; i++)
		sum += o->share[i];
	for (unsigned i = 0; i < SIM_CLASSES; i++) {
		count[i] = o->n * o->share[i] / sum;
		rest[i] = o->n * o->share[i] % sum;
		left -= count[i];
	}
	for (; left; left--) {
		unsigned best = 0;
		for (unsigned i = 1; i < SIM_CLASSES; i++)
			best = rest[i] > rest[best] ? i : best;
		count[best]++;
		rest[best] = 0;
	}
}

/* The workloads of one class that can be used. Free the list. */
static size_t of_class(const struct sim_workloads *w, unsigned class, uint32_t **list)
{
	size_t n = 0;
	*list = alloc_resize(NULL, w->n + 1, sizeof **list);
	for (size_t i = 0; i < w->n; i++)
		if (w->list[i].class == (int)class && !w->list[i].missing)
			(*list)[n++] = (uint32_t)i;
	return n;
}

static int choose(const struct sim_workloads *w, unsigned class, size_t count, struct dice *d, uint32_t *out, struct error *err)
{
	scoped_free uint32_t *list = NULL;
	size_t n = of_class(w, class, &list);
	if (count && !n)
		return error_set(err, ERR_INVALID, "%s: has no workload of class %s (column 'class': light, medium or heavy)", w->path,
				 sim_class_names[class]);
	for (size_t i = 0; i < count; i++)
		out[i] = list[dice_below(d, n)];
	return 0;
}

static void shuffle(uint32_t *list, size_t n, struct dice *d)
{
	for (size_t i = n; i > 1; i--) {
		size_t k = dice_below(d, i);
		uint32_t other = list[k];
		list[k] = list[i - 1];
		list[i - 1] = other;
	}
}

int generate_trace(const struct generate_options *o, const struct sim_workloads *w, struct sim_trace *out, struct error *err)
{
	scoped_free uint32_t *chosen = alloc_zero(o->n * sizeof *chosen);
	struct dice d = { o->seed };
	size_t count[SIM_CLASSES], at = 0;
	*out = (struct sim_trace){ .path = alloc_string("generated") };
	split(o, count);
	for (unsigned i = 0; i < SIM_CLASSES; at += count[i++])
		if (choose(w, i, count[i], &d, chosen + at, err))
			return -1;
	shuffle(chosen, o->n, &d);
	int64_t at_ms = 0;
	for (size_t i = 0; i < o->n; i++) {
		alloc_grow(out->list, out->n, out->cap);
		/* Whole seconds, as logs have them. */
		out->list[out->n++] = (struct sim_arrival){ .submit_ms = at_ms / 1000 * 1000, .workload = chosen[i],
							    .line = (uint32_t)i + 2 };
		at_ms += dice_exponential_ms(&d, o->interval_ms);
	}
	return 0;
}

static int read_share(char *pair, unsigned share[SIM_CLASSES], struct error *err)
{
	char *equals = strchr(pair, '=');
	int64_t v;
	for (unsigned i = 0; equals && i < SIM_CLASSES; i++) {
		if (strlen(sim_class_names[i]) != (size_t)(equals - pair) || strncmp(pair, sim_class_names[i], (size_t)(equals - pair)))
			continue;
		if (units_parse_int(equals + 1, 0, 1000000, &v, err))
			return error_wrap(err, "%s", sim_class_names[i]);
		share[i] = (unsigned)v;
		return 0;
	}
	return error_set(err, ERR_INVALID, "'%.40s': write light=65,medium=27,heavy=8", pair);
}

int generate_parse_mix(const char *text, unsigned share[SIM_CLASSES], struct error *err)
{
	scoped_free char *copy = alloc_string(text);
	unsigned sum = 0;
	memset(share, 0, SIM_CLASSES * sizeof *share);
	for (char *rest = copy, *pair; (pair = strsep(&rest, ","));)
		if (read_share(pair, share, err))
			return -1;
	for (unsigned i = 0; i < SIM_CLASSES; i++)
		sum += share[i];
	return sum ? 0 : error_set(err, ERR_INVALID, "'%.40s': all shares are 0", text);
}
