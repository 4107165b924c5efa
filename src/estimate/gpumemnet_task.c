/* SPDX-License-Identifier: MIT
 *
 * What a summary must show before anything can be worked out from it is asked once, here, for all who read summaries by the
 * reference (`gpumemnet`, `arithmetic`); each refusal is a sentence for the person who asked.
 */
#include "estimate/gpumemnet_task.h"

#include "base/text.h"
#include "estimate/given.h"
#include "estimate/replay.h"

#include <stdio.h>

#define MOST_MIB ((double)((uint64_t)1 << 40))	/* beyond any machine: the summary is no model's */

static const char *why_not(struct gpumemnet_task *t)
{
	const struct features *f = &t->features;
	if (f->family == FEATURES_OTHER)
		return "not an MLP, a CNN or a transformer: nothing like it was measured";
	const char *lacks = given_lacks(f);
	if (lacks)
		return lacks;
	gpumemnet_vector(f, &t->vector);
	if (!(t->vector.reference_mib < MOST_MIB))
		return "the model summary comes to more memory than there is anywhere";
	return NULL;
}

bool gpumemnet_task_ask(const struct spec *s, const struct estimate_context *c, struct estimate_result *out,
			gpumemnet_say *say)
{
	struct gpumemnet_task t;
	struct error err = ERROR_INIT;
	if (given_read(s, &t.summary, &t.features, &err)) {
		text_printf(out->note, sizeof out->note, "%.190s", err.text);
		return false;
	}
	const char *why = why_not(&t);
	if (why)
		text_printf(out->note, sizeof out->note, "%s", why);
	bool spoke = !why && say(&t, c, out);
	features_clear(&t.features);
	summary_clear(&t.summary);
	return spoke;
}

const char *gpumemnet_task_about(const struct gpumemnet_task *t, const char *source, char text[200])
{
	const struct features *f = &t->features;
	const char *assumed = t->vector.optimizer_known ? t->vector.precision_known ? "" : "; taken as fp32" :
			      t->vector.precision_known ? "; taken as Adam" : "; taken as Adam, fp32";
	int n = text_printf(text, 200, "%s, batch %lld, %.70s%s", features_family_name(f->family), (long long)f->batch_size, source,
			    assumed);

	if (f->n_notes && n > 0 && n < 200)
		text_printf(text + n, 200 - (size_t)n, "; %s", f->notes[0]);
	return text;
}

double gpumemnet_context_more(const char *gpu_name, const char *measured_on)
{
	return gpu_name ? (double)replay_overheads(gpu_name)->context_mib - (double)replay_overheads(measured_on)->context_mib : 0;
}
