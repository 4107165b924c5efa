/* SPDX-License-Identifier: MIT
 * What all verbs share: reading options from a table, help, errors and exit codes. See cli.h.
 */
#include "base/alloc.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/scope.h"
#include "base/text.h"
#include "base/units.h"
#include "cli/cli.h"
#include "cli/client_queue.h"
#include "cli/format.h"
#include "cli/term.h"

#include <ctype.h>
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* One line, whatever the text quotes: a terminal is told nothing by bytes that came from a file. radd writes moments for
 * programs, in UTC. */
static void print_line(const char *text)
{
	scoped_free char *line = format_times(text);
	term_disarm(line);
	fprintf(stderr, "rad: %s\n", line);
}

int cli_fail(const struct cli_call *c, const struct error *err)
{
	fflush(stdout);
	print_line(err->text);
	return cli_code(c, err);
}

int cli_usage(const struct cli_call *c, const char *fmt, ...)
{
	scoped_buf text = { 0 };
	char message[1000];
	va_list ap;
	va_start(ap, fmt);
	text_vprintf(message, sizeof message, fmt, ap);
	va_end(ap);
	buf_printf(&text, "%s%s%s (see rad %s --help)", c->verb ? c->verb->name : "", c->verb ? ": " : "", message,
		   c->verb ? c->verb->name : "");
	print_line(buf_text(&text));
	return cli_failure(c, CLI_USAGE);
}

void cli_note(const char *fmt, ...)
{
	char text[1400];
	va_list ap;
	va_start(ap, fmt);
	text_vprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	fflush(stdout);
	print_line(text);
}

int cli_print_json(json_t *reply)
{
	scoped_free char *text = json_to_terminal(reply);
	json_decref(reply);
	puts(text);
	return CLI_DONE;
}

bool cli_reader_left(void)
{
	struct pollfd p = { .fd = STDOUT_FILENO };
	return poll(&p, 1, 0) > 0 && p.revents & POLLERR;
}

int cli_finish(const struct cli_call *c, int rc)
{
	if (!fflush(stdout) && !ferror(stdout))
		return rc;
	bool left = errno == EPIPE || cli_reader_left(), tasks = cli_failure(c, CLI_FAILED) == CLI_OWN;
	if (!left)
		fprintf(stderr, "rad: output: %s\n", strerror(errno));
	return rc || (left && tasks) ? rc : cli_failure(c, CLI_FAILED);
}

/* ---- help ---- */

void cli_print_help(const struct cli_call *c, const struct args_option *options)
{
	struct term term = term_ask();
	scoped_free char *what = alloc_printf("%c%s.", toupper((unsigned char)*c->verb->help), c->verb->help + 1);
	scoped_free char *wrapped = term_wrap(what, 0, &term);
	printf("Usage: rad %s %s\n%s\n\n", c->verb->name, c->verb->usage, wrapped);
	args_help(stdout, options, term.width);
}

/* ---- reading ---- */

bool cli_describe(struct cli_call *c, const struct args_option *options)
{
	if (!c->describe)
		return false;
	c->describe(c->ctx, c->verb, options);
	c->rc = CLI_DONE;
	return true;
}

/* What Slurm's lists are asked for and one machine has none of, in the place of a word that only looks like it. */
static void explain_slurm(struct error *err)
{
	static const struct { const char *option, *why; } none[] = {
		{ "'--partition", "partitions" }, { "'--account", "accounts" }, { "'--accounts", "accounts" },
		{ "'--qos", "qualities of service" },
		{ "'--cluster", "clusters" }, { "'--nodelist", "nodes" }, { "'--nodes", "nodes" }, { "'--steps", "steps" },
		{ "'--step", "steps" }, { "'--licenses", "licenses" }, { "'--wckeys", "keys of workloads" }, { "'--federation", "clusters" },
	};
	for (size_t i = 0; i < COUNT_OF(none); i++) {
		size_t len = strlen(none[i].option);
		const char *at = strstr(err->text, none[i].option);
		if (at && !isalpha((unsigned char)at[len])) {
			error_set(err, ERR_INVALID, "%.40s: there are no %s here: leave it out", none[i].option + 1, none[i].why);
			return;
		}
	}
}

/* What other programs call it, and our own other commands. */
static void explain_others(const struct args_option *options, struct error *err)
{
	static const struct { const char *theirs, *name, *ours; } words[] = {
		{ "'--port", "listen", "--listen=PORT" }, { "'--tail", "lines", "--lines=N" },
		{ "'--me", "yes", "--user=$USER" }, { "'--failed", "state", "--state=F,OOM,TO" }, { "'--loop", "watch", "--watch=SECONDS" },
	};
	for (; options->name; options++)
		for (size_t i = 0; i < COUNT_OF(words); i++)
			if (!strcmp(options->name, words[i].name) && strstr(err->text, words[i].theirs))
				error_set(err, ERR_INVALID, "unknown option %s': here it is %s", words[i].theirs, words[i].ours);
}

/* A command's own option where no "--" keeps it from ours: "rad capture -o x python train.py --lr 1". */
static void explain_dashes(const struct cli_call *c, struct error *err)
{
	bool apart = !strstr(c->verb->usage, "-- ") || strstr(err->text, "did you mean") || strncmp(err->text, "unknown option", 14);
	for (int i = 1; !apart && i < c->argc; i++)
		apart = !strcmp(c->argv[i], "--");
	struct error said = *err;
	if (!apart)
		error_set(err, ERR_INVALID, "%.200s: a command with options of its own stands behind --", said.text);
}

bool cli_options(struct cli_call *c, const struct args_option *options)
{
	struct args a;
	struct error err = ERROR_INIT;
	if (cli_describe(c, options))
		return false;
	bool read = !args_read(&a, c->argc, c->argv, options, ARGS_ANYWHERE, &err);
	if (!read) {
		explain_slurm(&err);
		explain_others(options, &err);
		explain_dashes(c, &err);
		c->rc = cli_usage(c, "%s", err.text);
	} else if (a.help) {
		cli_print_help(c, options);
		c->rc = CLI_DONE;
	}
	if (!read || a.help) {
		args_clear(&a);
		return false;
	}
	c->words = a.words;
	c->n_words = a.n_words;
	c->given = a.given;
	c->n_given = a.n_given;
	if (!client_queue_check_verb(c->verb->name, &err))
		return true;
	c->rc = cli_usage(c, "%s", err.text);
	return false;
}

int cli_call(struct cli_call *c)
{
	int rc = c->verb->run(c);
	free(c->given);
	c->given = NULL;
	return rc;
}

bool cli_parts(struct cli_call *c, const struct cli_part *parts, const char *used)
{
	for (size_t i = 0; i < c->n_given; i++)
		for (const struct cli_part *p = parts; p->option; p++)
			if (!strcmp(c->given[i].option->name, p->option) && !strstr(p->of, used)) {
				c->rc = cli_usage(c, "--%s goes with %s", p->option, p->of);
				return false;
			}
	return true;
}

int cli_read_int(const char *option, const char *word, int64_t min, int64_t max, int64_t *value, struct error *err)
{
	return word && units_parse_int(word, min, max, value, err) ? error_wrap(err, "--%s", option) : 0;
}

int cli_read_double(const char *option, const char *word, double min, double max, double *value, struct error *err)
{
	return word && units_parse_double(word, min, max, value, err) ? error_wrap(err, "--%s", option) : 0;
}

bool cli_want_words(struct cli_call *c, size_t min, size_t max)
{
	if (c->n_words >= min && c->n_words <= max)
		return true;
	if (c->n_words < min)
		c->rc = cli_usage(c, "expected %s%s", c->verb->usage, strstr(c->verb->usage, " ID") ?
				  ": 'rad queue -t all --me' lists those of your tasks" : "");
	else
		c->rc = cli_usage(c, "did not expect '%.60s'", c->words[max]);
	return false;
}
