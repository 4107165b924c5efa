/* SPDX-License-Identifier: MIT
 *
 * The table of estimators, and `auto`, which asks them in turn.
 */
#include "estimate/table.h"

#include "base/buf.h"

#include <stdio.h>
#include <string.h>

const struct estimator estimators[] = {
	{ "declared", "what the task says it needs (gpu_mem, --gpu-mem)", false, estimate_declared },
	{ "replay", "a capture of its allocations, replayed (capture, --capture)", true, estimate_replay },
	{ "horus", "the formula of the Horus scheduler on a model summary, to compare with", false, estimate_horus, true },
	{ "none", "no estimate: placed where a fixed amount is free, and watched", false, estimate_none },
	{ NULL },
};

const struct estimator *estimate_find(const char *name, struct error *err)
{
	scoped_buf names = { 0 };

	for (const struct estimator *e = estimators; e->name; e++) {
		if (!strcmp(e->name, name))
			return e;
		buf_printf(&names, "%s%s", names.len ? ", " : "", e->name);
	}
	error_set(err, ERR_INVALID, "'%.40s' is no estimator: auto, %s", name, buf_text(&names));
	return NULL;
}

bool estimate_ask(const struct estimator *e, const struct spec *s, uint64_t declared_mib, const struct estimate_context *c,
		  struct estimate_result *out)
{
	bool spoke;

	memset(out, 0, sizeof *out);
	spoke = e->estimate(s, declared_mib, c, out);
	snprintf(out->value.estimator, sizeof out->value.estimator, "%s", e->name);
	return spoke;
}

static void raise_to(uint64_t *mib, uint64_t floor_mib)
{
	if (*mib < floor_mib)
		*mib = floor_mib;
}

/* It ran out of memory with that much, so it needs more: a figure below is refuted, whoever gave it. */
static void apply_floor(uint64_t floor_mib, struct estimate_result *out)
{
	size_t len = strlen(out->note);

	if (floor_mib > out->value.claim_mib)
		snprintf(out->note + len, sizeof out->note - len, "%sraised: it ran out of memory with %llu MiB before",
			 len ? "; " : "", (unsigned long long)floor_mib);
	raise_to(&out->value.need_mib, floor_mib);
	raise_to(&out->value.comfort_mib, floor_mib);
	raise_to(&out->value.claim_mib, floor_mib);
}

void estimate_by(const struct estimator *e, const struct spec *s, uint64_t declared_mib, const struct estimate_context *c,
		 struct estimate_result *out)
{
	if (!e) {
		estimate_auto(s, declared_mib, c, out);
		return;
	}
	if (!estimate_ask(e, s, declared_mib, c, out))
		estimate_ask(estimate_find("none", NULL), s, declared_mib, c, out);
	if (c->history && c->history->oom_floor_mib)
		apply_floor(c->history->oom_floor_mib, out);
}

void estimate_auto(const struct spec *s, uint64_t declared_mib, const struct estimate_context *c, struct estimate_result *out)
{
	for (const struct estimator *e = estimators; e->name; e++)
		if (!e->slow && !e->baseline && estimate_ask(e, s, declared_mib, c, out))
			break;
	if (c->history && c->history->oom_floor_mib)
		apply_floor(c->history->oom_floor_mib, out);
}
