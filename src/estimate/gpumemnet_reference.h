/* SPDX-License-Identifier: MIT
 *
 * What arithmetic alone says of a training job's memory. GPUMemNet's nets learn how far the truth is from it.
 */
#ifndef RAD_ESTIMATE_GPUMEMNET_REFERENCE_H
#define RAD_ESTIMATE_GPUMEMNET_REFERENCE_H

#include "parse/features.h"

#include <stdbool.h>

struct gpumemnet_settings {
	float states;		/* values that the optimizer keeps for each parameter */
	float temporaries;	/* and has during a step, where it updates all at once (`foreach`, PyTorch's default) */
	float weight, value;	/* bytes of a parameter and of an activation */
	bool autocast, tf32;
};

/* MiB. */
struct gpumemnet_reference {
	double weights;		/* parameters and what the optimizer keeps: always there */
	double values;		/* what layers keep for the backward pass */
	double passing;		/* the largest tensors that come and go: the loss, gradients of activations */
	double scratch;		/* input and output of the largest convolution: cuDNN copies them, or not (models/overheads.h) */
	double kernel;		/* side of the last convolution's kernel, as far as parameters tell */
	double forward, step;	/* in use at the end of the forward pass; in the optimizer's step */
	double all;		/* the larger of the two, and what every process takes */
};

void gpumemnet_refer(const struct features *f, const struct gpumemnet_settings *s, struct gpumemnet_reference *out);

/* Whether an activation function, by its class, keeps its result for the backward pass; others keep their argument (PyTorch's
 * derivative formulas). */
bool gpumemnet_keeps_output(const char *activation);

#endif
