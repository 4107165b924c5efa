/* SPDX-License-Identifier: MIT
 * See event_text.h. What only radd's replay needs is left out; --json has all of it.
 */
#include "cli/event_text.h"

#include "base/buf.h"
#include "base/scope.h"
#include "cli/format.h"

#include <math.h>
#include <string.h>

static void add(struct buf *out, const char *separator, const char *text)
{
	buf_printf(out, "%s%s", out->len ? separator : "", text);
}

/* "peak 4.0G", where it is known and not 0. */
static void add_value(struct buf *out, const char *word, double v, char *(*format)(double v, char buf[FORMAT_LEN]))
{
	char text[FORMAT_LEN];
	if (!isnan(v) && v > 0)
		buf_printf(out, "%s%s %s", out->len ? ", " : "", word, format(v, text));
}

static void say_estimated(struct buf *out, const json_t *d, const json_t *gpus)
{
	const char *note = member_text(d, "note");
	char claim[FORMAT_LEN];
	(void)gpus;
	if (member_int(d, "claim_mib"))
		buf_printf(out, "%s on each GPU", format_mib(member_number(d, "claim_mib"), claim));
	else
		buf_add_text(out, "no estimate");
	add(out, ": ", *note ? note : member_text(d, "estimator"));
}

static void say_placed(struct buf *out, const json_t *d, const json_t *gpus)
{
	scoped_free char *where = format_place(json_object_get(d, "gpus"), gpus, member_text(d, "mode"));
	buf_add_text(out, where);
	add_value(out, "held", member_number(d, "claim_mib"), format_mib);
	if (json_is_true(json_object_get(d, "fenced")))
		add(out, ", ", "fenced");
}

static void say_started(struct buf *out, const json_t *d, const json_t *gpus)
{
	(void)gpus;
	buf_printf(out, "its shim is process %lld", (long long)member_int(d, "pid"));
}

static void say_measured(struct buf *out, const json_t *d, const json_t *gpus)
{
	(void)gpus;
	add_value(out, "peak", member_number(d, "peak_mib"), format_mib);
	add_value(out, "mean SMACT", member_number(d, "mean_smact"), format_percent);
	add_value(out, "alone", member_number(d, "alone_s"), format_seconds);
	add_value(out, "energy", member_number(d, "energy_j"), format_energy);
}

static void say_ended(struct buf *out, const json_t *d, const json_t *gpus)
{
	scoped_buf seen = { 0 };
	char delay[FORMAT_LEN];
	buf_add_text(out, member_text(d, "verdict"));
	if (*member_text(d, "evidence"))
		add(out, ": ", member_text(d, "evidence"));
	say_measured(&seen, d, gpus);
	if (seen.len)
		add(out, "; ", buf_text(&seen));
	if (strcmp(member_text(d, "next"), "done"))
		add(out, "; ", json_is_true(json_object_get(d, "next_exclusive")) ? "runs again, alone at first" : "runs again");
	else
		add(out, "; ", member_text(d, "state"));
	if (member_int(d, "next_delay_s"))
		buf_printf(out, " in %s", format_seconds(member_number(d, "next_delay_s"), delay));
}

static void say_stop(struct buf *out, const json_t *d, const json_t *gpus)
{
	(void)gpus;
	add(out, "", member_text(d, "reason"));
}

static void say_deps(struct buf *out, const json_t *list)
{
	struct dependency *deps = NULL;
	size_t n = 0;
	if (spec_deps_from_json(list, &deps, &n, NULL))
		return;
	scoped_free char *text = spec_deps_text(deps, n);
	buf_printf(out, "%s%s%s", out->len ? ", " : "", n ? "dependency " : "no dependency", text);
	free(deps);
}

/* What was changed, to what. */
static void say_updated(struct buf *out, const json_t *d, const json_t *gpus)
{
	const char *key;
	json_t *v;
	(void)gpus;
	json_object_foreach((json_t *)d, key, v) {
		if (!strcmp(key, "uid") || json_is_null(v))
			continue;
		if (!strcmp(key, "begin_s")) {
			char time[FORMAT_LEN];
			int64_t begin_s = json_integer_value(v);
			add(out, ", ", begin_s ? "begin " : "begin now");
			buf_add_text(out, begin_s ? format_ms(begin_s * 1000, time) : "");
			continue;
		}
		if (!strcmp(key, "deps")) {
			say_deps(out, v);
			continue;
		}
		scoped_free char *text = json_is_string(v) ? NULL : json_dumps(v, JSON_ENCODE_ANY | JSON_REAL_PRECISION(12));
		buf_printf(out, "%s%s %s", out->len ? ", " : "", key, text ? text : json_string_value(v));
	}
}

static void say_cancelled(struct buf *out, const json_t *d, const json_t *gpus)
{
	(void)gpus;
	const json_t *unmet = json_object_get(d, "unmet");
	if (!unmet)
		return;
	say_deps(out, unmet);
	buf_add_text(out, " could no longer be met");
}

static void say_clock_set(struct buf *out, const json_t *data, const json_t *gpus)
{
	char text[FORMAT_LEN];
	double by_s = member_number(data, "by_ms") / 1000;
	(void)gpus;
	buf_printf(out, "%s by %s", by_s < 0 ? "back" : "forward", format_seconds(round(fabs(by_s)), text));
}

static const struct { const char *event; void (*say)(struct buf *out, const json_t *data, const json_t *gpus); } texts[] = {
	{ "estimated", say_estimated }, { "placed", say_placed }, { "moved", say_placed }, { "started", say_started },
	{ "measured", say_measured }, { "ended", say_ended }, { "stop_asked", say_stop }, { "updated", say_updated },
	{ "clock_set", say_clock_set }, { "cancelled", say_cancelled },
};

char *event_text(const json_t *event, const json_t *gpus)
{
	struct buf out = { 0 };
	const char *by = member_text(event, "by"), *who = member_text(json_object_get(event, "data"), "by"),
		*said = member_text(json_object_get(event, "data"), "text");
	if (json_is_true(json_object_get(event, "queue"))) {	/* of a queue of files, whose events say all in words */
		buf_printf(&out, "by %s%s%s", who, *said ? ": " : "", said);
		return buf_steal(&out);
	}
	for (size_t i = 0; i < COUNT_OF(texts); i++)
		if (!strcmp(member_text(event, "event"), texts[i].event))
			texts[i].say(&out, json_object_get(event, "data"), gpus);
	if (*by)
		buf_printf(&out, "%sby %s%s", out.len ? ", " : "", by,
			   json_is_true(json_object_get(event, "administrator")) ? " (administrator)" : "");
	return buf_steal(&out);
}
