/* SPDX-License-Identifier: MIT
 * See wants.h. Most questions are of names that nobody asked for, and are answered by the marks.
 */
#include "task/wants.h"

#include <string.h>

static uint64_t mark_of(const char *name, size_t length)
{
	return 1ull << ((unsigned)(7 * name[0] + 31 * name[length - 1] + 5 * (int)length) % 64);
}

struct task_wants task_wants_of(const json_t *members)
{
	struct task_wants w = { .all = !members || json_array_size(members) > TASK_WANTS_MAX };
	size_t i;
	json_t *m;
	json_array_foreach(members, i, m) {
		const char *name = json_string_value(m), *dot = name ? strchr(name, '.') : NULL;
		size_t length = name ? strcspn(name, ".[") : 0;
		if (w.all || !length)
			continue;
		const char *within = dot && dot[1] ? dot + 1 : NULL;
		w.names[w.n].member = name;
		w.names[w.n].length = length;
		w.names[w.n++].within = within;
		w.marks |= mark_of(name, length);
		w.within |= within ? mark_of(within, strlen(within)) : 0;
	}
	return w;
}

/* The first name from the i-th on that is of that member; w->n: there is none. */
static size_t next_of(const struct task_wants *w, const char *member, size_t i)
{
	size_t length = strlen(member);
	while (i < w->n && (w->names[i].length != length || memcmp(w->names[i].member, member, length)))
		i++;
	return i;
}

bool task_wants(const struct task_wants *w, const char *member)
{
	return !w || w->all || (w->marks & mark_of(member, strlen(member)) && next_of(w, member, 0) < w->n);
}

bool task_wants_whole(const struct task_wants *w, const char *member)
{
	for (size_t i = 0; w && !w->all; i++)
		if ((i = next_of(w, member, i)) == w->n || !w->names[i].within)
			return i < w->n;
	return true;
}

bool task_wants_within(const struct task_wants *w, const char *member, const char *name)
{
	if (!(w->within & mark_of(name, strlen(name))))
		return false;
	for (size_t i = 0; (i = next_of(w, member, i)) < w->n; i++)
		if (w->names[i].within && !strcmp(w->names[i].within, name))
			return true;
	return false;
}
