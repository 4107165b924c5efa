/* SPDX-License-Identifier: MIT
 *
 * The table of estimators, and `auto`, which asks them in turn.
 *
 * The order of the rows is the order of trust: the person, what was seen, what was recorded, what was learnt, what can be
 * added up, nothing. The first that speaks is believed alone; but for the floor that an out-of-memory set, figures are never
 * mixed, since "why this number?" must have one answer. Baselines are for comparing, and `auto` passes over them.
 *
 * A row may be slow (a replay takes milliseconds to a second): the daemon has those asked in another process and goes on
 * with the answer, so estimate_auto can stop in front of one and be called again behind it.
 */
#include "estimate/table.h"

#include "base/buf.h"
#include "estimate/margin.h"

#include <stdio.h>
#include <string.h>

const struct estimator estimators[] = {
	{ "declared", NULL, estimate_declared, .load_aside = true },
	{ "history", NULL, estimate_from_history },
	{ "replay", estimate_has_capture, estimate_replay },
	{ "gpumemnet", estimate_has_summary, estimate_gpumemnet },
	{ "arithmetic", estimate_has_summary, estimate_arithmetic },
	{ "gpumemnet-raw", estimate_has_summary, estimate_gpumemnet_raw, true },
	{ "faketensor", estimate_has_capture, estimate_faketensor, true },
	{ "horus", NULL, estimate_horus, true },
	{ "none", NULL, estimate_none },
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

/* Notes quote what users wrote, and may be cut in the middle of a character; they go into events and to terminals. */
static void make_printable(char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < ' ' || (unsigned char)*text > '~')
			*text = '?';
}

/* The estimator's name is set here, so that no row can speak in another's name. */
bool estimate_ask(const struct estimator *e, const struct spec *s, uint64_t declared_mib, const struct estimate_context *c,
		  struct estimate_result *out)
{
	struct estimate_context own = *c;
	bool spoke;

	if (c->margins)
		own.margin = margins_of(c->margins, e->name, s->signature);
	memset(out, 0, sizeof *out);
	spoke = e->estimate(s, declared_mib, &own, out);
	memcpy(out->value.estimator, e->name, strnlen(e->name, sizeof out->value.estimator - 1));
	make_printable(out->note);
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
		snprintf(out->note + len, sizeof out->note - len, "%sraised to %llu MiB: it ran out of memory before",
			 len ? "; " : "", (unsigned long long)floor_mib);
	raise_to(&out->value.need_mib, floor_mib);
	raise_to(&out->value.comfort_mib, floor_mib);
	raise_to(&out->value.claim_mib, floor_mib);
}

void estimate_conclude(const struct estimate_context *c, struct estimate_result *out)
{
	if (c->history && c->history->oom_floor_mib)
		apply_floor(c->history->oom_floor_mib, out);
	make_printable(out->note);
	out->value.note = out->note;
}

/* `none` always speaks, so there is always an answer, if only that nothing is known. */
const struct estimator *estimate_auto(const struct estimator *e, enum estimate_slow slow, const struct spec *s,
				      uint64_t declared_mib, const struct estimate_context *c, struct estimate_result *out)
{
	for (; e->name; e++) {
		bool is_slow = slow != SLOW_ASK && e->slow && e->slow(s);

		if (e->baseline)
			continue;
		if (is_slow && slow == SLOW_STOP)
			return e;
		if (is_slow || !estimate_ask(e, s, declared_mib, c, out))
			continue;
		if (slow == SLOW_STOP && e->load_aside && estimate_tells_load(s))
			return e;
		if (slow == SLOW_ASK)
			estimate_add_load(s, c, out);
		return NULL;
	}
	estimate_ask(estimate_find("none", NULL), s, declared_mib, c, out);
	return NULL;
}
