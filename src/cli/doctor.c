/* SPDX-License-Identifier: MIT
 * Lines of rad doctor.
 */
#include "cli/doctor.h"

#include "base/json.h"
#include "base/scope.h"
#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>

void doctor_say(struct doctor *d, enum grade grade, const char *check, const char *fmt, ...)
{
	static const char *const words[] = { "ok", "warn", "fail" };
	static const enum style styles[] = { STYLE_GOOD, STYLE_WARN, STYLE_BAD };
	char text[1400];
	va_list ap;
	va_start(ap, fmt);
	text_vprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	scoped_free char *clean = term_text(text, 0, &d->term);
	d->failed = d->failed || grade == GRADE_FAIL;
	json_array_append_new(d->checks, json_pack("{ss, ss, ss}", "check", check, "grade", words[grade], "text", clean));
	scoped_free char *lines = term_wrap(text, 17, &d->term);
	if (!d->json)
		printf("%s%-4s%s  %-9s  %s\n", term_style(&d->term, styles[grade]), words[grade], term_style(&d->term, STYLE_PLAIN),
		       check, lines);
}
