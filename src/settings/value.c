/* SPDX-License-Identifier: MIT
 * Reading and writing one value. All ways in (a file, options, --set) end here, so a text is taken by all of them or by none,
 * and means the same. What is refused is answered with what would have been taken, from the row.
 */
#include "settings/value.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/scope.h"
#include "base/units.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define MIB_A_GIB 1024
#define MS_A_SECOND 1000
#define NUMBER_DIGITS 15	/* decimal ones that a double always keeps */

static bool is_off(const struct setting *row, const char *text)
{
	return row->off != SETTING_NEVER_OFF && (!strcasecmp(text, "off") || !strcasecmp(text, "no") || !strcasecmp(text, "false"));
}

static int refuse(const struct setting *row, const char *text, const char *how, struct error *err)
{
	scoped_free char *range = settings_range(row);
	return error_set(err, ERR_INVALID, "'%.40s' is not %s%s", text, range, how);
}

/* Whether it is a number and nothing else; nan and infinity are none. */
static bool plain_number(const char *text, double *v)
{
	return !units_parse_double(text, -1e15, 1e15, v, NULL);
}

static bool is_auto(const struct setting *row, const char *text)
{
	return row->automatic && !strcasecmp(text, "auto");
}

/* Words ----------------------------------------------------------------------------------------------------------------- */

/* Not another spelling of one before it, and not one that is refused. */
static bool is_name(const struct setting *row, const struct setting_word *w)
{
	for (const struct setting_word *before = row->words; before < w; before++)
		if (!before->refusal && before->value == w->value)
			return false;
	return !w->refusal;
}

char *settings_words(const struct setting *row)
{
	struct buf names = { 0 };
	if (row->type != SETTING_WORD)
		return NULL;
	for (const struct setting_word *w = row->words; w->word; w++)
		if (is_name(row, w))
			buf_printf(&names, "%s%s", names.len ? " " : "", w->word);
	return buf_steal(&names);
}

static int no_such_word(const struct setting *row, const char *text, struct error *err)
{
	scoped_free char *names = settings_words(row);
	char *second = strchr(names, ' ');
	if (!second || strchr(second + 1, ' '))
		return error_set(err, ERR_INVALID, "'%.40s' is no %s; there are: %s", text, row->noun, names);
	*second++ = 0;
	return error_set(err, ERR_INVALID, "'%.40s' is neither %s nor %s", text, names, second);
}

static int parse_word(const struct setting *row, const char *text, void *member, struct error *err)
{
	const struct setting_word *w = row->words;
	while (w->word && strcasecmp(text, w->word))
		w++;
	if (!w->word)
		return no_such_word(row, text, err);
	if (w->refusal)
		return error_set(err, ERR_INVALID, "'%.40s' %s", text, w->refusal);
	if (row->size == sizeof(bool))
		*(bool *)member = w->value;
	else
		*(int *)member = w->value;	/* an enum */
	return 0;
}

static char *print_word(const struct setting *row, const void *member)
{
	int value = row->size == sizeof(bool) ? *(const bool *)member : *(const int *)member;
	for (const struct setting_word *w = row->words; w->word; w++)
		if (w->value == value && !w->refusal)
			return alloc_string(w->word);
	return alloc_printf("%d", value);
}

/* Numbers --------------------------------------------------------------------------------------------------------------- */

static int parse_number(const struct setting *row, const char *text, void *member, struct error *err)
{
	double v;
	if (is_off(row, text))
		v = row->off == SETTING_OFF_IS_NAN ? NAN : 0;
	else if (!plain_number(text, &v) || v < row->min || v > row->max)
		return refuse(row, text, "", err);
	*(double *)member = v;
	return 0;
}

static char *print_number(const struct setting *row, const void *member)
{
	double v = *(const double *)member;
	if (isnan(v) || (row->off == SETTING_OFF_IS_ZERO && v == 0))
		return alloc_string("off");
	for (int digits = 1; digits < NUMBER_DIGITS; digits++) {
		char *text = alloc_printf("%.*g", digits, v);
		if (strtod(text, NULL) == v)
			return text;
		free(text);
	}
	return alloc_printf("%.17g", v);
}

static int parse_count(const struct setting *row, const char *text, void *member, struct error *err)
{
	int64_t n = 0;
	if (is_auto(row, text))
		n = -1;
	else if (!is_off(row, text) && units_parse_int(text, (int64_t)row->min, (int64_t)row->max, &n, NULL))
		return refuse(row, text, "", err);
	if (row->size == sizeof(unsigned))
		*(unsigned *)member = (unsigned)n;
	else
		*(size_t *)member = (size_t)n;
	return 0;
}

static char *print_count(const struct setting *row, const void *member)
{
	size_t n = row->size == sizeof(unsigned) ? *(const unsigned *)member : *(const size_t *)member;
	if (row->automatic && n == SIZE_MAX)
		return alloc_string("auto");
	return !n && row->off ? alloc_string("off") : alloc_printf("%zu", n);
}

/* Sizes and times ------------------------------------------------------------------------------------------------------- */

/* Rounded up, with a suffix or without: no less is held than was asked for. */
static int parse_gib(const struct setting *row, const char *text, void *member, struct error *err)
{
	uint64_t mib = 0;
	double gib;
	if (is_auto(row, text))
		mib = UINT64_MAX;
	else if (is_off(row, text))
		;
	else if (!plain_number(text, &gib)) {
		if (units_parse_mib(text, &mib, NULL))
			return refuse(row, text, ": write 5, 20G or 512M", err);
		if ((double)mib > row->max * MIB_A_GIB || (double)mib < row->min * MIB_A_GIB)
			return refuse(row, text, "", err);
	} else if (gib < row->min || gib > row->max) {
		return refuse(row, text, "", err);
	} else {
		mib = (uint64_t)ceil(gib * MIB_A_GIB - 1e-9);
	}
	*(uint64_t *)member = mib;
	return 0;
}

static char *print_gib(const struct setting *row, const void *member)
{
	uint64_t mib = *(const uint64_t *)member;
	if (row->automatic && mib == UINT64_MAX)
		return alloc_string("auto");
	if (!mib && row->off)
		return alloc_string("off");
	if (mib % MIB_A_GIB)
		return alloc_printf("%lluM", (unsigned long long)mib);
	return alloc_printf("%llu", (unsigned long long)mib / MIB_A_GIB);
}

#define MS_A_DAY (INT64_C(86400) * MS_A_SECOND)
#define MS_A_WEEK (7 * MS_A_DAY)

static int parse_seconds(const struct setting *row, const char *text, void *member, struct error *err)
{
	double s = 0;
	int64_t whole;
	if (is_off(row, text)) {
		*(int64_t *)member = 0;
		return 0;
	}
	if (!plain_number(text, &s)) {
		if (units_parse_duration(text, 0, INT64_MAX, &whole, NULL))
			return refuse(row, text, ": write 90, 90s, 15m, 2h or 1d", err);
		s = (double)whole;
	}
	if (s < row->min || s > row->max)
		return refuse(row, text, "", err);
	*(int64_t *)member = llround(s * MS_A_SECOND);
	return 0;
}

static char *print_seconds(const struct setting *row, const void *member)
{
	int64_t ms = *(const int64_t *)member;
	if (!ms && row->off)
		return alloc_string("off");
	if (ms > MS_A_WEEK && ms % MS_A_DAY == 0)	/* seconds say nothing there */
		return alloc_printf("%lldd", (long long)(ms / MS_A_DAY));
	char *text = alloc_printf("%lld.%03lld", (long long)ms / MS_A_SECOND, (long long)ms % MS_A_SECOND);
	char *end = text + strlen(text);
	while (end[-1] == '0')
		*--end = 0;
	if (end[-1] == '.')
		end[-1] = 0;
	return text;
}

/* Texts ----------------------------------------------------------------------------------------------------------------- */

static int parse_text(const struct setting *row, const char *text, void *member, struct error *err)
{
	const char *p = text;
	while (*p && !iscntrl((unsigned char)*p))
		p++;
	if (!*text || *p)
		return refuse(row, "", "", err);
	char *copy = alloc_string(text);	/* first: the text may be the member itself */
	free(*(char **)member);
	*(char **)member = copy;
	return 0;
}

static char *print_text(const struct setting *row, const void *member)
{
	(void)row;
	return alloc_string(*(char *const *)member);
}

/* All ------------------------------------------------------------------------------------------------------------------- */

static const struct {
	int (*parse)(const struct setting *row, const char *text, void *member, struct error *err);
	char *(*print)(const struct setting *row, const void *member);
	const char *what, *unit;	/* of its range: "a time from 0.1 to 60 seconds" */
} types[] = {
	[SETTING_WORD] = { parse_word, print_word, NULL, NULL },
	[SETTING_NUMBER] = { parse_number, print_number, "a number", "" },
	[SETTING_COUNT] = { parse_count, print_count, "a whole number", "" },
	[SETTING_GIB] = { parse_gib, print_gib, "a size", " GiB" },
	[SETTING_SECONDS] = { parse_seconds, print_seconds, "a time", " seconds" },
	[SETTING_TEXT] = { parse_text, print_text, NULL, NULL },
};

int value_parse(const struct setting *row, const char *text, void *member, struct error *err)
{
	return types[row->type].parse(row, text, member, err);
}

char *value_print(const struct setting *row, const void *member)
{
	return types[row->type].print(row, member);
}

static char *range_of_words(const struct setting *row)
{
	scoped_free char *names = settings_words(row);
	struct buf text = { 0 };
	bool two = strchr(names, ' ') == strrchr(names, ' ');
	buf_add_text(&text, two ? "" : "one of ");
	for (const char *p = names; *p; p++)
		if (*p == ' ')
			buf_add_text(&text, two ? " or " : ", ");
		else
			buf_add(&text, p, 1);
	return buf_steal(&text);
}

char *settings_range(const struct setting *row)
{
	if (row->type == SETTING_WORD)
		return range_of_words(row);
	if (row->type == SETTING_TEXT)
		return alloc_string("a text of printable characters");
	bool small = row->type == SETTING_GIB && row->min > 0 && row->min < 1;
	return alloc_printf("%s from %.15g%s to %.15g%s%s", types[row->type].what, small ? row->min * MIB_A_GIB : row->min,
			    small ? " MiB" : "", row->max, types[row->type].unit,
			    row->automatic ? ", auto or off" : row->off ? ", or off" : "");
}
