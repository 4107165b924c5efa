/* SPDX-License-Identifier: MIT
 * The request file's form: see request.h. The end mark is the test for a whole file: a shim that read half of an environment
 * would start a program that nobody asked for.
 */
#include "launch/request.h"

#include "base/alloc.h"
#include "base/scope.h"
#include "base/units.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The last line; without it the file was cut. */
static const char end_mark[] = "end=1";

/* Members that are one text. */
static const struct { const char *key; size_t offset; } texts[] = {
	{ "label", offsetof(struct shim_request, label) }, { "user", offsetof(struct shim_request, user) },
	{ "cwd", offsetof(struct shim_request, cwd) },
	{ "output", offsetof(struct shim_request, output) }, { "error", offsetof(struct shim_request, error) },
	{ "terminal", offsetof(struct shim_request, terminal) }, { "script", offsetof(struct shim_request, script) },
	{ "script_name", offsetof(struct shim_request, script_name) }, { "heading", offsetof(struct shim_request, heading) },
	{ "conda_env", offsetof(struct shim_request, conda_env) },
};

static char **text_at(const struct shim_request *r, size_t i)
{
	return (char **)(void *)((char *)(uintptr_t)r + texts[i].offset);
}

static void put(struct buf *out, const char *key, const char *value)
{
	if (!value)
		return;
	buf_add_text(out, key);
	buf_add(out, "=", 1);
	buf_add(out, value, strlen(value) + 1);
}

static void put_number(struct buf *out, const char *key, uint64_t value)
{
	char text[24];
	snprintf(text, sizeof text, "%llu", (unsigned long long)value);
	put(out, key, text);
}

static void put_list(struct buf *out, const char *key, char *const *list)
{
	for (size_t i = 0; list && list[i]; i++)
		put(out, key, list[i]);
}

void shim_request_encode(const struct shim_request *r, struct buf *out)
{
	for (size_t i = 0; i < COUNT_OF(texts); i++)
		put(out, texts[i].key, *text_at(r, i));
	put_number(out, "uid", r->uid);
	put_number(out, "gid", r->gid);
	put_number(out, "umask", r->umask);
	put_number(out, "mem_max_mib", r->mem_max_mib);
	if (r->truncate)
		put_number(out, "truncate", r->truncate);
	put_list(out, "arg", r->argv);
	put_list(out, "env", r->environ);
	for (size_t i = 0; i < r->n_rlimits; i++) {
		char text[80];
		snprintf(text, sizeof text, "%d %lld %lld", r->rlimits[i].resource, (long long)r->rlimits[i].soft,
			 (long long)r->rlimits[i].hard);
		put(out, "rlimit", text);
	}
	buf_add(out, end_mark, sizeof end_mark);
}

static void list_add(char ***list, size_t *n, const char *value)
{
	*list = alloc_resize(*list, *n + 2, sizeof **list);
	(*list)[(*n)++] = alloc_string(value);
	(*list)[*n] = NULL;
}

static int add_rlimit(struct shim_request *r, const char *value)
{
	long long soft, hard;
	struct spec_rlimit limit;
	if (sscanf(value, "%d %lld %lld", &limit.resource, &soft, &hard) != 3)
		return -1;
	limit.soft = soft;
	limit.hard = hard;
	r->rlimits = alloc_resize(r->rlimits, r->n_rlimits + 1, sizeof *r->rlimits);
	r->rlimits[r->n_rlimits++] = limit;
	return 0;
}

static int take_number(const char *value, int64_t max, uint32_t *out)
{
	int64_t number;
	if (units_parse_int(value, 0, max, &number, NULL))
		return -1;
	*out = (uint32_t)number;
	return 0;
}

struct lists { size_t args, envs; bool have_uid, have_gid; };

static int take(struct shim_request *r, struct lists *lists, const char *key, const char *value)
{
	/* A text that comes twice counts as the last one; nothing that we write has it so. */
	for (size_t i = 0; i < COUNT_OF(texts); i++)
		if (!strcmp(key, texts[i].key)) {
			free(*text_at(r, i));
			*text_at(r, i) = alloc_string(value);
			return 0;
		}
	if (!strcmp(key, "arg")) {
		list_add(&r->argv, &lists->args, value);
	} else if (!strcmp(key, "env")) {
		list_add(&r->environ, &lists->envs, value);
	} else if (!strcmp(key, "uid")) {
		lists->have_uid = true;
		return take_number(value, UINT32_MAX - 1, &r->uid);
	} else if (!strcmp(key, "gid")) {
		lists->have_gid = true;
		return take_number(value, UINT32_MAX - 1, &r->gid);
	} else if (!strcmp(key, "umask")) {
		return take_number(value, 0777, &r->umask);
	} else if (!strcmp(key, "mem_max_mib")) {
		return take_number(value, 1 << 30, &r->mem_max_mib);
	} else if (!strcmp(key, "truncate")) {
		return take_number(value, 1, &r->truncate);
	} else if (!strcmp(key, "rlimit")) {
		return add_rlimit(r, value);
	} else {
		return -1;
	}
	return 0;
}

/* Every line but the last; false at the first that is wrong. */
static bool take_lines(struct shim_request *r, struct lists *lists, const char *bytes, const char *end)
{
	for (const char *p = bytes, *next; p < end; p = next) {
		char key[16];
		next = p + strlen(p) + 1;
		const char *equals = strchr(p, '=');
		if (!equals || (size_t)(equals - p) >= sizeof key)
			return false;
		memcpy(key, p, (size_t)(equals - p));
		key[equals - p] = 0;
		if (take(r, lists, key, equals + 1))
			return false;
	}
	return true;
}

struct shim_request *shim_request_decode(const char *bytes, size_t n, struct error *err)
{
	struct shim_request *r = alloc_zero(sizeof *r);
	struct lists lists = { 0 };
	r->argv = alloc_zero(sizeof *r->argv);
	r->environ = alloc_zero(sizeof *r->environ);
	bool whole = n >= sizeof end_mark && !memcmp(bytes + n - sizeof end_mark, end_mark, sizeof end_mark);
	if (!whole || !take_lines(r, &lists, bytes, bytes + n - sizeof end_mark) || !r->label || !r->cwd || !r->output ||
	    !lists.have_uid || !lists.have_gid || (!r->script && !r->argv[0])) {
		error_set(err, ERR_CORRUPT, "request: cut short, or written by another version of radd");
		shim_request_destroy(r);
		return NULL;
	}
	return r;
}

void shim_request_destroy(struct shim_request *r)
{
	if (!r)
		return;
	alloc_free_list(r->argv);
	alloc_free_list(r->environ);
	for (size_t i = 0; i < COUNT_OF(texts); i++)
		free(*text_at(r, i));
	free(r->rlimits);
	free(r);
}
