/* SPDX-License-Identifier: MIT
 * See pilot_submit.h. Which allocations there are already is Slurm's to say, by the name of the job, which is the queue's
 * mark: there is no second list that could be wrong. Two who ask at the same moment may ask for one too many; that one finds
 * nothing to do, and leaves.
 */
#include "cli/pilot_submit.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/scope.h"
#include "base/words.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/pilot_after.h"
#include "cli/pilot_slurm.h"
#include "spool/spool.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

#define ASK_S 60
#define STEP_MS 200
#define MOST_VAIN 5	/* the wait is at most 32 times as long */

/* Those that would be begun now if there were room: neither such as wait for others or for their time, nor more of an array
 * than its limit lets run. */
static size_t count_waiting(const struct pilot_known *k)
{
	size_t at = 0, waiting = 0;
	for (const struct pilot_known_job *j; (j = pilot_known_next(k, &at));) {
		size_t limit = pilot_after_limit(j->spec), claimed = j->sum.claimed, ready = 0;
		for (size_t i = 0; i < j->n; i++)
			ready += j->tasks[i].record.state == SPOOL_PENDING && pilot_after(k, &j->tasks[i], NULL) == PILOT_READY;
		if (limit && ready > limit - (claimed < limit ? claimed : limit))
			ready = limit - (claimed < limit ? claimed : limit);
		waiting += ready;
	}
	return waiting;
}

/* -1: the queue cannot be read. */
static int count_queue(const struct spool *s, size_t *waiting, struct error *err)
{
	struct pilot_known *k = pilot_after_open(s, err);
	if (!k)
		return -1;
	*waiting = count_waiting(k);
	pilot_known_destroy(k);
	return 0;
}

static int ask_squeue(const char *name, struct pilot_slurm_jobs *a, struct error *err)
{
	scoped_buf out = { 0 };
	char *argv[] = { "squeue", "-h", "--me", "-n", (char *)name, "-t", "PD,R,CF,S", "-o", "%t %A", NULL };
	int code = pilot_slurm_run(argv, NULL, ASK_S, &out);
	if (code < 0)
		return error_set(err, ERR_UNAVAILABLE, "squeue is not to be found, or does not answer: there is no Slurm here; without one, "
				 "run 'rad pilot --queue DIR' on the machines themselves");
	if (code)
		return error_set(err, ERR_UNAVAILABLE, "squeue: %.*s", (int)strcspn(buf_text(&out), "\n"), buf_text(&out));
	pilot_slurm_parse_jobs(buf_text(&out), a);
	return 0;
}

static char *script_of(const struct pilot_submit *s, const char *dir)
{
	scoped_buf script = { 0 };
	scoped_free char *rad = client_find_program("rad");
	buf_add_text(&script, "#!/bin/sh\nexec srun --ntasks-per-node=1 ");
	words_add_shell(&script, rad ? rad : "rad");
	buf_add_text(&script, " pilot --queue ");
	words_add_shell(&script, dir);
	if (s->idle) {
		buf_add_text(&script, " --idle ");
		words_add_shell(&script, s->idle);
	}
	buf_add_text(&script, "\n");
	return buf_steal(&script);
}

/* As Slurm reads names of outputs: '%' stands twice for itself, and with a '\' anywhere no '%j' is a number any more. */
static char *log_of(const char *dir, struct error *err)
{
	struct buf log = { 0 };
	if (strchr(dir, '\\')) {
		error_set(err, ERR_INVALID, "%.300s: Slurm cannot write a log there, for the '\\' in its name: give the folder another name",
			  dir);
		return NULL;
	}
	for (; *dir; dir++)
		buf_add_text(&log, *dir == '%' ? "%%" : (char[]){ *dir, 0 });
	buf_add_text(&log, "/pilots/.slurm-%j.log");
	return buf_steal(&log);
}

/* The number of the job; NULL with what sbatch says. */
static char *ask_for_one(const struct pilot_submit *s, const char *dir, const char *name, struct error *err)
{
	size_t n = 0, given = alloc_count(s->sbatch);
	scoped_free char **argv = alloc_zero((given + 9) * sizeof *argv);
	scoped_buf out = { 0 };
	scoped_free char *script = script_of(s, dir), *log = log_of(dir, err);
	if (!log)
		return NULL;
	argv[n++] = "sbatch";
	argv[n++] = "--parsable";
	argv[n++] = "--job-name";
	argv[n++] = (char *)name;
	argv[n++] = "--output";
	argv[n++] = log;
	if (s->time) {
		argv[n++] = "--time";
		argv[n++] = (char *)s->time;
	}
	memcpy(argv + n, s->sbatch, given * sizeof *argv);
	int code = pilot_slurm_run(argv, script, ASK_S, &out);
	size_t len = strcspn(buf_text(&out), ";\n");
	if (!code && len && strspn(buf_text(&out), "0123456789") == len)
		return alloc_printf("%.*s", (int)len, buf_text(&out));
	error_set(err, ERR_UNAVAILABLE, "sbatch: %.500s", code < 0 ? "is not to be found, or does not answer" : buf_text(&out));
	err->text[strcspn(err->text, "\n")] = 0;
	return NULL;
}

/* What a round comes to. */
struct round { size_t waiting; long there, asked, dropped; json_t *jobs, *gone; };

static int ask_for_all(const struct pilot_submit *s, const struct spool *q, const char *name, long want, struct round *r,
		       struct error *err)
{
	for (; r->asked < want; r->asked++) {
		scoped_free char *job = ask_for_one(s, spool_dir(q), name, err);
		if (!job)
			return -1;
		json_array_append_new(r->jobs, json_text(job));
		if (!s->json)
			printf("Asked Slurm for a pilot: job %s\n", job);
	}
	return 0;
}

/* Only what has not begun: Slurm looks at that too, so one that begins in this moment stays. */
static void drop_surplus(const struct pilot_submit *s, const struct pilot_slurm_jobs *a, long surplus, struct round *r)
{
	for (size_t i = json_array_size(a->which); i-- && r->dropped < surplus;) {
		const char *job = json_string_value(json_array_get(a->which, i));
		scoped_buf out = { 0 };
		char *argv[] = { "scancel", "--state=PENDING", (char *)job, NULL };
		if (pilot_slurm_run(argv, NULL, ASK_S, &out))
			continue;
		r->dropped++;
		json_array_append_new(r->gone, json_text(job));
		if (!s->json)
			printf("Not needed any more, and given up: job %s\n", job);
	}
}

/* At once: who stays is read as it goes on. What cannot be written is told at the end (cli_finish). */
static void tell(const struct pilot_submit *s, const struct round *r)
{
	if (s->json)
		cli_print_json(json_pack("{si, sI, sI, sO, sO}", "schema", 1, "waiting", (json_int_t)r->waiting, "allocations",
					 (json_int_t)r->there, "jobs", r->jobs, "given_up", r->gone));
	else if (!s->every_ms || r->asked || r->dropped)
		printf("%zu tasks wait; %ld allocations are there or asked for\n", r->waiting, r->there + r->asked - r->dropped);
	fflush(stdout);
}

static int one_round(const struct pilot_submit *s, const struct spool *q, struct round *r, struct error *err)
{
	char name[64];
	scoped_json *which = json_array();
	struct pilot_slurm_jobs a = { .which = which };
	snprintf(name, sizeof name, "rad-pilot-%.8s", spool_mark(q));
	if (count_queue(q, &r->waiting, err) || ask_squeue(name, &a, err))
		return -1;
	/* Those that have not begun are for these tasks; those that run are busy, or would have taken them. */
	long need = ((long)r->waiting + (long)s->each - 1) / (long)s->each, room = (long)s->most - a.there, want = need - a.waiting;
	r->there = a.there;
	if (s->every_ms && want < 0)
		drop_surplus(s, &a, -want, r);
	return ask_for_all(s, q, name, want < room ? want : room, r, err);
}

static int round_of(const struct pilot_submit *s, struct round *r, struct error *err)
{
	scoped_json *jobs = json_array(), *gone = json_array();
	*r = (struct round){ .jobs = jobs, .gone = gone };
	struct spool *q = spool_open(s->queue, false, err);
	int failed = !q || one_round(s, q, r, err);
	spool_close(q);
	if (!failed || r->asked)	/* what was asked for is said, whatever came then */
		tell(s, r);
	return failed ? -1 : 0;
}

int pilot_submit_once(const struct pilot_submit *s, struct error *err)
{
	struct round r;
	return round_of(s, &r, err);
}

/* Allocations that were asked for, are gone, and took nothing: asking as often again would fill Slurm's books. */
static bool was_in_vain(const struct round *r, const struct round *before)
{
	return before->asked && r->there < before->there + before->asked && r->waiting >= before->waiting;
}

int pilot_submit_stay(const struct pilot_submit *s, const volatile sig_atomic_t *told_to_end, struct error *err)
{
	struct round r, before = { 0 };
	int vain = 0;
	bool lost = false;
	if (round_of(s, &before, err))
		return -1;
	for (int64_t next = clock_mono_ms() + s->every_ms; !*told_to_end; ) {
		struct error why = ERROR_INIT;
		int64_t left = next - clock_mono_ms();
		if (left > 0) {
			poll(NULL, 0, left < STEP_MS ? (int)left : STEP_MS);
			continue;
		}
		if (!round_of(s, &r, &why)) {
			vain = was_in_vain(&r, &before) ? vain + (vain < MOST_VAIN) : r.asked ? vain : 0;
			before = r;
		} else if (!lost) {
			cli_note("%s: it is tried again", why.text);
		}
		lost = why.code;
		if (vain && r.asked)
			cli_note("allocations end and no task is taken: the next are asked for in %lld s; their words are in %s/pilots/.slurm-*.log",
				 (long long)(s->every_ms << vain) / 1000, s->queue);
		next = clock_mono_ms() + (s->every_ms << vain);
	}
	return 0;
}
