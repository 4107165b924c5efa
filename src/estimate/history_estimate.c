/* SPDX-License-Identifier: MIT
 *
 * `history`: what earlier runs of the same signature were seen to take. The best kind of knowledge that there is of it speaks:
 * whole runs, else a limit that was enough, else long runs that were cut short.
 *
 * Only the first two are enforced: a run that was cut short says what a task takes at least, and a fence at a guess would end a
 * task that the guess was about. Margins on another model of GPU are wider, since contexts, workspaces and kernels differ.
 */
#include "estimate/table.h"

#include "base/least.h"
#include "base/text.h"

#include "models/margins.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef unsigned long long ull;

/* Never less than MARGIN_HISTORY_LEAST_MIB on top: five per cent of a small task is less than one library's workspace. */
static void history_claim(struct estimate *e, double margin, bool trusted)
{
	uint64_t more = (uint64_t)((double)e->comfort_mib * margin) + 1;

	e->claim_mib = e->comfort_mib + largest_of(more, MARGIN_HISTORY_LEAST_MIB);
	e->fenced = e->enforced_for_life = trusted;
}

/* A bound above the peak (a run that was fenced, or cut, took more than those that completed) is believed: it did take that. */
static void from_whole_runs(const struct estimate_history *h, double margin, struct estimate_result *out)
{
	struct estimate *e = &out->value;

	e->comfort_mib = largest_of(h->peak_mib, h->bound_mib);
	e->need_mib = h->limit_mib && h->limit_mib < e->comfort_mib ? h->limit_mib : e->comfort_mib;
	history_claim(e, margin, true);
	if (h->bound_mib > h->peak_mib)
		snprintf(out->note, sizeof out->note, "%u earlier run%s took %llu MiB, one that was cut short or limited %llu",
			 h->runs, h->runs == 1 ? "" : "s", (ull)h->peak_mib, (ull)h->bound_mib);
	else
		snprintf(out->note, sizeof out->note, "%u earlier run%s took%s %llu MiB", h->runs, h->runs == 1 ? "" : "s",
			 h->runs == 1 ? "" : " up to", (ull)h->peak_mib);
}

/* The limit held a margin already. */
static void from_limited_runs(const struct estimate_history *h, double margin, struct estimate_result *out)
{
	struct estimate *e = &out->value;

	e->need_mib = e->comfort_mib = largest_of(h->limit_mib, h->bound_mib);
	if (margin > 0)
		history_claim(e, margin, true);
	e->claim_mib = largest_of(e->claim_mib, e->comfort_mib);
	e->fenced = e->enforced_for_life = true;
	snprintf(out->note, sizeof out->note, "an earlier run completed under a limit of %llu MiB", (ull)h->limit_mib);
}

static void from_cut_runs(const struct estimate_history *h, double margin, struct estimate_result *out)
{
	out->value.need_mib = out->value.comfort_mib = largest_of(h->cut_mib, h->bound_mib);
	history_claim(&out->value, margin, false);
	snprintf(out->note, sizeof out->note, "%u earlier run%s, cut short, took at least %llu MiB", h->cut,
		 h->cut == 1 ? "" : "s", (ull)out->value.comfort_mib);
}

static void tell_gpu(const struct estimate_history *h, struct estimate_result *out)
{
	size_t len = strlen(out->note);

	text_printf(out->note + len, sizeof out->note - len, ", seen on another model of GPU: %.60s",
		    h->gpu_name && *h->gpu_name ? h->gpu_name : "not known");
}

bool estimate_from_history(const struct spec *s, uint64_t declared_mib, const struct estimate_context *c,
			   struct estimate_result *out)
{
	const struct estimate_history *h = c->history;
	double other = h && h->other_gpu ? MARGIN_OTHER_GPU : 0;

	(void)s, (void)declared_mib;
	if (h && h->peak_mib)
		from_whole_runs(h, (c->margin > 0 ? c->margin : MARGIN_HISTORY) + other, out);
	else if (h && h->limit_mib)
		from_limited_runs(h, other, out);
	else if (h && h->cut_mib)
		from_cut_runs(h, fmax(MARGIN_HISTORY_CUT, c->margin) + other, out);
	else {
		snprintf(out->note, sizeof out->note, "no earlier run of the same kind was seen for long enough");
		return false;
	}
	if (h->other_gpu)
		tell_gpu(h, out);
	out->low_mib = out->value.need_mib;
	out->high_mib = out->value.claim_mib;
	return true;
}
