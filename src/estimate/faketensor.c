/* SPDX-License-Identifier: MIT
 *
 * `faketensor`: what a run on fake tensors counts when it is taken for an estimate, as in section 5.3.2 of the
 * dissertation: the most bytes in tensors at one time during the forward and backward passes. The published harness calls
 * the model and backward() on its output, once: no optimizer and no state of one, no rounding, no segments, no context. So
 * here, from a capture's first iteration, without what an optimizer's step allocates in it. A baseline to compare with:
 * nothing is placed by it.
 */
#include "estimate/table.h"

#include "base/alloc.h"
#include "base/scope.h"
#include "base/text.h"
#include "base/units.h"
#include "estimate/capture.h"

#include <inttypes.h>
#include <stdio.h>

struct passes {
	uint64_t peak;
	bool forward, backward;		/* whether they are marked */
};

static struct passes find_passes(const struct capture *c)
{
	scoped_free uint64_t *bytes = alloc_zero((c->n_allocs + (size_t)1) * sizeof *bytes);	/* by id; 0: does not count */
	struct passes p = { 0 };
	enum capture_phase phase = CAPTURE_SETUP;
	unsigned iteration = 0;
	uint64_t live = 0;

	for (size_t i = 0; i < c->n_records && iteration < 2; i++) {
		const struct capture_record *r = &c->records[i];

		if (r->kind == CAPTURE_MARK) {
			phase = r->what;
			iteration += phase == CAPTURE_ITERATION;
			p.forward |= iteration == 1 && phase == CAPTURE_FORWARD;
			p.backward |= iteration == 1 && phase == CAPTURE_BACKWARD;
		} else if (r->kind == CAPTURE_ALLOC && phase != CAPTURE_STEP) {
			live += bytes[r->id] = r->bytes;
		} else if (r->kind == CAPTURE_FREE) {
			live -= bytes[r->id];
		}
		if (iteration == 1 && (phase == CAPTURE_FORWARD || phase == CAPTURE_BACKWARD) && p.peak < live)
			p.peak = live;
	}
	return p;
}

bool estimate_faketensor(const struct spec *s, uint64_t declared_mib, const struct estimate_context *c,
			 struct estimate_result *out)
{
	scoped_capture capture = { 0 };
	struct error err = ERROR_INIT;
	struct passes p;

	(void)declared_mib, (void)c;
	if (!s->capture) {
		snprintf(out->note, sizeof out->note, "no capture (capture: FILE, --capture FILE)");
		return false;
	}
	if (capture_read_text(s->capture, &capture, &err)) {
		text_printf(out->note, sizeof out->note, "%.*s", (int)sizeof out->note - 1, err.text);
		return false;
	}
	p = find_passes(&capture);
	if (!p.backward) {
		snprintf(out->note, sizeof out->note, "the capture marks no backward pass in its first iteration");
		return false;
	}
	out->value.need_mib = out->value.comfort_mib = out->value.claim_mib = (p.peak + MIB - 1) / MIB;
	snprintf(out->note, sizeof out->note, "%" PRIu64 " bytes in tensors at most, forward and backward of the first iteration%s",
		 p.peak, p.forward ? "" : "; the forward pass is not marked: what it left is counted");
	return true;
}
