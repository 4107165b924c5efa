/* SPDX-License-Identifier: MIT
 * What all verbs share: reading options from a table, help, errors and exit codes. See cli.h.
 */
#include "base/alloc.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/scope.h"
#include "cli/cli.h"
#include "submit/options.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define MAX_OPTIONS 24
#define LONG_BASE 1000	/* what getopt_long returns for row 0 */
#define HELP (LONG_BASE + MAX_OPTIONS)

/* One line, whatever the text quotes: a terminal is told nothing by bytes that came from a file. */
static void print_line(const char *text)
{
	scoped_free char *line = alloc_string(text);
	for (char *p = line; *p; p++)
		if (iscntrl((unsigned char)*p))
			*p = ' ';
	fprintf(stderr, "rad: %s\n", line);
}

static int failure(const struct cli_call *c, int code)
{
	return c->verb && c->verb->code_is_the_tasks ? CLI_OWN : code;
}

int cli_fail(const struct cli_call *c, const struct error *err)
{
	fflush(stdout);
	print_line(err->text);
	return failure(c, err->code == ERR_UNAVAILABLE ? CLI_NO_DAEMON : CLI_FAILED);
}

int cli_usage(const struct cli_call *c, const char *fmt, ...)
{
	scoped_buf text = { 0 };
	char message[1000];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(message, sizeof message, fmt, ap);
	va_end(ap);
	buf_printf(&text, "%s%s%s: see rad %s --help", c->verb ? c->verb->name : "", c->verb ? ": " : "", message,
		   c->verb ? c->verb->name : "");
	print_line(buf_text(&text));
	return failure(c, CLI_USAGE);
}

void cli_note(const char *fmt, ...)
{
	char text[1400];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	fflush(stdout);
	print_line(text);
}

int cli_print_json(json_t *reply)
{
	scoped_free char *text = json_to_text(reply);
	json_decref(reply);
	puts(text);
	return CLI_DONE;
}

int cli_finish(int rc)
{
	if (!fflush(stdout) && !ferror(stdout))
		return rc;
	if (errno != EPIPE)
		fprintf(stderr, "rad: output: %s\n", strerror(errno));
	return rc ? rc : CLI_FAILED;
}

/* ---- help ---- */

static void print_help(const struct cli_call *c, const struct cli_option *options)
{
	printf("Usage: rad %s %s\n%c%s.\n\n", c->verb->name, c->verb->usage, toupper((unsigned char)*c->verb->help),
	       c->verb->help + 1);
	for (const struct cli_option *o = options; o->name; o++) {
		scoped_free char *form = alloc_printf("--%s%s%s", o->name, o->arg ? "=" : "", o->arg ? o->arg : "");
		if (o->letter)
			printf("  -%c, %-20s %s\n", o->letter, form, o->help);
		else
			printf("      %-20s %s\n", form, o->help);
	}
	printf("  -h, %-20s %s\n", "--help", "show this help");
}

/* ---- reading ---- */

static size_t count_options(const struct cli_option *options)
{
	size_t n = 0;
	while (options[n].name)
		n++;
	return n;
}

static int bad_option(const struct cli_call *c, const struct cli_option *options, size_t n, int code, const char *word)
{
	const char *names[MAX_OPTIONS + 2] = { "help" };
	for (size_t i = 0; i < n; i++)
		names[i + 1] = options[i].name;
	for (size_t i = 0; i < n; i++)
		if (optopt && (optopt == options[i].letter || optopt == LONG_BASE + (int)i))
			return code == ':' ? cli_usage(c, "--%s needs a value (--%s=%s)", options[i].name, options[i].name, options[i].arg)
					   : cli_usage(c, "--%s takes no value", options[i].name);
	if (strncmp(word, "--", 2))
		return cli_usage(c, "unknown option '-%c'", optopt);
	scoped_free char *bare = alloc_string(word + 2);
	bare[strcspn(bare, "=")] = 0;
	const char *near = options_nearest(bare, names);
	return near ? cli_usage(c, "unknown option '%.60s': did you mean '--%s'?", word, near)
		    : cli_usage(c, "unknown option '%.60s'", word);
}

/* getopt's tables from ours. */
static void getopt_tables(const struct cli_option *options, size_t n, struct option *longs, char *letters)
{
	letters += sprintf(letters, ":h");
	for (size_t i = 0; i < n; i++) {
		longs[i] = (struct option){ .name = options[i].name, .has_arg = options[i].arg ? required_argument : no_argument,
					    .val = LONG_BASE + (int)i };
		if (options[i].letter)
			letters += sprintf(letters, "%c%s", options[i].letter, options[i].arg ? ":" : "");
	}
	longs[n] = (struct option){ .name = "help", .val = HELP };
	longs[n + 1] = (struct option){ 0 };
}

static void take(const struct cli_option *o, const char *value)
{
	if (o->flag)
		*o->flag = true;
	else
		*o->value = value;
}

bool cli_options(struct cli_call *c, const struct cli_option *options)
{
	struct option longs[MAX_OPTIONS + 2];
	char letters[2 * MAX_OPTIONS + 4];
	size_t n = count_options(options);
	int code;
	getopt_tables(options, n, longs, letters);
	optind = 0;	/* GNU: start afresh */
	opterr = 0;
	while ((code = getopt_long(c->argc, c->argv, letters, longs, NULL)) != -1) {
		const char *word = c->argv[optind > 0 && optind <= c->argc ? optind - 1 : 0];
		if (code == 'h' || code == HELP) {
			print_help(c, options);
			c->rc = CLI_DONE;
			return false;
		}
		if (code == '?' || code == ':') {
			c->rc = bad_option(c, options, n, code, word);
			return false;
		}
		for (size_t i = 0; i < n; i++)
			if (code == LONG_BASE + (int)i || (options[i].letter && code == options[i].letter))
				take(&options[i], optarg);
	}
	c->words = c->argv + optind;
	c->n_words = (size_t)(c->argc - optind);
	return true;
}

bool cli_want_words(struct cli_call *c, size_t min, size_t max)
{
	if (c->n_words >= min && c->n_words <= max)
		return true;
	if (c->n_words < min)
		c->rc = cli_usage(c, "expected %s", c->verb->usage);
	else
		c->rc = cli_usage(c, "did not expect '%.60s'", c->words[max]);
	return false;
}
