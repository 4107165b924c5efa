/* SPDX-License-Identifier: MIT
 *
 * What an estimate says of load. Memory has its rows and their order; load has one source before the first run, whichever row
 * spoke of memory: the capture that the task came with, else its model summary. Whoever declares memory has declared no load.
 * Cores are those of all processes of a task, one for each GPU where they talk to each other. Batches that others of a feed
 * make are not loaded here.
 */
#include "estimate/estimate.h"

#include "estimate/activity.h"
#include "estimate/given.h"
#include "estimate/hostpace.h"

bool estimate_tells_load(const struct spec *s)
{
	return s->capture || s->model;
}

static int activity_of_model(const struct spec *s, const char *gpu_name, struct activity *out, struct error *err)
{
	struct summary summary;
	struct features features;
	int rc;

	if (given_read(s, &summary, &features, err))
		return -1;
	rc = activity_from_summary(&summary, &features, gpu_name, out, err);
	features_clear(&features);
	summary_clear(&summary);
	return rc;
}

static int activity_of_capture(const struct spec *s, const char *gpu_name, struct activity *out, struct error *err)
{
	scoped_capture capture = { 0 };

	if (capture_read_text(s->capture, &capture, err))
		return -1;
	if (s->feed)
		capture.n_loaders = 0;
	if (activity_from_capture(&capture, gpu_name, out, err))
		return -1;
	out->load.cores *= capture.communicators && s->gpus > 1 ? s->gpus : 1;
	return 0;
}

int estimate_activity(const struct spec *s, const struct estimate_context *c, struct activity *out, struct error *err)
{
	*out = (struct activity){ 0 };
	if (!s->capture && !s->model)
		return error_set(err, ERR_INVALID, "no capture (capture: FILE, --capture FILE) and no model summary (model: FILE)");
	if (s->capture ? activity_of_capture(s, c->gpu_name, out, err) : activity_of_model(s, c->gpu_name, out, err))
		return -1;
	if (c->host_pace > 0) {
		out->step_s *= hostpace_apply(&out->load, c->host_pace, c->gpu_name);
		out->host_s *= c->host_pace;
	}
	return 0;
}

void estimate_add_load(const struct spec *s, const struct estimate_context *c, struct estimate_result *out)
{
	struct activity a;

	if (estimate_tells_load(s) && out->value.prior.source == LOAD_UNKNOWN && !estimate_activity(s, c, &a, NULL))
		out->value.prior = a.load;
}
