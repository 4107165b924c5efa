/* SPDX-License-Identifier: MIT
 * Spans of time as people type them.
 */
#include "cli/span.h"

#include "base/clock.h"
#include "base/scope.h"
#include "base/units.h"

#include <pwd.h>
#include <string.h>
#include <time.h>

static int64_t local_ms(struct tm *local)
{
	local->tm_isdst = -1;
	return (int64_t)mktime(local) * 1000;
}

/* The midnight so many days from today's. */
static int64_t midnight_ms(int days)
{
	struct tm local;
	time_t now = time(NULL);
	localtime_r(&now, &local);
	local.tm_hour = local.tm_min = local.tm_sec = 0;
	local.tm_mday += days;
	return local_ms(&local);
}

static int64_t first_of_month_ms(void)
{
	struct tm local;
	time_t now = time(NULL);
	localtime_r(&now, &local);
	local.tm_hour = local.tm_min = local.tm_sec = 0;
	local.tm_mday = 1;
	return local_ms(&local);
}

/* "2026-11": its first day, or that of the month so many after it. */
static bool parse_month(const char *text, int more, int64_t *ms)
{
	struct tm local = { .tm_mday = 1 };
	const char *end = strptime(text, "%Y-%m", &local);
	local.tm_mon += more;
	if (!end || *end)
		return false;
	*ms = local_ms(&local);
	return true;
}

/* "month": since its first day. "7d": so long ago. "2026-11-20", "2026-11-20T16:00": here. "2026-11-20T16:00:00Z": UTC. */
static int parse_moment(const char *text, int64_t *ms, struct error *err)
{
	static const char *const forms[] = { "%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M" };
	size_t len = strlen(text);
	int64_t ago;
	if ((len && text[len - 1] == 'Z' && !clock_parse_iso(text, ms)) || parse_month(text, 0, ms))
		return 0;
	if (!strcmp(text, "month") || !strcmp(text, "today") || !strcmp(text, "yesterday")) {
		*ms = *text == 'm' ? first_of_month_ms() : midnight_ms(*text == 'y' ? -1 : 0);
		return 0;
	}
	for (size_t i = 0; i < COUNT_OF(forms); i++) {
		struct tm local = { 0 };
		const char *end = strptime(text, forms[i], &local);
		if (end && !*end) {
			*ms = local_ms(&local);
			return 0;
		}
	}
	if (len && strchr("smhd", text[len - 1]) && !units_parse_duration(text, &ago, NULL)) {
		*ms = clock_wall_ms() - ago * 1000;
		return 0;
	}
	return error_set(err, ERR_INVALID, "'%.40s': expected 7d, 12h, yesterday, 2026-11, 2026-11-20, 2026-11-20T16:00 or "
			 "2026-11-20T16:00:00Z", text);
}

int span_fill_user(json_t *request, const char *user, struct error *err)
{
	int64_t uid = -1;
	const struct passwd *pw = getpwnam(user);
	if (!pw && units_parse_int(user, 0, UINT32_MAX, &uid, NULL))
		return error_set(err, ERR_NOT_FOUND, "--user: there is no user '%.60s' here", user);
	json_object_set_new(request, "uid", json_integer(pw ? (int64_t)pw->pw_uid : uid));
	return 0;
}

/* Where there is nobody of that name, "all" is everybody. */
static int fill_user(json_t *request, const char *user, struct error *err)
{
	bool all = user && !strcmp(user, "all") && !getpwnam(user);
	return user && !all ? span_fill_user(request, user, err) : 0;
}

int span_fill(json_t *request, const char *since, const char *until, const char *user, struct error *err)
{
	int64_t from = midnight_ms(0), to = 0;
	if (since && parse_moment(since, &from, err))
		return error_wrap(err, "--since");
	if (until && parse_moment(until, &to, err))
		return error_wrap(err, "--until");
	json_object_set_new(request, "from_ms", json_integer(from < 0 ? 0 : from));
	if (until)
		json_object_set_new(request, "to_ms", json_integer(to < 0 ? 0 : to));
	return fill_user(request, user, err);
}

int span_fill_month(json_t *request, const char *month, const char *user, struct error *err)
{
	int64_t from, to;
	if (!parse_month(month, 0, &from) || !parse_month(month, 1, &to))
		return error_set(err, ERR_INVALID, "--month: '%.40s': expected a month such as 2026-11", month);
	json_object_set_new(request, "from_ms", json_integer(from < 0 ? 0 : from));
	json_object_set_new(request, "to_ms", json_integer(to < 0 ? 0 : to));
	return fill_user(request, user, err);
}
