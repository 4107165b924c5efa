/* SPDX-License-Identifier: MIT
 *
 * `gpumemnet`: learnt estimates from a model summary (dissertation, section 5.4). The nets classify into bins; the claim is the
 * upper edge of the bin where cumulative probability reaches GPUMEMNET_COVERAGE, not of the likeliest.
 *
 * Why not the likeliest bin, as published: it is often below the truth, and a placement below the truth is a crash,
 * while one above it is idle memory. Never fenced: what was learnt from other models is no promise about this one.
 */
#include "estimate/gpumemnet.h"
#include "estimate/table.h"

#include "base/units.h"
#include "estimate/replay.h"
#include "models/margins.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define MOST_MIB ((double)((uint64_t)1 << 40))	/* beyond any machine: the summary is no model's */
#define AT_THE_EDGE 0.02			/* of the training set's range: still inside */

/* The first bin at whose upper edge that probability is reached. */
static uint32_t bin_of(const float *probabilities, uint32_t bins, double probability)
{
	double sum = 0;
	for (uint32_t k = 0; k < bins; k++)
		if ((sum += probabilities[k]) >= probability)
			return k;
	return bins - 1;	/* rounding */
}

/* Bins are of log2(memory / reference): what the nets say is a factor, and arithmetic says of what. */
int gpumemnet_figures(const struct net *net, const struct gpumemnet_vector *v, struct gpumemnet_figures *out, struct error *err)
{
	float p[NET_MAX_BINS];
	net_answer(net, v, p);
	for (uint32_t k = 0; k < net->bins; k++)
		if (!(p[k] >= 0))
			return error_set(err, ERR_CORRUPT, "the weights give no probabilities");
	out->low = v->reference_mib * exp2(net->edges[bin_of(p, net->bins, 1 - GPUMEMNET_COVERAGE)]);
	out->middle = v->reference_mib * exp2(net->edges[bin_of(p, net->bins, 0.5) + 1]);
	out->claim = v->reference_mib * exp2(net->edges[bin_of(p, net->bins, GPUMEMNET_COVERAGE) + 1]);
	return 0;
}

/* What lies outside the ranges of the training set, as "batch size, parameters"; "" when nothing does. Returns `text`. */
static const char *outside_of(const struct net *net, const struct gpumemnet_vector *v, char *text, size_t size)
{
	size_t len = 0;
	*text = 0;
	for (unsigned i = 0; i < GPUMEMNET_INPUTS && len < size; i++) {
		float slack = (net->high[i] - net->low[i]) * (float)AT_THE_EDGE + 1e-4f;
		char name[64];
		if (v->inputs[i] >= net->low[i] - slack && v->inputs[i] <= net->high[i] + slack)
			continue;
		len += (size_t)snprintf(text + len, size - len, "%s%s", len ? ", " : "", gpumemnet_input_name(i, name));
	}
	return text;
}

/* Why it says nothing goes into the note, which `rad estimate` shows; `auto` asks the next estimator. */
static bool gpumemnet_decline(struct estimate_result *out, const char *why)
{
	snprintf(out->note, sizeof out->note, "%.190s", why);
	return false;
}

/* A process takes more before its first tensor on one card than on another. */
static double context_more(const char *gpu_name, const char *trained_on)
{
	return gpu_name ? (double)replay_overheads(gpu_name)->context_mib - (double)replay_overheads(trained_on)->context_mib : 0;
}

static void gpumemnet_conclude(const struct gpumemnet_figures *f, double more, double margin, struct estimate_result *out)
{
	struct estimate *e = &out->value;
	e->comfort_mib = e->need_mib = (uint64_t)ceil(fmax(f->middle + more, 1));	/* how much less would do is not known */
	e->claim_mib = (uint64_t)ceil(fmax(f->claim + more, (double)e->comfort_mib * (1 + margin)));
	out->low_mib = (uint64_t)fmax(f->low + more, 1);
	out->high_mib = e->claim_mib;
}

static void gpumemnet_tell(const struct features *f, const struct gpumemnet_vector *v, const char *card, const char *outside,
			   struct estimate_result *out)
{
	const char *assumed = v->optimizer_known ? v->precision_known ? "" : "; taken as fp32" :
			      v->precision_known ? "; taken as Adam" : "; taken as Adam, fp32";
	char text[400];
	snprintf(text, sizeof text, "%s, batch %lld, trained on %.31s%s%s%.80s%s%.150s", features_family_name(f->family),
		 (long long)f->batch_size, card, assumed, *outside ? "; beyond what it was trained on: " : "", outside,
		 f->n_notes ? "; " : "", f->n_notes ? f->notes[0] : "");
	snprintf(out->note, sizeof out->note, "%.*s", (int)sizeof out->note - 1, text);
}

/* A net asked about what is unlike all it learnt from answers as surely as ever. So what can be seen to be unlike is
 * declined, and what is only beyond its ranges gets a wide margin. */
static bool gpumemnet_answer(const struct features *f, const struct estimate_context *c, struct estimate_result *out)
{
	struct gpumemnet_figures figures;
	struct gpumemnet_vector v;
	struct error err = ERROR_INIT;
	struct net net;
	char outside[160];
	if (f->family == FEATURES_OTHER)
		return gpumemnet_decline(out, "not an MLP, a CNN or a transformer: it was trained on nothing like it");
	if (!f->activations_known)
		return gpumemnet_decline(out, "the model summary shows no output shapes, and so no activations");
	if (f->batch_size <= 0)
		return gpumemnet_decline(out, "no batch size (batch_size: N, --batch-size N)");
	gpumemnet_vector(f, &v);
	if (!(v.reference_mib < MOST_MIB))
		return gpumemnet_decline(out, "the model summary comes to more memory than there is anywhere");
	if (net_read(gpumemnet_weights, (size_t)(gpumemnet_weights_end - gpumemnet_weights), f->family, &net, &err) ||
	    gpumemnet_figures(&net, &v, &figures, &err))
		return gpumemnet_decline(out, err.text);
	outside_of(&net, &v, outside, sizeof outside);
	gpumemnet_conclude(&figures, context_more(c->gpu_name, net.card),
			   fmax(*outside ? MARGIN_GPUMEMNET_OUTSIDE : 0, c->margin), out);
	gpumemnet_tell(f, &v, net.card, outside, out);
	return true;
}

bool estimate_has_summary(const struct spec *s)
{
	return s->model;
}

bool estimate_gpumemnet(const struct spec *s, uint64_t declared_mib, const struct estimate_context *c,
			struct estimate_result *out)
{
	const struct features_given given = { .batch_size = s->batch_size, .seq_len = s->seq_len, .optimizer = s->optimizer,
					      .precision = s->precision };
	struct summary summary;
	struct features features;
	struct error err = ERROR_INIT;
	(void)declared_mib;
	if (!s->model)
		return gpumemnet_decline(out, "no model summary (model: FILE, --model FILE)");
	if (summary_parse(s->model_name ? s->model_name : "model", s->model, strlen(s->model), &summary, &err))
		return gpumemnet_decline(out, err.text);
	features_from_summary(&summary, &given, &features);
	bool spoke = gpumemnet_answer(&features, c, out);
	features_clear(&features);
	summary_clear(&summary);
	return spoke;
}
