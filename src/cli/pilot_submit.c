/* SPDX-License-Identifier: MIT
 * See pilot_submit.h. Which allocations there are already is Slurm's to say, by the name of the job, which is the queue's
 * mark: there is no second list that could be wrong. Two who ask at the same moment may ask for one too many; that one finds
 * nothing to do, and leaves.
 */
#include "cli/pilot_submit.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/scope.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/pilot_slurm.h"
#include "spool/spool.h"

#include <stdio.h>
#include <string.h>

#define ASK_S 60

struct count { const struct spool *s; size_t waiting; };

static void count_version(void *ctx, task_id id, unsigned version)
{
	struct count *c = ctx;
	struct spool_record r;
	if (spool_read(c->s, id, version, &r, NULL))
		return;
	c->waiting -= r.state != SPOOL_PENDING;
	spool_record_clear(&r);
}

/* Of a job, those that wait: all, but those whose record says otherwise. */
static void count_job(void *ctx, uint32_t job)
{
	struct count *c = ctx;
	scoped_json *o = spool_job(c->s, job, false, NULL);
	const json_t *spec = json_object_get(o, "spec");
	size_t n = json_array_size(json_object_get(spec, "array"));
	if (!o || json_is_true(json_object_get(spec, "hold")))
		return;
	c->waiting += n ? n : 1;
	spool_versions(c->s, job, count_version, c, NULL);
}

struct allocations { long there, waiting; };	/* of our jobs at Slurm; of these, those that have not begun */

static int ask_squeue(const char *name, struct allocations *a, struct error *err)
{
	scoped_buf out = { 0 };
	char *argv[] = { "squeue", "-h", "--me", "-n", (char *)name, "-t", "PD,R,CF,S", "-o", "%t", NULL };
	int code = pilot_slurm_run(argv, NULL, ASK_S, &out);
	if (code < 0)
		return error_set(err, ERR_UNAVAILABLE, "squeue is not to be found, or does not answer: there is no Slurm here; without one, "
				"run "
				 "'rad pilot --queue DIR' on the machines themselves");
	if (code)
		return error_set(err, ERR_UNAVAILABLE, "squeue: %.*s", (int)strcspn(buf_text(&out), "\n"), buf_text(&out));
	for (const char *line = buf_text(&out); *line; line += strcspn(line, "\n"), line += *line == '\n') {
		a->there++;
		a->waiting += !strncmp(line, "PD", 2) || !strncmp(line, "CF", 2);
	}
	return 0;
}

static void add_word(struct buf *script, const char *word)
{
	buf_add_text(script, " '");
	for (; *word; word++)
		buf_add_text(script, *word == '\'' ? "'\\''" : (char[]){ *word, 0 });
	buf_add_text(script, "'");
}

static char *script_of(const struct pilot_submit *s, const char *dir)
{
	scoped_buf script = { 0 };
	scoped_free char *rad = client_find_program("rad");
	buf_add_text(&script, "#!/bin/sh\nexec srun --ntasks-per-node=1");
	add_word(&script, rad ? rad : "rad");
	buf_add_text(&script, " pilot --queue");
	add_word(&script, dir);
	if (s->idle) {
		buf_add_text(&script, " --idle");
		add_word(&script, s->idle);
	}
	buf_add_text(&script, "\n");
	return buf_steal(&script);
}

/* The number of the job; NULL with what sbatch says. */
static char *ask_for_one(const struct pilot_submit *s, const char *dir, const char *name, struct error *err)
{
	char *argv[200] = { "sbatch", "--parsable", "--job-name", (char *)name };
	size_t n = 4;
	scoped_buf out = { 0 };
	scoped_free char *script = script_of(s, dir), *log = alloc_printf("%s/pilots/.slurm-%%j.log", dir);
	argv[n++] = "--output";
	argv[n++] = log;
	if (s->time) {
		argv[n++] = "--time";
		argv[n++] = (char *)s->time;
	}
	for (char **word = s->sbatch; *word && n < COUNT_OF(argv) - 1; word++)
		argv[n++] = *word;
	int code = pilot_slurm_run(argv, script, ASK_S, &out);
	size_t len = strcspn(buf_text(&out), ";\n");
	if (!code && len && strspn(buf_text(&out), "0123456789") == len)
		return alloc_printf("%.*s", (int)len, buf_text(&out));
	error_set(err, ERR_UNAVAILABLE, "sbatch: %.500s", code < 0 ? "is not to be found, or does not answer" : buf_text(&out));
	err->text[strcspn(err->text, "\n")] = 0;
	return NULL;
}

static int ask_for_all(const struct pilot_submit *s, const struct spool *q, long want, size_t waiting, long there,
		struct error *err)
{
	char name[64];
	scoped_json *jobs = json_array();
	snprintf(name, sizeof name, "rad-pilot-%.8s", spool_mark(q));
	for (long i = 0; i < want; i++) {
		scoped_free char *job = ask_for_one(s, spool_dir(q), name, err);
		if (!job)
			return -1;
		json_array_append_new(jobs, json_string(job));
		if (!s->json)
			printf("Asked Slurm for a pilot: job %s\n", job);
	}
	if (s->json)
		return cli_print_json(json_pack("{si, sI, sI, sO}", "schema", 1, "waiting", (json_int_t)waiting, "allocations",
						(json_int_t)there, "jobs", jobs));
	printf("%zu tasks wait; %ld allocations are there or asked for\n", waiting, there + want);
	return 0;
}

int pilot_submit_once(const struct pilot_submit *s, struct error *err)
{
	char name[64];
	struct spool *q = spool_open(s->queue, false, err);
	struct count c = { q, 0 };
	int rc = -1;
	if (!q)
		return -1;
	snprintf(name, sizeof name, "rad-pilot-%.8s", spool_mark(q));
	struct allocations a = { 0 };
	if (!spool_live(q, count_job, &c, err) && !ask_squeue(name, &a, err)) {
		/* Those that have not begun are for these tasks; those that run are busy, or would have taken them. */
		long want = ((long)c.waiting + (long)s->each - 1) / (long)s->each - a.waiting, room = (long)s->most - a.there;
		want = want < room ? want : room;
		rc = ask_for_all(s, q, want > 0 ? want : 0, c.waiting, a.there, err);
	}
	spool_close(q);
	return rc;
}
