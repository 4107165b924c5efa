/* SPDX-License-Identifier: MIT
 *
 * `arithmetic`: parameters, optimizer and activations of a model summary added up (gpumemnet_reference.h), times what measured
 * jobs of the same family took of that sum. For models that GPUMemNet's nets are too unlike to be asked about: a sum has no
 * training set to be outside of, and is right about what makes memory large, the batch.
 *
 * The claim is what 98 of 100 measured jobs stayed below, and at least MARGIN_SUMMARY above the middle, since the model is
 * unlike those measured. Never fenced.
 */
#include "estimate/gpumemnet_domain.h"
#include "estimate/gpumemnet_task.h"
#include "estimate/table.h"
#include "models/margins.h"

#include <math.h>
#include <stdio.h>

#define MEASURED_ON "H200"	/* the reference holds that card's context */

static bool arithmetic_conclude(const struct gpumemnet_task *t, const struct estimate_context *c, struct estimate_result *out)
{
	const struct arithmetic_row row = gpumemnet_bounds(t->features.family, &t->vector);
	double more = gpumemnet_context_more(c->gpu_name, MEASURED_ON);
	double margin = fmax(MARGIN_SUMMARY, c->margin);
	struct estimate *e = &out->value;
	char source[80];
	e->comfort_mib = e->need_mib = (uint64_t)ceil(fmax(row.half + more, 1));
	e->claim_mib = (uint64_t)ceil(fmax(row.claim + more, (double)e->comfort_mib * (1 + margin)));
	out->low_mib = (uint64_t)fmax(row.least + more, 1);
	out->high_mib = e->claim_mib;
	snprintf(source, sizeof source, "%.0f MiB of weights, activations and context", t->vector.reference_mib);
	gpumemnet_task_about(t, source, out->note);
	return true;
}

bool estimate_arithmetic(const struct spec *s, uint64_t declared_mib, const struct estimate_context *c,
			 struct estimate_result *out)
{
	(void)declared_mib;
	return gpumemnet_task_ask(s, c, out, arithmetic_conclude);
}
