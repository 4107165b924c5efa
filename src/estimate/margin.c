/* SPDX-License-Identifier: MIT
 *
 * A ring of residuals for each estimator, and the same sorted.
 *
 * The ring says which residual goes when a new one comes, the sorted copy gives the quantile: both of MARGIN_KEPT doubles,
 * so an insertion is a move of at most 1.6 kB, and there is nothing to rebuild. INFINITY (beyond all bounds) sorts last, as
 * it should. Estimators are known by name and there are few; one too many keeps its built-in margin, which is no error.
 */
#include "estimate/margin.h"

#include "base/alloc.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct ring {
	char estimator[16];
	double ring[MARGIN_KEPT], sorted[MARGIN_KEPT];
	size_t n, next;
};

struct margins {
	struct ring *rings[MARGIN_ESTIMATORS];
	size_t n;
};

struct margins *margins_create(void)
{
	return alloc_zero(sizeof(struct margins));
}

void margins_destroy(struct margins *m)
{
	for (size_t i = 0; m && i < m->n; i++)
		free(m->rings[i]);
	free(m);
}

static struct ring *margin_find(const struct margins *m, const char *estimator)
{
	for (size_t i = 0; m && i < m->n; i++)
		if (!strcmp(m->rings[i]->estimator, estimator))
			return m->rings[i];
	return NULL;
}

static struct ring *margin_make(struct margins *m, const char *estimator)
{
	struct ring *r;

	if (m->n == MARGIN_ESTIMATORS)
		return NULL;
	r = m->rings[m->n++] = alloc_zero(sizeof *r);
	snprintf(r->estimator, sizeof r->estimator, "%s", estimator);
	return r;
}

/* The first of the sorted that is not below v. */
static size_t place_of(const struct ring *r, double v)
{
	size_t low = 0, high = r->n;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (r->sorted[middle] < v)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Of equal residuals any may go: they are the same number. */
static void margin_drop(struct ring *r, double v)
{
	size_t i = place_of(r, v);

	memmove(&r->sorted[i], &r->sorted[i + 1], (--r->n - i) * sizeof *r->sorted);
}

static void margin_insert(struct ring *r, double v)
{
	size_t i = place_of(r, v);

	memmove(&r->sorted[i + 1], &r->sorted[i], (r->n++ - i) * sizeof *r->sorted);
	r->sorted[i] = v;
}

void margins_note(struct margins *m, const char *estimator, double residual)
{
	struct ring *r = margin_find(m, estimator);

	if (isnan(residual) || (!r && !(r = margin_make(m, estimator))))
		return;
	if (r->n == MARGIN_KEPT)
		margin_drop(r, r->ring[r->next]);
	r->ring[r->next] = residual;
	r->next = (r->next + 1) % MARGIN_KEPT;
	margin_insert(r, residual);
}

/* Where coverage x n is whole, its product in binary may be a hair above: ceil() is not to make one more of it. */
double margins_of(const struct margins *m, const char *estimator)
{
	const struct ring *r = margin_find(m, estimator);
	size_t k = r ? (size_t)ceil((double)(r->n + 1) * MARGIN_COVERAGE - 1e-9) : 1;

	if (!r || k > r->n)
		return 0;
	return fmin(fmax(r->sorted[k - 1], MARGIN_LEAST), MARGIN_MOST);
}
