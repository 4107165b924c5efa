/* SPDX-License-Identifier: MIT
 * See track_mlflow.h.
 */
#include "cli/track_mlflow.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/scope.h"
#include "cli/git.h"
#include "cli/member.h"
#include "cli/track_run.h"

#include <stdlib.h>
#include <string.h>

#define MOST 1000		/* metrics in a batch, by MLflow's rule */
#define AHEAD_MS ((int64_t)86400000)	/* how far a clock may have been set back since */
#define FRESH_MS ((int64_t)60000)	/* what a folder holds is what the task runs, for so long after its start */

/* One call whose answer says nothing. */
static int call(struct track *t, const char *path, json_t *body, struct error *err)
{
	json_t *answer = track_http_call(t->http, path, body, err);
	json_decref(answer);
	t->taken += answer != NULL;
	return answer ? 0 : -1;
}

/* What answers, and does not say that, is not to be asked for a run of that name. */
static int no_mlflow(const char *what, struct error *err)
{
	return error_set(err, ERR_UNAVAILABLE, "the server answers without %s: is it an MLflow server?", what);
}

int track_mlflow_experiment(struct track *t, const char *name, struct error *err)
{
	struct error why = ERROR_INIT;
	scoped_free char *escaped = track_http_escape(name);
	scoped_free char *path = alloc_printf("experiments/get-by-name?experiment_name=%s", escaped);
	scoped_json *found = track_http_call(t->http, path, NULL, &why);
	if (!found && why.code != ERR_NOT_FOUND)
		return error_pass(err, &why);
	const json_t *there = json_object_get(found, "experiment");
	if (there && !strcmp(member_text(there, "lifecycle_stage"), "deleted"))
		return error_set(err, ERR_INVALID, "experiment '%.200s' was deleted there: restore it, or name another (--experiment)", name);
	scoped_json *made = found ? NULL : track_http_call(t->http, "experiments/create", json_pack("{ss}", "name", name), &why);
	if (!found && !made && why.code != ERR_CONFLICT)
		return error_pass(err, &why);
	if (!found && !made)	/* another was quicker */
		return error_set(err, ERR_UNAVAILABLE, "%s", why.text);
	const char *id = member_text(there ? there : made, "experiment_id");
	if (!*id)
		return no_mlflow("an experiment_id", err);
	t->experiment = alloc_string(id);
	return 0;
}

/* The last point of ours in a run, as far as can be told: one that lies ahead of us is somebody else's; taken for ours, it
 * would have all others count as sent. */
static int64_t last_point(const json_t *run)
{
	const json_t *metrics = json_object_get(json_object_get(run, "data"), "metrics");
	int64_t last = 0, most = clock_wall_ms() + AHEAD_MS;
	size_t i;
	json_t *m;
	json_array_foreach(metrics, i, m) {
		int64_t ms = member_int(m, "timestamp");
		if (!strncmp(member_text(m, "key"), "system/", 7) && ms > last && ms <= most)
			last = ms;
	}
	return last;
}

/* What the server has of a run: no more than that is taken for sent. */
static int take_over(struct track_entry *e, const json_t *run, struct error *err)
{
	const json_t *info = json_object_get(run, "info");
	int64_t last = last_point(run);
	if (!*member_text(info, "run_id"))
		return no_mlflow("a run_id", err);
	free(e->status);
	e->status = alloc_string(member_text(info, "status"));
	if (!e->run)
		e->run = alloc_string(member_text(info, "run_id"));
	if (last && track_run_after(last) > e->sent_ms)
		e->sent_ms = track_run_after(last);
	e->doubt = false;
	return 0;
}

static int send_params(struct track *t, struct track_entry *e, struct error *err)
{
	return call(t, "runs/log-batch", json_pack("{ss, so}", "run_id", e->run, "params", track_run_params(e->task)), err);
}

static int find_run(struct track *t, struct track_entry *e, json_t **run, struct error *err)
{
	scoped_free char *filter = alloc_printf("tags.`rad.key` = '%s'", e->key);
	scoped_json *found = track_http_call(t->http, "runs/search", json_pack("{s[s], ss, si}", "experiment_ids", t->experiment,
						"filter", filter, "max_results", 1), err);
	*run = json_incref(json_array_get(json_object_get(found, "runs"), 0));
	return found ? 0 : -1;
}

static int make_run(struct track *t, struct track_entry *e, struct error *err)
{
	int64_t start = track_run_span(e->task, 0).from_ms;
	bool fresh = member_state(e->task) == TASK_RUNNING && clock_wall_ms() - start < FRESH_MS;
	scoped_free char *commit = fresh && t->uid == (int64_t)geteuid() ? git_commit(member_text(e->task, "cwd")) : NULL;
	scoped_json *made = track_http_call(t->http, "runs/create", track_run_create(e->task, t->host, t->experiment, commit), err);
	if (!made || take_over(e, json_object_get(made, "run"), err))
		return -1;
	t->runs++;
	return 0;
}

/* Where it is known which run it is, but not what that has. */
static int ask_run(struct track *t, struct track_entry *e, struct error *err)
{
	scoped_free char *path = alloc_printf("runs/get?run_id=%s", e->run);
	scoped_json *got = track_http_call(t->http, path, NULL, err);
	return got ? take_over(e, json_object_get(got, "run"), err) : -1;
}

int track_mlflow_ensure(struct track *t, struct track_entry *e, struct error *err)
{
	if (e->run)
		return e->doubt ? ask_run(t, e, err) : 0;
	json_t *found;
	if (find_run(t, e, &found, err))
		return -1;
	scoped_json *run = found;
	bool whole = json_array_size(json_object_get(json_object_get(run, "data"), "params"));
	if (run ? take_over(e, run, err) : make_run(t, e, err))
		return -1;
	t->taken++;
	if (whole || !send_params(t, e, err))
		return 0;
	free(steal(e->run));	/* looked for again, and its parameters sent then */
	return -1;
}

static int send_sums(struct track *t, const struct track_entry *e, struct error *err)
{
	return call(t, "runs/log-batch", json_pack("{ss, so, so}", "run_id", e->run, "metrics", track_run_sums(e->task), "tags",
						   track_run_tags(e->task)), err);
}

int track_mlflow_tell(struct track *t, struct track_entry *e, struct error *err)
{
	const char *status = track_run_status(e->task);
	bool over = track_run_is_over(e->task);
	if (!strcmp(e->status, status))
		return 0;
	if (over && send_sums(t, e, err))
		return -1;
	json_t *body = json_pack("{ss, ss}", "run_id", e->run, "status", status);
	int64_t end_ms = member_ms(e->task, "end_time", -1);
	if (over && end_ms >= 0)
		json_object_set_new(body, "end_time", json_integer(end_ms));
	if (call(t, "runs/update", body, err))
		return -1;
	free(e->status);
	e->status = alloc_string(status);
	return 0;
}

int track_mlflow_send(struct track *t, struct track_entry *e, const json_t *points, struct error *err)
{
	for (size_t at = 0, n, all = json_array_size(points); at < all; at += n) {
		n = track_run_cut(points, at, MOST);
		json_t *batch = json_array();
		for (size_t i = at; i < at + n; i++)
			json_array_append(batch, json_array_get(points, i));
		struct error why = ERROR_INIT;
		if (call(t, "runs/log-batch", json_pack("{ss, so}", "run_id", e->run, "metrics", batch), &why)) {
			e->doubt = why.code == ERR_UNAVAILABLE;
			return error_pass(err, &why);
		}
		e->sent_ms = track_run_after(member_int(json_array_get(points, at + n - 1), "timestamp"));
		t->points += n;
	}
	return 0;
}
