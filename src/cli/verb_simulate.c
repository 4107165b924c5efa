/* SPDX-License-Identifier: MIT
 * rad simulate: a trace on simulated devices, or how fast a mix of workloads runs on one. No daemon is asked.
 */
#include "account/report.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/scope.h"
#include "base/units.h"
#include "cli/cli.h"
#include "cli/format.h"
#include "cli/simulation_report.h"
#include "share/share.h"
#include "sim/sim.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The words of the command line, before they are understood. */
struct words {
	const char *trace, *workloads, *mix, *map, *devices, *placement, *estimator, *share, *max_smact, *max_gract, *min_free, *slack,
		*max_slowdown, *min_gain, *loads, *order, *pass_max, *ledger, *recovery, *mps_multi_gpu, *seed,
		*report;
	bool json;
};

struct setup {
	struct sim_options o;
	struct sim_workloads workloads;
	struct sim_trace trace;
	struct device_model *devices;
};

/* Values ------------------------------------------------------------------------------------------------------------------ */

static int read_fraction(const char *word, double *v, struct error *err)
{
	if (strcmp(word, "off"))
		return units_parse_double(word, 0, 1, v, err);
	*v = NAN;
	return 0;
}

/* A bare number means GiB here. */
static int read_gib(const char *word, bool may_be_off, uint64_t *mib, struct error *err)
{
	double gib;
	if (may_be_off && !strcmp(word, "off")) {
		*mib = 0;
		return 0;
	}
	if (!*word || word[strspn(word, "0123456789.")])
		return units_parse_mib(word, mib, err);
	if (units_parse_double(word, 0, 16384, &gib, err))
		return -1;
	*mib = (uint64_t)ceil(gib * 1024);
	return 0;
}

static int read_switch(const char *word, bool *on, struct error *err)
{
	*on = !strcmp(word, "on");
	return *on || !strcmp(word, "off") ? 0 : error_set(err, ERR_INVALID, "'%.40s': on or off", word);
}

/* mig is what tasks ask for; the others are the policy's. */
static int read_share(const char *word, struct sim_options *o, struct error *err)
{
	enum share_mode mode;
	if (share_mode_parse(word, &mode, err))
		return -1;
	if (mode == SHARE_MIG)
		o->share = SHARE_MIG;
	else
		o->core.map.share = mode == SHARE_AUTO ? SHARE_MPS : mode;
	return 0;
}

/* 0 is no limit. */
static int read_slowdown(const char *word, double *x, struct error *err)
{
	*x = 0;
	return strcmp(word, "off") ? units_parse_double(word, 1, 1000, x, err) : 0;
}

/* A bare number means seconds, as in rad.conf. */
static int read_ms(const char *word, int64_t *ms, struct error *err)
{
	int64_t s;
	if (units_parse_int(word, 0, 86400 * 7, &s, NULL) && units_parse_duration(word, &s, err))
		return -1;
	*ms = s * 1000;
	return 0;
}

static int read_loads(const char *word, bool *known, struct error *err)
{
	*known = !strcmp(word, "known");
	return *known || !strcmp(word, "learnt") ? 0 : error_set(err, ERR_INVALID, "'%.40s': known or learnt", word);
}

static int read_seed(const char *word, uint64_t *seed, struct error *err)
{
	int64_t v;
	if (units_parse_int(word, 0, INT64_MAX, &v, err))
		return -1;
	*seed = (uint64_t)v;
	return 0;
}

/* The settings of a daemon, changed where the command line says so. Names the option that is wrong. */
static int read_settings(const struct words *w, struct sim_options *o, const char **option, struct error *err)
{
	struct map_policy *map = &o->core.map;
	o->core = core_config_default();
	o->estimator = w->estimator ? w->estimator : "oracle";
#define READ(word, name, call) if (word && (*option = name, call)) return -1
	READ(w->placement, "placement", map_rank_parse(w->placement, &map->rank, err));
	READ(w->share, "share", read_share(w->share, o, err));
	READ(w->max_smact, "max-smact", read_fraction(w->max_smact, &map->max_smact, err));
	READ(w->max_gract, "max-gract", read_fraction(w->max_gract, &map->max_gract, err));
	READ(w->min_free, "min-free", read_gib(w->min_free, true, &map->min_free_mib, err));
	READ(w->slack, "slack", read_gib(w->slack, false, &map->slack_mib, err));
	READ(w->max_slowdown, "max-slowdown", read_slowdown(w->max_slowdown, &map->max_slowdown, err));
	READ(w->min_gain, "min-gain", units_parse_double(w->min_gain, 0, 1, &map->min_gain, err));
	READ(w->loads, "loads", read_loads(w->loads, &o->loads_known, err));
	READ(w->order, "order", core_order_parse(w->order, &o->core.order, err));
	READ(w->pass_max, "pass-max", read_ms(w->pass_max, &o->core.pass_max_ms, err));
	READ(w->ledger, "ledger", read_switch(w->ledger, &map->ledger, err));
	READ(w->recovery, "recovery", recover_mode_parse(w->recovery, &o->core.recover.mode, err));
	READ(w->mps_multi_gpu, "mps-multi-gpu", read_switch(w->mps_multi_gpu, &map->mps_multi_gpu, err));
	READ(w->seed, "seed", read_seed(w->seed, &o->seed, err));
#undef READ
	return 0;
}

/* Progress ----------------------------------------------------------------------------------------------------------------- */

struct progress { int64_t start_ms, last_ms; bool shown; struct report_run *report; };

static void show_progress(void *ctx, size_t ended, size_t all)
{
	struct progress *p = ctx;
	int64_t now = clock_mono_ms();
	if (now - p->start_ms < 1000 || now - p->last_ms < 100)
		return;
	int filled = (int)(ended * 40 / all);
	fprintf(stderr, "\rsimulating [%.*s%*s] %zu of %zu tasks", filled, "########################################", 40 - filled, "",
		ended, all);
	p->last_ms = now;
	p->shown = true;
}

static void note_reading(void *ctx, int64_t t_ms, const struct gpu_reading *r)
{
	report_add_reading(((struct progress *)ctx)->report, t_ms, r);
}

static void clear_progress(const struct progress *p)
{
	if (p->shown)
		fputs("\r\033[K", stderr);
}

/* Results ------------------------------------------------------------------------------------------------------------------ */

static void print_seconds(const char *what, double s)
{
	char text[FORMAT_LEN];
	printf("%-24s %12s\n", what, format_seconds(s, text));
}

static void print_result(const struct setup *s, const struct sim_result *r)
{
	const struct account *a = &r->account;
	double n = a->n, total_s = (double)(a->last_end_ms - a->first_submit_ms) / 1000;
	char energy[FORMAT_LEN], smact[FORMAT_LEN];
	printf("%zu tasks on %zu GPUs, placement %s, order %s, estimator %s, share %s\n", r->n, s->o.n_devices,
	       map_rank_name(s->o.core.map.rank), core_order_name(s->o.core.order), s->o.estimator,
	       share_mode_name(s->o.share ? s->o.share : s->o.core.map.share));
	print_seconds("trace total time", total_s);
	print_seconds("lower bound", r->lower_bound_s);
	print_seconds("average waiting time", a->wait_s / n);
	print_seconds("average execution time", a->run_s / n);
	print_seconds("average completion time", a->jct_s / n);
	print_seconds("95 % completed within", account_jct_percentile(a, 0.95));
	printf("%-24s %12u\n", "out-of-memory crashes", a->ooms);
	printf("%-24s %12u\n", "tasks not completed", a->n - a->by_state[TASK_COMPLETED]);
	printf("%-24s %12s\n", "energy of the GPUs", format_energy(r->energy_j, energy));
	printf("%-24s %12s\n", "mean SMACT", format_percent(r->mean_smact, smact));
}

static int run_trace(struct cli_call *c, const struct words *w, struct setup *s)
{
	struct progress progress = { .start_ms = clock_mono_ms() };
	struct sim_result result;
	struct error err = ERROR_INIT;
	if (sim_trace_read(&s->trace, w->trace, &s->workloads, &err))
		return cli_fail(c, &err);
	s->o.workloads = &s->workloads;
	s->o.trace = &s->trace;
	s->o.devices = s->devices;
	s->o.progress = isatty(STDERR_FILENO) ? show_progress : NULL;
	s->o.ctx = &progress;
	struct report *report = w->report ? simulation_report_create(&s->o, &progress.report) : NULL;
	s->o.reading = report ? note_reading : NULL;
	int rc = sim_run(&s->o, &result, &err);
	clear_progress(&progress);
	if (rc || (report && simulation_report_save(report, progress.report, &s->o, &result, w->report, &err)))
		rc = cli_fail(c, &err);
	else if (w->json)
		rc = cli_print_json(sim_result_json(&s->o, &result));
	else
		print_result(s, &result);
	report_destroy(report);
	sim_result_clear(&result);
	return rc;
}

/* Mixes -------------------------------------------------------------------------------------------------------------------- */

static void print_mix(struct cli_call *c, const double *speed)
{
	double stp = 0;
	for (size_t i = 0; i < c->n_words; i++) {
		printf("%-40s %6.3f\n", c->words[i], speed[i]);
		stp += speed[i];
	}
	printf("%-40s %6.3f\n", "system throughput", stp);
}

static json_t *mix_json(const double *speed, size_t n)
{
	json_t *speeds = json_array();
	double stp = 0;
	for (size_t i = 0; i < n; i++) {
		json_array_append_new(speeds, json_real(speed[i]));
		stp += speed[i];
	}
	return json_pack("{si, so, sf}", "schema", 1, "relative_speed", speeds, "stp", stp);
}

/* How fast the workloads named run side by side on one device. */
static int run_mix(struct cli_call *c, const struct words *w, struct setup *s)
{
	struct error err = ERROR_INIT;
	uint64_t mib = 0;
	if (s->o.n_devices != 1)
		return cli_usage(c, "--mix is of one device, not of %zu", s->o.n_devices);
	if (!c->n_words)
		return cli_usage(c, "--mix needs the workloads that share the device");
	scoped_free struct share_task *tasks = alloc_zero(c->n_words * sizeof *tasks);
	scoped_free double *speed = alloc_zero(c->n_words * sizeof *speed);
	for (size_t i = 0; i < c->n_words; i++) {
		const struct sim_workload *one = sim_workload_need(&s->workloads, c->words[i], &err);
		if (!one)
			return cli_fail(c, &err);
		tasks[i] = (struct share_task){ one->gract, one->smact };
		mib += one->mem_mib;
	}
	if (mib > s->devices->mem_total_mib - s->devices->mem_reserved_mib)
		cli_note("together they need %llu MiB, more than a %s has", (unsigned long long)mib, s->devices->name);
	share_speeds(tasks, c->n_words, s->o.core.map.share, speed);
	if (w->json)
		return cli_print_json(mix_json(speed, c->n_words));
	print_mix(c, speed);
	return CLI_DONE;
}

static int run(struct cli_call *c, const struct words *w, struct setup *s)
{
	struct error err = ERROR_INIT;
	const char *option = NULL;
	if (read_settings(w, &s->o, &option, &err))
		return cli_usage(c, "--%s: %s", option, err.text);
	if (!w->devices || (w->mix ? w->trace || w->workloads : !w->trace))
		return cli_usage(c, "needs --devices and either --trace or --mix");
	if (w->mix && w->report)
		return cli_usage(c, "--report is of a trace, not of a mix");
	if (!w->mix && c->n_words)
		return cli_usage(c, "did not expect '%.60s'", c->words[0]);
	const char *devices = !strncmp(w->devices, "sim:", 4) ? w->devices + 4 : w->devices;	/* as radd writes them */
	if (simdev_parse(devices, &s->devices, &s->o.n_devices, &err) ||
	    sim_workloads_read(&s->workloads, w->mix ? w->mix : w->workloads ? w->workloads : SIM_CATALOGUE, w->map, &err))
		return cli_fail(c, &err);
	return w->mix ? run_mix(c, w, s) : run_trace(c, w, s);
}

int verb_simulate(struct cli_call *c)
{
	struct words w = { 0 };
	struct setup s = { 0 };
	const struct args_option options[] = {
		{ "trace", 0, "T.csv", "when tasks come: submit_s,workload", .value = &w.trace },
		{ "workloads", 0, "W.csv", "what they are: workload,gpus,solo_s,mem_mib,gract,smact (ours)", .value = &w.workloads },
		{ "map", 0, "OURS=THEIRS,...", "columns to read under another name", .value = &w.map },
		{ "devices", 0, "4xa100-40g", "GPUs, or a YAML file of them", .value = &w.devices },
		{ "placement", 0, "POLICY", "magm (default) rr lug mug ff gain exclusive", .value = &w.placement },
		{ "estimator", 0, "NAME", "oracle (default) horus faketensor gpumemnet none", .value = &w.estimator },
		{ "share", 0, "MODE", "mps (default) streams never; mig: on MIG instances only", .value = &w.share },
		{ "max-smact", 0, "F|off", "most SM activity under mps (0.8)", .value = &w.max_smact },
		{ "max-gract", 0, "F|off", "most GPU time under streams (0.9)", .value = &w.max_gract },
		{ "min-free", 0, "GIB|off", "memory asked of a GPU without an estimate (5)", .value = &w.min_free },
		{ "slack", 0, "GIB", "memory left free beyond an estimate (2)", .value = &w.slack },
		{ "max-slowdown", 0, "X|off", "no task is to run more than X times slower than alone (off)", .value = &w.max_slowdown },
		{ "min-gain", 0, "F", "under gain: part of its work that a task must bring to join others (0.05)", .value = &w.min_gain },
		{ "loads", 0, "WHAT", "of tasks that never ran before: learnt (default), or known from W.csv", .value = &w.loads },
		{ "order", 0, "ORDER", "of the queue: fifo (default) backfill plan", .value = &w.order },
		{ "pass-max", 0, "TIME", "how long the first in line may be passed under backfill and plan (3600)", .value = &w.pass_max },
		{ "ledger", 0, "on|off", "off: only the driver's free memory counts", .value = &w.ledger },
		{ "recovery", 0, "MODE", "exclusive (default) grow off", .value = &w.recovery },
		{ "mps-multi-gpu", 0, "on|off", "off: an MPS server a GPU, so none for tasks of several (on)",
		  .value = &w.mps_multi_gpu },
		{ "seed", 0, "N", "vary run times by up to 2 %, as repeated runs do", .value = &w.seed },
		{ "mix", 0, "W.csv", "relative speeds of the workloads named, on one GPU; catalogue: of our own", .value = &w.mix },
		{ "report", 0, "F.html", "write pictures there; F.json for rad report, to lay runs side by side", .value = &w.report },
		{ "json", 0, NULL, "print JSON", .flag = &w.json },
		{ 0 },
	};
	if (!cli_options(c, options))
		return c->rc;
	int rc = run(c, &w, &s);
	sim_workloads_clear(&s.workloads);
	sim_trace_clear(&s.trace);
	free(s.devices);
	return rc;
}
