/* SPDX-License-Identifier: MIT
 * Means over time: integrals by parts of equal length.
 */
#include "account/series.h"

#include "base/alloc.h"
#include "base/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_STEP_MS 1000

/* Parts of twice the length, half as many. */
static void join_pairs(struct series *s)
{
	for (size_t i = 0; i < SERIES_PARTS / 2; i++) {
		struct series_part joined = s->parts[2 * i];
		for (size_t v = 0; v < SERIES_VALUES; v++) {
			joined.sum[v] += s->parts[2 * i + 1].sum[v];
			joined.ms[v] += s->parts[2 * i + 1].ms[v];
		}
		s->parts[i] = joined;
	}
	memset(s->parts + SERIES_PARTS / 2, 0, SERIES_PARTS / 2 * sizeof *s->parts);
	s->step_ms *= 2;
	s->n = (s->n + 1) / 2;
}

void series_add(struct series *s, int64_t from_ms, int64_t to_ms, const double values[SERIES_VALUES])
{
	if (!s->parts) {
		s->parts = alloc_zero(SERIES_PARTS * sizeof *s->parts);
		s->origin_ms = from_ms;
		s->step_ms = FIRST_STEP_MS;
	}
	if (from_ms < s->origin_ms)
		from_ms = s->origin_ms;
	if (to_ms <= from_ms)
		return;
	while ((to_ms - s->origin_ms - 1) / s->step_ms >= SERIES_PARTS)
		join_pairs(s);
	for (int64_t at = from_ms; at < to_ms;) {
		size_t i = (size_t)((at - s->origin_ms) / s->step_ms);
		int64_t end = s->origin_ms + (int64_t)(i + 1) * s->step_ms, until = end < to_ms ? end : to_ms;
		for (size_t v = 0; v < SERIES_VALUES; v++)
			if (isfinite(values[v])) {
				s->parts[i].sum[v] += values[v] * (double)(until - at);
				s->parts[i].ms[v] += (double)(until - at);
			}
		if (s->n <= i)
			s->n = i + 1;
		at = until;
	}
}

double series_mean(const struct series *s, size_t part, enum series_value value)
{
	const struct series_part *p = &s->parts[part];
	return part < s->n && p->ms[value] > 0 ? p->sum[value] / p->ms[value] : NAN;
}

json_t *series_to_json(const struct series *s)
{
	static const char *const names[SERIES_VALUES] = { "mem_mib", "smact", "gract", "power_w" };
	json_t *o = json_pack("{so}", "step_s", json_round3((double)s->step_ms / 1000));
	for (size_t v = 0; v < SERIES_VALUES; v++) {
		json_t *list = json_array();
		for (size_t i = 0; i < s->n; i++) {
			double mean = series_mean(s, i, (enum series_value)v);
			json_array_append_new(list, json_round3(v == SERIES_MEM_MIB ? round(mean) : mean));
		}
		json_object_set_new(o, names[v], list);
	}
	return o;
}

void series_clear(struct series *s)
{
	free(s->parts);
	*s = (struct series){ 0 };
}
