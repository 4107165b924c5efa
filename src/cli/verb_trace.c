/* SPDX-License-Identifier: MIT
 * rad trace: makes traces, imports job logs, and runs a trace on a living daemon, whose GPUs are simulated ones.
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/json.h"
#include "base/scope.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/member.h"
#include "cli/submit_client.h"
#include "sim/generate.h"
#include "sim/import.h"
#include "sim/philly.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define MOST_TASKS 1000000

struct trace_words {
	const char *workloads, *map, *tasks, *interval, *mix, *seed, *like, *longest, *output;
	const char *start, *length, *gpus, *speed, *estimator;
	bool stats, json;
};

/* Values of options. NULL leaves what is there. */
static int read_ms(const char *option, const char *word, double least_s, double most_s, int64_t *ms, struct error *err)
{
	double s;
	if (cli_read_double(option, word, least_s, most_s, &s, err))
		return -1;
	if (word)
		*ms = (int64_t)(s * 1000);
	return 0;
}

static int write_trace(struct cli_call *c, const struct trace_words *w, const struct sim_trace *t,
		       const struct sim_workloads *of)
{
	scoped_buf text = { 0 };
	struct error err = ERROR_INIT;
	sim_trace_write(t, of, &text);
	if (!w->output || !strcmp(w->output, "-")) {
		fputs(buf_text(&text), stdout);
		return CLI_DONE;
	}
	return io_save_file(w->output, text.data, text.len, &err) ? cli_fail(c, &err) : CLI_DONE;
}

/* Make --------------------------------------------------------------------------------------------------------------------- */

/* Like those of the Philly cluster. Their classes are given, and other times between them count for them. */
static int make_philly(struct cli_call *c, const struct trace_words *w, struct sim_workloads *of, struct sim_trace *t)
{
	struct philly_options o = { .interval_ms = 114000, .longest_s = 172800 };
	struct error err = ERROR_INIT;
	int64_t n = 100000, seed = 1;
	if (w->mix)
		return cli_usage(c, "--mix: those of --like philly have their own");
	if (cli_read_int("tasks", w->tasks, 1, MOST_TASKS, &n, &err) || cli_read_int("seed", w->seed, 0, INT64_MAX, &seed, &err) ||
	    cli_read_int("longest", w->longest, 60, 10000000, &o.longest_s, &err) ||
	    read_ms("interval", w->interval, 0, 1e5, &o.interval_ms, &err))
		return cli_usage(c, "%s", err.text);
	o.n = (size_t)n;
	o.seed = (uint64_t)seed;
	return philly_trace(&o, of, t, &err) ? cli_fail(c, &err) : write_trace(c, w, t, of);
}

static int make(struct cli_call *c, const struct trace_words *w, struct sim_workloads *of, struct sim_trace *t)
{
	struct generate_options o = { .share = { 65, 27, 8 }, .interval_ms = 140000 };
	struct error err = ERROR_INIT;
	int64_t n = 90, seed = 1;
	if (w->like)
		return strcmp(w->like, "philly") ? cli_usage(c, "--like: '%.40s': philly", w->like) : make_philly(c, w, of, t);
	if (w->longest)
		return cli_usage(c, "--longest goes with --like philly");
	if (cli_read_int("tasks", w->tasks, 1, MOST_TASKS, &n, &err) || cli_read_int("seed", w->seed, 0, INT64_MAX, &seed, &err) ||
	    read_ms("interval", w->interval, 0, 1e6, &o.interval_ms, &err))
		return cli_usage(c, "%s", err.text);
	if (w->mix && generate_parse_mix(w->mix, o.share, &err))
		return cli_usage(c, "--mix: %s", err.text);
	o.n = (size_t)n;
	o.seed = (uint64_t)seed;
	return generate_trace(&o, of, t, &err) ? cli_fail(c, &err) : write_trace(c, w, t, of);
}

/* Import ------------------------------------------------------------------------------------------------------------------- */

static int read_window(const struct trace_words *w, struct import_window *o, struct error *err)
{
	int64_t tasks = 0, gpus = 0, seed = 1;
	*o = (struct import_window){ .start_ms = -1, .length_ms = 4 * 3600 * 1000 };
	if (read_ms("start", w->start, 0, 1e9, &o->start_ms, err) || read_ms("length", w->length, 1, 1e9, &o->length_ms, err) ||
	    cli_read_int("tasks", w->tasks, 1, MOST_TASKS, &tasks, err) || cli_read_int("gpus", w->gpus, 1, 4096, &gpus, err) ||
	    cli_read_int("seed", w->seed, 0, INT64_MAX, &seed, err))
		return -1;
	o->tasks = (size_t)tasks;
	o->gpus = (unsigned)gpus;
	o->seed = (uint64_t)seed;
	return 0;
}

static int print_statistics(const struct import_log *log, bool json)
{
	scoped_json *s = import_statistics(log);
	const json_t *ran = json_object_get(s, "ran_s"), *count;
	const char *gpus;
	if (json)
		return cli_print_json(steal(s));
	printf("%zu jobs, %zu left out that never ran on a GPU\n", log->n, log->left_out);
	printf("submitted over %.1f days, %.1f an hour; %.0f GPU hours\n", json_number_value(json_object_get(s, "span_s")) / 86400,
	       json_number_value(json_object_get(s, "jobs_per_hour")), json_number_value(json_object_get(s, "gpu_hours")));
	printf("ran: 10 %% below %.0f s, half below %.0f s, 90 %% below %.0f s, mean %.0f s\n",
	       json_number_value(json_object_get(ran, "p10")), json_number_value(json_object_get(ran, "p50")),
	       json_number_value(json_object_get(ran, "p90")), json_number_value(json_object_get(ran, "mean")));
	json_object_foreach(json_object_get(s, "gpus"), gpus, count)
		printf("%5s GPUs: %lld jobs\n", gpus, (long long)json_integer_value(count));
	return CLI_DONE;
}

static int import(struct cli_call *c, const struct trace_words *w, struct sim_workloads *of, struct sim_trace *t)
{
	struct import_log log;
	struct import_window window;
	struct error err = ERROR_INIT;
	int rc = CLI_DONE;
	if (read_window(w, &window, &err))
		return cli_usage(c, "%s", err.text);
	if (import_read(&log, c->words[1], w->map, &err) || (!w->stats && import_trace(&log, &window, of, t, &err)))
		rc = cli_fail(c, &err);
	else
		rc = w->stats ? print_statistics(&log, w->json) : write_trace(c, w, t, of);
	import_clear(&log);
	return rc;
}

/* Run ---------------------------------------------------------------------------------------------------------------------- */

/* The task as a command of ours, its times divided by `speed`; one without GPUs sleeps. What the trace says of it alone counts,
 * as in a simulation. */
static json_t *request_for(const struct sim_arrival *a, const struct sim_workload *of, double speed, bool declare,
			   struct error *err)
{
	int64_t solo_ms = a->solo_ms ? a->solo_ms : of->solo_ms;
	uint64_t declared_mib = of->declared_mib ? of->declared_mib : of->mem_mib;
	struct submit_flags flags = { 0 };
	struct spec *spec = NULL;
	scoped_free char *name = alloc_printf("--name=%s", of->name), *gpus = alloc_printf("--gpus=%u", of->gpus);
	scoped_free char *mem = alloc_printf("%lluM", (unsigned long long)of->mem_mib);
	scoped_free char *seconds = alloc_printf("%.3f", (double)solo_ms / 1000 / speed);
	scoped_free char *declared = alloc_printf("--gpu-mem=%lluM", (unsigned long long)declared_mib);
	scoped_free char *gract = alloc_printf("%.4f", of->gract), *smact = alloc_printf("%.4f", of->smact);
	char *argv[20] = { "submit", name, gpus };
	int n = 3;
	if (declare && of->gpus)
		argv[n++] = declared;
	char *rest[] = { "--", "rad", "simtask", "--mem", mem, "--seconds", seconds, "--gract", gract, "--smact", smact };
	char *on_cpu[] = { "--", "sleep", seconds };
	memcpy(argv + n, of->gpus ? rest : on_cpu, of->gpus ? sizeof rest : sizeof on_cpu);
	n += (int)(of->gpus ? COUNT_OF(rest) : COUNT_OF(on_cpu));
	json_t *request = submit_parse_command(n, argv, &spec, &flags, err) ? NULL : submit_request(spec);
	spec_unref(spec);
	submit_flags_clear(&flags);
	return request;
}

static void sleep_until(int64_t mono_ms)
{
	int64_t left;
	while ((left = mono_ms - clock_mono_ms()) > 0) {
		struct timespec t = { .tv_sec = left / 1000, .tv_nsec = left % 1000 * 1000000 };
		nanosleep(&t, NULL);
	}
}

static int submit_all(struct cli_call *c, const struct sim_trace *t, const struct sim_workloads *of, double speed, bool declare)
{
	struct error err = ERROR_INIT;
	int64_t began_ms = clock_mono_ms();
	for (size_t i = 0; i < t->n; i++) {
		const struct sim_workload *w = &of->list[t->list[i].workload];
		sleep_until(began_ms + (int64_t)((double)(t->list[i].submit_ms - t->list[0].submit_ms) / speed));
		json_t *request = request_for(&t->list[i], w, speed, declare, &err);
		scoped_json *reply = request ? client_call(request, &err) : NULL;
		if (!reply) {
			error_wrap(&err, "%s:%u", t->path, t->list[i].line);
			return cli_fail(c, &err);
		}
		printf("%s %s\n", member_text(reply, "id"), w->name);
		fflush(stdout);
	}
	return CLI_DONE;
}

static int run(struct cli_call *c, const struct trace_words *w, struct sim_workloads *of, struct sim_trace *t)
{
	struct error err = ERROR_INIT;
	double speed = 1;
	bool declare = !w->estimator || !strcmp(w->estimator, "oracle");
	if (cli_read_double("speed", w->speed, 0.001, 1e6, &speed, &err))
		return cli_usage(c, "%s", err.text);
	if (!declare && strcmp(w->estimator, "none"))
		return cli_usage(c, "--estimator: '%.40s': oracle (memory is declared) or none", w->estimator);
	return sim_trace_read(t, c->words[1], of, &err) ? cli_fail(c, &err) : submit_all(c, t, of, speed, declare);
}

/* The verb ----------------------------------------------------------------------------------------------------------------- */

static const struct subverb {
	const char *name;
	size_t words;
	int (*run)(struct cli_call *c, const struct trace_words *w, struct sim_workloads *of, struct sim_trace *t);
} subverbs[] = { { "make", 1, make }, { "import", 2, import }, { "run", 2, run } };

static const struct cli_part parts[] = {
	{ "tasks", "make or import" }, { "interval", "make" }, { "mix", "make" }, { "like", "make" }, { "longest", "make" },
	{ "seed", "make or import" }, { "start", "import" }, { "length", "import" }, { "gpus", "import" }, { "stats", "import" },
	{ "json", "import" }, { "output", "make or import" }, { "speed", "run" }, { "estimator", "run" }, { 0 },
};

static int dispatch(struct cli_call *c, const struct trace_words *w)
{
	const struct subverb *s = NULL;
	struct sim_workloads of = { 0 };
	struct sim_trace t = { 0 };
	struct error err = ERROR_INIT;
	for (size_t i = 0; i < COUNT_OF(subverbs); i++)
		if (c->n_words && !strcmp(c->words[0], subverbs[i].name))
			s = &subverbs[i];
	if (!s)
		return cli_usage(c, c->n_words ? "'%.40s': expected make, import or run" : "%.0sexpected make, import or run",
				 c->n_words ? c->words[0] : "");
	if (!cli_want_words(c, s->words, s->words) || !cli_parts(c, parts, s->name))
		return c->rc;
	const char *workloads = w->workloads ? w->workloads : SIM_CATALOGUE;
	int rc = sim_workloads_read(&of, workloads, s->run == import ? NULL : w->map, &err) ? cli_fail(c, &err)
											     : s->run(c, w, &of, &t);
	sim_trace_clear(&t);
	sim_workloads_clear(&of);
	return rc;
}

int verb_trace(struct cli_call *c)
{
	struct trace_words w = { 0 };
	const struct args_option options[] = {
		{ "workloads", 0, "W.csv", "what tasks are (all three; catalogue: our own)", .value = &w.workloads },
		{ "map", 0, "OURS=THEIRS,...", "columns to read under another name", .value = &w.map },
		{ "tasks", 0, "N", "make: how many (90; --like: 100000); import: keep so many of the window", .value = &w.tasks },
		{ "interval", 0, "S", "make: mean time between tasks (140; --like: 114)", .value = &w.interval },
		{ "mix", 0, "SHARES", "make: light=65,medium=27,heavy=8", .value = &w.mix },
		{ "like", 0, "philly", "make: like the trace of that cluster: GPUs, times, limits and declarations of its own",
		  .value = &w.like, .words = "philly" },
		{ "longest", 0, "S", "make --like: jobs are cut to so long (172800)", .value = &w.longest },
		{ "seed", 0, "N", "make, import: equal seeds give equal traces (1)", .value = &w.seed },
		{ "start", 0, "S", "import: the window's start; without it, the busiest", .value = &w.start },
		{ "length", 0, "S", "import: the window's length (14400)", .value = &w.length },
		{ "gpus", 0, "N", "import: leave out jobs of more GPUs", .value = &w.gpus },
		{ "stats", 0, NULL, "import: describe the log, make no trace", .flag = &w.stats },
		{ "output", 'o', "FILE", "make, import: write there", .value = &w.output },
		{ "speed", 0, "N", "run: so many times faster than the trace (1)", .value = &w.speed },
		{ "estimator", 0, "NAME", "run: oracle (declares memory, default) or none", .value = &w.estimator },
		{ "json", 0, NULL, "import --stats: print JSON", .flag = &w.json },
		{ 0 },
	};
	return cli_options(c, options) ? dispatch(c, &w) : c->rc;
}
