/* SPDX-License-Identifier: MIT
 * What clients may ask: one function per operation, one row each in `operations` (doc/protocol.md describes them). Every
 * operation checks who asks; what it changes goes through the core and is answered after the commit.
 */
#include "daemon/server.h"

#include "base/alloc.h"
#include "base/json.h"
#include "base/scope.h"
#include "daemon/daemon.h"
#include "daemon/names.h"
#include "daemon/recording.h"
#include "daemon/sampling.h"
#include "map/map.h"
#include "submit/validate.h"
#include "submit/wire.h"

#include <stdlib.h>
#include <string.h>

#define MAX_IDS 10000
#define MAX_WAIT_TASKS 100000	/* that the ids of one wait may stand for */

/* Reading requests ----------------------------------------------------------------------------------------------------- */

static int read_id(const struct request *r, task_id *id, struct error *err)
{
	const char *text = json_string_value(json_object_get(r->json, "id"));
	return text ? task_id_parse(text, id, err) : error_set(err, ERR_INVALID, "'id' must be a task id as text");
}

static int need_owner(const struct request *r, const struct task *t, struct error *err)
{
	char id[TASK_ID_TEXT];
	if (request_is_admin(r) || t->spec->uid == r->uid)
		return 0;
	return error_set(err, ERR_DENIED, "task %s: belongs to %s; only they and the administrator may do that",
			 task_id_text(t->id, id), t->spec->user);
}

static int need_admin(const struct request *r, const char *what, struct error *err)
{
	if (request_is_admin(r))
		return 0;
	return error_set(err, ERR_DENIED, "%s is for the administrator (root, or the user that radd runs as)", what);
}

/* Submitting ----------------------------------------------------------------------------------------------------------- */

static int check_room(const struct daemon *d, struct error *err)
{
	if (daemon_has_room(d))
		return 0;
	return error_set(err, ERR_UNAVAILABLE, "the disk of %s is full: nothing can be accepted until there is room", d->state_dir);
}

/* Every task costs everybody a line of `rad queue` and a look at each placement. */
static int check_user_tasks(const struct request *r, uid_t uid, size_t more, struct error *err)
{
	size_t max = r->d->config.user_tasks, has = core_user_tasks(r->d->core, uid);
	if (!max || request_is_admin(r) || has + more <= max)
		return 0;
	return error_set(err, ERR_UNAVAILABLE, "%zu more tasks: you have %zu unfinished ones, and a user may have %zu at a time "
			 "(user_tasks in rad.conf): wait for some to end, or cancel some", more, has, max);
}

/* Who submits, by the user database. Whom it does not know owns no account here: a uid of somebody's user namespace, with which
 * he would be many users. Returns 1 while it has not answered. */
static int read_name(const struct request *r, const char **name, struct error *err)
{
	enum name_state state = names_of(r->d->names, r->uid, name);
	if (state == NAME_ASKED)
		return 1;
	if (state == NAME_KNOWN || r->uid == geteuid())
		return 0;
	if (state == NAME_NO_ACCOUNT)
		return error_set(err, ERR_DENIED, "uid %u has no account on this machine", (unsigned)r->uid);
	return error_set(err, ERR_UNAVAILABLE, "the user database does not say who uid %u is (is its server down?): try again",
			 (unsigned)r->uid);
}

static const struct task *any_task(struct daemon *d, task_id id, struct task **old, struct error *err);

static int no_state(void *ctx, task_id id, enum task_state state)
{
	(void)id;
	(void)state;
	*(bool *)ctx = true;
	return 1;	/* one is enough */
}

/* A mistyped id would make the task wait for what never comes. */
static int check_dependencies(struct daemon *d, const struct spec *s, struct error *err)
{
	char text[TASK_ID_TEXT];
	for (size_t i = 0; i < s->n_deps; i++) {
		task_id id = s->deps[i].task;
		bool there = false;
		if (TASK_INDEX(id) >= 0) {
			struct task *old;
			there = any_task(d, id, &old, NULL);
			task_destroy(old);
		} else if (store_job_states(d->store, TASK_JOB(id), no_state, &there, err)) {
			return -1;
		}
		if (!there)
			return error_set(err, ERR_NOT_FOUND, "dependency %s:%s: there is no such task", dependency_kind_name(s->deps[i].kind),
					 task_id_text(id, text));
	}
	return 0;
}

static struct spec *read_spec(const struct request *r, const char *name, struct error *err)
{
	struct spec *s = spec_from_json(json_object_get(r->json, "spec"), json_object_get(r->json, "environ"), err);
	if (!s)
		return NULL;
	s->uid = r->uid;
	s->gid = r->gid;
	s->user = alloc_string(name);
	if (s->priority > 0 && !request_is_admin(r))
		error_set(err, ERR_DENIED, "only the administrator may give a priority above 0");
	else if (!check_user_tasks(r, r->uid, s->n_array ? s->n_array : 1, err) && !submit_validate(s, err) &&
		 !core_feasible(r->d->core, s, err) && !check_dependencies(r->d, s, err))
		return s;
	spec_unref(s);
	return NULL;
}

static json_t *estimate_of(struct core *core, task_id id)
{
	const struct task *t = core_task(core, id);
	json_t *whole = t ? task_to_json(t, 0) : NULL;
	json_t *estimate = whole ? json_incref(json_object_get(whole, "estimate")) : json_null();
	json_decref(whole);
	return estimate;
}

static json_t *op_submit(const struct request *r, struct error *err)
{
	struct daemon *d = r->d;
	const char *name;
	char text[TASK_ID_TEXT];
	int unknown = check_room(d, err) ? -1 : read_name(r, &name, err);
	if (unknown > 0)
		return REQUEST_AGAIN;
	struct spec *s = unknown ? NULL : read_spec(r, name, err);
	if (!s)
		return NULL;
	if (json_is_true(json_object_get(r->json, "dry_run"))) {
		json_t *preview = core_preview_json(d->core, s, daemon_now());
		spec_unref(s);
		return preview;
	}
	uint32_t job = store_next_job(d->store);
	task_id first = TASK_ID(job, s->n_array ? (int32_t)s->array[0] : -1);
	scoped_free char *log = spec_expand_path(s, s->output ? s->output : "", first);
	struct now now = daemon_now();
	if (store_add_job(d->store, job, s, now.wall_ms, err)) {
		spec_unref(s);
		return NULL;
	}
	size_t n = core_submit(d->core, job, s, now);
	return json_pack("{si, ss, sI, so, so}", "schema", 1, "id", task_id_text(TASK_ID(job, -1), text), "tasks", (json_int_t)n,
			 "log_path", json_text_or_null(log), "estimate", estimate_of(d->core, first));
}

/* Looking -------------------------------------------------------------------------------------------------------------- */

struct ids { task_id *list; size_t n, cap; };

static int add_id(void *ctx, task_id id, enum task_state state)
{
	struct ids *ids = ctx;
	(void)state;
	alloc_grow(ids->list, ids->n, ids->cap);
	ids->list[ids->n++] = id;
	return 0;
}

static void list_one(void *ctx, const struct task *t)
{
	add_id(ctx, t->id, t->state);
}

static json_t *op_list(const struct request *r, struct error *err)
{
	struct ids ids = { 0 };
	(void)err;
	core_each_task(r->d->core, list_one, &ids);
	server_tell(r->client, ids.list, ids.n, true);
	return REQUEST_LATER;
}

/* A task, alive or from the store; *old is to be destroyed by the caller. */
static const struct task *any_task(struct daemon *d, task_id id, struct task **old, struct error *err)
{
	const struct task *t = core_task(d->core, id);
	*old = NULL;
	return t ? t : (*old = store_load_task(d->store, id, err));
}

/* The elements of an array job, or the one task. */
static int expand_id(struct daemon *d, task_id id, struct ids *ids, struct error *err)
{
	char text[TASK_ID_TEXT];
	if (TASK_INDEX(id) >= 0)
		return add_id(ids, id, TASK_PENDING);
	if (store_job_states(d->store, TASK_JOB(id), add_id, ids, err))
		return -1;
	return ids->n ? 0 : error_set(err, ERR_NOT_FOUND, "task %s: there is none", task_id_text(id, text));
}

static json_t *op_show(const struct request *r, struct error *err)
{
	struct ids ids = { 0 };
	struct task *old = NULL;
	task_id id;
	if (read_id(r, &id, err) || expand_id(r->d, id, &ids, err) || (ids.n == 1 && !any_task(r->d, ids.list[0], &old, err))) {
		free(ids.list);
		return NULL;
	}
	task_destroy(old);
	server_tell(r->client, ids.list, ids.n, false);
	return REQUEST_LATER;
}

static int event_row(void *ctx, const struct event *ev)
{
	json_array_append_new(ctx, json_pack("{so, ss, so}", "time", json_time_or_null(ev->t_ms), "event",
					     event_kind_name(ev->kind), "data", event_to_json(ev)));
	return 0;
}

static json_t *op_events(const struct request *r, struct error *err)
{
	task_id id;
	json_t *events = json_array();
	if (!read_id(r, &id, err) && !store_load_events(r->d->store, id, event_row, events, err))
		return json_pack("{si, so}", "schema", 1, "events", events);
	json_decref(events);
	return NULL;
}

static json_t *op_why(const struct request *r, struct error *err)
{
	task_id id;
	return read_id(r, &id, err) ? NULL : core_why_json(r->d->core, id, daemon_now(), err);
}

static json_t *op_gpus(const struct request *r, struct error *err)
{
	json_t *reply = core_gpus_json(r->d->core, daemon_now()), *gpu, *process;
	size_t i, k;
	const char *name;
	(void)err;
	json_array_foreach(json_object_get(reply, "gpus"), i, gpu)
		json_array_foreach(json_object_get(gpu, "processes"), k, process) {
			names_of(r->d->names, (uid_t)json_integer_value(json_object_get(process, "uid")), &name);
			json_object_set_new(process, "user", json_string(name));
		}
	return reply;
}

/* Changing ------------------------------------------------------------------------------------------------------------- */

typedef int (*change)(struct core *c, task_id id, uint32_t uid, struct now now, struct error *err);

/* The live tasks that an id stands for: one, or all elements of an array job. */
static int live_ids(const struct request *r, struct ids *ids, struct error *err)
{
	task_id id;
	char text[TASK_ID_TEXT];
	if (read_id(r, &id, err))
		return -1;
	if (TASK_INDEX(id) >= 0)
		return add_id(ids, id, TASK_PENDING);
	ids->n = core_job_tasks(r->d->core, TASK_JOB(id), &ids->list);
	if (ids->n)
		return 0;
	struct ids ended = { 0 };
	struct task *old = store_load_task(r->d->store, id, NULL);
	if (old)
		error_set(err, ERR_CONFLICT, "task %s: has ended already (%s)", task_id_text(id, text), task_state_name(old->state));
	else if (!expand_id(r->d, id, &ended, err))
		error_set(err, ERR_CONFLICT, "task %s: all elements of this array have ended already", task_id_text(id, text));
	task_destroy(old);
	free(ended.list);
	return -1;
}

/* Does it to each; an array's elements that are in another state are passed over, unless none could be changed. */
static json_t *change_all(const struct request *r, change f, struct error *err)
{
	struct ids ids = { 0 };
	size_t done = 0;
	int rc = live_ids(r, &ids, err);
	for (size_t i = 0; !rc && i < ids.n; i++) {
		const struct task *t = core_task(r->d->core, ids.list[i]);
		if (t && need_owner(r, t, err)) {
			rc = -1;
			break;
		}
		done += !f(r->d->core, ids.list[i], r->uid, daemon_now(), err);
	}
	free(ids.list);
	return rc || !done ? NULL : json_pack("{si, sI}", "schema", 1, "changed", (json_int_t)done);
}

static json_t *op_cancel(const struct request *r, struct error *err) { return change_all(r, core_cancel, err); }

static json_t *op_hold(const struct request *r, struct error *err)
{
	return check_room(r->d, err) ? NULL : change_all(r, core_hold, err);
}

static json_t *op_release(const struct request *r, struct error *err)
{
	return check_room(r->d, err) ? NULL : change_all(r, core_release, err);
}

/* A finished task comes back from the store first. */
static json_t *op_requeue(const struct request *r, struct error *err)
{
	task_id id;
	if (check_room(r->d, err) || read_id(r, &id, err))
		return NULL;
	struct task *old = NULL;
	const struct task *t = any_task(r->d, id, &old, err);
	if (!t)
		return NULL;
	if (need_owner(r, t, err) || (old && check_user_tasks(r, t->spec->uid, 1, err))) {
		task_destroy(old);
		return NULL;
	}
	if (old)
		core_restore(r->d->core, old, daemon_now());
	if (core_requeue(r->d->core, id, r->uid, daemon_now(), err))
		return NULL;
	return json_pack("{si, si}", "schema", 1, "changed", 1);
}

static int read_update(const struct request *r, struct event *ev, char **name, struct error *err)
{
	int64_t mem = 0, priority = 0;
	ev->u.updated.set_priority = json_object_get(r->json, "priority");
	ev->u.updated.set_time_limit = json_object_get(r->json, "time_limit_s");
	ev->u.updated.set_gpu_mem = json_object_get(r->json, "gpu_mem_mib");
	ev->u.updated.set_max_slowdown = json_object_get(r->json, "max_slowdown");
	if (json_read_int(r->json, "priority", INT32_MIN, INT32_MAX, &priority, err) ||
	    json_read_int(r->json, "time_limit_s", 0, (int64_t)100 * 366 * 86400, &ev->u.updated.time_limit_s, err) ||
	    json_read_int(r->json, "gpu_mem_mib", 0, 1 << 30, &mem, err) ||
	    json_read_double(r->json, "max_slowdown", &ev->u.updated.max_slowdown, err) ||
	    json_read_text(r->json, "name", 1000, name, err))
		return -1;
	if (!(ev->u.updated.max_slowdown >= 0 && ev->u.updated.max_slowdown <= 1000))
		return error_set(err, ERR_INVALID, "'max_slowdown' must be from 1 to 1000, or 0 for none");
	ev->u.updated.priority = priority;
	ev->u.updated.gpu_mem_mib = (uint64_t)mem;
	ev->u.updated.name = *name;
	if (priority > 0 && !request_is_admin(r))
		return error_set(err, ERR_DENIED, "only the administrator may raise a priority above 0");
	return 0;
}

static json_t *op_update(const struct request *r, struct error *err)
{
	struct ids ids = { 0 };
	struct event ev = { 0 };
	scoped_free char *name = NULL;
	size_t done = 0;
	int rc = check_room(r->d, err) || read_update(r, &ev, &name, err) || live_ids(r, &ids, err) ? -1 : 0;
	for (size_t i = 0; !rc && i < ids.n; i++) {
		const struct task *t = core_task(r->d->core, ids.list[i]);
		struct event one = ev;
		if (t && need_owner(r, t, err))
			rc = -1;
		else
			done += !core_update(r->d->core, ids.list[i], &one, daemon_now(), err);
	}
	free(ids.list);
	return rc || !done ? NULL : json_pack("{si, sI}", "schema", 1, "changed", (json_int_t)done);
}

static json_t *set_drained(const struct request *r, bool drained, struct error *err)
{
	const char *word = json_string_value(json_object_get(r->json, "gpu"));
	const char *uuid = word && !need_admin(r, "draining a GPU", err) ? core_find_gpu(r->d->core, word, err) : NULL;
	if (!word)
		error_set(err, ERR_INVALID, "'gpu' must be an index or a UUID as text");
	if (!uuid)
		return NULL;
	core_drain(r->d->core, uuid, drained);
	scoped_free char *key = alloc_printf("drained:%s", uuid);
	if (store_set_meta(r->d->store, key, drained ? "1" : NULL, err))
		return NULL;
	return json_pack("{si, ss, sb}", "schema", 1, "uuid", uuid, "drained", drained);
}

static json_t *op_drain(const struct request *r, struct error *err) { return set_drained(r, true, err); }
static json_t *op_undrain(const struct request *r, struct error *err) { return set_drained(r, false, err); }

/* Waiting -------------------------------------------------------------------------------------------------------------- */

static int by_number(const void *a, const void *b)
{
	task_id x = *(const task_id *)a, y = *(const task_id *)b;
	return x < y ? -1 : x > y;
}

/* Each id once, however often it was named. Returns how many, 0 with an error. */
static size_t read_ids(const json_t *list, task_id *ids, struct error *err)
{
	size_t n = json_array_size(list), kept = 0;
	for (size_t i = 0; i < n; i++)
		if (task_id_parse(json_string_value(json_array_get(list, i)), &ids[i], err))
			return 0;
	qsort(ids, n, sizeof *ids, by_number);
	for (size_t i = 0; i < n; i++)
		if (!kept || ids[i] != ids[kept - 1])
			ids[kept++] = ids[i];
	return kept;
}

static json_t *op_wait(const struct request *r, struct error *err)
{
	const json_t *list = json_object_get(r->json, "ids");
	const char *until = json_string_value(json_object_get(r->json, "until"));
	size_t n = json_array_size(list), tasks = 0;
	if (!n || n > MAX_IDS) {
		error_set(err, ERR_INVALID, "'ids' must be a list of 1 to %d task ids", MAX_IDS);
		return NULL;
	}
	scoped_free task_id *ids = alloc_zero(n * sizeof *ids);
	n = read_ids(list, ids, err);
	for (size_t i = 0; i < n; i++) {
		struct ids found = { 0 };
		int rc = expand_id(r->d, ids[i], &found, err);
		free(found.list);
		if (rc)
			return NULL;
		if ((tasks += found.n) > MAX_WAIT_TASKS) {
			error_set(err, ERR_INVALID, "these ids stand for more than %d tasks: wait for fewer at a time",
				  MAX_WAIT_TASKS);
			return NULL;
		}
	}
	if (!n)
		return NULL;
	server_wait(r->client, ids, n, until && !strcmp(until, "start"));
	return REQUEST_LATER;
}

int request_wait_reply(struct daemon *d, struct client *c, const task_id *ids, size_t n, struct error *err)
{
	struct ids all = { 0 };
	for (size_t i = 0; i < n; i++)
		if (expand_id(d, ids[i], &all, err)) {
			free(all.list);
			return -1;
		}
	server_tell(c, all.list, all.n, false);
	return 0;
}

/* Accounts ------------------------------------------------------------------------------------------------------------- */

/* The span and the user of a request, for a lookup, which checks them. Nothing long is passed on: it may have to wait. */
static json_t *for_lookup(const struct request *r, const char *op, struct error *err)
{
	static const char *const keys[] = { "from_ms", "to_ms", "uid" };
	json_t *o = json_pack("{ss, ss}", "op", op, "state", r->d->state_dir);
	int64_t value;
	for (size_t i = 0; i < COUNT_OF(keys); i++) {
		if (json_read_int(r->json, keys[i], INT64_MIN, INT64_MAX, &value, err)) {
			json_decref(o);
			return NULL;
		}
		json_object_set(o, keys[i], json_object_get(r->json, keys[i]));
	}
	return o;
}

static json_t *op_acct(const struct request *r, struct error *err)
{
	scoped_json *o = for_lookup(r, "acct", err);
	if (!o)
		return NULL;
	server_read(r->client, json_to_text(o));
	return REQUEST_LATER;
}

static json_t *op_series(const struct request *r, struct error *err)
{
	scoped_json *o = for_lookup(r, "series", err);
	if (!o)
		return NULL;
	json_object_set_new(o, "unstored", recording_unstored(r->d->recording, daemon_now()));
	server_read(r->client, json_to_text(o));
	return REQUEST_LATER;
}

/* About the daemon ----------------------------------------------------------------------------------------------------- */

static json_t *op_status(const struct request *r, struct error *err)
{
	const struct daemon *d = r->d;
	const struct core_config *c = core_get_config(d->core);
	long long age = sampling_age_ms(d->sampling);
	(void)err;
	return json_pack("{si, ss, si, sI, ss, ss, ss, sI, ss, ss, sb, sb, sb, sI, si, so, so, sI, si}", "schema", 1,
			 "version", RAD_VERSION,
		"protocol", WIRE_VERSION, "pid", (json_int_t)getpid(), "devices", d->config.devices, "state_dir", d->state_dir,
		"socket", d->socket_path, "gpus", (json_int_t)core_gpu_count(d->core), "placement", map_rank_name(c->map.rank),
		"share", share_mode_name(c->map.share), "mps_available", daemon_has_mps(d),
		"positional_policy", d->config.positional_policy, "ledger", c->map.ledger,
		"uid", (json_int_t)geteuid(), "sampler_restarts", (int)sampling_restarts(d->sampling),
		"snapshot_age_s", age < 0 ? json_null() : json_round3((double)age / 1000),
		"start_time", json_time_or_null(d->started_ms),
		"running", (json_int_t)core_count(d->core, TASK_RUNNING), "other_gpus", (int)sampling_others(d->sampling));
}

static const struct {
	const char *op;
	json_t *(*run)(const struct request *r, struct error *err);
} operations[] = {
	{ "submit", op_submit }, { "list", op_list }, { "show", op_show }, { "events", op_events }, { "why", op_why },
	{ "gpus", op_gpus }, { "cancel", op_cancel }, { "hold", op_hold }, { "release", op_release }, { "requeue", op_requeue },
	{ "update", op_update }, { "drain", op_drain }, { "undrain", op_undrain }, { "wait", op_wait }, { "acct", op_acct },
	{ "series", op_series }, { "status", op_status },
};

json_t *request_run(const struct request *r, struct error *err)
{
	const char *op = wire_check_request(r->json, err);
	if (!op)
		return NULL;
	for (size_t i = 0; i < COUNT_OF(operations); i++)
		if (!strcmp(op, operations[i].op))
			return operations[i].run(r, err);
	error_set(err, ERR_INVALID, "radd " RAD_VERSION " knows no operation '%.40s'", op);
	return NULL;
}
