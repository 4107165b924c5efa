/* SPDX-License-Identifier: MIT
 * rad-slurm recover: the controller's side of running out of GPU memory. It looks now and then for jobs that ended so, by the
 * comment which their node wrote, asks for whole GPUs for them, and lets them start again. It keeps nothing: whoever runs it
 * twice, or kills it at any moment, has it go on from what Slurm says.
 *
 * Two kinds of such jobs: those that ended by the exit code which RequeueExitHold names stand held (SPECIAL_EXIT), and what
 * waits for them goes on waiting. Others FAILED, and are put back while Slurm still knows them (MinJobAge).
 */
#include "helper.h"
#include "call.h"
#include "cli/slurm_conf.h"

#include "base/alloc.h"
#include "base/scope.h"
#include "base/units.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIMIT_MS 30000		/* of one command of Slurm's */
#define ANSWER (64 << 20)	/* 350,000 jobs */
#define SHOWN (64 << 10)
#define FORMAT "JobID:24,State:24,RestartCnt:12,tres-per-node:128"
#define COMMENT "JobID:24,admin_comment:400"	/* COMMENT_MAX */

struct failed { char id[25], state[25], gres[129]; long restarts; };

static int slurm(char *const argv[], struct error *err)
{
	char out[512];
	size_t n;
	if (!call_run(argv, NULL, LIMIT_MS, 1, out, sizeof out, &n))
		return 0;
	return error_set(err, ERR_UNAVAILABLE, "'%s %s %s' failed", argv[0], argv[1], argv[2]);
}

/* A column of fixed width, without the blanks behind it. */
static void cut(char *out, const char *line, size_t len, size_t from, size_t width)
{
	size_t n = from < len ? (len - from < width ? len - from : width) : 0;
	memcpy(out, line + from, n);
	while (n && out[n - 1] == ' ')
		n--;
	out[n] = 0;
}

static void read_line(const char *line, size_t len, struct failed *f)
{
	char restarts[13];
	cut(f->id, line, len, 0, 24);
	cut(f->state, line, len, 24, 24);
	cut(restarts, line, len, 48, 12);
	cut(f->gres, line, len, 60, 128);
	f->restarts = strtol(restarts, NULL, 10);
}

/* A job with pieces asks for all of its GPUs, which are several only where radd places (a shard is of one); what has all of them
 * already, or whole GPUs, has had what there is. */
static bool raise_gres(const struct slurm_conf *c, const char *was, unsigned gpus, char out[64])
{
	unsigned all = slurm_conf_all(c), shards = slurm_conf_gres(was, "shard"), radmem = slurm_conf_gres(was, "radmem");
	if (shards && shards < all)
		snprintf(out, 64, "TresPerNode=gres:shard:%u", all);
	else if (radmem && radmem < all * gpus)
		snprintf(out, 64, "TresPerNode=gres:radmem:%u", all * gpus);
	else
		return false;
	return true;
}

/* Before slurmctld is asked for its comment, which says how many GPUs it had. */
static bool may_be_raised(const struct slurm_conf *c, const char *was)
{
	return slurm_conf_gres(was, "shard") < slurm_conf_all(c) &&
	       (slurm_conf_gres(was, "shard") || slurm_conf_gres(was, "radmem"));
}

/* From a column of its own: in a list of KEY=VALUE, what a user may name would come before it. */
static unsigned oom_gpus(const struct failed *f, long restarts)
{
	scoped_free char *text = alloc_zero(SHOWN);
	char *argv[] = { "squeue", "-h", "-r", "-t", "all", "-j", (char *)f->id, "-O", COMMENT, NULL };
	size_t n;
	if (call_run(argv, NULL, LIMIT_MS, 1, text, SHOWN, &n))
		return 0;
	for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
		char id[25], comment[COMMENT_MAX + 1];
		cut(id, line, (size_t)(end - line), 0, 24);
		cut(comment, line, (size_t)(end - line), 24, COMMENT_MAX);
		if (!strcmp(id, f->id))		/* an array's number is that of one of its elements, too */
			return comment_oom_gpus(comment, restarts);
	}
	return 0;
}

/* Each step may have been done by one that was killed then: all may be done twice. */
static int recover_job(const struct slurm_conf *c, const struct failed *f, struct error *err)
{
	char gres[64];
	bool held = !strcmp(f->state, "SPECIAL_EXIT") || !strcmp(f->state, "PENDING");
	/* Slurm counts a restart when it puts a job back: of one that is held the comment is of the run before. What waits for its
	 * first has none, and slurmctld is not asked for each of those. */
	if ((held && !f->restarts) || !may_be_raised(c, f->gres))
		return 0;
	unsigned gpus = oom_gpus(f, held ? f->restarts - 1 : f->restarts);
	if (!gpus || !raise_gres(c, f->gres, gpus, gres))
		return 0;
	scoped_free char *job = alloc_printf("JobId=%s", f->id);
	if (!held && slurm((char *[]){ "scontrol", "requeuehold", (char *)f->id, NULL }, err))
		return -1;
	if (slurm((char *[]){ "scontrol", "update", job, gres, NULL }, err) ||
	    slurm((char *[]){ "scontrol", "release", (char *)f->id, NULL }, err))
		return -1;
	printf("job %s: ran out of GPU memory with %s: starts again with %s\n", f->id, f->gres, gres + strlen("TresPerNode=gres:"));
	fflush(stdout);
	return 1;
}

static int look(const struct slurm_conf *c, struct error *err)
{
	scoped_free char *text = alloc_zero(ANSWER);
	size_t n = 0;
	char *argv[] = { "squeue", "-h", "-r", "-t", "FAILED,SPECIAL_EXIT,PENDING", "-O", FORMAT, NULL };
	if (call_run(argv, NULL, LIMIT_MS, 1, text, ANSWER, &n))
		return error_set(err, ERR_UNAVAILABLE, "squeue failed: does slurmctld answer?");
	for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
		struct error one = ERROR_INIT;
		struct failed f;
		read_line(line, (size_t)(end - line), &f);
		if (recover_job(c, &f, &one) < 0)
			fprintf(stderr, "rad-slurm: job %s: %s\n", f.id, one.text);
	}
	return 0;
}

int helper_recover(int argc, char **argv, struct error *err)
{
	const char *every = "10", *conf = NULL;
	bool once = false;
	int64_t interval;
	struct slurm_conf c;
	char path[PATH_MAX];
	const struct args_option options[] = {
		{ "once", 0, NULL, "look once, as from cron", .flag = &once },
		{ "interval", 0, "SECONDS", "between two looks (default 10)", .value = &every },
		{ "config", 0, "FILE", "rad-slurm.conf (default: beside slurm.conf)", .value = &conf }, { 0 },
	};
	int rc = helper_options(argc, argv, options, err);
	if (rc)
		return rc > 0 ? 0 : -1;
	slurm_conf_default(&c);
	slurm_conf_path(path);
	if (units_parse_int(every, 1, 86400, &interval, err) || slurm_conf_read(conf ? conf : path, &c, err))
		return -1;
	if (!c.n_kinds)
		return error_set(err, ERR_INVALID, "%s: 'gpus' is missing: how much a whole GPU is has to be known", conf ? conf : path);
	do {
		struct error why = ERROR_INIT;
		if (look(&c, &why) && once) {
			*err = why;
			return -1;
		}
		if (*why.text)
			fprintf(stderr, "rad-slurm: %s\n", why.text);
		if (!once)
			poll(NULL, 0, (int)interval * 1000);
	} while (!once);
	return 0;
}
