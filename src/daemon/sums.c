/* SPDX-License-Identifier: MIT
 * See sums.h. Users, groups and months are few, so they stand in a list; the last one found is the most likely next, since
 * the history is read in the order of ends. It is read in a process of its own (lookup_worker.c), so nobody else waits.
 */
#include "daemon/sums.h"

#include "account/account.h"
#include "base/alloc.h"
#include "base/json.h"
#include "base/scope.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MONTH_LEN 16		/* "2026-11", and years to come */
#define HALF_MONTH_S (14 * 86400)
#define MONTH_MS (INT64_C(32) * 86400000)	/* none is as long */

struct sums_row {
	uid_t uid;
	gid_t gid;
	char month[MONTH_LEN], *user;
	uint64_t peak_mib;
	struct account account;
};

struct sums_table {
	unsigned by;
	int64_t *begin_ms;	/* of months, ascending; owned */
	size_t n_months;
	struct sums_row *list;
	size_t n, cap, last;
};

/* Word by word and whole: "users" or "user,,month" is a mistake to be told, since sums by less than was asked for would look
 * like an answer. */
int sums_parse(const char *text, unsigned *by, struct error *err)
{
	static const struct { const char *word; unsigned bit; } words[] = {
		{ "user", SUMS_BY_USER }, { "group", SUMS_BY_GROUP }, { "month", SUMS_BY_MONTH },
	};
	*by = 0;
	for (const char *at = text; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
		size_t len = strcspn(at, ","), i = 0;
		while (i < COUNT_OF(words) && (strlen(words[i].word) != len || memcmp(words[i].word, at, len)))
			i++;
		if (i == COUNT_OF(words))
			return error_set(err, ERR_INVALID, "'%.40s': expected user, group or month, or several with commas", text);
		*by |= words[i].bit;
	}
	return 0;
}

int sums_check_months(const json_t *months, struct error *err)
{
	size_t n = json_array_size(months);
	bool fine = !months || (json_is_array(months) && n <= SUMS_MONTHS_MAX);
	for (size_t i = 0; fine && i < n; i++)
		fine = json_is_integer(json_array_get(months, i)) &&
		       (!i || json_integer_value(json_array_get(months, i)) > json_integer_value(json_array_get(months, i - 1)));
	return fine ? 0 : error_set(err, ERR_INVALID, "'months' must be a list of moments in ms, ascending, of at most %d",
				    SUMS_MONTHS_MAX);
}

struct sums_table *sums_create(unsigned by, const json_t *months)
{
	struct sums_table *s = alloc_zero(sizeof *s);
	s->by = by;
	s->n_months = json_array_size(months);
	s->begin_ms = alloc_zero((s->n_months + 1) * sizeof *s->begin_ms);
	for (size_t i = 0; i < s->n_months; i++)
		s->begin_ms[i] = json_integer_value(json_array_get(months, i));
	return s;
}

void sums_destroy(struct sums_table *s)
{
	for (size_t i = 0; s && i < s->n; i++) {
		free(s->list[i].user);
		account_clear(&s->list[i].account);
	}
	if (s) {
		free(s->list);
		free(s->begin_ms);
	}
	free(s);
}

/* Of the end. In the middle of a month all zones agree which it is. Where it is in none of those that were told, since the
 * clock was set back by months, say, it is one of this machine's. */
static void month_of(const struct sums_table *s, int64_t wall_ms, char month[MONTH_LEN])
{
	struct tm local;
	size_t first = 0, beyond = s->n_months;
	while (first < beyond) {	/* begins later than that */
		size_t middle = first + (beyond - first) / 2;
		if (s->begin_ms[middle] <= wall_ms)
			first = middle + 1;
		else
			beyond = middle;
	}
	bool told = first && wall_ms - s->begin_ms[first - 1] < MONTH_MS;
	time_t t = told ? (time_t)(s->begin_ms[first - 1] / 1000) + HALF_MONTH_S : (time_t)(wall_ms / 1000);
	if (!(told ? gmtime_r : localtime_r)(&t, &local) || !strftime(month, MONTH_LEN, "%Y-%m", &local))
		snprintf(month, MONTH_LEN, "?");
}

/* By number: names are for people, and one account may have been renamed between two tasks. */
static bool is_sum_of(const struct sums_row *x, const struct sums_row *key)
{
	return x->uid == key->uid && x->gid == key->gid && !strcmp(x->month, key->month);
}

/* What is not asked for is 0 or "" in every key, so that it tells nobody apart. */
static struct sums_row *sum_of(struct sums_table *s, const struct task *t)
{
	struct sums_row key = { .uid = s->by & SUMS_BY_USER ? t->spec->uid : 0, .gid = s->by & SUMS_BY_GROUP ? t->spec->gid : 0 };
	if (s->by & SUMS_BY_MONTH)
		month_of(s, t->end_ms, key.month);
	if (s->n && is_sum_of(&s->list[s->last], &key))
		return &s->list[s->last];
	for (s->last = 0; s->last < s->n; s->last++)
		if (is_sum_of(&s->list[s->last], &key))
			return &s->list[s->last];
	key.user = alloc_string_or_null(t->spec->user);
	alloc_grow(s->list, s->n, s->cap);
	s->list[s->n++] = key;
	return &s->list[s->last];
}

/* The row's number and not its address, which moves as the list grows; for sums_add_share. */
unsigned sums_add(struct sums_table *s, const struct task *t, int64_t now_ms)
{
	struct sums_row *x = sum_of(s, t);
	account_add(&x->account, t, now_ms);
	for (uint32_t i = 0; i < t->n_attempts; i++)
		if (t->attempts[i].seen.peak_mib > x->peak_mib)
			x->peak_mib = t->attempts[i].seen.peak_mib;
	return (unsigned)(x - s->list);
}

void sums_add_share(struct sums_table *s, unsigned row, double share_s)
{
	s->list[row].account.gpu_share_s += share_s;
}

/* For people, and the same each time: users by name, then groups, then months. */
static int by_names(const void *a, const void *b)
{
	const struct sums_row *x = *(const struct sums_row *const *)a, *y = *(const struct sums_row *const *)b;
	int c = strcmp(x->user ? x->user : "", y->user ? y->user : "");
	if (!c)
		c = (x->gid > y->gid) - (x->gid < y->gid);
	return c ? c : strcmp(x->month, y->month);
}

/* Addresses are sorted and rows stay where they are: they are known to others by number. */
json_t *sums_json(const struct sums_table *s)
{
	json_t *list = json_array();
	scoped_free const struct sums_row **order = alloc_zero((s->n + 1) * sizeof *order);
	for (size_t i = 0; i < s->n; i++)
		order[i] = &s->list[i];
	qsort(order, s->n, sizeof *order, by_names);
	for (size_t i = 0; i < s->n; i++) {
		const struct sums_row *x = order[i];
		json_t *o = account_to_json(&x->account);
		json_object_set_new(o, "user", json_text_or_null(s->by & SUMS_BY_USER ? x->user : NULL));
		json_object_set_new(o, "gid", json_int_or_null((int64_t)x->gid, s->by & SUMS_BY_GROUP));
		json_object_set_new(o, "month", json_text_or_null(s->by & SUMS_BY_MONTH ? x->month : NULL));
		json_object_set_new(o, "gpu_s", json_round3(x->account.gpu_s));
		json_object_set_new(o, "gpu_share_s", json_round3(x->account.gpu_share_s));
		json_object_set_new(o, "wait_s", json_round3(x->account.wait_s));
		json_object_set_new(o, "run_s", json_round3(x->account.run_s));
		json_object_set_new(o, "peak_mib", json_int_or_null((int64_t)x->peak_mib, x->peak_mib != 0));
		json_array_append_new(list, o);
	}
	return list;
}
