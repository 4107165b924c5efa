/* SPDX-License-Identifier: MIT
 *
 * `gpumemnet`: learnt estimates from a model summary (dissertation, section 5.4). The nets classify into bins; the claim is the
 * upper edge of the bin where cumulative probability reaches GPUMEMNET_COVERAGE, not of the likeliest.
 *
 * Why not the likeliest bin, as published: it is often below the truth, and a placement below the truth is a crash,
 * while one above it is idle memory. Never fenced: what was learnt from other models is no promise about this one.
 *
 * Two things keep it from misleading where it knows nothing. What lies outside the training set is declined, and the next
 * estimator asked. And no figure is below, or above, what 99 of 100 measured jobs took of what arithmetic gives: the nets'
 * last bin is as wide as the oddest job of the set, and a few percent of doubt about it would be the claim. `gpumemnet-raw` is
 * the nets' word without either, to compare with what is published.
 */
#include "estimate/gpumemnet.h"
#include "base/text.h"
#include "estimate/gpumemnet_domain.h"
#include "estimate/gpumemnet_task.h"
#include "estimate/table.h"
#include "models/margins.h"

#include <math.h>
#include <stdio.h>

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

/* MiB; `most` and `least` of arithmetic, on the card that the nets were trained on. */
static void gpumemnet_bound(const struct arithmetic_row *bounds, struct gpumemnet_figures *f)
{
	f->low = fmin(fmax(f->low, bounds->least), bounds->most);
	f->middle = fmin(fmax(f->middle, bounds->least), bounds->most);
	f->claim = fmin(fmax(f->claim, f->middle), bounds->most);
}

static void gpumemnet_conclude(const struct gpumemnet_figures *f, double more, double margin, struct estimate_result *out)
{
	struct estimate *e = &out->value;
	e->comfort_mib = e->need_mib = (uint64_t)ceil(fmax(f->middle + more, 1));	/* how much less would do is not known */
	e->claim_mib = (uint64_t)ceil(fmax(f->claim + more, (double)e->comfort_mib * (1 + margin)));
	out->low_mib = (uint64_t)fmax(f->low + more, 1);
	out->high_mib = e->claim_mib;
}

/* True: *figures hold what the nets say. */
static bool gpumemnet_answer(const struct gpumemnet_task *t, struct net *net, struct gpumemnet_figures *figures, char note[200])
{
	struct error err = ERROR_INIT;
	if (!net_read(gpumemnet_weights, (size_t)(gpumemnet_weights_end - gpumemnet_weights), t->features.family, net, &err) &&
	    !gpumemnet_figures(net, &t->vector, figures, &err))
		return true;
	text_printf(note, 200, "%.190s", err.text);
	return false;
}

/* The answer inside what was learnt; false, with the note, outside. */
static bool gpumemnet_inside(const struct gpumemnet_task *t, const struct estimate_context *c, struct estimate_result *out)
{
	const struct arithmetic_row bounds = gpumemnet_bounds(t->features.family, &t->vector);
	struct gpumemnet_figures figures;
	struct net net;
	char text[200], source[96];
	if (!gpumemnet_answer(t, &net, &figures, out->note))
		return false;
	if (*gpumemnet_outside(&net, &t->vector, text, sizeof text)) {
		text_printf(out->note, sizeof out->note, "outside what it learnt: %.160s", text);
		return false;
	}
	bool beyond = gpumemnet_beyond(&net, &t->vector), cut = figures.claim > bounds.most;
	gpumemnet_bound(&bounds, &figures);
	gpumemnet_conclude(&figures, gpumemnet_context_more(c->gpu_name, net.card),
			   fmax(beyond ? MARGIN_SUMMARY : 0, c->margin), out);
	text_printf(source, sizeof source, "trained on %.31s%s%s", net.card, beyond ? ", at its edge" : "",
		    cut ? ", cut by arithmetic" : "");
	gpumemnet_task_about(t, source, out->note);
	return true;
}

static bool gpumemnet_bare(const struct gpumemnet_task *t, const struct estimate_context *c, struct estimate_result *out)
{
	struct gpumemnet_figures figures;
	struct net net;
	if (!gpumemnet_answer(t, &net, &figures, out->note))
		return false;
	gpumemnet_conclude(&figures, gpumemnet_context_more(c->gpu_name, net.card), 0, out);
	gpumemnet_task_about(t, "as the nets say", out->note);
	return true;
}

bool estimate_has_summary(const struct spec *s)
{
	return s->model;
}

bool estimate_gpumemnet(const struct spec *s, uint64_t declared_mib, const struct estimate_context *c,
			struct estimate_result *out)
{
	(void)declared_mib;
	return gpumemnet_task_ask(s, c, out, gpumemnet_inside);
}

bool estimate_gpumemnet_raw(const struct spec *s, uint64_t declared_mib, const struct estimate_context *c,
			    struct estimate_result *out)
{
	(void)declared_mib;
	return gpumemnet_task_ask(s, c, out, gpumemnet_bare);
}
