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

static int64_t midnight_ms(void)
{
	struct tm local;
	time_t now = time(NULL);
	localtime_r(&now, &local);
	local.tm_hour = local.tm_min = local.tm_sec = 0;
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

/* "month": since its first day. "7d": so long ago. "2026-11-20", "2026-11-20T16:00": here. "2026-11-20T16:00:00Z": UTC. */
static int parse_moment(const char *text, int64_t *ms, struct error *err)
{
	static const char *const forms[] = { "%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S" };
	size_t len = strlen(text);
	int64_t ago;
	if (len && text[len - 1] == 'Z' && !clock_parse_iso(text, ms))
		return 0;
	if (!strcmp(text, "month")) {
		*ms = first_of_month_ms();
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
	return error_set(err, ERR_INVALID, "'%.40s': expected 7d, 12h, 2026-11-20, 2026-11-20T16:00 or 2026-11-20T16:00:00Z", text);
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

int span_fill(json_t *request, const char *since, const char *until, const char *user, struct error *err)
{
	int64_t from = midnight_ms(), to = 0;
	if (since && parse_moment(since, &from, err))
		return error_wrap(err, "--since");
	if (until && parse_moment(until, &to, err))
		return error_wrap(err, "--until");
	json_object_set_new(request, "from_ms", json_integer(from < 0 ? 0 : from));
	if (until)
		json_object_set_new(request, "to_ms", json_integer(to < 0 ? 0 : to));
	return user ? span_fill_user(request, user, err) : 0;
}
