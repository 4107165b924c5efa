/* SPDX-License-Identifier: MIT
 * See format.h.
 */
#include "cli/format.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/scope.h"
#include "base/units.h"
#include "base/words.h"
#include "cli/cli.h"

#include <math.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static char *unknown(char buf[FORMAT_LEN])
{
	return strcpy(buf, "-");
}

char *format_mib(double mib, char buf[FORMAT_LEN])
{
	return isnan(mib) ? unknown(buf) : units_format_mib(mib, buf, FORMAT_LEN);
}

char *format_seconds(double s, char buf[FORMAT_LEN])
{
	return isnan(s) ? unknown(buf) : units_format_duration((int64_t)s, buf, FORMAT_LEN);
}

char *format_span(double s, char buf[FORMAT_LEN])
{
	static const struct { int64_t unit; const char *word; } units[] = { { 86400, "day" }, { 3600, "hour" } };
	for (size_t i = 0; !isnan(s) && s >= 1 && i < COUNT_OF(units); i++)
		if ((int64_t)s % units[i].unit == 0) {
			long long n = (int64_t)s / units[i].unit;
			snprintf(buf, FORMAT_LEN, "%lld %s%s", n, units[i].word, n == 1 ? "" : "s");
			return buf;
		}
	return format_seconds(s, buf);
}

char *format_left(double s, char buf[FORMAT_LEN])
{
	if (isnan(s))
		return unknown(buf);
	long long t = (long long)s, minutes = (t + 30) / 60, hours = (minutes + 30) / 60;
	if (t < 100)
		snprintf(buf, FORMAT_LEN, "%llds", t);
	else if (minutes < 100)
		snprintf(buf, FORMAT_LEN, "%lldm", minutes);
	else if (minutes < 48 * 60)
		snprintf(buf, FORMAT_LEN, "%lldh%02lldm", minutes / 60, minutes % 60);
	else
		snprintf(buf, FORMAT_LEN, "%lldd%02lldh", hours / 24, hours % 24);
	return buf;
}

char *format_percent(double fraction, char buf[FORMAT_LEN])
{
	if (isnan(fraction))
		return unknown(buf);
	snprintf(buf, FORMAT_LEN, "%.0f%%", fraction * 100);
	return buf;
}

char *format_energy(double joules, char buf[FORMAT_LEN])
{
	if (isnan(joules))
		return unknown(buf);
	if (joules >= 3.6e6)
		snprintf(buf, FORMAT_LEN, "%.1f kWh", joules / 3.6e6);
	else if (joules >= 3600)
		snprintf(buf, FORMAT_LEN, "%.1f Wh", joules / 3600);
	else
		snprintf(buf, FORMAT_LEN, "%.0f J", joules);
	return buf;
}

struct format_energy_unit format_energy_unit(double most_j)
{
	if (most_j >= 3.6e7)
		return (struct format_energy_unit){ "ENERGY kWh", 3.6e6, 2 };
	if (most_j >= 3600)
		return (struct format_energy_unit){ "ENERGY Wh", 3600, 1 };
	return (struct format_energy_unit){ "ENERGY J", 1, 0 };
}

char *format_energy_in(const struct format_energy_unit *u, double joules, char buf[FORMAT_LEN])
{
	if (isnan(joules))
		return unknown(buf);
	snprintf(buf, FORMAT_LEN, "%.*f", u->digits, joules / u->joules);
	return buf;
}

char *format_hours(double seconds, char buf[FORMAT_LEN])
{
	double hours = seconds / 3600;
	if (isnan(hours))
		return unknown(buf);
	snprintf(buf, FORMAT_LEN, "%.3f", hours);
	return buf;
}

char *format_time(const char *iso, char buf[FORMAT_LEN])
{
	int64_t ms;
	return clock_parse_iso(iso, &ms) ? unknown(buf) : format_ms(ms, buf);
}

char *format_ms(int64_t ms, char buf[FORMAT_LEN])
{
	struct tm local;
	time_t s = (time_t)(ms / 1000);
	if (!localtime_r(&s, &local))
		return unknown(buf);
	strftime(buf, FORMAT_LEN, "%Y-%m-%d %H:%M:%S", &local);
	return buf;
}

char *format_times(const char *text)
{
	struct buf out = { 0 };
	while (*text) {
		char iso[CLOCK_ISO_LEN], local[FORMAT_LEN];
		int64_t ms;
		snprintf(iso, sizeof iso, "%s", text);
		bool whole = iso[0] == '2' && strlen(iso) == CLOCK_ISO_LEN - 1 && iso[CLOCK_ISO_LEN - 2] == 'Z';
		if (whole && !clock_parse_iso(iso, &ms)) {
			buf_add_text(&out, format_time(iso, local));
			text += CLOCK_ISO_LEN - 1;
		} else {
			buf_printf(&out, "%c", *text++);
		}
	}
	return buf_steal(&out);
}

/* How a task has its GPUs, as sentences say it. */
static const char *format_share(const char *mode)
{
	return strcmp(mode, "never") ? mode : "alone";
}

void format_csv_text(FILE *out, const char *text)
{
	scoped_buf field = { 0 };
	words_add_csv(&field, text);
	fputs(buf_text(&field), out);
}

void format_csv_number(FILE *out, double v)
{
	fprintf(out, isnan(v) ? "," : ",%.12g", v);
}

enum style format_state_style(enum task_state s)
{
	switch (s) {
	case TASK_RUNNING: return STYLE_GOOD;
	case TASK_HELD: return STYLE_DIM;
	case TASK_FAILED: case TASK_OUT_OF_MEMORY: case TASK_TIMEOUT: case TASK_LOST: return STYLE_BAD;
	case TASK_CANCELLED: return STYLE_WARN;
	default: return STYLE_PLAIN;
	}
}

static const char *number_of(const json_t *gpu, char buf[FORMAT_LEN])
{
	if (*member_text(gpu, "number"))
		snprintf(buf, FORMAT_LEN, "%s", member_text(gpu, "number"));
	else	/* an older radd's, or a file's */
		snprintf(buf, FORMAT_LEN, "%lld", (long long)member_int(gpu, "index"));
	return buf;
}

static bool lost_its_number(const json_t *gpu, const json_t *gpus)
{
	char own[FORMAT_LEN], other[FORMAT_LEN];
	size_t i;
	json_t *g;
	if (!json_is_true(json_object_get(gpu, "stale")))
		return false;
	json_array_foreach(gpus, i, g)
		if (!json_is_true(json_object_get(g, "stale")) && !strcmp(number_of(g, other), number_of(gpu, own)))
			return true;
	return false;
}

const char *format_gpu(const json_t *gpu, const json_t *gpus, char buf[FORMAT_LEN])
{
	if (lost_its_number(gpu, gpus))
		snprintf(buf, FORMAT_LEN, "%.12s", member_text(gpu, "uuid"));
	else
		number_of(gpu, buf);
	return buf;
}

/* What one of these UUIDs is called. */
static const char *name_of(const json_t *uuid, const json_t *gpus, char buf[FORMAT_LEN])
{
	const char *text = json_string_value(uuid) ? json_string_value(uuid) : "";
	const json_t *g = member_find(gpus, "uuid", text);
	if (g)
		return format_gpu(g, gpus, buf);
	snprintf(buf, FORMAT_LEN, "%.12s", text);
	return buf;
}

/* Whether the second is the number after the first; of a MIG instance ("0:1") none is. */
static bool follows(const char *name, const char *after)
{
	size_t digits = strspn(name, "0123456789");
	return digits && digits < 5 && !name[digits] && !after[strspn(after, "0123456789")] && atoi(after) == atoi(name) + 1;
}

char *format_gpus(const json_t *uuids, const json_t *gpus)
{
	struct buf out = { 0 };
	char first[FORMAT_LEN], last[FORMAT_LEN], next[FORMAT_LEN];
	for (size_t i = 0, n = json_array_size(uuids), end; i < n; i = end) {
		buf_printf(&out, "%s%s", i ? "," : "", name_of(json_array_get(uuids, i), gpus, first));
		snprintf(last, sizeof last, "%s", first);
		for (end = i + 1; end < n && follows(last, name_of(json_array_get(uuids, end), gpus, next)); end++)
			snprintf(last, sizeof last, "%s", next);
		if (end - i > 2)
			buf_printf(&out, "-%s", last);
		else
			end = i + 1;
	}
	return buf_steal(&out);
}

char *format_place(const json_t *uuids, const json_t *gpus, const char *share)
{
	scoped_free char *where = format_gpus(uuids, gpus);
	return *where ? alloc_printf("on GPU %s%s%s", where, *share ? ", " : "", format_share(share)) : alloc_string("without a GPU");
}

char *format_user(uid_t uid, char buf[FORMAT_LEN])
{
	const struct passwd *pw = getpwuid(uid);
	if (pw)
		snprintf(buf, FORMAT_LEN, "%s", pw->pw_name);
	else
		snprintf(buf, FORMAT_LEN, "%u", (unsigned)uid);
	json_make_showable(buf);	/* as radd tells it */
	return buf;
}

int format_exit_code(const json_t *task)
{
	const json_t *code = json_object_get(task, "exit_code"), *sig = json_object_get(task, "signal");
	bool completed = member_state(task) == TASK_COMPLETED;
	if (json_is_integer(sig))
		return 128 + (int)json_integer_value(sig);
	if (json_is_integer(code))
		return completed || json_integer_value(code) ? (int)json_integer_value(code) : CLI_FAILED;
	return completed ? CLI_DONE : CLI_OWN;
}

void format_below(const char *line, enum style style, const struct term *term)
{
	struct term narrower = *term;
	if (term->width > 2)
		narrower.width -= 2;
	scoped_free char *text = term_wrap(line, 4, &narrower);
	printf("  %s%s%s\n", term_style(term, style), text, term_style(term, STYLE_PLAIN));
}
