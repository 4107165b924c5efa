/* SPDX-License-Identifier: MIT
 * The environment that a task inherits, and what --export makes of it: see submit_caller.h.
 */
#include "cli/submit_caller.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/paths.h"
#include "base/scope.h"
#include "launch/environment.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define MAX_VARIABLE ((128u << 10) - 1)	/* what execve takes as one string */

/* A variable that says where its process runs or which GPUs it has (Slurm says it in four) is wrong in the task. */
static bool is_left_behind(const char *variable)
{
	static const char *const prefixes[] = { "XDG_", "SSH_", "TMUX", "RAD_", "CUDA_VISIBLE_DEVICES=",
		"ROCR_VISIBLE_DEVICES=", "GPU_DEVICE_ORDINAL=", "ZE_AFFINITY_MASK=", "PWD=", "OLDPWD=", "_=" };
	for (size_t i = 0; i < COUNT_OF(prefixes); i++)
		if (!strncmp(variable, prefixes[i], strlen(prefixes[i])))
			return true;
	return environment_is_of_step(variable);
}

size_t submit_caller_environ(struct spec *s)
{
	size_t n = alloc_count(environ), dropped = 0, kept = 0;
	scoped_free char **list = alloc_zero((n + 2) * sizeof *list), *pwd = s->cwd ? alloc_printf("PWD=%s", s->cwd) : NULL;
	for (char **e = environ; *e; e++) {
		if (is_left_behind(*e) || !strchr(*e, '=') || **e == '=')
			continue;
		if (strlen(*e) > MAX_VARIABLE || !submit_caller_is_utf8(*e))
			dropped++;
		else
			list[kept++] = *e;
	}
	list[kept] = pwd;
	spec_set_environ(s, list);
	return dropped;
}

/* ---- --export ---- */

/* The next item of the list, quotes taken off; NULL at its end. Free it. */
static char *export_item(const char **p)
{
	struct buf item = { 0 };
	char quote = 0;
	if (!**p)
		return NULL;
	for (; **p && (quote || **p != ','); ++*p) {
		if (quote ? **p == quote : **p == '"' || **p == '\'')
			quote = quote ? 0 : **p;
		else
			buf_add(&item, *p, 1);
	}
	*p += **p == ',';
	return buf_steal(&item);
}

static bool is_variable(const char *name, size_t len)
{
	bool good = len && !isdigit((unsigned char)*name);
	for (size_t i = 0; i < len; i++)
		good = good && (isalnum((unsigned char)name[i]) || name[i] == '_');
	return good;
}

/* The place of that variable in the list; NULL: it is not there. */
static char **find_variable(char **list, const char *name, size_t len)
{
	for (; *list; list++)
		if (!strncmp(*list, name, len) && (*list)[len] == '=')
			return list;
	return NULL;
}

/* The list has room for it, and borrows the text. */
static void put_variable(char **list, char *item, size_t len)
{
	char **at = find_variable(list, item, len);
	for (size_t n = 0; !at; n++)
		if (!list[n]) {
			list[n + 1] = NULL;
			at = &list[n];
		}
	*at = item;
}

/* One item goes from `all`, or as it is, into `to`. */
static int export_one(char *const *all, char **to, char *item, struct error *err)
{
	size_t len = strcspn(item, "=");
	if (!strcasecmp(item, "ALL") || !strcasecmp(item, "NONE") || !strcasecmp(item, "NIL") || !*item)
		return 0;
	if (!is_variable(item, len))
		return error_set(err, ERR_INVALID, "'%.60s' is neither ALL, NONE, NAME nor NAME=value", item);
	if (strlen(item) > MAX_VARIABLE || !submit_caller_is_utf8(item))
		return error_set(err, ERR_INVALID, "'%.60s...' is too long or not UTF-8", item);
	char **there = find_variable((char **)all, item, len);
	if (item[len] && is_left_behind(item))
		return error_set(err, ERR_INVALID, "%.*s is set by RAD-RM alone", (int)len, item);
	if (item[len] || there)
		put_variable(to, item[len] ? item : *there, len);
	return 0;
}

/* What a task has in any case. `pwd` may be NULL. */
static void keep_login(char *const *all, char **to, char *pwd)
{
	static const char *const names[] = { "HOME", "USER", "LOGNAME", "SHELL" };
	for (size_t i = 0; i < COUNT_OF(names); i++) {
		char **there = find_variable((char **)all, names[i], strlen(names[i]));
		if (there)
			put_variable(to, *there, strlen(names[i]));
	}
	put_variable(to, (char *)"PATH=" PATHS_USER, 4);
	if (pwd)
		put_variable(to, pwd, 3);
}

/* Free it with free_list. */
static char **export_items(const char *list)
{
	size_t n = 0, cap = 0;
	char **items = NULL, *item;
	do {
		item = export_item(&list);
		alloc_grow(items, n, cap);
		items[n++] = item;
	} while (item);
	return items;
}

int submit_caller_export(struct spec *s, const char *list, struct error *err)
{
	size_t n = alloc_count(s->environ), n_items = 0;
	bool all = false;
	int failed = 0;
	if (!list)
		return 0;
	char **items = export_items(list);
	for (; items[n_items]; n_items++)
		all = all || !strcasecmp(items[n_items], "ALL");
	scoped_free char **to = alloc_zero((n + n_items + 8) * sizeof *to), *pwd = s->cwd ? alloc_printf("PWD=%s", s->cwd) : NULL;
	for (size_t i = 0; all && i < n; i++)
		to[i] = s->environ[i];
	if (!all)
		keep_login(s->environ, to, pwd);
	for (size_t i = 0; i < n_items && !failed; i++)
		failed = export_one(s->environ, to, items[i], err);
	if (!failed)
		spec_set_environ(s, to);
	alloc_free_list(items);
	return failed;
}
