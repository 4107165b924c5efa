/* SPDX-License-Identifier: MIT
 *
 * What an estimate says of load. Memory has its rows and their order; load has one source before the first run, whichever row
 * spoke of memory: the capture that the task came with. Whoever declares memory has declared no load.
 */
#include "estimate/estimate.h"

#include "estimate/activity.h"

bool estimate_tells_load(const struct spec *s)
{
	return s->capture;
}

int estimate_activity(const struct spec *s, const struct estimate_context *c, struct activity *out, struct error *err)
{
	scoped_capture capture = { 0 };

	*out = (struct activity){ 0 };
	if (!s->capture)
		return error_set(err, ERR_INVALID, "no capture (capture: FILE, --capture FILE)");
	return capture_read_text(s->capture, &capture, err) ? -1 : activity_from_capture(&capture, c->gpu_name, out, err);
}

void estimate_add_load(const struct spec *s, const struct estimate_context *c, struct estimate_result *out)
{
	struct error err = ERROR_INIT;
	struct activity a;

	if (estimate_tells_load(s) && out->value.prior.source == LOAD_UNKNOWN && !estimate_activity(s, c, &a, &err))
		out->value.prior = a.load;
}
