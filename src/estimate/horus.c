/* SPDX-License-Identifier: MIT
 *
 * `horus`: the analytical formula of the Horus scheduler (Yeung et al., "Horus: Interference-Aware and Prediction-Based
 * Scheduling in Deep Learning Systems"), as the dissertation gives it in section 5.3.1:
 *	Mem = (B x A + P) + (B x G) + d
 * B batch size, A activations of one sample, P parameters, G gradients, d start-up. The text leaves three things open, which
 * the published figures settle (doc/results/memory/baselines.md): values are of 4 bytes, G is the number of parameters, and d
 * is 800 MiB; outputs of pooling do not count as activations. A baseline to compare with: nothing is placed by it.
 */
#include "estimate/table.h"

#include "base/text.h"
#include "base/units.h"
#include "estimate/given.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#define VALUE_BYTES 4.0
#define STARTUP_MIB 800.0
#define MOST_MIB ((double)((uint64_t)1 << 40))	/* beyond any machine: the summary is no model's */

static bool horus_decline(struct estimate_result *out, const char *why)
{
	text_printf(out->note, sizeof out->note, "%.190s", why);
	return false;
}

static bool horus_apply(const struct features *f, struct estimate_result *out)
{
	uint64_t activations = f->activations - f->kinds[SUMMARY_POOL].activations;
	double batch = (double)f->batch_size, params = (double)f->params;
	double mib = VALUE_BYTES * (batch * (double)activations + params + batch * params) / (double)MIB + STARTUP_MIB;
	const char *lacks = given_lacks(f);
	if (lacks)
		return horus_decline(out, lacks);
	if (!(mib < MOST_MIB))
		return horus_decline(out, "the model summary comes to more memory than there is anywhere");
	out->value.need_mib = out->value.comfort_mib = out->value.claim_mib = (uint64_t)ceil(mib);
	text_printf(out->note, sizeof out->note, "%" PRIu64 " parameters, %" PRIu64 " activations, batch %" PRId64 "%s%.90s",
		    f->params, activations, f->batch_size, f->n_notes ? "; " : "", f->n_notes ? f->notes[0] : "");
	return true;
}

bool estimate_horus(const struct spec *s, uint64_t declared_mib, const struct estimate_context *c, struct estimate_result *out)
{
	struct summary summary;
	struct features features;
	struct error err = ERROR_INIT;
	(void)declared_mib, (void)c;
	if (given_read(s, &summary, &features, &err))
		return horus_decline(out, err.text);
	bool spoke = horus_apply(&features, out);
	features_clear(&features);
	summary_clear(&summary);
	return spoke;
}
