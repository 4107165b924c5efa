/* SPDX-License-Identifier: MIT
 * What accounts tell of a task that has ended, in a row for it and one for each of its attempts, so that its log need not be
 * replayed: reading JSON takes five times as long. The rows follow from the log alone, are written in the transaction of
 * the event that ends the task, and are gone when it is queued again. Where there are none, the log is read.
 *
 * Whoever adds a member here adds its column in a step of the schema that empties `tasks`: all rows are written again then.
 */
#include "store/store_internal.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/scope.h"

#include <math.h>
#include <string.h>

bool store_account_has(const char *member)
{
	static const char *const of_task[] = {
		"id", "name", "user", "state", "priority", "gpus_requested", "run_s", "exit_code", "signal", "submit_time", "start_time",
		"end_time", "wait_s", "held_s", "lost_s", "jct_s", "suspended_s", "time_limit_s", "feed", "gpu_s", "gpu_share_s", "estimate",
	};
	static const char *const of_attempt[] = {
		"start", "end", "gpus", "share", "claim_mib", "exit_code", "signal", "verdict", "evidence", "peak_mib", "mean_smact",
		"energy_j", "host_peak_mib", "cores", "cores_waited", "gpu_s", "gpu_share_s",
	};
	const char *dot = strchr(member, '.');
	bool each = !strncmp(member, "attempts", strlen("attempts")) && dot;
	if (!strncmp(member, "estimate.", strlen("estimate.")))
		return true;
	for (size_t i = 0; each && i < COUNT_OF(of_attempt); i++)
		if (!strcmp(dot + 1, of_attempt[i]))
			return true;
	for (size_t i = 0; i < COUNT_OF(of_task); i++)
		if (!strcmp(member, of_task[i]))
			return true;
	return false;
}

/* No UUID has a line's end in it. */
static char *account_gpus(const struct attempt *a)
{
	struct buf text = { 0 };
	for (uint32_t i = 0; i < a->n_gpus; i++)
		buf_printf(&text, "%s%s", i ? "\n" : "", a->gpus[i]);
	return text.len ? text.data : alloc_string("");
}

static int account_put_attempt(struct store *s, const struct task *t, uint32_t n, struct error *err)
{
	const struct attempt *a = &t->attempts[n];
	scoped_free char *gpus = account_gpus(a);
	return store_change(s, err, STORE_PUT_ATTEMPT, "iiiiittiiittiddiiii", (int64_t)t->id, (int64_t)n, a->placed_ms, a->start_ms,
			    a->end_ms, gpus, share_mode_name(a->mode), (int64_t)a->claim_mib, (int64_t)a->exit_code, (int64_t)a->signal,
			    verdict_name(a->verdict), a->evidence, (int64_t)a->seen.peak_mib, a->seen.mean_smact, a->seen.energy_j,
			    (int64_t)a->seen.host_peak_mib, a->seen.cpu.ran_ms, a->seen.cpu.cpu_ms, a->seen.cpu.wait_ms);
}

/* Time is booked until the end: see struct task. */
int store_put_account(struct store *s, const struct task *t, struct error *err)
{
	const struct estimate *e = &t->estimate;
	if (store_change(s, err, STORE_PUT_ACCOUNT, "iiitttt" "iiiiiiii" "iiii" "tiiit", (int64_t)t->id, (int64_t)t->spec->uid,
			 (int64_t)t->spec->gid, t->spec->user, task_name(t), t->spec->feed, task_state_name(t->state), t->submit_ms,
			 t->start_ms, t->end_ms, t->booked_ms[0], t->booked_ms[1], t->booked_ms[2], t->booked_ms[3], t->lost_ms,
			 (int64_t)t->gpus, t->priority, t->time_limit_s, (int64_t)t->n_attempts, t->estimated ? e->estimator : NULL,
			 (int64_t)e->need_mib, (int64_t)e->comfort_mib, (int64_t)e->claim_mib, e->note))
		return -1;
	for (uint32_t i = 0; i < t->n_attempts; i++)
		if (account_put_attempt(s, t, i, err))
			return -1;
	return 0;
}

int store_drop_account(struct store *s, task_id id, struct error *err)
{
	return store_change(s, err, STORE_DROP_ACCOUNT, "i", (int64_t)id) ||
	       store_change(s, err, STORE_DROP_ATTEMPTS, "i", (int64_t)id) ? -1 : 0;
}

/* Reading: columns one after the other, as they are written. */
struct account_row { sqlite3_stmt *st; int at; };

static int64_t next_int(struct account_row *r)
{
	return sqlite3_column_int64(r->st, r->at++);
}

static double next_double(struct account_row *r)
{
	int at = r->at++;
	return sqlite3_column_type(r->st, at) == SQLITE_NULL ? NAN : sqlite3_column_double(r->st, at);
}

/* Valid until the next row. */
static const char *next_text(struct account_row *r)
{
	return (const char *)sqlite3_column_text(r->st, r->at++);
}

static bool is_same(const char *a, const char *b)
{
	return a && b ? !strcmp(a, b) : a == b;
}

/* Whose tasks end one after another is often the same. */
static void account_take_owner(struct account_row *r, struct spec **owner)
{
	uid_t uid = (uid_t)next_int(r);
	gid_t gid = (gid_t)next_int(r);
	const char *user = next_text(r);
	r->at++;
	const char *feed = next_text(r);
	r->at -= 2;
	if (*owner && (*owner)->uid == uid && (*owner)->gid == gid && is_same((*owner)->user, user) && is_same((*owner)->feed, feed))
		return;
	spec_unref(*owner);
	*owner = spec_create();
	(*owner)->uid = uid;
	(*owner)->gid = gid;
	(*owner)->user = alloc_string_or_null(user);
	(*owner)->feed = alloc_string_or_null(feed);
}

static int account_take_task(struct account_row *r, struct task *t, uint32_t *n_attempts)
{
	t->renamed = alloc_string_or_null(next_text(r));
	r->at++;	/* the feed, which is the owner's */
	const char *state = next_text(r);
	if (!state || task_state_parse(state, &t->state))
		return -1;
	t->submit_ms = next_int(r);
	t->start_ms = next_int(r);
	t->end_ms = next_int(r);
	for (size_t i = 0; i < COUNT_OF(t->booked_ms); i++)
		t->booked_ms[i] = next_int(r);
	t->lost_ms = next_int(r);
	t->gpus = (unsigned)next_int(r);
	t->priority = next_int(r);
	t->time_limit_s = next_int(r);
	*n_attempts = (uint32_t)next_int(r);
	const char *estimator = next_text(r);
	t->estimated = estimator;
	snprintf(t->estimate.estimator, sizeof t->estimate.estimator, "%s", estimator ? estimator : "");
	t->estimate.need_mib = (uint64_t)next_int(r);
	t->estimate.comfort_mib = (uint64_t)next_int(r);
	t->estimate.claim_mib = (uint64_t)next_int(r);
	t->estimate.note = alloc_string_or_null(next_text(r));
	return 0;
}

static int account_take_gpus(struct attempt *a, const char *text)
{
	size_t cap = 0;
	for (size_t n; text && *text; text += n + (text[n] == '\n')) {
		n = strcspn(text, "\n");
		if (n >= GPU_UUID_LEN || a->n_gpus == SPEC_MAX_GPUS)
			return -1;
		alloc_grow(a->gpus, a->n_gpus, cap);
		memcpy(a->gpus[a->n_gpus], text, n);
		a->gpus[a->n_gpus++][n] = '\0';
	}
	return 0;
}

static int account_take_attempt(struct account_row *r, struct attempt *a)
{
	a->seen = task_measured_nothing();
	a->placed_ms = next_int(r);
	a->start_ms = next_int(r);
	a->end_ms = next_int(r);
	const char *gpus = next_text(r), *mode = next_text(r);
	a->claim_mib = (uint64_t)next_int(r);
	a->exit_code = (int)next_int(r);
	a->signal = (int)next_int(r);
	const char *verdict = next_text(r);
	a->evidence = alloc_string_or_null(next_text(r));
	a->seen.peak_mib = (uint64_t)next_int(r);
	a->seen.mean_smact = next_double(r);
	a->seen.energy_j = next_double(r);
	a->seen.host_peak_mib = (uint64_t)next_int(r);
	a->seen.cpu.ran_ms = next_int(r);
	a->seen.cpu.cpu_ms = next_int(r);
	a->seen.cpu.wait_ms = next_int(r);
	return !mode || share_mode_parse(mode, &a->mode, NULL) || !verdict || verdict_parse(verdict, &a->verdict) ||
	       account_take_gpus(a, gpus) ? -1 : 0;
}

static int account_take_attempts(struct store *s, struct task *t, uint32_t n)
{
	sqlite3_stmt *st = s->statements[STORE_GET_ATTEMPTS];
	size_t cap = 0;
	int rc = 0;
	sqlite3_bind_int64(st, 1, t->id);
	while (!rc && t->n_attempts < n && sqlite3_step(st) == SQLITE_ROW) {
		alloc_grow(t->attempts, t->n_attempts, cap);
		t->attempts[t->n_attempts] = (struct attempt){ 0 };
		rc = account_take_attempt(&(struct account_row){ st, 0 }, &t->attempts[t->n_attempts++]);
	}
	sqlite3_reset(st);
	return rc || t->n_attempts < n ? -1 : 0;
}

struct task *store_load_account(struct store *s, task_id id, struct spec **owner)
{
	struct account_row r = { s->statements[STORE_GET_ACCOUNT], 0 };
	struct task *t = NULL;
	uint32_t n_attempts = 0;
	sqlite3_bind_int64(r.st, 1, id);
	if (sqlite3_step(r.st) == SQLITE_ROW) {
		account_take_owner(&r, owner);
		t = task_create(id, spec_ref(*owner));
		if (account_take_task(&r, t, &n_attempts) || account_take_attempts(s, t, n_attempts)) {
			task_destroy(t);
			t = NULL;
		}
	}
	sqlite3_reset(r.st);
	return t;
}
