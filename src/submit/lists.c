/* SPDX-License-Identifier: MIT
 * The option values that are small languages of their own: array indices, dependencies, signals. See options.h.
 */
#include "base/alloc.h"
#include "base/scope.h"
#include "base/units.h"
#include "submit/options.h"
#include "task/task.h"

#include <ctype.h>
#include <signal.h>
#include <string.h>
#include <strings.h>

#define MAX_INDEX 999999
#define SIGNAL_BEFORE_S 60	/* Slurm's default */

_Static_assert(MAX_INDEX + 1 < (1 << TASK_INDEX_BITS), "an index and one must fit into an id");

/* ---- arrays ---- */

struct indices { uint32_t *items; size_t n, cap; unsigned char seen[MAX_INDEX / 8 + 1]; };

/* Takes a decimal number off *p; one that is out of every range here counts as the first such. */
static bool take_number(const char **p, uint32_t *value)
{
	size_t n = strspn(*p, "0123456789");
	uint32_t v = 0;
	for (size_t i = 0; i < n && v <= MAX_INDEX; i++)
		v = v * 10 + (uint32_t)((*p)[i] - '0');
	*p += n;
	*value = v;
	return n;
}

static int bad_array(const char *text, const char *why, struct error *err)
{
	return error_set(err, ERR_INVALID, "'%.60s': %s: write 0-9, 1,3,5-7, 0-99:10, and %%4 at the end for four at once", text, why);
}

static int add_index(struct indices *list, uint32_t i, const char *text, struct error *err)
{
	if (list->seen[i / 8] & (1u << i % 8))
		return error_set(err, ERR_INVALID, "'%.60s': index %u stands there twice", text, i);
	if (list->n == SPEC_MAX_ARRAY)
		return error_set(err, ERR_INVALID, "'%.60s': more than %d elements", text, SPEC_MAX_ARRAY);
	list->seen[i / 8] |= (unsigned char)(1u << i % 8);
	alloc_grow(list->items, list->n, list->cap);
	list->items[list->n++] = i;
	return 0;
}

/* "7", "5-9" or "5-9:2". */
static int take_range(const char **p, struct indices *list, const char *text, struct error *err)
{
	uint32_t first, last, step = 1;
	if (!take_number(p, &first))
		return bad_array(text, "expected an index", err);
	last = first;
	if (**p == '-' && (++*p, !take_number(p, &last)))
		return bad_array(text, "expected an index after '-'", err);
	if (**p == ':' && (++*p, !take_number(p, &step) || !step))
		return bad_array(text, "expected a step above 0 after ':'", err);
	if (first > MAX_INDEX || last > MAX_INDEX)
		return error_set(err, ERR_INVALID, "'%.60s': indices go from 0 to %d", text, MAX_INDEX);
	if (last < first)
		return bad_array(text, "a range goes upwards", err);
	for (uint32_t i = first; i <= last; i += step)
		if (add_index(list, i, text, err))
			return -1;
	return 0;
}

static int take_ranges(const char *text, struct indices *list, uint32_t *limit, struct error *err)
{
	const char *p = text;
	for (;; p++) {
		if (take_range(&p, list, text, err))
			return -1;
		if (*p != ',')
			break;
	}
	*limit = 0;
	if (*p == '%' && (p++, !take_number(&p, limit) || !*limit || *limit > SPEC_MAX_ARRAY))
		return error_set(err, ERR_INVALID, "'%.60s': expected 1 to %d behind the '%%'", text, SPEC_MAX_ARRAY);
	return *p ? bad_array(text, "cannot be read to its end", err) : 0;
}

int options_parse_array(const char *text, uint32_t **indices, size_t *n, uint32_t *limit, struct error *err)
{
	scoped_free struct indices *list = alloc_zero(sizeof *list);
	if (take_ranges(text, list, limit, err)) {
		free(list->items);
		return -1;
	}
	*indices = list->items;
	*n = list->n;
	return 0;
}

/* ---- dependencies ---- */

struct dependency_list { struct dependency *items; size_t n, cap; };

static int parse_kind(const char *word, size_t len, enum dependency_kind *kind, struct error *err)
{
	if (!dependency_kind_parse(word, len, kind))
		return 0;
	if (isdigit((unsigned char)*word))
		return error_set(err, ERR_INVALID, "'%.*s' stands without its kind: several of one kind are afterok:12:13",
				 (int)(len < 60 ? len : 60), word);
	return error_set(err, ERR_INVALID, "'%.*s' is no kind of dependency: afterok, afterany, afternotok, after or aftercorr, as in "
			 "afterok:12, or singleton", (int)(len < 60 ? len : 60), word);
}

static int add_dependency(struct dependency_list *list, enum dependency_kind kind, const char *word, size_t len,
			  struct error *err)
{
	char id[TASK_ID_TEXT];
	task_id task;
	if (memchr(word, '+', len))
		return error_set(err, ERR_INVALID, "'%.*s': minutes behind a start are not counted here: leave them out, or use --begin",
				 (int)(len < 60 ? len : 60), word);
	if (memchr(word, '?', len))
		return error_set(err, ERR_INVALID, "'%.*s': here all of them must be met: write commas", (int)(len < 60 ? len : 60), word);
	if (len >= sizeof id)
		return error_set(err, ERR_INVALID, "'%.40s...' is no task id: write 12 or 12_3", word);
	memcpy(id, word, len);
	id[len] = 0;
	if (task_id_parse(id, &task, err))
		return -1;
	if (list->n == SPEC_MAX_DEPS)
		return error_set(err, ERR_INVALID, "more than %d dependencies", SPEC_MAX_DEPS);
	alloc_grow(list->items, list->n, list->cap);
	list->items[list->n++] = (struct dependency){ .kind = kind, .task = task };
	return 0;
}

/* "afterok:12:13" */
static int take_dependency(const char **p, struct dependency_list *list, struct error *err)
{
	enum dependency_kind kind = DEP_AFTEROK;
	size_t len = strcspn(*p, ":,");
	if (parse_kind(*p, len, &kind, err))
		return -1;
	*p += len;
	if (**p != ':')
		return error_set(err, ERR_INVALID, "'%s' needs a task: %s:12", dependency_kind_name(kind), dependency_kind_name(kind));
	while (**p == ':') {
		len = strcspn(++*p, ":,");
		if (add_dependency(list, kind, *p, len, err))
			return -1;
		*p += len;
	}
	return 0;
}

/* "singleton", which names no task. */
static bool take_singleton(const char **p)
{
	static const char word[] = "singleton";
	size_t len = strcspn(*p, ":,");
	bool is = len == strlen(word) && !memcmp(*p, word, len) && (*p)[len] != ':';
	*p += is ? len : 0;
	return is;
}

int options_parse_dependencies(const char *text, struct dependency **deps, size_t *n, bool *singleton, struct error *err)
{
	struct dependency_list list = { 0 };
	*singleton = false;
	for (const char *p = text;; p++) {
		if (take_singleton(&p))
			*singleton = true;
		else if (take_dependency(&p, &list, err)) {
			free(list.items);
			return -1;
		}
		if (!*p)
			break;
	}
	*deps = list.items;
	*n = list.n;
	return 0;
}

/* ---- signals ---- */

static int signal_number(const char *word, size_t len)
{
	char name[16];
	int64_t number;
	if (!len || len >= sizeof name)
		return 0;
	memcpy(name, word, len);
	name[len] = 0;
	if (isdigit((unsigned char)*name))
		return units_parse_int(name, 1, SIGRTMAX, &number, NULL) ? 0 : (int)number;
	const char *bare = strncasecmp(name, "SIG", 3) ? name : name + 3;
	for (int i = 1; i < 32; i++) {
		const char *known = sigabbrev_np(i);
		if (known && !strcasecmp(known, bare))
			return i;
	}
	return 0;
}

int options_parse_signal(const char *text, int *signal, int64_t *before_s, struct error *err)
{
	const char *word = strncasecmp(text, "B:", 2) && strncasecmp(text, "R:", 2) ? text : text + 2;
	size_t len = strcspn(word, "@");
	int number = signal_number(word, len);
	int64_t seconds = SIGNAL_BEFORE_S;
	if (!number)
		return error_set(err, ERR_INVALID, "'%.60s' names no signal: write USR1@60, TERM@30 or 10@60", text);
	if (word[len] && units_parse_int(word + len + 1, 0, 65535, &seconds, err))
		return error_wrap(err, "'%.60s': seconds", text);
	*signal = number;
	*before_s = seconds;
	return 0;
}
