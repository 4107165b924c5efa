/* SPDX-License-Identifier: MIT
 *
 * Where a value came from, in words. Private to this stage.
 */
#ifndef RAD_SETTINGS_SOURCE_H
#define RAD_SETTINGS_SOURCE_H

#include "settings/settings.h"

/* "default", "/etc/rad/rad.conf:3", "environment", "command line". The caller frees it. */
char *source_print(const struct settings *s, const struct settings_source *from);

#endif
