/* SPDX-License-Identifier: MIT */
#include "estimate/activity.h"

#include "models/gpus.h"

#include <string.h>

int activity_from_capture(const struct capture *c, const char *gpu_name, struct activity *out, struct error *err)
{
	memset(out, 0, sizeof *out);
	(void)c, (void)gpu_name, (void)gpus_table;
	return error_set(err, ERR_INVALID, "not yet");
}
