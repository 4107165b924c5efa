/* SPDX-License-Identifier: MIT
 *
 * What 7,013 measured trainings (models/gpumemnet) took, as a multiple of the *reference*, which is arithmetic on a model summary
 * (src/estimate/gpumemnet_reference.c):
 *	reference = 800 MiB + the larger of
 *		parameters x (weight + optimizer's values) + batch x (what layers keep for the backward pass + largest that passes)
 *		parameters x (weight + optimizer's values + gradient + temporaries of the step)
 * Quantiles, made by python/radrm/gpumemnet/bounds.py: the 7,013 alone, none of the jobs of doc/results/memory.
 */
#ifndef RAD_MODELS_ARITHMETIC_H
#define RAD_MODELS_ARITHMETIC_H

struct arithmetic_row {
	double least;	/* 0.5 % took less */
	double half;
	double claim;	/* 2 % took more */
	double most;	/* 0.5 % took more */
};

/* Convolutions in fp32 without TF32 are computed by kernels with several times as much scratch memory. */
enum arithmetic_class { ARITHMETIC_MLP, ARITHMETIC_CNN, ARITHMETIC_CNN_IEEE, ARITHMETIC_TRANSFORMER };

static const struct arithmetic_row arithmetic_table[] = {
	[ARITHMETIC_MLP] = { 0.80, 1.05, 1.45, 1.68 },	/* of 2,368 */
	[ARITHMETIC_CNN] = { 0.87, 1.16, 1.84, 2.23 },	/* of 1,907 */
	[ARITHMETIC_CNN_IEEE] = { 0.85, 1.05, 2.99, 3.49 },	/* of 420 */
	[ARITHMETIC_TRANSFORMER] = { 0.67, 1.04, 1.22, 1.31 },	/* of 2,318 */
};

/* No bound is below that many references: a summary shows modules, and models compute outside of them too. Of 354 jobs with real models
 * (doc/results/memory), which were looked at for this number, transformers took up to 1.9 references. */
#define ARITHMETIC_UNSEEN 2.0

/* How far beyond its training set an answer of the nets still counts, in doublings of a size: of nets that had learnt from one half
 * of a size's range, 3.5 % of the claims were too low up to one and a half doublings beyond it, the 5 % that claims are
 * made for, then 6, 9 and 13 % (doc/results/memory, "Beyond what they learnt"). A share of the whole may be by
 * a tenth of the whole beyond; that one is not fitted to anything. */
#define DOMAIN_OCTAVES 1.5
#define DOMAIN_SHARE 0.1

#endif
