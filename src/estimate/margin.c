/* SPDX-License-Identifier: MIT
 *
 * The newest residuals of each estimator, how many of them each user has, and what they come to, which is worked out when it
 * is asked for: after a start thousands of outcomes are told before anybody asks. INFINITY (beyond all bounds) sorts last, as
 * it should. Estimators are known by name and there are few; one too many keeps its built-in margin, which is no error.
 */
#include "estimate/margin.h"

#include "base/alloc.h"
#include "estimate/whose.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct residual { double value; int64_t user; };

/* One who has some of them. */
struct voice { int64_t user; size_t n; double margin; };

struct ring {
	char estimator[16];
	struct residual kept[MARGIN_KEPT];	/* the oldest first */
	struct voice voices[MARGIN_KEPT];
	size_t n, n_voices;
	bool told;		/* what `shared` and the voices' margins say is of these */
	double shared;
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

/* n_voices: he has none there. */
static size_t voice_of(const struct ring *r, int64_t user)
{
	size_t i = 0;

	while (i < r->n_voices && r->voices[i].user != user)
		i++;
	return i;
}

/* The oldest of who has most, so that nobody's many push out others' few. */
static void margin_drop(struct ring *r)
{
	size_t most = 0, at = 0;

	for (size_t i = 1; i < r->n_voices; i++)
		if (r->voices[i].n > r->voices[most].n)
			most = i;
	while (r->kept[at].user != r->voices[most].user)
		at++;
	memmove(&r->kept[at], &r->kept[at + 1], (--r->n - at) * sizeof *r->kept);
	if (!--r->voices[most].n)
		r->voices[most] = r->voices[--r->n_voices];
}

void margins_note(struct margins *m, const char *estimator, const char *signature, double residual)
{
	struct ring *r = margin_find(m, estimator);
	int64_t user = whose(signature);

	if (isnan(residual) || (!r && !(r = margin_make(m, estimator))))
		return;
	if (r->n == MARGIN_KEPT)
		margin_drop(r);
	size_t v = voice_of(r, user);
	if (v == r->n_voices)
		r->voices[r->n_voices++] = (struct voice){ .user = user };
	r->voices[v].n++;
	r->kept[r->n++] = (struct residual){ residual, user };
	r->told = false;
}

static int by_value(const void *a, const void *b)
{
	const struct residual *x = a, *y = b;

	return (x->value > y->value) - (x->value < y->value);
}

/* Of n of the sorted: those of that user, or all others'. Where coverage x n is whole, its product in binary may be a hair
 * above: ceil() is not to make one more of it. */
static double quantile(const struct residual *sorted, int64_t user, bool his, size_t n)
{
	size_t k = (size_t)ceil((double)(n + 1) * MARGIN_COVERAGE - 1e-9);

	if (k > n)
		return 0;
	for (;; sorted++)
		if ((sorted->user == user) == his && !--k)
			return fmin(fmax(sorted->value, MARGIN_LEAST), MARGIN_MOST);
}

static void margin_tell(struct ring *r)
{
	struct residual sorted[MARGIN_KEPT];

	memcpy(sorted, r->kept, r->n * sizeof *sorted);
	qsort(sorted, r->n, sizeof *sorted, by_value);
	r->shared = MARGIN_MOST;
	for (size_t i = 0; i < r->n_voices; i++) {
		struct voice *v = &r->voices[i];

		v->margin = quantile(sorted, v->user, true, v->n);
		r->shared = fmin(r->shared, quantile(sorted, v->user, false, r->n - v->n));
	}
	r->told = true;
}

double margins_of(struct margins *m, const char *estimator, const char *signature)
{
	struct ring *r = margin_find(m, estimator);

	if (!r)
		return 0;
	if (!r->told)
		margin_tell(r);
	size_t v = voice_of(r, whose(signature));
	return v < r->n_voices && r->voices[v].margin > 0 ? r->voices[v].margin : r->shared;
}
