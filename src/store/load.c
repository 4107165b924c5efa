/* SPDX-License-Identifier: MIT
 * Reading: a task is made again by feeding its log to task_apply. Damage is kept to the task it is in: such a task is
 * handed over with the reason, and every other one loads.
 *
 * Ids are collected before the first task is handed over, so the caller may append and commit while it gets them.
 *
 * Two kinds of failure are kept apart everywhere: `broken` is one task's (its JSON, its log, a damaged page that only it
 * lies on), and the load goes on; `err` is the store's (the disk, a lock), and the load ends. Taking the first for the
 * second would keep a daemon from starting because of one bad record; the other way round would drop tasks because of a bad
 * cable.
 */
#include "store/store_internal.h"

#include "base/alloc.h"
#include "base/json.h"
#include "base/scope.h"

#include <math.h>
#include <string.h>

static const struct { enum store_statement job, events; } load_by[] = {
	[STORE_SUMS] = { STORE_GET_OWNER, STORE_GET_SUMS }, [STORE_ENDED] = { STORE_GET_SPEC, STORE_GET_ENDED },
	[STORE_ALL] = { STORE_GET_JOB, STORE_GET_EVENTS },
};

struct loader {
	struct store *s;
	enum store_depth depth;
	bool brief;		/* by rows where there are such */
	struct spec *owner;	/* of the row that was read last */
	struct store_request r;
};

static const char *load_column(sqlite3_stmt *st, int i)
{
	const char *text = (const char *)sqlite3_column_text(st, i);
	return text ? text : "";
}

/* Corrupt pages are the task's misfortune, any other failure is everybody's. */
static int load_damaged(struct store *s, int rc, struct error *broken, struct error *err)
{
	if ((rc & 0xff) != SQLITE_CORRUPT)
		return store_fail(s, rc, err);
	store_fail(s, rc, broken);
	return 0;
}

static struct spec *spec_of_row(sqlite3_stmt *st, enum store_depth depth, struct error *err)
{
	bool with_environ = depth == STORE_ALL;
	json_error_t why;
	if (depth == STORE_SUMS) {
		struct spec *brief = spec_create();
		brief->gpus = 0;	/* it may have been placed without any */
		return brief;
	}
	scoped_json *obj = json_loads(load_column(st, 3), 0, &why);
	scoped_json *environ_obj = obj && with_environ ? json_loads(load_column(st, 4), 0, &why) : NULL;
	if (!obj || (with_environ && !environ_obj)) {
		error_set(err, ERR_CORRUPT, "its stored request is not JSON: %s", why.text);
		return NULL;
	}
	struct spec *spec = spec_from_json(obj, environ_obj, err);
	if (!spec)
		error_wrap(err, "its stored request");
	return spec;
}

/* Makes l->r.spec the request of that job; a placeholder with the reason in l->r.broken if it cannot be read. */
static int load_spec(struct loader *l, uint32_t job, enum store_depth depth, struct error *err)
{
	if (l->r.spec && l->r.job == job && l->r.depth >= depth)
		return 0;
	l->r.depth = depth;
	spec_unref(l->r.spec);
	l->r.spec = NULL;
	l->r.job = job;
	l->r.broken = ERROR_INIT;
	sqlite3_stmt *st = l->s->statements[load_by[depth].job];
	sqlite3_bind_int64(st, 1, job);
	int rc = sqlite3_step(st);
	if (rc == SQLITE_ROW)
		l->r.spec = spec_of_row(st, depth, &l->r.broken);
	else if (rc == SQLITE_DONE)
		error_set(&l->r.broken, ERR_CORRUPT, "its stored request is missing");
	else if (load_damaged(l->s, rc, &l->r.broken, err)) {
		sqlite3_reset(st);
		return -1;
	}
	if (!l->r.spec)
		l->r.spec = spec_create();
	if (rc == SQLITE_ROW) {
		l->r.spec->uid = (uid_t)sqlite3_column_int64(st, 0);
		l->r.spec->gid = (gid_t)sqlite3_column_int64(st, 1);
		free(l->r.spec->user);
		l->r.spec->user = alloc_string_or_null((const char *)sqlite3_column_text(st, 2));
	}
	sqlite3_reset(st);
	return 0;
}

static int kind_of_word(const char *word, enum event_kind *kind, struct error *err)
{
	for (int k = 0; k < EVENT_KIND_COUNT; k++)
		if (!strcmp(word, event_kind_name((enum event_kind)k))) {
			*kind = (enum event_kind)k;
			return 0;
		}
	return error_set(err, ERR_CORRUPT, "unknown event '%.40s'", word);
}

/* Nearly all the time of reading a history goes into JSON, and tasks that are much alike, as the elements of an array, say the
 * same of their estimates and places: that is read once. Borrowed until the next one. */
static const json_t *load_body(struct store *s, enum event_kind kind, const char *text, struct error *err)
{
	struct store_body *last = &s->bodies[kind];
	json_error_t why;
	if (last->text && !strcmp(last->text, text))
		return last->value;
	json_decref(last->value);
	free(last->text);
	*last = (struct store_body){ .value = json_loads(text, 0, &why) };
	if (!last->value)
		error_set(err, ERR_CORRUPT, "is not JSON: %s", why.text);
	else
		last->text = alloc_string(text);
	return last->value;
}

/* The event in columns t_ms, kind, body. Free it with event_clear. */
static int event_of_row(struct store *s, sqlite3_stmt *st, task_id id, struct event *ev, struct error *err)
{
	*ev = (struct event){ .task = id, .t_ms = sqlite3_column_int64(st, 0) };
	if (kind_of_word(load_column(st, 1), &ev->kind, err))
		return -1;
	const json_t *body = load_body(s, ev->kind, load_column(st, 2), err);
	return body ? event_from_json(ev->kind, body, ev, err) : -1;
}

static int apply_row(struct store *s, sqlite3_stmt *st, struct task *t, struct error *broken)
{
	struct event ev;
	int rc = event_of_row(s, st, t->id, &ev, broken);
	if (!rc) {
		rc = task_apply(t, &ev, broken);
		event_clear(&ev);
	}
	return rc ? error_wrap(broken, "event %u of its log", t->n_events + 1) : 0;
}

/* What is placed first was neither held nor waited for others or its time. Of anything else the request says in which state the
 * log begins, so that sums hang on it, too. */
static bool lacks_request(const struct loader *l, const struct task *t, sqlite3_stmt *st)
{
	return l->r.depth == STORE_SUMS && t->n_events == 1 && strcmp(load_column(st, 1), event_kind_name(EV_PLACED)) != 0;
}

/* Stops at the first event that does not fit: what came after it assumed it. 1: the request is to be read first. */
static int apply_log(struct loader *l, struct task *t, struct error *broken, struct error *err)
{
	struct store *s = l->s;
	sqlite3_stmt *st = s->statements[load_by[l->depth].events];
	sqlite3_bind_int64(st, 1, t->id);
	int rc, failed = 0;
	unsigned seen = 0;
	for (; (rc = sqlite3_step(st)) == SQLITE_ROW && !failed; seen++) {
		if (lacks_request(l, t, st)) {
			sqlite3_reset(st);
			return 1;
		}
		failed = apply_row(s, st, t, broken);
	}
	int hard = failed || rc == SQLITE_DONE ? 0 : load_damaged(s, rc, broken, err);
	if (!failed && rc == SQLITE_DONE && !seen)
		error_set(broken, ERR_CORRUPT, "its log is empty");
	sqlite3_reset(st);
	return hard;
}

/* The task as far as its log goes; broken->code says whether it goes to the end. NULL only when the store cannot be read. */
static struct task *load_replay(struct loader *l, task_id id, struct error *broken, struct error *err)
{
	enum store_depth depth = l->depth;
	for (;; depth = STORE_ENDED) {
		*broken = ERROR_INIT;
		if (load_spec(l, TASK_JOB(id), depth, err))
			return NULL;
		struct task *t = task_create(id, spec_ref(l->r.spec));
		*broken = l->r.broken;
		int rc = broken->code ? 0 : apply_log(l, t, broken, err);
		if (!rc)
			return t;
		task_destroy(t);
		if (rc < 0)
			return NULL;
	}
}

/* Tasks that a reader reads in one transaction. Each statement by itself locks the file, looks whether it was changed, and
 * unlocks it, which takes half as long as reading; one transaction for all would hold back checkpoints meanwhile. */
#define READ_AT_ONCE 256

struct load_ids { task_id *ids; size_t n, cap; };

static int load_collect(struct store *s, sqlite3_stmt *st, struct load_ids *out, struct error *err)
{
	int rc;
	while ((rc = sqlite3_step(st)) == SQLITE_ROW) {
		alloc_grow(out->ids, out->n, out->cap);
		out->ids[out->n++] = sqlite3_column_int64(st, 0);
	}
	return rc == SQLITE_DONE ? 0 : store_fail(s, rc, err);
}

static int load_end_snapshot(struct store *s, struct error *err)
{
	return sqlite3_get_autocommit(s->db) ? 0 : store_exec(s, "COMMIT", err);
}

static int load_next_snapshot(struct store *s, struct error *err)
{
	return load_end_snapshot(s, err) || store_exec(s, "BEGIN", err) ? -1 : 0;
}

static struct task *load_any(struct loader *l, task_id id, struct error *broken, struct error *err)
{
	struct task *t = l->brief ? store_load_account(l->s, id, &l->owner) : NULL;
	*broken = ERROR_INIT;
	return t ? t : load_replay(l, id, broken, err);
}

/* Reads the tasks whose ids the statement gives. The elements of an array follow each other, so its spec is read once. */
static int replay_all(struct loader *l, sqlite3_stmt *st, store_each each, void *ctx, struct error *err)
{
	struct load_ids ids = { 0 };
	bool reader = sqlite3_db_readonly(l->s->db, "main") == 1;
	int rc = load_collect(l->s, st, &ids, err);
	for (size_t i = 0; i < ids.n && !rc; i++) {
		struct error broken;
		rc = reader && i % READ_AT_ONCE == 0 ? load_next_snapshot(l->s, err) : 0;
		struct task *t = rc ? NULL : load_any(l, ids.ids[i], &broken, err);
		if (!t)
			rc = -1;
		else if (each(ctx, t, broken.code ? broken.text : NULL))
			break;
	}
	spec_unref(l->owner);
	if (reader && load_end_snapshot(l->s, rc ? NULL : err))
		rc = -1;
	spec_unref(l->r.spec);
	free(ids.ids);
	return rc;
}

int store_load_live(struct store *s, store_each each, void *ctx, struct error *err)
{
	scoped_statement *st = NULL;
	int rc = sqlite3_prepare_v2(s->db, "SELECT task FROM tasks WHERE live = 1 ORDER BY task", -1, &st, NULL);
	if (rc)
		return store_fail(s, rc, err);
	struct loader l = { .s = s, .depth = STORE_ALL };
	return replay_all(&l, st, each, ctx, err);
}

int store_load_finished(struct store *s, const struct store_span *span, store_each each, void *ctx, struct error *err)
{
	scoped_statement *st = NULL;
	int rc = sqlite3_prepare_v2(s->db, STORE_ENDED_OF(span->uid, STORE_IN_SPAN("?3", "?4", "?5", "?6")), -1, &st, NULL);
	if (rc)
		return store_fail(s, rc, err);
	sqlite3_bind_int64(st, 1, span->uid);
	sqlite3_bind_int64(st, 2, -1);	/* as many as there are */
	sqlite3_bind_int64(st, 3, span->from_ms);
	sqlite3_bind_int64(st, 4, span->from);
	sqlite3_bind_int64(st, 5, span->to_ms);
	sqlite3_bind_int64(st, 6, span->to);
	struct loader l = { .s = s, .depth = span->sums ? STORE_SUMS : STORE_ENDED, .brief = span->sums || span->brief };
	return replay_all(&l, st, each, ctx, err);
}

/* What had not been placed by then is no neighbour: of what waits, or waited long, only the log's index is looked at. */
int store_load_beside(struct store *s, const struct store_span *finished, int64_t on_from_ms, int64_t on_to_ms, store_each each,
		      void *ctx, struct error *err)
{
	scoped_statement *st = NULL;
	int rc = sqlite3_prepare_v2(s->db, "SELECT task FROM tasks WHERE live = 0 AND end_ms >= ?4 AND submit_ms < ?5"
				    " AND NOT (" STORE_IN_SPAN("?1", "?6", "?2", "?7") " AND (?3 = -1 OR uid = ?3))"
				    " AND " STORE_PLACED_BEFORE("?5")
				    " UNION ALL SELECT task FROM tasks WHERE live = 1 AND submit_ms < ?5"
				    " AND " STORE_PLACED_BEFORE("?5"), -1, &st, NULL);
	if (rc)
		return store_fail(s, rc, err);
	sqlite3_bind_int64(st, 1, finished->from_ms);
	sqlite3_bind_int64(st, 2, finished->to_ms);
	sqlite3_bind_int64(st, 3, finished->uid);
	sqlite3_bind_int64(st, 4, on_from_ms);
	sqlite3_bind_int64(st, 5, on_to_ms);
	sqlite3_bind_int64(st, 6, finished->from);
	sqlite3_bind_int64(st, 7, finished->to);
	struct loader l = { .s = s, .brief = true };
	return replay_all(&l, st, each, ctx, err);
}

/* An id that never was is the caller's mistake; a task whose log is damaged must not look like one. What cannot be read here,
 * replay will say. */
static bool load_known(struct store *s, task_id id)
{
	sqlite3_stmt *st = s->statements[STORE_GET_KNOWN];
	sqlite3_bind_int64(st, 1, id);
	bool known = sqlite3_step(st) != SQLITE_DONE;
	sqlite3_reset(st);
	return known;
}

/* Somebody who asks for the elements of an array one by one has its spec read once (`last`), not 10,000 times. */
static struct task *load_one(struct store *s, task_id id, enum store_depth depth, struct error *err)
{
	char name[TASK_ID_TEXT];
	task_id_text(id, name);
	if (!load_known(s, id)) {
		error_set(err, ERR_NOT_FOUND, "task %s: there is none of that id", name);
		return NULL;
	}
	struct loader l = { .s = s, .depth = depth, .r = s->last };
	struct error broken;
	struct task *t = load_replay(&l, id, &broken, err);
	s->last = l.r;
	if (!t || !broken.code)
		return t;
	task_destroy(t);
	if (err)
		*err = broken;
	error_wrap(err, "task %s", name);
	return NULL;
}

struct task *store_load_task(struct store *s, task_id id, struct error *err)
{
	return load_one(s, id, STORE_ALL, err);
}

struct task *store_load_ended(struct store *s, task_id id, struct error *err)
{
	return load_one(s, id, STORE_ENDED, err);
}

int store_states(struct store *s, task_id id, int (*each)(void *ctx, task_id id, enum task_state state), void *ctx,
		 struct error *err)
{
	char name[TASK_ID_TEXT];
	sqlite3_stmt *st = s->statements[STORE_GET_STATES];
	int rc, result = 0;
	sqlite3_bind_int64(st, 1, id);
	sqlite3_bind_int64(st, 2, TASK_INDEX(id) < 0 ? TASK_ID((int64_t)TASK_JOB(id) + 1, -1) : id + 1);
	while ((rc = sqlite3_step(st)) == SQLITE_ROW) {
		enum task_state state;
		if (task_state_parse(load_column(st, 1), &state))
			result = error_set(err, ERR_CORRUPT, "%s: task %s: unknown state '%.40s'", s->path, task_id_text(id, name),
					   load_column(st, 1));
		if (result || each(ctx, sqlite3_column_int64(st, 0), state))
			break;
	}
	if (rc != SQLITE_ROW && rc != SQLITE_DONE)
		result = store_fail(s, rc, err);
	sqlite3_reset(st);
	return result;
}

bool store_has_more_events(struct store *s, task_id id, unsigned most)
{
	scoped_statement *st = NULL;
	if (sqlite3_prepare_v2(s->db, "SELECT 1 FROM events WHERE task = ?1 LIMIT 1 OFFSET ?2", -1, &st, NULL))
		return false;	/* reading them will say why */
	sqlite3_bind_int64(st, 1, id);
	sqlite3_bind_int64(st, 2, most);
	return sqlite3_step(st) == SQLITE_ROW;
}

int store_load_events(struct store *s, task_id id, int (*each)(void *ctx, const struct event *ev), void *ctx, struct error *err)
{
	scoped_statement *st = NULL;
	int rc = sqlite3_prepare_v2(s->db, "SELECT t_ms, kind, body FROM events WHERE task = ?1 ORDER BY seq", -1, &st, NULL);
	if (rc)
		return store_fail(s, rc, err);
	sqlite3_bind_int64(st, 1, id);
	int stop = 0;
	for (unsigned n = 1; !stop && (rc = sqlite3_step(st)) == SQLITE_ROW; n++) {
		char name[TASK_ID_TEXT];
		struct event ev;
		if (event_of_row(s, st, id, &ev, err))
			return error_wrap(err, "task %s: event %u of its log", task_id_text(id, name), n);
		stop = each(ctx, &ev);
		event_clear(&ev);
	}
	return stop || rc == SQLITE_DONE ? 0 : store_fail(s, rc, err);
}

static double real_or_nan(sqlite3_stmt *st, int i)
{
	return sqlite3_column_type(st, i) == SQLITE_NULL ? NAN : sqlite3_column_double(st, i);
}

/* What cannot be read is not known. */
static struct load_belief load_of_column(sqlite3_stmt *st, int i)
{
	struct load_belief b = load_unknown();
	scoped_json *v = sqlite3_column_type(st, i) == SQLITE_TEXT ? json_loads(load_column(st, i), 0, NULL) : NULL;
	return v && !load_from_json(v, &b, NULL) ? b : load_unknown();
}

static struct pace pace_of_column(sqlite3_stmt *st, int i)
{
	struct pace p = { .ran_s = 0 };
	scoped_json *v = sqlite3_column_type(st, i) == SQLITE_TEXT ? json_loads(load_column(st, i), 0, NULL) : NULL;
	return v && !pace_from_json(v, &p, NULL) ? p : (struct pace){ .ran_s = 0 };
}

/* A verdict of a later version teaches as one that is not known: its peak is a lower bound. */
static struct outcome outcome_of_row(sqlite3_stmt *st)
{
	struct outcome o = {
		.told_ms = sqlite3_column_int64(st, 0), .signature = load_column(st, 1), .gpu_name = load_column(st, 2),
		.estimator = load_column(st, 3), .comfort_mib = (uint64_t)sqlite3_column_int64(st, 5),
		.claim_mib = (uint64_t)sqlite3_column_int64(st, 6), .retry_mib = (uint64_t)sqlite3_column_int64(st, 8),
		.fenced = sqlite3_column_int(st, 9), .host_pace = real_or_nan(st, 19),
		.cores = real_or_nan(st, 20),
		.seen = { .peak_mib = (uint64_t)sqlite3_column_int64(st, 7), .warm = sqlite3_column_int(st, 10),
			  .alone_s = real_or_nan(st, 11), .alone_gract = real_or_nan(st, 12), .alone_smact = real_or_nan(st, 13),
			  .work_s = real_or_nan(st, 14), .alone_dram = real_or_nan(st, 15), .alone_watts = real_or_nan(st, 16),
			  .inferred = load_of_column(st, 17), .pace = pace_of_column(st, 18), .mean_smact = NAN, .energy_j = NAN } };
	if (verdict_parse(load_column(st, 4), &o.verdict))
		o.verdict = VERDICT_NONE;
	return o;
}

/* By `seq`, the order in which they were told: history is made again by the same calls, so its table is the same. Rows are
 * counted, not numbers: of a storm of tasks most rows were trimmed, and those before it are among the newest still. */
int store_load_outcomes(struct store *s, int64_t from_ms, unsigned most, void (*each)(void *ctx, const struct outcome *o),
			void *ctx, struct error *err)
{
	scoped_statement *st = NULL;
	int rc = sqlite3_prepare_v2(s->db, "SELECT told_ms, signature, gpu, estimator, verdict, comfort_mib, claim_mib, peak_mib,"
				    " retry_mib, fenced, warm, alone_s, alone_gract, alone_smact, work_s, alone_dram, alone_watts,"
				    " inferred, pace, host_pace, cores FROM outcomes"
				    " WHERE seq > coalesce((SELECT seq FROM outcomes ORDER BY seq DESC LIMIT 1 OFFSET ?1), 0) AND told_ms >= ?2"
				    " ORDER BY seq", -1, &st, NULL);
	if (rc)
		return store_fail(s, rc, err);
	sqlite3_bind_int64(st, 1, most);
	sqlite3_bind_int64(st, 2, from_ms);
	while ((rc = sqlite3_step(st)) == SQLITE_ROW) {
		struct outcome o = outcome_of_row(st);
		each(ctx, &o);
	}
	return rc == SQLITE_DONE ? 0 : store_fail(s, rc, err);
}

struct rebuild { struct store *s; struct error *err; int rc; };

/* A task whose log is broken counts as live, so that every start tells of it. */
static int index_task(void *ctx, struct task *t, const char *broken)
{
	struct rebuild *to = ctx;
	to->rc = store_put_task(to->s, t, broken || !task_state_terminal(t->state), to->err);
	task_destroy(t);
	return to->rc;
}

int store_rebuild_index(struct store *s, struct error *err)
{
	scoped_statement *st = NULL;
	int rc = sqlite3_prepare_v2(s->db, "SELECT DISTINCT task FROM events ORDER BY task", -1, &st, NULL);
	if (rc)
		return store_fail(s, rc, err);
	struct loader l = { .s = s, .depth = STORE_ENDED };
	struct rebuild to = { s, err, 0 };
	rc = replay_all(&l, st, index_task, &to, err);
	return rc ? rc : to.rc;
}
