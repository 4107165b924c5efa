/* SPDX-License-Identifier: MIT
 *
 * How much longer this machine's host takes to launch the same work than the hosts that the load model was fitted on: its pace,
 * 1 where it is as they were. Learnt from tasks of which a guess of the load was at hand, and which then had their GPU alone.
 *
 * A guess says what GPU and host take by themselves, as parts of a step: b (its GRACT) and h. At the pace p a step is
 *	f(p) = 1 + larger(p h, b) - larger(h, b)	times as long (larger: as in activity.h),
 * and as the GPU does the same work in it, GRACT is b / f(p). So one that was measured, g, tells p where the host decides:
 *	larger(p h, b) = b / g - 1 + larger(h, b)
 * Where data loaders hold a step up (load.h, `loader` 1), it gets longer only once the host takes longer than they do, and it
 * tells nothing of the host; else it is as long as they need at least.
 * Which tasks tell is decided by the guess, not by what came: else only the slow side would be heard. Where the GPU turned out
 * to decide, p is no more than what the GRACT at which it begins to tells.
 *
 * Each task is off by what its guess is. Where logarithms are that of p and errors of variance s^2, and hosts differ by t^2
 * about 0, the median of n tasks counts n / (n + k), k = (pi / 2) s^2 / t^2 (models/hostpace.h), and 1 the rest. A capture is
 * its user's word: a user counts once, by the median of his, and of two users' medians the one nearer to 1 does.
 *
 * A loader of which nothing is known and that does not keep up looks like a slow host: what is learnt is how tasks of this
 * machine go. Pure.
 */
#ifndef RAD_ESTIMATE_HOSTPACE_H
#define RAD_ESTIMATE_HOSTPACE_H

#include "task/load.h"

#define HOSTPACE_MOST 4.0	/* paces are between this and its inverse: beyond, it is not the host */

/* pace 1, tasks 0: nothing is known. */
struct hostpace { double pace; unsigned tasks; };

struct hostpaces;

struct hostpaces *hostpace_create(void);
/* Takes NULL. */
void hostpace_destroy(struct hostpaces *h);

/* What one run told (hostpace_told); what is not above 0 tells nothing. Runs of one signature count once, the newest of
 * them; of no signature (""), not at all. Whose it is: estimate/whose.h. */
void hostpace_note(struct hostpaces *h, const char *signature, double pace);
/* What is believed by now, and from how many tasks. */
struct hostpace hostpace_of(struct hostpaces *h);

/* The pace that a GRACT measured alone tells of, beside the guess of it; 0: it tells none. */
double hostpace_told(const struct load_belief *guess, double gract);

/* Makes a guess one for a host of that pace, on that model of GPU (NULL: not known; then watts are not). Returns how many times
 * as long its step is. Any other belief, or one that does not know the host's part, stays as it is: 1. */
double hostpace_apply(struct load_belief *guess, double pace, const char *gpu_name);

#endif
