/* SPDX-License-Identifier: MIT
 * The list of GPUs that were chosen, as readers of all kinds get it; apart from device.c, which knows the kinds.
 */
#include "device/device.h"

#include <string.h>

int device_place(const char *list, const char *uuid)
{
	size_t len = strlen(uuid);
	int at = 0;	/* counted in words: no UUID holds a comma */
	for (const char *p = list; *p; p += strcspn(p, ","), p += *p == ',', at++)
		if (strcspn(p, ",") == len && !strncmp(p, uuid, len))
			return at;
	return -1;
}
