/* SPDX-License-Identifier: MIT
 * Spans of time as people type them.
 */
#include "cli/span.h"

#include "base/clock.h"
#include "base/units.h"
#include "cli/moment.h"

#include <pwd.h>
#include <string.h>

int span_user(const char *user, uid_t *uid, struct error *err)
{
	int64_t number = -1;
	const struct passwd *pw = getpwnam(user);
	if (!pw && units_parse_int(user, 0, UINT32_MAX, &number, NULL))
		return error_set(err, ERR_NOT_FOUND, "--user: there is no user '%.60s' here", user);
	*uid = pw ? pw->pw_uid : (uid_t)number;
	return 0;
}

int span_fill_user(json_t *request, const char *user, struct error *err)
{
	uid_t uid = 0;
	if (span_user(user, &uid, err))
		return -1;
	json_object_set_new(request, "uid", json_integer(uid));
	return 0;
}

/* Where there is nobody of that name, "all" is everybody. */
static int fill_user(json_t *request, const char *user, struct error *err)
{
	bool all = user && !strcmp(user, "all") && !getpwnam(user);
	return user && !all ? span_fill_user(request, user, err) : 0;
}

/* No task is of before 1970; a limit of then is one all the same, and no 0, which would be none. */
static void fill_moments(json_t *request, int64_t from, int64_t to)
{
	json_object_set_new(request, "from_ms", json_integer(from > 0 ? from : 0));
	if (to < INT64_MAX)
		json_object_set_new(request, "to_ms", json_integer(to > 0 ? to : 1));
}

int span_fill(json_t *request, const char *since, const char *until, const char *user, struct error *err)
{
	int64_t now = clock_wall_ms(), from = 0, to = 0;
	if (moment_parse(since ? since : "today", MOMENT_PAST, now, &from, err))
		return error_wrap(err, "--since");
	if (until && moment_parse(until, MOMENT_PAST, now, &to, err))
		return error_wrap(err, "--until");
	fill_moments(request, from, until ? to : INT64_MAX);
	return fill_user(request, user, err);
}

#define MONTHS_MAX 1200		/* as many as radd takes (daemon/sums.h) */
#define AHEAD_MS (INT64_C(32) * 86400000)	/* its clock may have been set back */

void span_fill_months(json_t *request)
{
	const json_t *until = json_object_get(request, "to_ms");
	int64_t from = json_integer_value(json_object_get(request, "from_ms")), at;
	int64_t to = until ? json_integer_value(until) : clock_wall_ms() + AHEAD_MS;
	json_t *months = json_array();
	for (int i = 0; i < MONTHS_MAX && ((at = moment_month_of(from, i)) <= to || !i); i++)
		json_array_append_new(months, json_integer(at));
	json_object_set_new(request, "months", months);
}

int span_fill_month(json_t *request, const char *month, const char *user, struct error *err)
{
	int64_t from, to;
	if (!moment_month(month, &from, &to))
		return error_set(err, ERR_INVALID, "--month: '%.40s': expected a month such as 2026-11", month);
	fill_moments(request, from, to);
	return fill_user(request, user, err);
}
