/* SPDX-License-Identifier: MIT
 * rad submit --radt: all rows of an experiment file of radT are read and asked about before the first is submitted; where one
 * is refused all the same, those before it are cancelled.
 */
#include "cli/submission.h"

#include "base/alloc.h"
#include "base/json.h"
#include "base/scope.h"
#include "cli/client.h"
#include "cli/member.h"
#include "cli/snapshot.h"
#include "cli/submit_client.h"
#include "cli/submit_radt.h"
#include "submit/options.h"

#include <stdio.h>
#include <string.h>

#define MOST_TOGETHER 1000	/* tasks that one can wait for */
#define EXPERIMENT "MLFLOW_EXPERIMENT_ID"

/* A row, ready to be sent. */
struct radt_job { const struct submit_radt_row *row; struct spec *spec; const char *capture; char id[TASK_ID_TEXT]; };
struct radt_plan { struct submit_radt file; struct radt_job *jobs; struct submit_flags flags; };

static void plan_clear(struct radt_plan *p)
{
	for (size_t i = 0; p->jobs && i < p->file.n; i++)
		spec_unref(p->jobs[i].spec);
	free(p->jobs);
	submit_radt_clear(&p->file);
	submit_flags_clear(&p->flags);
}

/* Nothing is told here of a command line that is wrong: submission_radt reads it again. */
const char *submission_radt_path(const struct cli_call *c)
{
	scoped_free struct args_option *options = options_args();
	const char *path = NULL;
	struct args a;
	for (struct args_option *o = options; o->name; o++)
		if (!strcmp(o->name, "radt"))
			o->value = &path;
	if (c->describe)
		return NULL;
	if (args_read(&a, c->argc, c->argv, options, ARGS_FIRST, NULL) || a.help)
		path = NULL;
	args_clear(&a);
	return path;
}

/* What the command line says to all rows; of two that say the same, it counts, since it comes last. */
static size_t add_given(char **argv, size_t n, const struct args *a)
{
	static const char *const not_theirs[] = { "radt", "parsable", "json", "wait", "dry-run", "test-only" };
	for (size_t i = 0; i < a->n_given; i++) {
		const char *name = a->given[i].option->name, *value = a->given[i].value;
		bool theirs = true;
		for (size_t k = 0; k < COUNT_OF(not_theirs); k++)
			theirs = theirs && strcmp(name, not_theirs[k]);
		if (theirs)
			argv[n++] = value ? alloc_printf("--%s=%s", name, value) : alloc_printf("--%s", name);
	}
	return n;
}

static int make_spec(struct radt_job *job, const struct args *a, struct error *err)
{
	const struct submit_radt_row *row = job->row;
	struct submit_flags flags = { 0 };
	char **argv = alloc_zero((alloc_count(row->options) + a->n_given + alloc_count(row->words) + 3) * sizeof *argv);
	size_t n = 0;
	argv[n++] = alloc_string("submit");
	for (char **w = row->options; w && *w; w++)
		argv[n++] = alloc_string(*w);
	n = add_given(argv, n, a);
	argv[n++] = alloc_string("--");
	for (char **w = row->words; *w; w++)
		argv[n++] = alloc_string(*w);
	const char *had = getenv(EXPERIMENT);
	scoped_free char *before = had ? alloc_string(had) : NULL;
	if (*row->experiment)
		setenv(EXPERIMENT, row->experiment, 1);
	int rc = submit_parse_command((int)n, argv, &job->spec, &flags, err);
	if (before)
		setenv(EXPERIMENT, before, 1);
	else
		unsetenv(EXPERIMENT);
	job->capture = flags.capture;
	submit_flags_clear(&flags);
	while (n)
		free(argv[--n]);
	free(argv);
	return rc;
}

/* That of a later workload begins when all of the one before have ended. */
static int add_dependencies(const struct radt_plan *p, size_t at, struct error *err)
{
	struct spec *s = p->jobs[at].spec;
	const char *group = p->jobs[at].row->group, *before = NULL;
	size_t n = 0;
	for (size_t i = 0; i < at; i++)
		if (strcmp(p->jobs[i].row->group, group))
			before = p->jobs[i].row->group;
	for (size_t i = 0; before && i < at; i++) {
		struct dependency d = { .kind = DEP_AFTERANY };
		if (strcmp(p->jobs[i].row->group, before))
			continue;
		if (++n > MOST_TOGETHER)
			return error_set(err, ERR_INVALID, "workload %s has more than %d rows", before, MOST_TOGETHER);
		task_id_parse(p->jobs[i].id, &d.task, NULL);
		s->deps = alloc_resize(s->deps, s->n_deps + 1, sizeof *s->deps);
		s->deps[s->n_deps++] = d;
	}
	return 0;
}

static int make_specs(struct radt_plan *p, const char *path, const struct args *a, struct error *err)
{
	p->jobs = alloc_zero((p->file.n + 1) * sizeof *p->jobs);
	for (size_t i = 0; i < p->file.n; i++) {
		p->jobs[i].row = &p->file.rows[i];
		if (make_spec(&p->jobs[i], a, err))
			return error_wrap(err, "%s:%zu", path, p->jobs[i].row->line);
	}
	for (size_t i = 0; i < p->file.n; i++) {
		scoped_json *would = submission_queue(p->jobs[i].spec, true, NULL, err);
		if (!would || (p->flags.snapshot && snapshot_take(p->jobs[i].spec, true, err)))
			return error_wrap(err, "%s:%zu", path, p->jobs[i].row->line);
	}
	return 0;
}

static void take_back(const struct radt_plan *p, size_t n)
{
	struct error ignored = ERROR_INIT;
	for (size_t i = 0; i < n; i++)
		json_decref(client_call_id("cancel", p->jobs[i].id, &ignored));
}

static int submit_all(struct radt_plan *p, const char *path, json_t *tasks, struct error *err)
{
	for (size_t i = 0; i < p->file.n; i++) {
		struct radt_job *job = &p->jobs[i];
		bool ready = !add_dependencies(p, i, err) && !(p->flags.snapshot && snapshot_take(job->spec, false, err));
		scoped_json *reply = ready ? submission_queue(job->spec, false, job->capture, err) : NULL;
		if (!reply) {
			take_back(p, i);
			return error_wrap(err, "%s:%zu%s", path, job->row->line, i ? ": those before it were cancelled again" : "");
		}
		snprintf(job->id, sizeof job->id, "%s", member_text(reply, "id"));
		json_array_append_new(tasks, json_pack("{ss, sI, ss, ss, ss}", "id", job->id, "line", (json_int_t)job->row->line,
			"workload", job->row->group, "name", job->spec->name, "log_path", member_text(reply, "log_path")));
	}
	return 0;
}

static void print_all(const json_t *tasks, bool parsable)
{
	size_t i;
	json_t *t;
	json_array_foreach(tasks, i, t) {
		if (parsable)
			puts(member_text(t, "id"));
		else
			printf("Submitted task %s: %s (line %lld, workload %s)\n", member_text(t, "id"), member_text(t, "name"),
			       (long long)member_int(t, "line"), member_text(t, "workload"));
	}
	fflush(stdout);
}

static int finish(struct cli_call *c, json_t *tasks, const struct submit_flags *f)
{
	size_t i;
	json_t *t;
	if (!f->json)
		print_all(tasks, f->parsable);
	if (!f->wait)
		return f->json ? cli_print_json(json_pack("{si, sO}", "schema", 1, "tasks", tasks)) : CLI_DONE;
	scoped_json *ids = json_array();
	json_array_foreach(tasks, i, t)
		json_array_append(ids, json_object_get(t, "id"));
	return submission_wait(c, ids, -1, f->json);
}

static int run(struct cli_call *c, const char *path, const struct args *a, struct radt_plan *p)
{
	struct error err = ERROR_INIT;
	scoped_json *tasks = json_array();
	if (submit_radt_read(&p->file, path, &err) || make_specs(p, path, a, &err))
		return cli_fail(c, &err);
	for (char **note = p->file.notes; note && *note; note++)
		cli_note("%s: %s", path, *note);
	if (p->flags.dry_run && p->flags.json)
		return cli_print_json(json_pack("{si, sb, sI}", "schema", 1, "dry_run", 1, "tasks", (json_int_t)p->file.n));
	if (p->flags.dry_run) {
		printf("%zu tasks would be accepted\n", p->file.n);
		return CLI_DONE;
	}
	if (submit_all(p, path, tasks, &err))
		return cli_fail(c, &err);
	return finish(c, tasks, &p->flags);
}

int submission_radt(struct cli_call *c, const char *path)
{
	scoped_free struct args_option *options = options_args();
	struct radt_plan plan = { .jobs = NULL };
	struct error err = ERROR_INIT;
	struct args a;
	submit_flag_targets(options, &plan.flags);
	int rc = args_read(&a, c->argc, c->argv, options, ARGS_FIRST, &err) ? cli_usage(c, "%s", err.text)
		 : a.n_words ? cli_usage(c, "--radt says what runs: leave out '%.60s'", a.words[0]) : run(c, path, &a, &plan);
	args_clear(&a);
	plan_clear(&plan);
	return rc;
}
