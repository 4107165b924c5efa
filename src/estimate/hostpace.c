/* SPDX-License-Identifier: MIT
 *
 * The newest tasks that told a pace, and the median of what they told, drawn towards 1. A few dozen: a machine changes (a
 * driver, a kernel, what its tasks are), and what it was long ago says little.
 */
#include "estimate/hostpace.h"

#include "base/alloc.h"
#include "base/hash.h"
#include "estimate/activity_private.h"
#include "models/hostpace.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct vote { int64_t key; double log2_pace; };

struct hostpaces {
	struct vote votes[HOSTPACE_KEPT];	/* the oldest first */
	size_t n;
	struct hostpace now;
};

struct hostpaces *hostpace_create(void)
{
	struct hostpaces *h = alloc_zero(sizeof *h);
	h->now.pace = 1;
	return h;
}

void hostpace_destroy(struct hostpaces *h)
{
	free(h);
}

static int by_pace(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static double median_of(const struct hostpaces *h)
{
	double sorted[HOSTPACE_KEPT];
	for (size_t i = 0; i < h->n; i++)
		sorted[i] = h->votes[i].log2_pace;
	qsort(sorted, h->n, sizeof *sorted, by_pace);
	return (sorted[(h->n - 1) / 2] + sorted[h->n / 2]) / 2;
}

/* The place of that task's earlier word, else of the one that goes; the ones behind it move up. */
static void make_room(struct hostpaces *h, int64_t key)
{
	size_t at = 0;
	while (at < h->n && h->votes[at].key != key)
		at++;
	if (at == h->n && h->n < HOSTPACE_KEPT)
		return;
	at = at == h->n ? 0 : at;
	memmove(&h->votes[at], &h->votes[at + 1], (--h->n - at) * sizeof *h->votes);
}

void hostpace_note(struct hostpaces *h, const char *signature, double pace)
{
	if (!*signature || !(pace > 0))
		return;
	int64_t key = hash_key(signature);
	make_room(h, key);
	h->votes[h->n++] = (struct vote){ key, log2(fmin(fmax(pace, 1 / HOSTPACE_MOST), HOSTPACE_MOST)) };
	h->now.tasks = (unsigned)h->n;
	h->now.pace = exp2(median_of(h) * (double)h->n / ((double)h->n + HOSTPACE_SHRINK));
}

struct hostpace hostpace_of(const struct hostpaces *h)
{
	return h->now;
}

double hostpace_told(const struct load_belief *guess, double gract)
{
	double b = guess->load.gract, h = guess->host;
	if (guess->source != LOAD_GUESSED || !(h > b) || !(b > 0) || !(gract > 0 && gract < HOSTPACE_BUSY))
		return 0;
	return activity_other(b / gract - 1 + activity_larger(h, b), b) / h;
}

double hostpace_apply(struct load_belief *guess, double pace, const char *gpu_name)
{
	struct load_belief *g = guess;
	if (g->source != LOAD_GUESSED || !(g->host > 0) || !(g->load.gract >= 0) || !(pace > 0) || pace == 1)
		return 1;
	const struct gpus_row *gpu = activity_gpu(gpu_name, NULL);
	double longer = 1 + activity_larger(pace * g->host, g->load.gract) - activity_larger(g->host, g->load.gract);
	g->load.gract /= longer;
	g->load.smact /= longer;
	g->load.kernels /= longer;
	g->dram = g->dram > longer ? 1 : g->dram / longer;
	g->watts = gpu ? gpu->idle_w + (g->watts - gpu->idle_w) / longer : NAN;
	g->host *= pace / longer;
	return longer;
}
