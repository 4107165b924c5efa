/* SPDX-License-Identifier: MIT
 * rad estimate: what a task's GPU memory is estimated at, by one estimator, by `auto`, or by all; and what it will do to the
 * GPU, where a capture or a summary tells. Of a radd that runs it asks the host's pace and no more, so it knows of no history.
 */
#include "base/json.h"
#include "base/scope.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/client_queue.h"
#include "cli/estimation.h"
#include "cli/format.h"
#include "cli/member.h"
#include "cli/submit_caller.h"
#include "cli/table.h"
#include "estimate/activity.h"
#include "estimate/estimate.h"
#include "estimate/hostpace.h"
#include "submit/wire.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define ASK_S 1		/* how long a radd is waited for that is there and does not answer */

/* What is known of its load; `known` false: `why` says what is missing. `host`: the pace it is for; tasks 0: it was given. */
struct load_answer { struct activity a; struct hostpace host; bool known; struct error why; };

/* One answer. */
struct answer { struct estimate_result r; bool spoke; double took_us; };

static double now_us(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static struct answer ask(const struct estimator *e, const struct spec *s, const struct estimate_context *c)
{
	struct answer a;
	double began = now_us();
	a.spoke = estimate_ask(e, s, s->gpu_mem_mib, c, &a.r);
	a.took_us = now_us() - began;
	return a;
}

static json_t *mib_or_null(const struct answer *a, uint64_t mib)
{
	return json_int_or_null((int64_t)mib, a->spoke && mib);
}

static json_t *answer_json(const struct answer *a)
{
	const struct estimate *v = &a->r.value;
	return json_pack("{ss, so, so, so, so, so, so, s[s]}", "estimator", v->estimator, "need_mib", mib_or_null(a, v->need_mib),
			 "comfort_mib", mib_or_null(a, v->comfort_mib), "claim_mib", mib_or_null(a, v->claim_mib),
			 "low_mib", mib_or_null(a, a->r.low_mib), "high_mib", mib_or_null(a, a->r.high_mib),
			 "took_us", json_round3(a->took_us), "notes", a->r.note);
}

/* As radd's status has it. */
static json_t *host_json(const struct hostpace *host)
{
	return host->tasks || host->pace != 1 ? json_pack("{so, si}", "pace", json_real(host->pace), "tasks", (int)host->tasks) :
		json_null();
}

static json_t *load_json(const struct load_answer *load, const char *gpu)
{
	const struct activity *a = &load->a;
	const struct load_belief *b = &a->load;
	double run_s = load_run_s(b);
	return json_pack("{ss, so, so, so, so, so, so, so, so, so, so, so, so, ss, so, so, so, so, so, so, so}", "gpu_model", gpu,
			 "step_s", json_real(a->step_s), "step_spread", json_round3(a->step_spread),
			 "host_s", json_real(a->host_s), "busy_s", json_real(a->busy_s),
			 "gract", json_round3(b->load.gract), "gract_sd", json_round3(b->gract_sd),
			 "smact", json_round3(b->load.smact), "smact_sd", json_round3(b->smact_sd),
			 "dram", json_round3(b->dram), "dram_sd", json_round3(b->dram_sd), "watts", json_round3(b->watts),
			 "kernels", json_real(a->kernels), "source", a->source, "assumed", json_text_or_null(a->assumed),
			 "host_pace", host_json(&load->host),
			 "steps", json_round3(a->steps > 0 ? a->steps : NAN), "run_s", json_round3(run_s > 0 ? run_s : NAN),
			 "limit_s", json_round3(b->limit_s > 0 ? b->limit_s : NAN),
			 "loader_s", a->loading.known ? json_real(fmax(a->loading.bound_s, a->loading.main_s)) : json_null(),
			 "cores", json_round3(b->cores > 0 ? b->cores : NAN));
}

static int print_json(const struct answer *answers, size_t n, const struct load_answer *load,
		      const char *gpu)
{
	json_t *list = json_array();
	for (size_t i = 0; i < n; i++)
		json_array_append_new(list, answer_json(&answers[i]));
	return cli_print_json(json_pack("{si, so, so, so}", "schema", 1, "estimates", list,
					"load", load->known ? load_json(load, gpu) : json_null(),
					"load_note", json_text_or_null(load->known ? NULL : load->why.text)));
}

static int percent(double fraction)
{
	return (int)lround(100 * fraction);
}

/* Of what lies between the steps of a script only evaluations may be in a capture. */
static void print_run(const struct activity *a)
{
	char text[FORMAT_LEN];
	double run_s = load_run_s(&a->load);
	if (a->load.limit_s > 0 && run_s >= a->load.limit_s) {
		printf("The run: %s, after which its own clock ends it\n", format_seconds(run_s, text));
		return;
	}
	bool evaluates = a->load.run_s > a->steps * a->step_s * (1 + 1e-9);
	if (a->steps > 0)
		printf("The run: %.0f steps%s, %s, and what %sthe script does between them\n", a->steps,
		       evaluates ? " and evaluations" : "", format_seconds(a->load.run_s, text), evaluates ? "else " : "");
}

/* What data loaders do in a step, and what of the machine's cores that comes to. */
static void print_loading(const struct activity *a)
{
	const struct loading *l = &a->loading;
	char workers[40];
	if (!l->known)
		return;
	snprintf(workers, sizeof workers, "%u worker%s", l->workers, l->workers == 1 ? "" : "s");
	printf("Data loaders: %.3g ms of processor time a step, in %s%s%s%s\nCores: about %.1f, with what launches\n",
	       1e3 * (l->main_s + l->workers_s), l->main_s > 0 || !l->workers ? "the main thread" : "",
	       l->main_s > 0 && l->workers ? " and " : "", l->workers ? workers : "", a->load.loader >= 1 ? ": they hold it up" : "",
	       a->load.cores);
}

/* Below the table: a step, and the load, each with the spread of its error; and how long it all takes, where that is known. */
static void print_load(const struct load_answer *load, const char *gpu)
{
	const struct activity *a = &load->a;
	const struct load_belief *b = &a->load;
	if (!load->known) {
		printf("\nLoad: not known: %s\n", load->why.text);
		return;
	}
	printf("\nA step on %s: %.3g ms, give or take %d %%%s (host %.3g ms, GPU %.3g ms for %.0f kernels)\n",
	       gpu, 1e3 * a->step_s, percent(a->step_spread), a->loading.known ? "" : ", when no data loader holds it up",
	       1e3 * a->host_s, 1e3 * a->busy_s, a->kernels);
	print_loading(a);
	printf("Load: GRACT %d %% +- %d, SMACT %d %% +- %d, DRAM %d %% +- %d, %.0f W (from the %s%s%s)\n",
	       percent(b->load.gract), percent(b->gract_sd), percent(b->load.smact), percent(b->smact_sd), percent(b->dram),
	       percent(b->dram_sd), b->watts,
	       a->source, *a->assumed ? ": " : "", a->assumed);
	print_run(a);
	if (load->host.tasks)
		printf("All at this host's pace: what it launches takes %.2f times as long as on the hosts of the model, by %u task%s "
		       "seen here\n", load->host.pace, load->host.tasks, load->host.tasks == 1 ? "" : "s");
	else if (load->host.pace != 1)
		printf("All for a host on which launches take %.2f times as long as on those of the model (--host-pace)\n",
		       load->host.pace);
}

/* Of a radd that answers at once; nobody starts one, or waits for one, to know this. */
static struct hostpace ask_host_pace(void)
{
	struct hostpace none = { .pace = 1 };
	scoped_free char *path = wire_socket_path();
	scoped_fd int fd = client_queue() ? -1 : wire_connect_now(path, NULL);
	scoped_json *status = client_call_within(fd, ASK_S, wire_request("status"), NULL);
	const json_t *said = json_object_get(status, "host_pace");
	struct hostpace host = { member_number(said, "pace"), (unsigned)member_int(said, "tasks") };
	return host.pace > 0 && host.tasks ? host : none;
}

/* `load` NULL: there is nothing to tell it from, and nothing to say. */
static int print_table(const struct answer *answers, size_t n, const struct load_answer *load, const char *gpu)
{
	static const struct table_column columns[] = {
		{ "ESTIMATOR", false, 0 }, { "NEED", true, 0 }, { "COMFORT", true, 0 }, { "CLAIM", true, 0 },
		{ "NOTES", false, 20, .wrap = true },
	};
	struct table *t = table_create(columns, COUNT_OF(columns));
	const struct term term = term_ask();
	for (size_t i = 0; i < n; i++) {
		const struct estimate *v = &answers[i].r.value;
		const uint64_t mib[] = { v->need_mib, v->comfort_mib, v->claim_mib };
		char text[FORMAT_LEN];
		table_cell(t, STYLE_PLAIN, v->estimator);
		for (size_t k = 0; k < COUNT_OF(mib); k++)
			table_cell(t, STYLE_PLAIN, answers[i].spoke && mib[k] ? format_mib((double)mib[k], text) : "-");
		table_cell(t, STYLE_PLAIN, answers[i].r.note);
	}
	table_print(t, &term, stdout);
	table_destroy(t);
	if (load)
		print_load(load, gpu);
	return CLI_DONE;
}

/* The answers that were asked for: of all, of one, or of the first that knows something. Where none does, those of all but the
 * baselines: what each misses tells a person what to add. */
static size_t collect(const char *name, const struct estimator *one, const struct spec *s, const struct estimate_context *c,
		      struct answer *answers, size_t max)
{
	size_t n = 0;
	bool all = !strcmp(name, "all");
	if (one)
		answers[n++] = ask(one, s, c);
	for (const struct estimator *e = estimators; !one && e->name && n < max; e++) {
		if (!all && e->baseline)
			continue;
		answers[n++] = ask(e, s, c);
		if (!all && answers[n - 1].spoke && answers[n - 1].r.value.claim_mib) {
			answers[0] = answers[n - 1];
			return 1;
		}
	}
	return n;
}

int verb_estimate(struct cli_call *c)
{
	struct estimation given = { 0 };
	const char *name = "auto", *gpu_model = NULL, *host_pace = NULL;
	bool json = false;
	const struct args_option options[] = {
		{ "estimator", 0, "NAME", "who is asked: auto (default), all, or one by its name", .value = &name },
		{ "gpu-model", 0, "NAME", "GPU it is to run on, as nvidia-smi names it", .value = &gpu_model },
		{ "summary", 0, "FILE", "model summary", .value = &given.summary },
		{ "capture", 0, "FILE", "capture of the task's allocations", .value = &given.capture },
		{ "host-pace", 0, "N", "how many times as long launches take here as on the model's hosts; default: as radd found",
		  .value = &host_pace },
		ESTIMATION_OPTIONS(given),
		{ "json", 0, NULL, "print JSON", .flag = &json }, { 0 },
	};
	struct error err = ERROR_INIT;
	struct answer answers[32];
	if (!cli_options(c, options))
		return c->rc;
	if (c->n_words > 1)
		return cli_usage(c, "of a command it is found out by a capture: 'rad capture -o FILE -- %.60s ...', then --capture FILE",
				 c->words[0]);
	struct load_answer load = { .host = { .pace = 1 }, .why = ERROR_INIT };
	if (cli_read_double("host-pace", host_pace, 1 / HOSTPACE_MOST, HOSTPACE_MOST, &load.host.pace, &err))
		return cli_usage(c, "%s", err.text);
	bool named = strcmp(name, "auto") && strcmp(name, "all");
	const struct estimator *one = named ? estimate_find(name, &err) : NULL;
	if (named && !one)
		return cli_usage(c, "--estimator: %s", err.text);
	if (!c->n_words && !given.summary && !given.capture)
		return cli_usage(c, "nothing to estimate: name a task file, --summary FILE or --capture FILE");
	struct spec *s = estimation_read(c->words[0], &given, &err);
	if (!s)
		return given.usage ? cli_usage(c, "%s", err.text) : cli_fail(c, &err);
	submit_caller_environ(s);	/* it configures PyTorch, as it would if the task were submitted from here */
	if (!host_pace && gpu_model && estimate_tells_load(s))
		load.host = ask_host_pace();
	const struct estimate_context context = { .gpu_name = gpu_model, .host_pace = load.host.pace };
	size_t n = collect(name, one, s, &context, answers, COUNT_OF(answers));
	size_t first = json && strcmp(name, "all") ? n - 1 : 0;	/* a program gets the one that stands: `none` is the last */
	load.known = !estimate_activity(s, &context, &load.a, &load.why);
	int rc = json ? print_json(answers + first, n - first, &load, gpu_model) :
		print_table(answers, n, estimate_tells_load(s) ? &load : NULL, gpu_model);
	spec_unref(s);
	return rc;
}
