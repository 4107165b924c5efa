/* SPDX-License-Identifier: MIT
 * Options from a table: see args.h. getopt_long does the reading, for its abbreviations and its order of words are what people
 * know; what is here are its tables, made from ours, errors that say what to write instead, and which abbreviations are none.
 */
#include "base/args.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/scope.h"
#include "base/words.h"

#include <getopt.h>
#include <stdint.h>
#include <string.h>

#define HELP 1000		/* what getopt_long returns for --help */
#define FIRST_ROW (HELP + 1)	/* and for row 0 */
#define HELP_COLUMN 29		/* where --help says what an option does, */
#define HELP_LEAST 30		/* in so many columns at least; */
#define HELP_BELOW 8		/* where a terminal has not that many, below the option, from here on */

static size_t count(const struct args_option *options)
{
	size_t n = 0;
	while (options[n].name)
		n++;
	return n;
}

static bool may_stand_alone(const struct args_option *o)
{
	return o->arg && *o->arg == '[';
}

static int kind_of(const struct args_option *o)
{
	return !o->arg ? no_argument : may_stand_alone(o) ? optional_argument : required_argument;
}

static struct option *long_table(const struct args_option *options)
{
	size_t n = count(options);
	struct option *longs = alloc_zero((n + 2) * sizeof *longs);
	for (size_t i = 0; i < n; i++)
		longs[i] = (struct option){ .name = options[i].name, .has_arg = kind_of(&options[i]), .val = FIRST_ROW + (int)i };
	longs[n] = (struct option){ .name = "help", .val = HELP };
	return longs;
}

/* A "+" ends options at the first word; a ":" tells a missing value from an unknown option. */
static char *letter_table(const struct args_option *options, enum args_place place)
{
	struct buf letters = { 0 };
	buf_add_text(&letters, place == ARGS_FIRST ? "+:h" : ":h");
	for (const struct args_option *o = options; o->name; o++)
		if (o->letter)
			buf_printf(&letters, "%c%s", o->letter, kind_of(o) == required_argument ? ":" : "");
	return buf_steal(&letters);
}

static const struct args_option *option_of(const struct args_option *options, int code)
{
	if (code >= FIRST_ROW)
		return &options[code - FIRST_ROW];
	for (const struct args_option *o = options; o->name; o++)
		if (o->letter == code)
			return o;
	return NULL;
}

static int unknown_but_near(const char *word, const char *near, struct error *err)
{
	return error_set(err, ERR_INVALID, "unknown option '%.60s': did you mean '--%s'?", word, near);
}

static int unknown(const struct args_option *options, const char *word, struct error *err)
{
	size_t n = count(options);
	scoped_free const char **names = alloc_zero((n + 2) * sizeof *names);
	scoped_free char *bare = alloc_string(word + strspn(word, "-"));
	bare[strcspn(bare, "=")] = 0;
	for (size_t i = 0; i < n; i++)
		names[i] = options[i].name;
	names[n] = "help";
	const char *near = words_nearest(bare, names);
	for (size_t i = 0; i < n && !near; i++)	/* more was said than its name: --time-limit */
		if (strlen(names[i]) >= 3 && !strncmp(bare, names[i], strlen(names[i])))
			near = names[i];
	if (near)
		return unknown_but_near(word, near, err);
	return error_set(err, ERR_INVALID, "unknown option '%.60s'", word);
}

/* getopt leaves in optopt what it knew of the option: nothing of a long one that is unknown or could be several. */
static int refuse(const struct args_option *options, int code, const char *word, struct error *err)
{
	const struct args_option *o = optopt == HELP ? NULL : option_of(options, optopt);
	if (!optopt)
		return unknown(options, word, err);
	if (code == ':' && o)
		return error_set(err, ERR_INVALID, "--%s needs a value: --%s=%s", o->name, o->name, o->arg);
	if (o || optopt == HELP)
		return error_set(err, ERR_INVALID, "--%s takes no value, but '%.60s' was given", o ? o->name : "help", word);
	return error_set(err, ERR_INVALID, "unknown option '-%c'", optopt);
}

/* The name of another option, rather than one that was cut short: all that it lacks are whole words, as --input lacks of
 * --input-size. What getopt_long took last was `word`, or stood after it as its value. */
static bool is_another(const struct args_option *o, const char *word)
{
	size_t n = strcspn(word, "=");
	return n > 2 && !strncmp(word, "--", 2) && !strncmp(word + 2, o->name, n - 2) && o->name[n - 2] == '-';
}

/* Of a file or folder an empty name is a variable that is not set, and not the default. */
static int check_value(const struct args_option *o, const char *value, struct error *err)
{
	if (!value || *value || !args_takes_path(o))
		return 0;
	return error_set(err, ERR_INVALID, "--%s has an empty value (is a variable not set?): --%s=%s", o->name, o->name, o->arg);
}

static void take(struct args *a, const struct args_option *o, const char *value)
{
	a->given = alloc_resize(a->given, a->n_given + 1, sizeof *a->given);
	a->given[a->n_given++] = (struct args_given){ o, value };
	if (o->flag)
		*o->flag = true;
	if (o->value)
		*o->value = value;
}

int args_read(struct args *a, int argc, char **argv, const struct args_option *options, enum args_place place,
	      struct error *err)
{
	scoped_free struct option *longs = long_table(options);
	scoped_free char *letters = letter_table(options, place);
	int code, after = 1;	/* the last option */
	*a = (struct args){ 0 };
	optind = 0;	/* GNU: start afresh */
	opterr = 0;
	while (!a->help && (code = getopt_long(argc, argv, letters, longs, NULL)) != -1) {
		if (code == '?' || code == ':')
			return refuse(options, code, argv[optind > 0 && optind <= argc ? optind - 1 : 0], err);
		const struct args_option *o = option_of(options, code);
		const char *word = argv[optind - 1 - (optarg && optarg == argv[optind - 1])];
		if (code >= FIRST_ROW && is_another(o, word))
			return unknown_but_near(word, o->name, err);
		if (o && check_value(o, optarg, err))
			return -1;
		after = optind;
		if (code == HELP || (code == 'h' && !o))
			a->help = true;
		else
			take(a, o, optarg);
	}
	a->dashes = optind > after;
	a->words = argv + optind;
	a->n_words = (size_t)(argc - optind);
	return 0;
}

void args_clear(struct args *a)
{
	free(a->given);
	*a = (struct args){ 0 };
}

/* Help ------------------------------------------------------------------------------------------------------------------ */

/* "--gpus=N", "--nice[=N]", "--hold" */
static char *long_form(const struct args_option *o)
{
	if (may_stand_alone(o))
		return alloc_printf("--%s[=%s", o->name, o->arg + 1);
	return alloc_printf("--%s%s%s", o->name, o->arg ? "=" : "", o->arg ? o->arg : "");
}

/* Broken at blanks. */
static void help_text(FILE *out, const char *text, unsigned column, unsigned width)
{
	size_t room = width > column ? width - column : SIZE_MAX, len;
	for (; (len = strlen(text)) > room; text += len + 1) {
		for (len = room; len && text[len] != ' '; len--)
			;
		if (!len)	/* a word as long as the line */
			break;
		fprintf(out, "%.*s\n%*s", (int)len, text, (int)column, "");
	}
	fprintf(out, "%s\n", text);
}

static void help_line(FILE *out, const struct args_option *o, unsigned width)
{
	scoped_free char *form = long_form(o);
	bool narrow = width && width < HELP_COLUMN + HELP_LEAST, below = width && (narrow || strlen(form) > HELP_COLUMN - 7);
	unsigned column = narrow ? HELP_BELOW : HELP_COLUMN;
	fprintf(out, "  %c%c%c ", o->letter ? '-' : ' ', o->letter ? o->letter : ' ', o->letter ? ',' : ' ');
	if (below)
		fprintf(out, "%s\n%*s", form, (int)column, "");
	else
		fprintf(out, "%-22s ", form);
	help_text(out, o->help, column, width);
}

void args_help(FILE *out, const struct args_option *options, unsigned width)
{
	const struct args_option help = { "help", option_of(options, 'h') ? 0 : 'h', NULL, "show this help" };
	for (const struct args_option *o = options; o->name; o++)
		if (o->help)
			help_line(out, o, width);
	help_line(out, &help, width);
}

bool args_takes_path(const struct args_option *o)
{
	return o->arg && (!strcmp(o->arg, "FILE") || !strcmp(o->arg, "DIR") || strchr(o->arg, '.'));
}
