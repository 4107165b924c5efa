/* SPDX-License-Identifier: MIT
 * See ids.h. Ranges of elements are read by the parser of --array, so that what may be submitted may be named.
 */
#include "cli/ids.h"

#include "base/alloc.h"
#include "base/scope.h"
#include "submit/options.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static int bad_word(const char *word, struct error *err)
{
	if (!strcmp(word, "last") || !strcmp(word, "latest"))
		return error_set(err, ERR_INVALID, "'%s' names no tasks: write ids; that of yours is "
				 "$(rad queue --me -t all -h -o %%i | tail -n 1)", word);
	if (!strcmp(word, "all"))
		return error_set(err, ERR_INVALID, "'all' names no tasks: write ids; all of yours are $(rad queue --me -h -o %%i)");
	if (isalpha((unsigned char)*word))
		return error_set(err, ERR_INVALID, "'%.60s' names no tasks: write ids, as 12 or 12_3: 'rad queue -t all --name=%.60s' finds "
				 "those of a name", word, word);
	return error_set(err, ERR_INVALID, "'%.60s' names no tasks: write 12, 12_3 for an element of an array, 12_[4-7,9] for some of "
			 "them, 4-9,12 for tasks in a row", word);
}

static int add_id(struct ids *out, task_id id, const char *word, struct error *err)
{
	if (out->n == IDS_MAX)
		return error_set(err, ERR_INVALID, "'%.60s' stands for more than %d tasks: name fewer at a time", word, IDS_MAX);
	alloc_grow(out->list, out->n, out->cap);
	out->list[out->n++] = id;
	return 0;
}

/* "12_[4-7,9]": `inside` is what stands in the brackets. */
static int add_elements(struct ids *out, const char *job, const char *inside, const char *word, struct error *err)
{
	scoped_free uint32_t *indices = NULL;
	uint32_t limit;
	task_id whole;
	size_t n = 0;
	if (task_id_parse(job, &whole, NULL) || TASK_INDEX(whole) >= 0 || options_parse_array(inside, &indices, &n, &limit, NULL))
		return bad_word(word, err);
	out->several = true;
	for (size_t i = 0; i < n; i++)
		if (add_id(out, TASK_ID(TASK_JOB(whole), indices[i]), word, err))
			return -1;
	return 0;
}

/* "4-9": jobs, so neither end is an element. */
static int add_row(struct ids *out, const char *first, const char *last, const char *word, struct error *err)
{
	task_id from, to;
	if (task_id_parse(first, &from, NULL) || task_id_parse(last, &to, NULL) || TASK_INDEX(from) >= 0 || TASK_INDEX(to) >= 0 ||
	    to < from)
		return bad_word(word, err);
	out->several = true;
	for (uint32_t job = TASK_JOB(from);; job++) {
		if (add_id(out, TASK_ID(job, -1), word, err))
			return -1;
		if (job == TASK_JOB(to))
			return 0;
	}
}

/* What stands between two commas; it is cut up here. */
static int add_part(struct ids *out, char *part, const char *word, struct error *err)
{
	char *bracket = strstr(part, "_["), *dash = strchr(part, '-');
	size_t len = strlen(part);
	task_id id;
	if (bracket && part[len - 1] == ']') {
		part[len - 1] = *bracket = 0;
		return add_elements(out, part, bracket + 2, word, err);
	}
	if (dash && !bracket) {
		*dash = 0;
		return add_row(out, part, dash + 1, word, err);
	}
	if (task_id_parse(part, &id, NULL))
		return bad_word(word, err);
	return add_id(out, id, word, err);
}

/* The end of the part that begins here: a comma in brackets is none of ours. */
static char *part_end(char *part)
{
	for (bool inside = false; *part && (inside || *part != ','); part++)
		inside = *part == '[' || (inside && *part != ']');
	return part;
}

int ids_add(const char *word, struct ids *ids, struct error *err)
{
	scoped_free char *copy = alloc_string(word);
	char *part = copy;
	for (bool more = true; more; part++) {
		char *end = part_end(part);
		more = *end;
		ids->several = ids->several || more;
		*end = 0;
		scoped_free char *said = alloc_string(part);	/* which of them is wrong; `part` is cut up */
		if (add_part(ids, part, said, err))
			return -1;
		part = end;
	}
	ids->n = task_ids_sort(ids->list, ids->n);
	return 0;
}

void ids_clear(struct ids *ids)
{
	free(ids->list);
	*ids = (struct ids){ 0 };
}

bool ids_want(struct cli_call *c, size_t max)
{
	struct error err = ERROR_INIT;
	if (!cli_want_words(c, 1, max))
		return false;
	for (size_t i = 0; i < c->n_words; i++) {
		struct ids word = { 0 };
		bool read = !ids_add(c->words[i], &word, &err);
		ids_clear(&word);
		if (read)
			continue;
		c->rc = cli_usage(c, "%s", err.text);
		return false;
	}
	return true;
}

bool ids_want_one(struct cli_call *c, const char *word)
{
	task_id id;
	struct error err = ERROR_INIT;
	if (!task_id_parse(word, &id, &err))
		return true;
	c->rc = cli_usage(c, "%s", err.text);
	return false;
}

bool ids_have(const struct ids *ids, task_id id)
{
	const task_id whole = TASK_ID(TASK_JOB(id), -1);
	return ids->n && (bsearch(&id, ids->list, ids->n, sizeof id, task_id_compare) ||
			  bsearch(&whole, ids->list, ids->n, sizeof whole, task_id_compare));
}

size_t ids_bare_words(char **words, size_t n)
{
	static const char *const marks[] = { "job", "jobs", "jobid" };
	size_t kept = 0;
	for (size_t i = 0; i < n; i++) {
		size_t len = strcspn(words[i], "="), k = 0;
		while (k < COUNT_OF(marks) && (strlen(marks[k]) != len || strncasecmp(words[i], marks[k], len)))
			k++;
		bool mark = k < COUNT_OF(marks);
		if (!mark || words[i][len])
			words[kept++] = words[i] + (mark ? len + 1 : 0);
	}
	return kept;
}
