/* SPDX-License-Identifier: MIT
 * See pace.h. A rate is believed from a few seconds on, and a slowdown that company is said to have cost only where there was
 * some: a neighbour that comes as a task ends is no reason to ask a model.
 */
#include "task/pace.h"

#include "base/json.h"

#include <math.h>

#define ALONE 0.99	/* part of its time: with more of it alone, it was alone */
#define MOST 1e15

static double rate(double units, double s)
{
	return s >= PACE_S && units > 0 ? units / s : NAN;
}

double pace_alone(const struct pace *p)
{
	return rate(p->alone_units, p->alone_s);
}

static double in_company(const struct pace *p)
{
	return rate(p->company_units, p->company_s);
}

double pace_slowdown(const struct pace *p, double alone_s, double work_s, const char **source)
{
	double alone = pace_alone(p), company = in_company(p);
	*source = NULL;
	if (!(p->ran_s > 0) || !isfinite(alone_s))
		return NAN;
	if (alone_s >= ALONE * p->ran_s) {
		*source = "alone";
		return 1;
	}
	if (isnan(company) || (isnan(alone) && !(p->before_per_s > 0))) {
		*source = work_s > 0 ? "law" : NULL;
		return work_s > 0 ? p->ran_s / work_s : NAN;
	}
	*source = isfinite(alone) ? "measured" : "history";
	return p->ran_s / (alone_s + (p->ran_s - alone_s) * company / (isfinite(alone) ? alone : p->before_per_s));
}

static json_t *figure(double v)
{
	return isfinite(v) ? json_real(v) : json_null();
}

json_t *pace_show(const struct pace *p)
{
	double alone = pace_alone(p), company = in_company(p);
	if (isnan(alone) && isnan(company))
		return json_null();
	return json_pack("{so, so, so, so, so}", "units", json_round3(p->whole > 0 ? p->whole : NAN), "alone_per_s", figure(alone),
		"alone_s", json_round3(p->alone_s), "company_per_s", figure(company), "company_s", json_round3(p->company_s));
}

json_t *pace_to_json(const struct pace *p)
{
	if (!(p->ran_s > 0))
		return json_null();
	json_t *o = json_pack("{so}", "ran_s", json_round3(p->ran_s));
	if (p->whole > 0 || p->alone_s > 0 || p->company_s > 0) {
		json_t *more = json_pack("{so, so, so, so, so}", "whole", json_round3(p->whole),
			"alone_units", json_round3(p->alone_units), "alone_s", json_round3(p->alone_s),
			"company_units", json_round3(p->company_units), "company_s", json_round3(p->company_s));
		json_object_update(o, more);
		json_decref(more);
	}
	if (p->before_per_s > 0)
		json_object_set_new(o, "before_per_s", json_real(p->before_per_s));
	if (p->fraction > 0)
		json_object_set_new(o, "fraction", json_real(p->fraction));
	return o;
}

static double sane(double v)
{
	return v >= 0 && v <= MOST ? v : 0;
}

int pace_from_json(const json_t *v, struct pace *p, struct error *err)
{
	*p = (struct pace){ .ran_s = 0 };
	if (!v || json_is_null(v))
		return 0;
	if (!json_is_object(v))
		return error_set(err, ERR_CORRUPT, "a pace is no object");
	if (json_read_double(v, "ran_s", &p->ran_s, err) || json_read_double(v, "whole", &p->whole, err) ||
	    json_read_double(v, "alone_units", &p->alone_units, err) || json_read_double(v, "alone_s", &p->alone_s, err) ||
	    json_read_double(v, "company_units", &p->company_units, err) || json_read_double(v, "company_s", &p->company_s, err) ||
	    json_read_double(v, "before_per_s", &p->before_per_s, err) || json_read_double(v, "fraction", &p->fraction, err))
		return -1;
	*p = (struct pace){ sane(p->ran_s), sane(p->whole), sane(p->alone_units), sane(p->alone_s), sane(p->company_units),
			    sane(p->company_s), sane(p->before_per_s), p->fraction > 0 && p->fraction <= 1 ? p->fraction : 0 };
	return 0;
}
