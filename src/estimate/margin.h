/* SPDX-License-Identifier: MIT
 *
 * Margins learnt from finished runs: split conformal prediction, one-sided, an estimator at a time. The residual of a run is
 * how far its peak was above the estimate, relative to it. Under exchangeability the next run's residual is, with probability
 * MARGIN_COVERAGE at least, not above the k-th smallest of n seen ones, k = ceil((n + 1) * coverage); with k > n there are
 * too few to say so.
 *
 * Runs of one user are like each other, and he may run the same odd task five hundred times. So a user's own runs say it for
 * his where they are enough; else those of all users do without the one who raises it most: nobody alone takes another's
 * margin beyond what the rest says. Pure.
 */
#ifndef RAD_ESTIMATE_MARGIN_H
#define RAD_ESTIMATE_MARGIN_H

#include <stddef.h>

#define MARGIN_COVERAGE 0.95
#define MARGIN_KEPT 200		/* newest residuals of an estimator that count: what it did long ago says little. Of that many the
				 * oldest of the user who has most gives way */
#define MARGIN_LEAST 0.02	/* margins stay between these, whatever was seen */
#define MARGIN_MOST 0.50
#define MARGIN_ESTIMATORS 16	/* estimators that residuals are kept of; further ones keep their own margins */

struct margins;

struct margins *margins_create(void);
/* Takes NULL. */
void margins_destroy(struct margins *m);

/* A run of `estimator` ended: its peak / what was estimated - 1. INFINITY: above all bounds. Not a number: ignored. The
 * signature tells whose it was. */
void margins_note(struct margins *m, const char *estimator, const char *signature, double residual);
/* The learnt margin for tasks of that signature's user (NULL: of nobody's), relative to the estimate; 0: too few runs are
 * known. NULL knows of none. */
double margins_of(struct margins *m, const char *estimator, const char *signature);

#endif
