/* SPDX-License-Identifier: MIT
 *
 * The functions behind the rows of the table, one a file. Only for the files of this folder.
 */
#ifndef RAD_ESTIMATE_TABLE_H
#define RAD_ESTIMATE_TABLE_H

#include "estimate/estimate.h"

bool estimate_declared(const struct spec *s, uint64_t declared_mib, const struct estimate_context *c,
		       struct estimate_result *out);
bool estimate_horus(const struct spec *s, uint64_t declared_mib, const struct estimate_context *c, struct estimate_result *out);
bool estimate_faketensor(const struct spec *s, uint64_t declared_mib, const struct estimate_context *c,
			 struct estimate_result *out);
bool estimate_from_history(const struct spec *s, uint64_t declared_mib, const struct estimate_context *c,
			   struct estimate_result *out);
bool estimate_replay(const struct spec *s, uint64_t declared_mib, const struct estimate_context *c,
		     struct estimate_result *out);
bool estimate_gpumemnet(const struct spec *s, uint64_t declared_mib, const struct estimate_context *c,
			struct estimate_result *out);
bool estimate_gpumemnet_raw(const struct spec *s, uint64_t declared_mib, const struct estimate_context *c,
			    struct estimate_result *out);
bool estimate_arithmetic(const struct spec *s, uint64_t declared_mib, const struct estimate_context *c,
			 struct estimate_result *out);
/* A summary is text of a user's, up to a mebibyte: not for the daemon to parse in its loop. */
bool estimate_has_summary(const struct spec *s);
/* Reading and replaying a capture takes time; without one the answer is at hand. */
bool estimate_has_capture(const struct spec *s);
bool estimate_none(const struct spec *s, uint64_t declared_mib, const struct estimate_context *c, struct estimate_result *out);

#endif
