/* SPDX-License-Identifier: MIT
 * See source.h.
 */
#include "settings/source.h"

#include "base/alloc.h"

char *source_print(const struct settings *s, const struct settings_source *from)
{
	switch (from->origin) {
	case SETTINGS_FILE: return alloc_printf("%s:%zu", s->file, from->line);
	case SETTINGS_ENVIRONMENT: return alloc_string("environment");
	case SETTINGS_COMMAND_LINE: return alloc_string("command line");
	default: return alloc_string("default");
	}
}
