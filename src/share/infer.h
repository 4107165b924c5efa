/* SPDX-License-Identifier: MIT
 *
 * What each task on a GPU does alone, from what the GPU shows while several share it: under MPS a driver tells no more than the
 * sum. Pure; used by the core in daemon and simulator alike.
 *
 * With loads (g_i, s_i) alone, share.h gives speeds v_i, and the GPU shows the sum of v_i x s_i (models/infer.h: what of it is
 * not a sum). That is one equation in the loads of all; where the set of tasks changes, the next span gives another one. What
 * is believed is a cloud of guesses, each the loads of all tasks, and a weight for each:
 *	a span shows z:   w_k <- w_k x L(z - h(loads_k)),   L as wide as the law's own error
 * (a particle filter: "Novel approach to nonlinear/non-Gaussian Bayesian state estimation", Gordon, Salmond, Smith). A task
 * that has left stays in the guesses for a while, since what the others show afterwards says what it did.
 *
 * A span counts once, however many samples it has: its error is the law's, which does not average out. So as long as a span
 * lasts, its mean so far is applied to what was believed before it.
 */
#ifndef RAD_SHARE_INFER_H
#define RAD_SHARE_INFER_H

#include "share/share.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define INFER_MOST 12	/* tasks, those that left counted; with more present nothing is inferred */

/* What a GPU showed, as means over `seconds` in which the same tasks ran there and no others. NaN: not known. */
struct infer_reading { double gract, smact, dram, seconds; };

struct infer;	/* one per GPU */

struct infer *infer_create(void);
/* Takes NULL. */
void infer_destroy(struct infer *f);

/* A task comes, of which this is believed; one goes. Ids are the caller's. What the span so far said is kept. */
void infer_join(struct infer *f, int64_t id, const struct load_belief *prior);
void infer_leave(struct infer *f, int64_t id);

/* The mean of the open span so far; replaces what was said of it before. What cannot be (NaN, out of range, less than a second)
 * teaches nothing. */
void infer_span(struct infer *f, enum share_mode mode, const struct infer_reading *mean);

/* The open span was not what it seemed: as if nothing had been said of it. */
void infer_forget_span(struct infer *f);

/* What is believed of a task now, LOAD_INFERRED as soon as its readings said something; until then about the prior, with
 * its source: guesses are drawn around it, a few of them far away. Its kernels are those of the prior, whatever was inferred.
 * False: it is not there, or was forgotten. */
bool infer_belief(const struct infer *f, int64_t id, struct load_belief *out);
/* What its readings alone said, the prior taken out again: evidence that may be put together with other evidence. Unknown where
 * they said nothing. */
struct load_belief infer_evidence(const struct infer *f, int64_t id);

/* Two independent beliefs as one, by inverse variance; one without a spread counts as vague. Watts: `a`'s, else `b`'s. */
struct load_belief infer_combine(const struct load_belief *a, const struct load_belief *b);

#endif
