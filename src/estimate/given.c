/* SPDX-License-Identifier: MIT
 * What a task says of itself beside its model summary: see given.h.
 */
#include "estimate/given.h"

#include <string.h>

int given_read(const struct spec *s, struct summary *summary, struct features *features, struct error *err)
{
	const struct features_given given = {
		.batch_size = s->batch_size, .seq_len = s->seq_len, .input = { s->input_channels, s->input_height, s->input_width },
		.optimizer = s->optimizer, .precision = s->precision,
	};
	if (!s->model)
		return error_set(err, ERR_INVALID, "no model summary (model: FILE, --model FILE)");
	if (summary_parse(s->model_name ? s->model_name : "model", s->model, strlen(s->model), summary, err))
		return -1;
	features_from_summary(summary, &given, features);
	return 0;
}

const char *given_lacks(const struct features *f)
{
	if (!f->activations_known)
		return "the model summary shows no output shapes, and so no activations";
	return f->batch_size > 0 ? NULL : "no batch size (batch_size: N, --batch-size N)";
}
