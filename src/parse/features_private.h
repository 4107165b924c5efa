/* SPDX-License-Identifier: MIT
 *
 * Between features.c and the files that work out what printed modules do not show. Only for the files of this folder.
 */
#ifndef RAD_PARSE_FEATURES_PRIVATE_H
#define RAD_PARSE_FEATURES_PRIVATE_H

#include "parse/features.h"
#include "parse/summary_private.h"

/* What the text does not say of a layer, one for each of the summary's. */
struct features_fact {
	enum summary_kind kind;		/* with parents and figures in sight */
	uint64_t params;		/* own, of one */
	uint64_t elements;		/* of its outputs in one pass over one sample, all calls of one */
	uint32_t side;			/* last dimension of that, where shapes were followed */
};

__attribute__((format(printf, 2, 3))) void features_note(struct features *f, const char *fmt, ...);

/* ---- hyper-parameters of a printed module ---- */

/* "bias=False": whether `key` stands there with that value. */
bool features_arg_is(struct summary_text args, const char *key, const char *value);
/* "stride=(2, 2)", "stride=2": up to `max` numbers, of which missing ones repeat the first. False: not there. */
bool features_arg_numbers(struct summary_text args, const char *key, int64_t *values, unsigned max);
/* The n-th argument without a key, when it is a number: Conv2d(3, 64, ...). `values` of -1 where it is none; how many. */
unsigned features_arg_plain(struct summary_text args, int64_t *values, unsigned max);

/* Follows shapes through a printed model: fills `elements`, and `params` where the text has none. */
void features_follow_shapes(const struct summary *s, const struct features_given *given, struct features_fact *facts,
			    struct features *out);

#endif
