/* SPDX-License-Identifier: MIT
 * rad pilot: the keeper (cli/pilot.h), and what asks Slurm for allocations.
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/scope.h"
#include "base/units.h"
#include "cli/cli.h"
#include "cli/client_queue.h"
#include "cli/pilot.h"
#include "cli/pilot_agent.h"
#include "cli/pilot_end.h"
#include "cli/pilot_node.h"
#include "cli/pilot_slurm.h"
#include "cli/pilot_submit.h"
#include "device/device.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define STEP_MS 300
#define ASK_SLURM_MS 60000
#define AGENT_AGAIN_MS 1000

static volatile sig_atomic_t told_to_end;

static void on_end(int sig)
{
	(void)sig;
	told_to_end = 1;
}

/* ---- the end ---- */

/* What is left is asked for as a span: the clocks of this node and of Slurm's need not agree. It can be lengthened, too. */
static void ask_for_end(struct pilot *p, int64_t *asked_ms)
{
	int64_t now = clock_mono_ms();
	if (!*p->who.job || p->options.time_ms || told_to_end || (*asked_ms && now - *asked_ms < ASK_SLURM_MS))
		return;
	*asked_ms = now;
	int64_t left = pilot_slurm_left_ms(p->who.job);
	if (left >= 0)
		p->shared->end_ms = left == INT64_MAX ? INT64_MAX : clock_mono_ms() + left;
}

/* Slurm's own word in the environment, of an older squeue that says nothing: a wall time, as good as the node's clock. */
static void first_end(struct pilot *p)
{
	const char *said = getenv("SLURM_JOB_END_TIME");
	int64_t seconds, asked = 0;
	if (p->options.time_ms)
		p->shared->end_ms = clock_mono_ms() + p->options.time_ms;
	ask_for_end(p, &asked);
	if (*p->who.job && !p->options.time_ms && p->shared->end_ms == INT64_MAX && said &&
	    !units_parse_int(said, 1, INT64_MAX / 2000, &seconds, NULL))
		p->shared->end_ms = clock_mono_ms() + seconds * 1000 - clock_wall_ms();
}

/* SIGTERM: scancel, a preemption, the time limit, a person. */
static void hear_signal(struct pilot *p, bool *heard)
{
	int64_t end = clock_mono_ms() + p->options.grace_ms;
	if (!told_to_end || *heard)
		return;
	*heard = true;
	if (end < p->shared->end_ms)
		p->shared->end_ms = end;
	p->shared->ending = true;
	p->options.time_ms = 0;		/* a brief one's margin would be less than the grace */
	if (p->options.margin_ms < p->options.grace_ms)
		p->options.margin_ms = p->options.grace_ms;
	cli_note("told to end: tasks are told, and have %lld s", (long long)((p->options.grace_ms - pilot_cut_ms(&p->options))
			/ 1000));
}

/* ---- the agent ---- */

static pid_t start_agent(struct pilot *p, size_t gpus)
{
	pid_t keeper = getpid();
	fflush(NULL);
	pid_t pid = fork();
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGTERM, SIG_IGN);	/* the keeper's to hear; the agent goes when its work is carried back */
	signal(SIGINT, SIG_IGN);
	if (getppid() != keeper)
		_exit(1);
	_exit(pilot_agent_run(p, gpus));
}

/* 1: it left the queue; 0: it works; a new one is started for one that died. */
static int watch_agent(struct pilot *p, size_t gpus, pid_t *agent, int64_t *died_ms)
{
	int status;
	int64_t now = clock_mono_ms();
	if (*agent > 0 && waitpid(*agent, &status, WNOHANG) == *agent) {
		if (WIFEXITED(status) && !WEXITSTATUS(status))
			return 1;
		cli_note("the part that works with the queue was ended (%s %d): it is started again", WIFEXITED(status) ? "code" : "signal",
			 WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
		*agent = 0;
		*died_ms = now;
	}
	if (*agent <= 0 && now - *died_ms >= AGENT_AGAIN_MS)
		*agent = start_agent(p, gpus);
	return 0;
}

static int keep(struct pilot *p, size_t gpus)
{
	int64_t asked_ms = clock_mono_ms(), died_ms = 0;
	bool heard = false;
	pid_t agent = start_agent(p, gpus);
	while (!watch_agent(p, gpus, &agent, &died_ms)) {
		ask_for_end(p, &asked_ms);
		hear_signal(p, &heard);
		pilot_end_step(p);
		/* Past the end only the queue can be what is waited for: the next pilot here carries back what is left, or Slurm's word. */
		if (clock_mono_ms() > p->shared->end_ms && agent > 0) {
			cli_note("the allocation is over, and the queue has not answered: what is left to tell it is in %s", p->state);
			kill(agent, SIGKILL);
			pilot_node_stop_radd();
			return CLI_FAILED;
		}
		poll(NULL, 0, STEP_MS);
	}
	pilot_node_stop_radd();
	return CLI_DONE;
}

static void catch_signals(void)
{
	struct sigaction action = { .sa_handler = on_end };
	sigemptyset(&action.sa_mask);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
	signal(SIGHUP, SIG_IGN);
}

/* ---- the start ---- */

static int check_place(const struct pilot *p, struct error *err)
{
	static const char *const names[] = { "CUDA_VISIBLE_DEVICES", "SLURM_JOB_GPUS", "SLURM_STEP_GPUS", "SLURM_GPUS_ON_NODE" };
	bool said = p->options.devices || getenv("RAD_DEVICES"), gpus = said;
	for (size_t i = 0; i < COUNT_OF(names); i++)
		gpus = gpus || (getenv(names[i]) && *getenv(names[i]));
	if (!*p->who.job && !said)
		return error_set(err, ERR_INVALID, "this is no Slurm allocation (no SLURM_JOB_ID): run it in one (sbatch, srun), or say "
				 "which GPUs of this machine it may use: --devices nvml, --devices nvml:0,1");
	if (!gpus)
		return error_set(err, ERR_INVALID, "job %s: this allocation has no GPUs: ask for them (--gres=gpu:2), or name some with "
				 "--devices", p->who.job);
	return 0;
}

static int enter(struct pilot *p, size_t *gpus, struct error *err)
{
	pilot_slurm_who(&p->who);
	if (check_place(p, err))
		return -1;
	struct spool *s = spool_open(p->options.queue, true, err);
	if (!s)
		return -1;
	char mark[17];
	snprintf(mark, sizeof mark, "%s", spool_mark(s));
	p->dir = alloc_string(spool_dir(s));
	int failed = spool_probe(s, err);
	spool_close(s);
	if (failed || pilot_node_enter(p, mark, err))
		return -1;
	first_end(p);
	if (pilot_node_start_radd(p, err))
		return -1;
	failed = pilot_node_take_gpus(gpus, err);
	if (failed)
		pilot_node_stop_radd();
	return failed;
}

static int fly(struct cli_call *c, const struct pilot_options *options)
{
	struct error err = ERROR_INIT;
	struct pilot p = { .options = *options };
	size_t gpus = 0;
	p.shared = mmap(NULL, sizeof *p.shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (p.shared == MAP_FAILED) {
		error_errno(&err, "mmap");
		return cli_fail(c, &err);
	}
	p.shared->end_ms = INT64_MAX;
	catch_signals();
	int rc = enter(&p, &gpus, &err) ? cli_fail(c, &err) : -1;
	if (rc < 0) {
		cli_note("pilot %s: %zu GPU%s, queue %s", p.who.name, gpus, gpus == 1 ? "" : "s", p.dir);
		rc = keep(&p, gpus);
	}
	free(p.dir);
	free(p.state);
	munmap(p.shared, sizeof *p.shared);
	return rc;
}

/* ---- the verb ---- */

struct pilot_words { const char *time, *idle, *margin, *grace, *lease, *most, *each, *every; };

/* 0 or the exit code. */
static int read_span(struct cli_call *c, const char *option, const char *text, int64_t least_s, int64_t *ms)
{
	struct error err = ERROR_INIT;
	int64_t seconds = 0;
	if (!text)
		return 0;
	if (units_parse_duration(text, least_s, UNITS_TEN_YEARS_S, &seconds, &err))
		return cli_usage(c, "--%s: %s", option, err.text);
	*ms = seconds * 1000;
	return 0;
}

static int read_count(struct cli_call *c, const char *option, const char *text, int64_t *n)
{
	struct error err = ERROR_INIT;
	return cli_read_int(option, text, 1, 10000, n, &err) ? cli_usage(c, "%s", err.text) : 0;
}

static int ask_slurm(struct cli_call *c, const struct pilot_words *w, bool json)
{
	struct error err = ERROR_INIT;
	struct pilot_submit s = { .queue = client_queue(), .most = 1, .each = 8, .time = w->time, .idle = w->idle ? w->idle : "5m",
				  .sbatch = c->words, .json = json };
	int rc = read_count(c, "most", w->most, &s.most);
	rc = rc ? rc : read_count(c, "each", w->each, &s.each);
	rc = rc ? rc : read_span(c, "every", w->every, 1, &s.every_ms);
	if (rc)
		return rc;
	if (s.every_ms) {
		catch_signals();
		return pilot_submit_stay(&s, &told_to_end, &err) ? cli_fail(c, &err) : CLI_DONE;
	}
	return pilot_submit_once(&s, &err) ? cli_fail(c, &err) : CLI_DONE;
}

static int read_and_fly(struct cli_call *c, const struct pilot_words *w, struct pilot_options *o)
{
	struct error err = ERROR_INIT;
	o->queue = client_queue();
	o->margin_ms = 120000;
	o->grace_ms = 25000;
	o->lease_ms = 60000;
	int rc = read_span(c, "time", w->time, 2, &o->time_ms);
	rc = rc ? rc : read_span(c, "idle", w->idle, 1, &o->idle_ms);
	rc = rc ? rc : read_span(c, "margin", w->margin, 1, &o->margin_ms);
	rc = rc ? rc : read_span(c, "grace", w->grace, 1, &o->grace_ms);
	rc = rc ? rc : read_span(c, "lease", w->lease, 10, &o->lease_ms);
	if (!rc && o->devices && device_check(o->devices, &err))
		rc = cli_usage(c, "--%s", err.text);
	if (!rc && !cli_want_words(c, 0, 0))
		rc = c->rc;
	return rc ? rc : fly(c, o);
}

#define SUBMIT "--submit"
#define ITSELF "a pilot itself"		/* what no allocation is asked for with */

static const struct cli_part parts[] = {
	{ "devices", ITSELF }, { "margin", ITSELF }, { "grace", ITSELF }, { "lease", ITSELF }, { "state", ITSELF },
	{ "most", SUBMIT }, { "each", SUBMIT }, { "every", SUBMIT }, { "json", SUBMIT }, { 0 },
};

int verb_pilot(struct cli_call *c)
{
	bool submit = false, json = false;
	struct pilot_words w = { 0 };
	struct pilot_options o = { 0 };
	const struct args_option options[] = {
		{ "queue", 0, "DIR", "the queue of files, on a file system that all nodes share; default RAD_QUEUE",
				.value = &client_queue_said },
		{ "devices", 0, "LIST", "GPUs, as radd --devices; default those of the allocation", .value = &o.devices },
		{ "time", 't', "TIME", "how long it lasts; default what Slurm says", .value = &w.time },
		{ "idle", 0, "TIME", "leaves when it had nothing to do for so long; default never, with --submit 5m", .value = &w.idle },
		{ "margin", 0, "TIME", "so long before the end tasks are told to save; default 2m", .value = &w.margin },
		{ "grace", 0, "TIME", "how long it may take to leave on SIGTERM; default 25s", .value = &w.grace },
		{ "lease", 0, "TIME", "a pilot that is silent for so long is asked about; default 1m", .value = &w.lease },
		{ "state", 0, "DIR", "its folder on this node; default in /tmp", .value = &o.state },
		{ "submit", 0, NULL, "ask Slurm for allocations with pilots, as the queue needs them; words go to sbatch", .flag = &submit },
		{ "most", 0, "N", "with --submit: at most so many allocations at one time; default 1", .value = &w.most },
		{ "each", 0, "N", "with --submit: one allocation for so many waiting tasks; default 8", .value = &w.each },
		{ "every", 0, "TIME", "with --submit: stay, and look so often; default asks once", .value = &w.every },
		{ "json", 0, NULL, "with --submit: print JSON", .flag = &json },
		{ 0 },
	};
	if (!cli_options(c, options) || !cli_parts(c, parts, submit ? SUBMIT : ITSELF))
		return c->rc;
	if (!client_queue())
		return cli_usage(c, "which queue? --queue DIR, or RAD_QUEUE");
	return submit ? ask_slurm(c, &w, json) : read_and_fly(c, &w, &o);
}
