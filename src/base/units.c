/* SPDX-License-Identifier: MIT
 * Sizes, durations and numbers as people type them. Everything that is not wholly understood is refused.
 */
#include "base/units.h"

#include "base/scope.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

int units_parse_double(const char *text, double min, double max, double *value, struct error *err)
{
	char *end;
	errno = 0;
	double v = text && *text && !isspace((unsigned char)*text) ? strtod(text, &end) : NAN;
	if (isnan(v) || *end || errno == ERANGE || v < min || v > max)
		return error_set(err, ERR_INVALID, "'%.60s' is not a number from %g to %g", text ? text : "", min, max);
	*value = v;
	return 0;
}

int units_parse_int(const char *text, int64_t min, int64_t max, int64_t *value, struct error *err)
{
	char *end = NULL;
	errno = 0;
	bool plain = text && (isdigit((unsigned char)*text) || (*text == '-' && isdigit((unsigned char)text[1])));
	long long v = plain ? strtoll(text, &end, 10) : 0;
	if (!plain || *end || errno == ERANGE || v < min || v > max)
		return error_set(err, ERR_INVALID, "'%.60s' is not a whole number from %lld to %lld",
				 text ? text : "", (long long)min, (long long)max);
	*value = v;
	return 0;
}

/* MiB per unit of that suffix, 0 if there is no such suffix. */
static double size_factor(const char *suffix)
{
	static const struct { char letter; double mib; } units[] = {
		{ 'k', 1.0 / 1024 }, { 'm', 1 }, { 'g', 1024 }, { 't', 1024.0 * 1024 },
	};
	if (!*suffix)
		return 1;
	const char *rest = suffix + 1;
	if (*rest && strcasecmp(rest, "b") && strcasecmp(rest, "ib") && strcasecmp(rest, "i"))
		return 0;
	for (size_t i = 0; i < COUNT_OF(units); i++)
		if (tolower((unsigned char)*suffix) == units[i].letter)
			return units[i].mib;
	return 0;
}

#define MOST_MIB (1024.0 * 1024 * 1024)

int units_parse_mib(const char *text, uint64_t *mib, struct error *err)
{
	char *end = NULL;
	bool plain = text && (isdigit((unsigned char)*text) || (*text == '.' && isdigit((unsigned char)text[1])));
	if (plain && text[0] == '0' && (text[1] == 'x' || text[1] == 'X'))
		plain = false;
	double v = plain ? strtod(text, &end) : 0;
	while (plain && *end == ' ')
		end++;
	double factor = plain ? size_factor(end) : 0;
	double size = ceil(v * factor - 1e-9);
	if (!plain || factor <= 0)
		return error_set(err, ERR_INVALID, "'%.60s' is not a size: write 20G, 512M or a number of MiB",
				 text ? text : "");
	if (!(size <= MOST_MIB))
		return error_set(err, ERR_INVALID, "'%.60s' is out of range: sizes go up to 1024T", text);
	*mib = (uint64_t)size;
	return 0;
}

static int bad_duration(const char *text, struct error *err)
{
	return error_set(err, ERR_INVALID, "'%.60s' is not a duration: write MM, MM:SS, HH:MM:SS, D-HH:MM:SS (59 is the most behind a "
			 "':'), or 90s, 15m, 1h30m, 2h, 1d", text ? text : "");
}

#define MOST_OF_A_UNIT INT64_C(100000000000)	/* of days it is three hundred million years, and fits as milliseconds */

/* The number at *p, which moves past it; -1 if there is none. What is absurd counts as the largest: no caller takes that. */
static int64_t take_number(const char **p)
{
	if (!isdigit((unsigned char)**p))
		return -1;
	char *end;
	long long v = strtoll(*p, &end, 10);
	*p = end;
	return v < MOST_OF_A_UNIT ? v : MOST_OF_A_UNIT;
}

static int64_t letter_seconds(char c)
{
	switch (c) {
	case 's': return 1;
	case 'm': return 60;
	case 'h': return 3600;
	case 'd': return 86400;
	default: return 0;
	}
}

/* "90s", "1h30m": each unit smaller than the one before it. */
static bool take_lettered(const char *p, int64_t *seconds)
{
	int64_t total = 0, unit = INT64_MAX;
	do {
		int64_t v = take_number(&p), next = letter_seconds(*p);
		if (v < 0 || !next || next >= unit)
			return false;
		total += v * next;
		unit = next;
	} while (*++p);
	*seconds = total;
	return true;
}

/* "1:30:00", "2-12". */
static bool take_clock(const char *p, int64_t *seconds)
{
	int64_t part[4], days = 0;
	size_t n = 0;
	bool has_days = false;
	for (;;) {
		int64_t v = n < 3 ? take_number(&p) : -1;
		if (v < 0 || (n && v > 59))
			return false;
		if (!n && !has_days && *p == '-') {
			days = v, has_days = true, p++;
			continue;
		}
		part[n++] = v;
		if (!*p)
			break;
		if (*p++ != ':')
			return false;
	}
	/* With days the parts are hours first; without, one part is minutes and two are minutes and seconds. */
	static const int64_t with_days[] = { 3600, 60, 1 }, plain[3][3] = { { 60 }, { 60, 1 }, { 3600, 60, 1 } };
	int64_t total = days * 86400;
	for (size_t i = 0; i < n; i++)
		total += part[i] * (has_days ? with_days[i] : plain[n - 1][i]);
	*seconds = total;
	return true;
}

/* As it may be typed, in the largest unit that tells it whole. */
static void print_bound(int64_t s, char *text, size_t size)
{
	static const char letters[] = "dhms";
	const char *unit = letters;
	while (s % letter_seconds(*unit))
		unit++;
	snprintf(text, size, "%lld%c", (long long)(s / letter_seconds(*unit)), s ? *unit : 's');
}

int units_parse_duration(const char *text, int64_t min_s, int64_t max_s, int64_t *seconds, struct error *err)
{
	const char *p = text ? text : "";
	char least[32], most[32];
	int64_t s;
	if (!take_lettered(p, &s) && !take_clock(p, &s))
		return bad_duration(text, err);
	if (s < min_s || s > max_s) {
		print_bound(min_s, least, sizeof least);
		print_bound(max_s, most, sizeof most);
		return error_set(err, ERR_INVALID, "'%.60s' is out of range: write %s to %s", text, least, most);
	}
	*seconds = s;
	return 0;
}

char *units_format_mib(double mib, char *buf, size_t size)
{
	if (mib >= 1024 * 1024)
		snprintf(buf, size, "%.1fT", mib / 1024 / 1024);
	else if (mib >= 1024)
		snprintf(buf, size, "%.1fG", mib / 1024);
	else
		snprintf(buf, size, "%.0fM", mib);
	return buf;
}

char *units_format_duration(int64_t s, char *buf, size_t size)
{
	if (s < 0)
		s = 0;
	int d = (int)(s / 86400), h = (int)(s / 3600 % 24), m = (int)(s / 60 % 60), r = (int)(s % 60);
	if (d)
		snprintf(buf, size, "%d-%02d:%02d:%02d", d, h, m, r);
	else if (h)
		snprintf(buf, size, "%02d:%02d:%02d", h, m, r);
	else
		snprintf(buf, size, "%02d:%02d", m, r);
	return buf;
}
