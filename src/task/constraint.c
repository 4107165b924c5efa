/* SPDX-License-Identifier: MIT
 * See constraint.h. Read anew each time it is asked: it is a few words, and only tasks that have one are asked about it.
 */
#include "task/constraint.h"

#include "base/units.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define TERM_MAX 64
#define NEARLY(mib) ((mib) - (mib) / 20)
#define LEAST_MIB 1024	/* no GPU has less: somebody left the unit out */

enum answer { NO, YES, UNREADABLE };

/* `typed`: it is no GPU, and what cannot be meant is refused. What was accepted by an earlier release stays what it was. */
struct gpu { const char *name; uint64_t total_mib; bool typed; };

/* The letters and digits of `word` from `at` on, whatever stands between those of the name; a word of the name ends there. */
static bool word_begins(const char *at, const char *word)
{
	const char *p = at;
	for (; *word; word++) {
		if (!isalnum((unsigned char)*word))
			continue;
		while (*p && !isalnum((unsigned char)*p))
			p++;
		if (tolower((unsigned char)*p++) != tolower((unsigned char)*word))
			return false;
	}
	return !isalnum((unsigned char)*p);
}

static bool has_word(const char *name, const char *word)
{
	for (const char *p = name; *p; p++)
		if (isalnum((unsigned char)*p) && (p == name || !isalnum((unsigned char)p[-1])) && word_begins(p, word))
			return true;
	return false;
}

/* "mem>=40G", after "mem". */
static enum answer compare_memory(const char *rest, const struct gpu *g, struct error *err)
{
	size_t n = strspn(rest, "<>=");
	uint64_t mib;
	bool or_equal = n == 2 && rest[1] == '=' && *rest != '=';
	if (!(n == 1 || or_equal) || units_parse_mib(rest + n, &mib, NULL) || !mib) {
		error_set(err, ERR_INVALID, "'mem%.40s': write mem>=40G (or >, <=, <, =)", rest);
		return UNREADABLE;
	}
	if (g->typed && mib < LEAST_MIB) {
		error_set(err, ERR_INVALID, "'mem%.40s': no GPU has so little; a number alone is MiB: write mem%.*s%lluG", rest, (int)n, rest,
			  (unsigned long long)mib);
		return UNREADABLE;
	}
	bool least = g->total_mib >= NEARLY(mib), most = NEARLY(g->total_mib) <= mib;
	switch (*rest) {
	case '>': return or_equal ? least : !most;
	case '<': return or_equal ? most : !least;
	default: return least && most;
	}
}

static enum answer plain_term_met(const char *term, const struct gpu *g, struct error *err)
{
	bool word = false;
	if (!strncasecmp(term, "mem", 3) && strchr("<>=", term[3]) && term[3])
		return compare_memory(term + 3, g, err);
	for (const char *p = term; *p; p++) {
		if (!isalnum((unsigned char)*p) && !strchr("-_. ", *p)) {
			error_set(err, ERR_INVALID, "'%.60s': '%c' stands for nothing; write a100, a100|h100 or mem>=40G", term, *p);
			return UNREADABLE;
		}
		word |= isalnum((unsigned char)*p) != 0;
	}
	if (word)
		return has_word(g->name, term);
	error_set(err, ERR_INVALID, "a word is missing; write a100, a100|h100 or mem>=40G");
	return UNREADABLE;
}

static enum answer term_met(const char *term, const struct gpu *g, struct error *err)
{
	enum answer a = plain_term_met(term + (*term == '!'), g, err);
	return *term != '!' || a == UNREADABLE ? a : a == YES ? NO : YES;
}

/* All is read, also what can change nothing: whether it can be read does not hang on the GPU. */
static enum answer constraint_ask(const char *text, const struct gpu *g, struct error *err)
{
	bool any = false, all = true;
	if (strlen(text) > CONSTRAINT_MAX) {
		error_set(err, ERR_INVALID, "it is longer than %d bytes", CONSTRAINT_MAX);
		return UNREADABLE;
	}
	for (const char *p = text;; ) {
		char term[TERM_MAX];
		size_t n = strcspn(p, "&,|");
		if (n >= sizeof term) {
			error_set(err, ERR_INVALID, "'%.40s...': no word of a model's name is longer than %d bytes", p, TERM_MAX - 1);
			return UNREADABLE;
		}
		snprintf(term, sizeof term, "%.*s", (int)n, p);
		enum answer a = term_met(term, g, err);
		if (a == UNREADABLE)
			return a;
		all = all && a == YES;
		p += n;
		if (!*p || *p == '|') {
			any = any || all;
			all = true;
		}
		if (!*p++)
			return any ? YES : NO;
	}
}

int constraint_check(const char *text, struct error *err)
{
	return constraint_ask(text, &(struct gpu){ "", 1, true }, err) == UNREADABLE ? -1 : 0;
}

bool constraint_met(const char *text, const char *gpu_name, uint64_t total_mib)
{
	return !text || constraint_ask(text, &(struct gpu){ gpu_name ? gpu_name : "", total_mib, false }, NULL) == YES;
}
