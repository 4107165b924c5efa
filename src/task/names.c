/* SPDX-License-Identifier: MIT
 * Words and their values, both ways: ids, states, verdicts, events, sharing modes, dependencies. The words stand beside the
 * values in the tables of task.h and spec.h. Store, protocol and people read the same ones, so none may change its meaning.
 * Below the other files of this folder, which all print or read them.
 */
#include "task/task.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const struct { const char *word, *code; bool terminal; } states[] = {
#define X(name, word, code, terminal) [name] = { word, code, terminal },
	TASK_STATES(X)
#undef X
	[TASK_STATE_COUNT] = { "?", "?", false },
};

static const char *const verdicts[] = {
#define X(name, word) [name] = word,
	VERDICTS(X)
#undef X
};

static const char *const kinds[] = {
#define X(name, word) [name] = word,
	TASK_EVENTS(X)
#undef X
};

static const char *const share_modes[] = {
#define X(name, word) [name] = word,
	SHARE_MODES(X)
#undef X
};

static const char *const dependency_kinds[] = {
#define X(name, word) [name] = word,
	DEPENDENCY_KINDS(X)
#undef X
};

char *task_id_text(task_id id, char buf[TASK_ID_TEXT])
{
	if (TASK_INDEX(id) < 0)
		snprintf(buf, TASK_ID_TEXT, "%u", TASK_JOB(id));
	else
		snprintf(buf, TASK_ID_TEXT, "%u_%d", TASK_JOB(id), TASK_INDEX(id));
	return buf;
}

int task_id_parse(const char *text, task_id *id, struct error *err)
{
	unsigned long job = 0, index = 0;
	char *end = NULL;
	bool plain = text && *text >= '1' && *text <= '9', has_index = false;
	errno = 0;
	if (plain)
		job = strtoul(text, &end, 10);
	if (plain && *end == '_' && end[1] >= '0' && end[1] <= '9') {
		has_index = true;
		index = strtoul(end + 1, &end, 10);
	}
	if (!plain || *end || errno || job > UINT32_MAX || index >= (1 << TASK_INDEX_BITS) - 1)
		return error_set(err, ERR_INVALID, "'%.40s' is not a task id: write 12, or 12_3 for an element of an array",
				 text ? text : "");
	*id = has_index ? TASK_ID(job, index) : TASK_ID(job, -1);
	return 0;
}

int task_id_compare(const void *a, const void *b)
{
	task_id x = *(const task_id *)a, y = *(const task_id *)b;
	return (x > y) - (x < y);
}

size_t task_ids_sort(task_id *ids, size_t n)
{
	size_t kept = 0;
	if (n)
		qsort(ids, n, sizeof *ids, task_id_compare);
	for (size_t i = 0; i < n; i++)
		if (!kept || ids[i] != ids[kept - 1])
			ids[kept++] = ids[i];
	return kept;
}

task_id task_dependency_target(task_id id, const struct dependency *d)
{
	bool element = d->kind == DEP_AFTERCORR && TASK_INDEX(id) >= 0 && TASK_INDEX(d->task) < 0;
	return element ? TASK_ID(TASK_JOB(d->task), TASK_INDEX(id)) : d->task;
}

const char *task_state_name(enum task_state s) { return states[s].word; }
const char *task_state_code(enum task_state s) { return states[s].code; }
bool task_state_terminal(enum task_state s) { return states[s].terminal; }
const char *verdict_name(enum verdict v) { return verdicts[v]; }

int task_state_parse(const char *word, enum task_state *s)
{
	for (unsigned i = 0; i < TASK_STATE_COUNT; i++)
		if (!strcasecmp(word, states[i].word) || !strcasecmp(word, states[i].code)) {
			*s = (enum task_state)i;
			return 0;
		}
	return -1;
}

int verdict_parse(const char *word, enum verdict *v)
{
	for (unsigned i = 0; i < VERDICT_COUNT; i++)
		if (!strcmp(word, verdicts[i])) {
			*v = (enum verdict)i;
			return 0;
		}
	return -1;
}

const char *event_kind_name(enum event_kind k)
{
	return kinds[k];
}

const char *share_mode_name(enum share_mode mode)
{
	return share_modes[mode];
}

const char *dependency_kind_name(enum dependency_kind kind)
{
	return dependency_kinds[kind];
}

int dependency_kind_parse(const char *word, size_t n, enum dependency_kind *kind)
{
	for (unsigned i = 0; i < DEPENDENCY_KIND_COUNT; i++)
		if (strlen(dependency_kinds[i]) == n && !memcmp(word, dependency_kinds[i], n)) {
			*kind = (enum dependency_kind)i;
			return 0;
		}
	return -1;
}

int share_mode_parse(const char *word, enum share_mode *mode, struct error *err)
{
	for (unsigned i = 0; i < SHARE_MODE_COUNT; i++)
		if (!strcmp(word, share_modes[i])) {
			*mode = (enum share_mode)i;
			return 0;
		}
	return error_set(err, ERR_INVALID, "'%.40s' is no way of sharing: auto, never, mps, streams or mig", word);
}
