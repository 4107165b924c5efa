/* SPDX-License-Identifier: MIT
 * What a task says of itself beside its model summary: see given.h.
 */
#include "estimate/given.h"

struct features_given given_of_spec(const struct spec *s)
{
	return (struct features_given){
		.batch_size = s->batch_size, .seq_len = s->seq_len, .input = { s->input_channels, s->input_height, s->input_width },
		.optimizer = s->optimizer, .precision = s->precision,
	};
}
