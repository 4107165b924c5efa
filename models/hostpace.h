/* SPDX-License-Identifier: MIT
 *
 * Parameters of src/estimate/hostpace: how far a few tasks are believed about the host's pace. Frozen: a change is a new score.
 *
 * Source: the 205 tasks on H200 of doc/results/load, each family left out of the fit in turn, in the three processes that measured
 * them. Of 116 guess and GPU say that the host decides. The logarithms of the paces that they tell are within 0.256 of their
 * process's median (1.48 x median distance), and those medians, -0.12, 0.15 and 0.12, have a standard deviation of 0.137 once
 * their own error is taken off: (pi / 2) x 0.256^2 / 0.137^2, between 5 and 6 (bench/hardware/score_pace.py --left-out). Steps
 * there are as far off with anything from 2 to 8. By the load model of decision 201, which came later, 123 say so, and it is 3.7.
 */
#ifndef RAD_MODELS_HOSTPACE_H
#define RAD_MODELS_HOSTPACE_H

#define HOSTPACE_SHRINK 5.0	/* tasks that the fit's hosts count for */
#define HOSTPACE_BUSY 0.8	/* GRACT below which the host decides: as in the fit of what it takes (bench/hardware/fit_solo.py) */
#define HOSTPACE_KEPT 64	/* tasks that count, the newest: judged, not measured */

#endif
