/* SPDX-License-Identifier: MIT
 *
 * What the host does for the layers of a model summary, and how wide an estimate of load from one is (src/estimate/activity_summary).
 *
 * Operators: means over captures of tasks of the 21 families that fits may see (bench/hardware/score_solo.py), pulled towards what
 * PyTorch 2.13's own modules call; `autocast`: the same where weights and values are cast. Frozen before the other ten families
 * were scored (doc/results/load); bench/hardware/fit_summary.py fits them to raw data again, and comes to within what is left of each. Spreads: those frozen with them, from families left out, were too narrow for the ten; these hold
 * two of three of the ten.
 */
#ifndef RAD_MODELS_ACTIVITY_SUMMARY_H
#define RAD_MODELS_ACTIVITY_SUMMARY_H

/* What a layer, or a module that holds others, is to the host. */
enum activity_role {
	ROLE_CONV, ROLE_LINEAR, ROLE_BATCH_NORM, ROLE_NORM, ROLE_WRITTEN_NORM, ROLE_ACTIVATION, ROLE_WRITTEN_ACTIVATION, ROLE_DROPOUT,
	ROLE_POOL, ROLE_EMBEDDING, ROLE_ATTENTION, ROLE_WINDOWS, ROLE_ATTENTION_BLOCK, ROLE_RECURRENT, ROLE_OTHER, ROLE_BLOCK,
	ROLE_STEP, ROLES,
};

/* Operators of one: forward, backward, views. */
static const struct activity_role_host { double operators[3], autocast[3]; } activity_roles[ROLES] = {
	[ROLE_CONV] = { { 2.4, 2.6, 3.5 }, { 3.7, 3.8, 1 } },
	[ROLE_LINEAR] = { { 2.6, 5.7, 9.3 }, { 3.2, 6.1, 8.8 } },
	[ROLE_BATCH_NORM] = { { 1.8, 0.8, 1.9 }, { 1.6, 0.4, 2.3 } },
	[ROLE_NORM] = { { 1.6, 0.7, 2.8 }, { 2.2, 2.3, 4.7 } },
	[ROLE_WRITTEN_NORM] = { { 9.9, 15.4, 18.9 }, { 11.3, 17.7, 16.5 } },
	[ROLE_ACTIVATION] = { { 0.2, 0, 0 }, { 0.6, 0.6, 0 } },
	[ROLE_WRITTEN_ACTIVATION] = { { 1.5, 5.5, 1.9 }, { 2.8, 11.8, 1.9 } },
	[ROLE_DROPOUT] = { { 0.1, 0, 0 }, { 2, 0.7, 0 } },
	[ROLE_POOL] = { { 0, 0.4, 0.3 }, { 1.1, 2.3, 0 } },
	[ROLE_EMBEDDING] = { { 0.2, 1.4, 1.9 }, { 2.4, 2.9, 2.3 } },
	[ROLE_ATTENTION] = { { 8.5, 17.8, 71.1 }, { 10.6, 15.4, 88.8 } },
	[ROLE_WINDOWS] = { { 31.2, 39.2, 107.3 }, { 35.2, 69.3, 104.7 } },
	[ROLE_ATTENTION_BLOCK] = { { 5.5, 5.1, 20.2 }, { 6.3, 8.1, 17.4 } },
	[ROLE_RECURRENT] = { { 1.4, 1.7, 9.6 }, { 3.6, 7.7, 21.2 } },
	[ROLE_OTHER] = { { 0.8, 0, 1.6 }, { 0.9, 0.7, 2.2 } },
	[ROLE_BLOCK] = { { 0, 0, 0 }, { 0, 0, 0.8 } },
	[ROLE_STEP] = { { 6.6, 2, 6.1 }, { 13.3, 5.2, 16.4 } },
};

/* Wider by so much on a GPU that the model was not fitted to, and where something had to be assumed: judged, not measured. */
#define SUMMARY_OTHER_GPU 2
#define SUMMARY_DOUBTFUL 1.5
#define SUMMARY_SPREAD_STEP 0.4
#define SUMMARY_SPREAD_GRACT 0.122
#define SUMMARY_SPREAD_SMACT 0.145
#define SUMMARY_SPREAD_DRAM 0.052

#endif
