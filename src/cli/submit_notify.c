/* SPDX-License-Identifier: MIT
 * The caller's own wishes for notices: see submit_notify.h. Two lines, as in a task file:
 *	notify: fail,oom
 *	notify_to: mail:ada@example.org
 */
#include "cli/submit_notify.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/io.h"
#include "base/paths.h"
#include "base/scope.h"
#include "submit/notices.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_FILE 4096

static char *file_path(void)
{
	scoped_free char *config = paths_own("XDG_CONFIG_HOME", ".config");
	return config ? alloc_printf("%s/rad/notify", config) : NULL;
}

static char *trim(char *text)
{
	text += strspn(text, " \t");
	for (size_t n = strlen(text); n && strchr(" \t\r", text[n - 1]);)
		text[--n] = 0;
	return text;
}

static int take_line(const char *path, unsigned number, char *line, char **notify, char **to, struct error *err)
{
	char *key = trim(line), *colon = strchr(key, ':');
	if (!*key || *key == '#')
		return 0;
	if (!colon)
		return error_set(err, ERR_INVALID, "%s:%u: expected 'notify: EVENTS' or 'notify_to: PLACE'", path, number);
	*colon = 0;
	char *value = trim(colon + 1), *word = trim(key);
	bool events = !strcmp(word, "notify");
	if (!events && strcmp(word, "notify_to"))
		return error_set(err, ERR_INVALID, "%s:%u: '%.40s' is neither notify nor notify_to", path, number, word);
	if (events ? notices_check(value, err) : notices_check_to(value, err))
		return error_wrap(err, "%s:%u: %s", path, number, word);
	char **target = events ? notify : to;
	free(*target);
	*target = alloc_string(value);
	return 0;
}

static int read_wishes(char **notify, char **to, struct error *err)
{
	scoped_free char *path = file_path();
	scoped_buf text = { 0 };
	unsigned number = 0;
	if (!path || access(path, F_OK))
		return 0;
	if (io_read_file(path, MAX_FILE, &text, err))
		return -1;
	char *rest = text.len ? text.data : NULL;
	for (char *line; (line = strsep(&rest, "\n"));)
		if (take_line(path, ++number, line, notify, to, err))
			return -1;
	return 0;
}

/* The daemon is on this machine, and looks in the same places: what is missing here will be missing then. */
static char *what_is_missing(const char *to)
{
	if (!strncmp(to, "exec:", 5))
		return access(to + 5, X_OK) ? alloc_printf("%s cannot be run, so no notices will come", to + 5) : NULL;
	const char *program = strncmp(to, "mail:", 5) ? "curl" : "sendmail";
	scoped_free char *found = paths_find(program, PATHS_ALL);
	return found ? NULL
	             : alloc_printf("there is no %s on this machine, so no notices will come: --notify-to another place", program);
}

int submit_notify_settle(struct spec *s, char **note, struct error *err)
{
	scoped_free char *notify = NULL, *to = NULL;
	*note = NULL;
	if (read_wishes(&notify, &to, err))
		return -1;
	if (!s->notify && (s->notify_to || notify || to))
		s->notify = notify ? steal(notify) : alloc_string("end");
	if (!s->notify)
		return 0;
	if (!s->notify_to && !to && !s->user)
		return error_set(err, ERR_INVALID, "--notify: say where to, with --notify-to");
	if (!s->notify_to)
		s->notify_to = to ? steal(to) : alloc_printf("mail:%s", s->user);
	*note = strcmp(s->notify, "none") ? what_is_missing(s->notify_to) : NULL;
	return 0;
}
