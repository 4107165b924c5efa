/* SPDX-License-Identifier: MIT
 * See repeat.h.
 */
#include "cli/repeat.h"

#include "base/alloc.h"
#include "base/scope.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What it prints, kept to be shown at once. NULL with an error. Free it. */
static char *take_frame(repeat_show show, void *ctx, const struct term *term, struct error *err)
{
	char *text = NULL;
	size_t n = 0;
	FILE *screen = stdout;
	stdout = open_memstream(&text, &n);
	int failed = show(ctx, term, err);
	fclose(stdout);
	stdout = screen;
	if (failed)
		free(steal(text));
	return text;
}

/* What would scroll away stands first: the titles, and what runs. A line that is wider than the window is cut by it. */
static void print_frame(const char *text, const struct term *term)
{
	size_t lines = 0, room = term->height > 1 ? term->height - 1 : SIZE_MAX;
	const char *end = text;
	for (const char *p = text; (p = strchr(p, '\n')); p++)
		lines++;
	size_t shown = lines > room ? room - 1 : lines;
	for (size_t i = 0; i < shown; i++)
		end = strchr(end, '\n') + 1;
	printf("\033[H\033[J\033[?7l%.*s", (int)(end - text), text);
	if (shown < lines)
		printf("... and %zu lines more: rad top scrolls\n", lines - shown);
	fputs("\033[?7h", stdout);
}

int repeat_show_every(struct cli_call *c, const char *every, bool json, repeat_show show, void *ctx)
{
	struct error wrong = ERROR_INIT;
	double seconds;
	scoped_free char *last = NULL;
	if (json)
		return cli_usage(c, "--watch is for people: --json is printed once");
	if (cli_read_double("watch", every, 0.2, 3600, &seconds, &wrong))
		return cli_usage(c, "%s", wrong.text);
	for (;;) {
		struct error err = ERROR_INIT;
		struct term term = term_ask();
		if (!term.live)
			return cli_usage(c, "--watch needs a terminal");
		char *text = take_frame(show, ctx, &term, &err);
		if (!text && (!last || err.code != ERR_UNAVAILABLE))
			return cli_fail(c, &err);
		scoped_free char *away = text ? NULL : alloc_printf("rad: %s; trying again. What is below was so before.", err.text);
		scoped_free char *said = away ? term_wrap(away, 2, &term) : NULL;
		if (text) {
			free(last);
			last = text;
		}
		scoped_free char *frame = alloc_printf("%s%s%s", said ? said : "", said ? "\n" : "", last);
		print_frame(frame, &term);
		if (fflush(stdout))
			return CLI_FAILED;
		usleep((useconds_t)(seconds * 1e6));
	}
}
