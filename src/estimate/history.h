/* SPDX-License-Identifier: MIT
 *
 * What finished attempts taught: peaks and loads by signature and model of GPU, residuals of the estimators, and the host's
 * pace. Pure; told of each attempt as it ends, and of stored ones after a start in the same order, it knows the same.
 *
 * What an attempt tells depends on how it ended:
 *	completed, warm, without a limit	its peak is what such a run takes; so of one that made place at the end of its time
 *						slot: it trained as it goes on to (of how long such a run takes, it says nothing)
 *	completed under a limit (fence)		that limit is enough; its peak is a lower bound: the limit may have held it down
 *	anything else				its peak is a lower bound
 *	out of memory				what it had is too little; until a whole run was seen, the next ones get more than that
 * Loads: means of the time a task was alone on its GPUs; where it never was, what was inferred in company (share/infer.h),
 * attempts put together by inverse variance.
 */
#ifndef RAD_ESTIMATE_HISTORY_H
#define RAD_ESTIMATE_HISTORY_H

#include "estimate/estimate.h"
#include "estimate/hostpace.h"
#include "task/task.h"

#include <stdint.h>

#define HISTORY_SIGNATURES 100000	/* the ones that nothing was heard of for longest are forgotten above that */
#define HISTORY_MODELS 4		/* models of GPU remembered of one signature; then the one heard of least recently goes */
#define HISTORY_ALONE_S 1.5		/* alone and computing for less than that says nothing of a task's load */
#define HISTORY_WORKED 8		/* runs over which a mean time goes: what a task takes may change */
#define HISTORY_USUAL 100		/* signatures of which it is told what tasks usually take: the newest. Of that many the
					 * oldest of the user who has most gives way, */
#define HISTORY_USUAL_LEAST 5		/* once there are so many */

/* An attempt that ended. Texts are borrowed. */
struct outcome {
	int64_t told_ms;		/* wall; when it became known */
	const char *signature;		/* "": none; it then only tells of its estimator */
	const char *gpu_name;		/* model of its first GPU; "": not known */
	const char *estimator;		/* whose estimate it was placed by */
	uint64_t comfort_mib;		/* that estimate; 0: none */
	enum verdict verdict;
	bool fenced;
	uint64_t claim_mib;		/* held for it, its limit when it was fenced */
	uint64_t retry_mib;		/* out of memory: what the next run should have, while nothing better is known */
	double host_pace;		/* that its load alone told of, beside the guess of it (hostpace.h); not above 0: none */
	double cores;			/* that its threads ran on or waited for; not above 0: not known */
	struct measured seen;
};

/* The last attempt of a task. `retry_mib` is left 0. */
struct outcome history_outcome(const struct task *t, const char *gpu_name, int64_t told_ms);
/* Whether it teaches anything. */
bool history_tells(const struct outcome *o);

struct history;

struct history *history_create(size_t max_signatures);
/* Takes NULL. */
void history_destroy(struct history *h);

void history_note(struct history *h, const struct outcome *o);

/* What is known of runs of that signature (NULL: none) on that model of GPU (NULL: not known, or several); where that model
 * never ran it, of the model that took most. `gpu_name` of the result lives until the next note. Never fails: all zero. */
struct estimate_history history_lookup(const struct history *h, const char *signature, const char *gpu_name);

/* When (wall) something was last learnt of it; 0: never. */
int64_t history_told_ms(const struct history *h, const char *signature);

/* What tasks of which nothing is known take, of the HISTORY_USUAL signatures that count, with a margin; where too few do,
 * MARGIN_USUAL_MIB and MARGIN_USUAL_MEAN_MIB. */
struct history_usual {
	uint64_t most_mib;		/* 19 in 20 took no more */
	uint64_t mean_mib;		/* at most that */
};

struct history_usual history_usual(const struct history *h);

size_t history_count(const struct history *h);
struct margins *history_margins(const struct history *h);
struct hostpace history_host_pace(const struct history *h);

#endif
