/* SPDX-License-Identifier: MIT
 * See troubles.h.
 */
#include "daemon/troubles.h"

#include "base/json.h"
#include "base/scope.h"

#include <stdarg.h>

void troubles_add(json_t *troubles, const char *check, const char *fmt, ...)
{
	scoped_free char *text = NULL;
	va_list ap;
	va_start(ap, fmt);
	int n = vasprintf(&text, fmt, ap);
	va_end(ap);
	json_array_append_new(troubles, json_pack("{ss, so}", "check", check, "text", json_text(n < 0 ? fmt : text)));
}
