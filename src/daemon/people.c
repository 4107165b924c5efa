/* SPDX-License-Identifier: MIT
 * See people.h. A GPU may be shared by dozens of foreign processes; a line names the largest few.
 */
#include "daemon/people.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/scope.h"
#include "base/units.h"
#include "daemon/requests.h"
#include "map/map.h"

#include <string.h>

#define NAMED_MOST 3		/* of foreign processes in a line; the rest is a number */

/* ", 3 h": how long it is there, roughly; "" where nobody knows. */
static void say_age(const json_t *process, char text[32])
{
	int64_t started_ms, s;
	*text = 0;
	if (clock_parse_iso(json_member_text(process, "start_time"), &started_ms))
		return;
	s = (clock_wall_ms() - started_ms) / 1000;
	if (s < 60)
		snprintf(text, 32, ", %lld s", (long long)(s > 0 ? s : 0));
	else if (s < 3600)
		snprintf(text, 32, ", %lld min", (long long)s / 60);
	else if (s < 2 * 86400)
		snprintf(text, 32, ", %lld h", (long long)s / 3600);
	else
		snprintf(text, 32, ", %lld days", (long long)s / 86400);
}

/* What is known may be nothing but its number: /proc can hide processes of others, and one in a container that this radd is not
 * in has another number here. */
static json_t *say_process(const json_t *process)
{
	const char *user = json_member_text(process, "user"), *program = json_member_text(process, "program");
	int pid = (int)json_integer_value(json_object_get(process, "pid"));
	char age[32];
	say_age(process, age);
	if (*user && *program)
		return json_printf("%s's %s (pid %d%s)", user, program, pid, age);
	if (*user)
		return json_printf("a process of %s's (pid %d%s)", user, pid, age);
	return json_printf("a process of which nothing can be seen here (pid %d: hidden by /proc, or another container's)", pid);
}

/* Of others' processes everybody sees user, age, memory and program: whoever waits wants to know for whom. Arguments carry
 * tokens, so they are for the owner and administrators (decision 109). */
static void show_one(struct names *n, uid_t asker, json_t *process)
{
	uid_t uid = (uid_t)json_integer_value(json_object_get(process, "uid"));
	const char *name = NULL;
	if (uid != (uid_t)-1)
		names_of(n, uid, &name);
	json_object_set_new(process, "user", name ? json_text(name) : json_null());
	if (!request_is_admin(asker) && asker != uid)
		json_object_set_new(process, "command", json_null());
	if (!json_is_string(json_object_get(process, "task")))
		json_object_set_new(process, "text", say_process(process));
}

/* In place: `command` is gone from what goes out, and not merely left unprinted by whoever shows it. */
void people_show(struct names *n, uid_t asker, json_t *list)
{
	size_t i;
	json_t *process;
	json_array_foreach(list, i, process)
		show_one(n, asker, process);
}

static json_int_t mib_of(const json_t *process)
{
	return json_integer_value(json_object_get(process, "mem_mib"));
}

/* The one with most memory that was not named yet, which is taken out of the list. `left` is a
 * copy: the list itself goes out whole, in its own order. */
static json_t *take_largest(json_t *left)
{
	size_t i, best = 0;
	json_t *p;
	json_array_foreach(left, i, p)
		if (mib_of(p) > mib_of(json_array_get(left, best)))
			best = i;
	json_t *taken = json_incref(json_array_get(left, best));
	json_array_remove(left, best);
	return taken;
}

/* "; 12.0G by alice's python train.py (pid 123, 3 h), 1.0G by ... and 2 more; none is a task of rad". */
static void add_names(struct buf *text, const json_t *foreign)
{
	scoped_json *left = json_copy((json_t *)foreign);
	char size[32];
	for (int i = 0; i < NAMED_MOST && json_array_size(left); i++) {
		scoped_json *p = take_largest(left);
		buf_printf(text, "%s%s by %s", i ? ", " : "; ", mib_of(p) ? units_format_mib((double)mib_of(p), size, sizeof size) : "some",
			   json_member_text(p, "text"));
	}
	if (json_array_size(left))
		buf_printf(text, " and %zu more", json_array_size(left));
	buf_add_text(text, json_array_size(foreign) == 1 ? ", which is no task of rad" : "; none is a task of rad");
}

/* Only where foreigners are what stands in the way; elsewhere they would be named for nothing. */
void people_explain(struct names *n, uid_t asker, json_t *findings)
{
	size_t i;
	json_t *f;
	json_array_foreach(findings, i, f) {
		json_t *foreign = json_object_get(f, "foreign");
		scoped_buf text = { 0 };
		people_show(n, asker, foreign);
		if (!json_array_size(foreign) || strcmp(json_member_text(f, "reason"), map_reason_word(MAP_FOREIGN)))
			continue;
		buf_add_text(&text, json_member_text(f, "text"));
		add_names(&text, foreign);
		json_object_set_new(f, "text", json_text(buf_text(&text)));
	}
}
