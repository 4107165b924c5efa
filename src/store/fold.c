/* SPDX-License-Identifier: MIT
 * What ended long ago, made small, and later left out: see store_fold. It is done by pieces, in the transaction of a turn like
 * everything else, and walks by the time of the end, through the index that reports use. Its place is kept by the caller and
 * begins anew with every radd: what is folded already is passed over by one look at its job.
 *
 * What folding leaves is what accounts are made of: who, the command, placements, ends, times. A spec keeps its shape, so that
 * what reads one needs no second way.
 */
#include "store/store_internal.h"

/* Whether all of the job has ended before that time; elements end one by one, and share the spec. */
static int fold_is_due(struct store *s, uint32_t job, int64_t before_ms, bool *due, struct error *err)
{
	scoped_statement *st = NULL;
	int rc = sqlite3_prepare_v2(s->db, "SELECT 1 FROM tasks WHERE task >= ?1 AND task < ?2 AND (live = 1 OR end_ms >= ?3)", -1,
				    &st, NULL);
	if (rc)
		return store_fail(s, rc, err);
	sqlite3_bind_int64(st, 1, (int64_t)job << TASK_INDEX_BITS);
	sqlite3_bind_int64(st, 2, ((int64_t)job + 1) << TASK_INDEX_BITS);
	sqlite3_bind_int64(st, 3, before_ms);
	rc = sqlite3_step(st);
	*due = rc == SQLITE_DONE;
	return rc == SQLITE_DONE || rc == SQLITE_ROW ? 0 : store_fail(s, rc, err);
}

/* Elements of an array mostly follow each other, and each would have all of them looked at. */
static int fold_ask_job(struct store *s, struct store_folding *f, uint32_t job, struct error *err)
{
	if (f->asked_job != job && fold_is_due(s, job, f->before_ms, &f->job_due, err))
		return -1;
	f->asked_job = job;
	return 0;
}

bool store_is_folded(struct store *s, uint32_t job)
{
	sqlite3_stmt *st = s->statements[STORE_IS_FOLDED];
	sqlite3_bind_int64(st, 1, job);
	bool folded = sqlite3_step(st) == SQLITE_ROW && sqlite3_column_int64(st, 0);
	sqlite3_reset(st);
	return folded;
}

/* Of the newest job the number stays, and nothing else. */
static int forget_task(struct store *s, task_id id, struct error *err)
{
	int64_t job = TASK_JOB(id), from = job << TASK_INDEX_BITS, to = (job + 1) << TASK_INDEX_BITS;
	store_forget_request(s, TASK_JOB(id));
	return store_change(s, err, STORE_FORGET_EVENTS, "i", (int64_t)id) ||
	       store_change(s, err, STORE_FORGET_TASK, "i", (int64_t)id) || store_drop_account(s, id, err) ||
	       store_change(s, err, STORE_FORGET_JOB, "iii", job, from, to) ||
	       store_change(s, err, STORE_FORGET_LAST_JOB, "iii", job, from, to) ? -1 : 0;
}

/* An array goes as a whole: what is left of it would look like all of it to who depends on it. */
static int purge_task(struct store *s, struct store_folding *f, task_id id, struct error *err)
{
	bool named = f->named && f->named(f->ctx, id);
	if (fold_ask_job(s, f, TASK_JOB(id), err))
		return -1;
	bool due = f->job_due && !named;
	f->tasks += due;
	f->kept += !due;
	return due && !f->dry_run ? forget_task(s, id, err) : 0;
}

static int fold_task(struct store *s, struct store_folding *f, task_id id, struct error *err)
{
	uint32_t job = TASK_JOB(id);
	if (f->purge)
		return purge_task(s, f, id, err);
	bool folded = store_is_folded(s, job);
	/* What is of use to somebody is not forgotten: it is folded first, and stays while one waits for it. */
	if (f->forget)
		return !folded || (f->named && f->named(f->ctx, id)) ? 0 : forget_task(s, id, err);
	if (folded)
		return 0;
	if (fold_ask_job(s, f, job, err))
		return -1;
	if (!f->job_due)
		return 0;
	store_forget_request(s, job);
	return store_change(s, err, STORE_FOLD_EVENTS, "ii", (int64_t)job << TASK_INDEX_BITS, ((int64_t)job + 1) << TASK_INDEX_BITS) ||
	       store_change(s, err, STORE_FOLD_JOB, "i", (int64_t)job) ? -1 : 0;
}

int store_fold(struct store *s, struct store_folding *f, unsigned most, struct error *err)
{
	scoped_statement *st = NULL;
	struct { task_id id; int64_t end_ms; } found[64];
	unsigned n = 0;
	int64_t uid = f->one_user ? (int64_t)f->uid : -1;
	int rc = sqlite3_prepare_v2(s->db, STORE_ENDED_OF(uid, "end_ms < ?3 AND (end_ms, task) > (?4, ?5)"), -1, &st, NULL);
	if (rc)
		return store_fail(s, rc, err);
	f->asked_job = 0;
	most = most < sizeof found / sizeof *found ? most : sizeof found / sizeof *found;
	sqlite3_bind_int64(st, 1, uid);
	sqlite3_bind_int64(st, 2, most);
	sqlite3_bind_int64(st, 3, f->before_ms);
	sqlite3_bind_int64(st, 4, f->at_ms);
	sqlite3_bind_int64(st, 5, f->at);
	for (; n < most && (rc = sqlite3_step(st)) == SQLITE_ROW; n++) {
		found[n].id = sqlite3_column_int64(st, 0);
		found[n].end_ms = sqlite3_column_int64(st, 1);
	}
	if (rc != SQLITE_ROW && rc != SQLITE_DONE)
		return store_fail(s, rc, err);
	sqlite3_reset(st);
	for (unsigned i = 0; i < n; i++) {
		if (fold_task(s, f, found[i].id, err))
			return -1;
		f->at = found[i].id;
		f->at_ms = found[i].end_ms;
	}
	return n < most;
}

int64_t store_kept_from(struct store *s, size_t most)
{
	scoped_statement *st = NULL;
	if (sqlite3_prepare_v2(s->db, "SELECT end_ms FROM tasks WHERE live = 0 ORDER BY end_ms DESC LIMIT 1 OFFSET ?1", -1, &st, NULL))
		return 0;
	sqlite3_bind_int64(st, 1, (int64_t)most - 1);
	return sqlite3_step(st) == SQLITE_ROW ? sqlite3_column_int64(st, 0) : 0;
}
