/* SPDX-License-Identifier: MIT
 *
 * What GPUMemNet says of a task's features, apart from how they were come by.
 */
#ifndef RAD_ESTIMATE_GPUMEMNET_H
#define RAD_ESTIMATE_GPUMEMNET_H

#include "estimate/net.h"

/* Probability that the memory a task takes is not above its claim. */
#define GPUMEMNET_COVERAGE 0.95

/* MiB, as NVML shows them on the card that the nets were trained on. */
struct gpumemnet_figures {
	double low;		/* lower edge of the bin in which 0.05 is reached */
	double middle;		/* upper edge of the bin in which half is reached */
	double claim;		/* upper edge of the bin in which GPUMEMNET_COVERAGE is reached */
};

/* The weights file that is part of the program. */
extern const unsigned char gpumemnet_weights[], gpumemnet_weights_end[];

/* Returns 0, or -1 when the net's answer is no distribution (as only a broken file's is). */
int gpumemnet_figures(const struct net *net, const struct gpumemnet_vector *v, struct gpumemnet_figures *out,
		      struct error *err);

#endif
