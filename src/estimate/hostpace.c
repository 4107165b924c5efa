/* SPDX-License-Identifier: MIT
 *
 * The newest tasks that told a pace, the median of each user's, and of those the median, drawn towards 1. A few dozen: a
 * machine changes (a driver, a kernel, what its tasks are), and what it was long ago says little.
 */
#include "estimate/hostpace.h"

#include "base/alloc.h"
#include "base/hash.h"
#include "base/order.h"
#include "estimate/activity_private.h"
#include "estimate/whose.h"
#include "models/hostpace.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct vote { int64_t key, user; double log2_pace; };

struct hostpaces {
	struct vote votes[HOSTPACE_KEPT];	/* the oldest first */
	size_t n;
	bool told;		/* what `now` says is of these */
	struct hostpace now;
};

struct hostpaces *hostpace_create(void)
{
	return alloc_zero(sizeof(struct hostpaces));
}

void hostpace_destroy(struct hostpaces *h)
{
	free(h);
}

static unsigned votes_of(const struct hostpaces *h, int64_t user)
{
	unsigned n = 0;
	for (size_t i = 0; i < h->n; i++)
		n += h->votes[i].user == user;
	return n;
}

static double median_of_user(const struct hostpaces *h, int64_t user)
{
	double sorted[HOSTPACE_KEPT] = { 0 };
	size_t n = 0;
	for (size_t i = 0; i < h->n; i++)
		if (h->votes[i].user == user)
			sorted[n++] = h->votes[i].log2_pace;
	qsort(sorted, n, sizeof *sorted, order_double);
	return (sorted[(n - 1) / 2] + sorted[n / 2]) / 2;
}

/* Of two in the middle what is nearest to 0: one user alone never takes it further from 1 than another's tasks say. */
static double middle_of(double *medians, size_t users)
{
	qsort(medians, users, sizeof *medians, order_double);
	double low = medians[(users - 1) / 2], high = medians[users / 2];
	return low > 0 ? low : high < 0 ? high : 0;
}

/* As many tasks as one user's would have to be to tell as much: a mean of medians varies by the sum of 1 / n, over users^2. */
static struct hostpace pace_now(const struct hostpaces *h)
{
	double medians[HOSTPACE_KEPT], inverse = 0;
	size_t users = 0;
	for (size_t i = 0; i < h->n; i++) {
		size_t before = 0;
		while (h->votes[before].user != h->votes[i].user)
			before++;
		if (before < i)
			continue;
		medians[users++] = median_of_user(h, h->votes[i].user);
		inverse += 1 / (double)votes_of(h, h->votes[i].user);
	}
	if (!users)
		return (struct hostpace){ 1, 0 };
	double n = (double)(users * users) / inverse;
	return (struct hostpace){ exp2(middle_of(medians, users) * n / (n + HOSTPACE_SHRINK)), (unsigned)h->n };
}

/* The oldest of who has most here, so that nobody's many push out others' few. */
static size_t who_goes(const struct hostpaces *h)
{
	size_t at = 0;
	unsigned most = 0;
	for (size_t i = 0; i < h->n; i++) {
		unsigned n = votes_of(h, h->votes[i].user);
		if (n > most)
			at = i, most = n;
	}
	return at;
}

/* The place of that task's earlier word, else of the one that goes; the ones behind it move up. */
static void make_room(struct hostpaces *h, int64_t key)
{
	size_t at = 0;
	while (at < h->n && h->votes[at].key != key)
		at++;
	if (at == h->n && h->n < HOSTPACE_KEPT)
		return;
	at = at == h->n ? who_goes(h) : at;
	memmove(&h->votes[at], &h->votes[at + 1], (--h->n - at) * sizeof *h->votes);
}

void hostpace_note(struct hostpaces *h, const char *signature, double pace)
{
	if (!*signature || !(pace > 0))
		return;
	int64_t key = hash_key(signature), user = whose(signature);
	make_room(h, key);
	h->votes[h->n++] = (struct vote){ key, user, log2(fmin(fmax(pace, 1 / HOSTPACE_MOST), HOSTPACE_MOST)) };
	h->told = false;
}

struct hostpace hostpace_of(struct hostpaces *h)
{
	if (!h->told)
		h->now = pace_now(h);
	h->told = true;
	return h->now;
}

double hostpace_told(const struct load_belief *guess, double gract)
{
	double b = guess->load.gract, h = guess->host;
	if (guess->source != LOAD_GUESSED || guess->loader >= 1 || !(h > b) || !(b > 0 && b < HOSTPACE_BUSY) ||
	    !(gract > 0 && gract <= 1))
		return 0;
	/* On a fast host the GPU decides, and its GRACT tells the most that the pace can be. */
	double told = activity_other(b / fmin(gract, HOSTPACE_BUSY) - 1 + activity_larger(h, b), b) / h;
	return fmax(told, 1 / HOSTPACE_MOST);
}

static double hostpace_longer(const struct load_belief *g, double pace)
{
	double larger = activity_larger(pace * g->host, g->load.gract);
	return g->loader >= 1 ? fmax(1, larger) : fmax(g->loader, 1 + larger - activity_larger(g->host, g->load.gract));
}

double hostpace_apply(struct load_belief *guess, double pace, const char *gpu_name)
{
	struct load_belief *g = guess;
	if (g->source != LOAD_GUESSED || !(g->host > 0) || !(g->load.gract >= 0) || !(pace > 0) || pace == 1)
		return 1;
	const struct gpus_row *gpu = activity_gpu(gpu_name, NULL);
	double longer = hostpace_longer(g, pace);
	g->load.gract /= longer;
	g->load.smact /= longer;
	g->load.kernels /= longer;
	g->dram = g->dram > longer ? 1 : g->dram / longer;
	g->watts = gpu ? gpu->idle_w + (g->watts - gpu->idle_w) / longer : NAN;
	g->host *= pace / longer;
	g->run_s *= longer;
	g->loader /= longer;
	g->cores = g->cores > 1 ? 1 + (g->cores - 1) / longer : g->cores;
	return longer;
}
