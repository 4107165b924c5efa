/* SPDX-License-Identifier: MIT
 * rad simulate: a trace on simulated devices, or how fast a mix of workloads runs on one. No daemon is asked.
 */
#include "account/report.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/scope.h"
#include "cli/cli.h"
#include "cli/format.h"
#include "cli/simulation_report.h"
#include "settings/settings.h"
#include "share/share.h"
#include "sim/cluster.h"
#include "sim/sim.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The words of the command line that are no settings, before they are understood. */
struct simulate_words {
	const char *trace, *workloads, *mix, *map, *devices, *config, *estimator, *loads, *mps_multi_gpu, *seed, *report;
	const char *progress_lines;
	const char *cluster, *nodes, *shard_gpu, *shard_share, *cpus_per_node, *cpus_per_gpu, *requeue_delay, *node_wait;
	const char *bf_interval, *bf_depth, *wide;
	bool json;
};

struct setup {
	struct sim_options o;
	struct settings settings;
	struct sim_workloads workloads;
	struct sim_trace trace;
	struct device_model *devices;
	struct cluster_options cluster;
};

/* Settings ---------------------------------------------------------------------------------------------------------------- */

/* Those that have an option of their own. --set takes every one. */
static const char *const named[] = {
	"placement", "order", "share", "max-smact", "max-gract", "min-free", "slack", "max-slowdown", "min-gain", "pass-max", "ledger",
	"recovery",
};

/* What an option of a setting says of it; owned. */
struct said { char *help, *words; };

static void describe(const char *name, struct args_option *o, struct said *said)
{
	static const char *const args[] = { [SETTING_WORD] = "WORD", [SETTING_NUMBER] = "F", [SETTING_COUNT] = "N",
					    [SETTING_GIB] = "GIB", [SETTING_SECONDS] = "TIME", [SETTING_TEXT] = "TEXT" };
	const struct setting *row = settings_find(name);
	said->words = settings_words(row);
	said->help = said->words ? alloc_printf("%s: %s (%s)%s", row->help, said->words, row->standard,
						strcmp(name, "share") ? "" : "; mig: on MIG instances only")
				 : alloc_printf("%s%s (%s)", row->help, row->off ? "; off: not asked" : "", row->standard);
	*o = (struct args_option){ .name = name, .arg = args[row->type], .help = said->help, .words = said->words };
}

/* "KEY=VALUE". What no simulation looks at is refused: whoever sets it expects something of it. A file is a server's whole, and
 * may say it. */
static int set_one(struct settings *s, const char *word, struct error *err)
{
	const char *equals = strchr(word, '=');
	if (!equals)
		return error_set(err, ERR_INVALID, "'%.60s': expected KEY=VALUE", word);
	scoped_free char *name = alloc_printf("%.*s", (int)(equals - word), word);
	const struct setting *row = settings_find(name);
	if (row && row->server_only)
		return error_set(err, ERR_INVALID, "%s: plays no part in a simulation, only in radd; leave it out (in a file of --config "
				 "it may stand)", name);
	return settings_set_named(s, name, equals + 1, (struct settings_source){ SETTINGS_COMMAND_LINE, 0 }, err);
}

/* An option with the name of a setting. `--share mig` is what tasks ask for; other words are the server's default. */
static int set_named(struct setup *s, const struct args_given *g, struct error *err)
{
	const struct setting *row = settings_find(g->option->name);
	if (!strcmp(row->name, "share")) {
		s->o.share = strcmp(g->value, "mig") ? SHARE_AUTO : SHARE_MIG;
		if (s->o.share == SHARE_MIG)
			return 0;
	}
	return settings_set(&s->settings, row, g->value, (struct settings_source){ SETTINGS_COMMAND_LINE, 0 }, err);
}

/* Options in their order, over the file: the later of two counts. */
static int read_settings(const struct cli_call *c, struct setup *s, struct error *err)
{
	for (size_t i = 0; i < c->n_given; i++) {
		const struct args_given *g = &c->given[i];
		bool set = !strcmp(g->option->name, "set"), wrong = false;
		if (set)
			wrong = set_one(&s->settings, g->value, err);
		else if (!g->option->flag && !g->option->value)
			wrong = set_named(s, g, err);
		if (wrong)
			return error_wrap(err, "--%s", g->option->name);
	}
	s->o.core = s->settings.core;
	s->o.without_mps = !s->settings.mps;
	return 0;
}

/* What only a simulation has */

/* One of two words, the first of which is true. */
static int read_either(const char *option, const char *word, const char *yes, const char *no, bool *v, struct error *err)
{
	if (!word)
		return 0;
	*v = !strcmp(word, yes);
	return *v || !strcmp(word, no) ? 0 : error_set(err, ERR_INVALID, "--%s: '%.40s': %s or %s", option, word, yes, no);
}

static int read_loads(const char *word, enum sim_loads *loads, struct error *err)
{
	static const char *const words[] = {
#define X(name, word) word,
		SIM_LOADS(X)
#undef X
	};
	for (unsigned i = 0; word && i < SIM_LOADS_COUNT; i++)
		if (!strcmp(word, words[i])) {
			*loads = (enum sim_loads)i;
			return 0;
		}
	return word ? error_set(err, ERR_INVALID, "--loads: '%.40s': learnt, guessed or known", word) : 0;
}

static int read_others(const struct simulate_words *w, struct sim_options *o, struct error *err)
{
	int64_t seed = 0;
	o->estimator = w->estimator ? w->estimator : "oracle";
	if (cli_read_int("seed", w->seed, 0, INT64_MAX, &seed, err))
		return -1;
	o->seed = (uint64_t)seed;
	if (read_loads(w->loads, &o->loads, err) ||
	    read_either("progress-lines", w->progress_lines, "yes", "no", &o->progress_lines, err))
		return -1;
	if (o->loads == SIM_LOADS_GUESSED && strcmp(o->estimator, "oracle"))
		return error_set(err, ERR_INVALID, "--loads guessed goes with --estimator oracle: a capture tells memory too");
	return read_either("mps-multi-gpu", w->mps_multi_gpu, "on", "off", &o->core.map.mps_multi_gpu, err);
}

/* Progress ----------------------------------------------------------------------------------------------------------------- */

struct simulate_progress { int64_t start_ms, last_ms; unsigned shown; struct report_run *report; };

static void show_progress(void *ctx, size_t ended, size_t all)
{
	struct simulate_progress *p = ctx;
	int64_t now = clock_mono_ms();
	if (now - p->start_ms < 1000 || now - p->last_ms < 100)
		return;
	int filled = (int)(ended * 40 / all);
	scoped_free char *line = alloc_printf("simulating [%.*s%*s] %zu of %zu tasks", filled,
					      "########################################", 40 - filled, "", ended, all);
	term_show_line(&p->shown, line);
	p->last_ms = now;
}

static void note_reading(void *ctx, int64_t t_ms, const struct gpu_reading *r)
{
	report_add_reading(((struct simulate_progress *)ctx)->report, t_ms, r);
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
	double n = a->began, total_s = (double)(a->last_end_ms - a->first_submit_ms) / 1000;
	char energy[FORMAT_LEN], smact[FORMAT_LEN];
	printf("%zu tasks on %zu GPUs, placement %s, order %s, estimator %s, share %s\n", r->n, s->o.n_devices,
	       map_rank_name(s->o.core.map.rank), core_order_name(s->o.core.order), s->o.estimator,
	       share_mode_name(s->o.share ? s->o.share : s->o.core.map.share));
	print_seconds("trace total time", total_s);
	print_seconds("lower bound", r->lower_bound_s);
	print_seconds("average waiting time", a->began_wait_s / n);
	print_seconds("average execution time", a->run_s / n);
	print_seconds("average completion time", a->began_jct_s / n);
	print_seconds("95 % completed within", account_jct_percentile(a, 0.95));
	printf("%-24s %12u\n", "out-of-memory crashes", a->ooms);
	printf("%-24s %12u\n", "tasks not completed", a->n - a->by_state[TASK_COMPLETED]);
	if (r->undone_s > 0)
		print_seconds("undone, clocks being over", r->undone_s);
	printf("%-24s %12s\n", "energy of the GPUs", format_energy(r->energy_j, energy));
	printf("%-24s %12s\n", "mean SMACT", format_percent(r->mean_smact, smact));
}

static int read_trace(struct setup *s, const struct simulate_words *w, struct simulate_progress *progress, struct error *err)
{
	s->o.workloads = &s->workloads;
	s->o.trace = &s->trace;
	s->o.devices = s->devices;
	s->o.progress = isatty(STDERR_FILENO) ? show_progress : NULL;
	s->o.ctx = progress;
	return sim_trace_read(&s->trace, w->trace, &s->workloads, err);
}

static int run_trace(struct cli_call *c, const struct simulate_words *w, struct setup *s)
{
	struct simulate_progress progress = { .start_ms = clock_mono_ms() };
	struct sim_result result;
	struct error err = ERROR_INIT;
	if (read_trace(s, w, &progress, &err))
		return cli_fail(c, &err);
	struct report *report = w->report ? simulation_report_create(&s->o, &progress.report) : NULL;
	s->o.reading = report ? note_reading : NULL;
	int rc = sim_run(&s->o, &result, &err);
	term_clear_line(&progress.shown);
	if (!rc && w->json)
		rc = cli_print_json(sim_result_json(&s->o, &result));
	else if (!rc)
		print_result(s, &result);
	else
		rc = cli_fail(c, &err);
	/* Last: what took long is told, whatever the disk says. */
	if (!rc && report && simulation_report_save(report, progress.report, &s->o, &result, w->report, &err))
		rc = cli_fail(c, &err);
	report_destroy(report);
	sim_result_clear(&result);
	return rc;
}

/* Clusters ----------------------------------------------------------------------------------------------------------------- */

static int read_way(const char *word, enum cluster_way *way, struct error *err)
{
	for (enum cluster_way i = 0; word && i < CLUSTER_WAY_COUNT; i++)
		if (!strcmp(word, cluster_way_name(i))) {
			*way = i;
			return 0;
		}
	return word ? error_set(err, ERR_INVALID, "--cluster: '%.40s': whole, shard-declared, shard-estimated or node", word) : 0;
}

static int read_cluster(const struct simulate_words *w, struct cluster_options *o, struct error *err)
{
	int64_t cpus = 0, gpu_cpus = 0, requeue_s = o->requeue_ms / 1000, wait_s = o->node_wait_ms / 1000;
	int64_t backfill_s = o->backfill_ms / 1000, depth = o->backfill_depth;
	bool streams = true;
	if (read_way(w->cluster, &o->way, err) || read_either("nodes", w->nodes, "spread", "packed", &o->spread, err) ||
	    read_either("wide", w->wide, "alone", "shared", &o->wide_alone, err) ||
	    read_either("shard-gpu", w->shard_gpu, "least", "first", &o->least_gpu, err) ||
	    read_either("shard-share", w->shard_share, "streams", "mps", &streams, err) ||
	    cli_read_int("cpus-per-node", w->cpus_per_node, 0, 65536, &cpus, err) ||
	    cli_read_int("cpus-per-gpu", w->cpus_per_gpu, 0, 1024, &gpu_cpus, err) ||
	    cli_read_int("requeue-delay", w->requeue_delay, 0, 86400, &requeue_s, err) ||
	    cli_read_int("node-wait", w->node_wait, 0, 86400, &wait_s, err) ||
	    cli_read_int("bf-interval", w->bf_interval, 0, 86400, &backfill_s, err) ||
	    cli_read_int("bf-depth", w->bf_depth, 0, 1000000, &depth, err))
		return -1;
	o->shard_share = streams ? SHARE_STREAMS : SHARE_MPS;
	o->node_cpus = (uint32_t)cpus;
	o->gpu_cpus = (uint32_t)gpu_cpus;
	o->requeue_ms = requeue_s * 1000;
	o->node_wait_ms = wait_s * 1000;
	o->backfill_ms = backfill_s * 1000;
	o->backfill_depth = (unsigned)depth;
	return 0;
}

/* What says something of clusters alone; NULL: nothing was said. */
static const char *said_of_clusters(const struct simulate_words *w)
{
	const struct { const char *option, *word; } of[] = {
		{ "cluster", w->cluster }, { "nodes", w->nodes }, { "wide", w->wide }, { "shard-gpu", w->shard_gpu },
		{ "shard-share", w->shard_share },
		{ "cpus-per-node", w->cpus_per_node }, { "cpus-per-gpu", w->cpus_per_gpu }, { "requeue-delay", w->requeue_delay },
		{ "node-wait", w->node_wait }, { "bf-interval", w->bf_interval }, { "bf-depth", w->bf_depth },
	};
	for (size_t i = 0; i < COUNT_OF(of); i++)
		if (of[i].word)
			return of[i].option;
	return NULL;
}

static void print_spread(const char *what, const struct cluster_spread *s)
{
	char mean[FORMAT_LEN], median[FORMAT_LEN], p95[FORMAT_LEN];
	printf("%-24s %12s mean, %12s median, %12s 95 %%\n", what, format_seconds(s->mean_s, mean),
	       format_seconds(s->median_s, median), format_seconds(s->p95_s, p95));
}

static void print_cluster(const struct setup *s, const struct cluster_result *r)
{
	const struct cluster_spread wait = cluster_waits(r), jct = cluster_jcts(r);
	char energy[FORMAT_LEN], smact[FORMAT_LEN];
	printf("%zu jobs on %zu nodes, %zu GPUs, cluster %s, estimator %s\n", r->n, s->cluster.n_nodes, s->o.n_devices,
	       cluster_way_name(s->cluster.way), s->o.estimator);
	print_seconds("trace total time", (double)r->span_ms / 1000);
	print_seconds("lower bound", r->lower_bound_s);
	print_spread("waiting time", &wait);
	print_spread("completion time", &jct);
	printf("%-24s %12.0f\n", "GPU-hours in use", r->gpu_hours);
	printf("%-24s %12zu\n", "out-of-memory crashes", r->ooms);
	printf("%-24s %12zu\n", "sent back by nodes", r->sent_back);
	printf("%-24s %12zu\n", "past their time limit", r->past_limit);
	printf("%-24s %12zu\n", "jobs that failed", r->failed);
	printf("%-24s %12s\n", "energy of the GPUs", format_energy(r->energy_j, energy));
	printf("%-24s %12s\n", "mean SMACT", format_percent(r->mean_smact, smact));
}

static int run_cluster(struct cli_call *c, const struct simulate_words *w, struct setup *s)
{
	struct simulate_progress progress = { .start_ms = clock_mono_ms() };
	struct cluster_result result;
	struct error err = ERROR_INIT;
	if (w->report)
		return cli_usage(c, "--report is of one server, not of a cluster");
	if (s->o.progress_lines)
		return cli_usage(c, "--progress-lines is of one server, not of a cluster");
	if (!w->estimator)
		s->o.estimator = "replay";
	if (read_trace(s, w, &progress, &err))
		return cli_fail(c, &err);
	s->cluster.sim = &s->o;
	int rc = cluster_run(&s->cluster, &result, &err);
	term_clear_line(&progress.shown);
	if (rc)
		rc = cli_fail(c, &err);
	else if (w->json)
		rc = cli_print_json(cluster_result_json(&s->cluster, &result));
	else
		print_cluster(s, &result);
	cluster_result_clear(&result);
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
static int run_mix(struct cli_call *c, const struct simulate_words *w, struct setup *s)
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
		tasks[i] = (struct share_task){ one->gract, one->smact, one->kernels };
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

/* "4xa100-40g", also as radd writes them; those of the settings where they are simulated ones. NULL: none were named. */
static const char *devices_of(const struct simulate_words *w, const struct setup *s)
{
	const char *named_there = strncmp(s->settings.devices, "sim:", 4) ? NULL : s->settings.devices;
	const char *devices = w->devices ? w->devices : named_there;
	return devices && !strncmp(devices, "sim:", 4) ? devices + 4 : devices;
}

static int run(struct cli_call *c, const struct simulate_words *w, struct setup *s)
{
	struct error err = ERROR_INIT;
	if (w->config && settings_read(&s->settings, w->config, true, NULL, NULL, &err))
		return cli_fail(c, &err);
	if (read_settings(c, s, &err) || read_others(w, &s->o, &err) || read_cluster(w, &s->cluster, &err))
		return cli_usage(c, "%s", err.text);
	const char *devices = devices_of(w, s);
	if (!devices || (w->mix ? w->trace || w->workloads : !w->trace))
		return cli_usage(c, "needs --devices and either --trace or --mix");
	if (w->mix && w->report)
		return cli_usage(c, "--report is of a trace, not of a mix");
	if (w->report && !strcmp(w->report, "-"))
		return cli_usage(c, "--report: standard output has the results: name a file");
	if (!w->mix && c->n_words)
		return cli_usage(c, "did not expect '%.60s'", c->words[0]);
	if (simdev_parse_nodes(devices, &s->devices, &s->o.n_devices, &s->cluster.n_nodes, &err) ||
	    sim_workloads_read(&s->workloads, w->mix ? w->mix : w->workloads ? w->workloads : SIM_CATALOGUE, w->map, &err))
		return cli_fail(c, &err);
	if (w->mix)
		return run_mix(c, w, s);
	const char *said = said_of_clusters(w);
	if (said && !w->cluster && s->cluster.n_nodes == 1)
		return cli_usage(c, "--%s is of clusters: name nodes (--devices 512x8xa100-40g) or say --cluster", said);
	return said || s->cluster.n_nodes > 1 ? run_cluster(c, w, s) : run_trace(c, w, s);
}

static int call(struct cli_call *c, struct args_option *named_rows)
{
	struct simulate_words w = { 0 };
	const struct args_option own[] = {
		{ "trace", 0, "T.csv", "when tasks come: submit_s,workload", .value = &w.trace },
		{ "workloads", 0, "W.csv", "what they are: workload,gpus,solo_s,mem_mib,gract,smact (ours)", .value = &w.workloads },
		{ "map", 0, "OURS=THEIRS,...", "columns to read under another name", .value = &w.map },
		{ "devices", 0, "4xa100-40g", "GPUs, a YAML file of them, or nodes of GPUs: 512x8xa100-40g", .value = &w.devices },
		{ "config", 0, "rad.conf", "settings of a server (rad.conf(5)); without, the defaults", .value = &w.config },
		{ "set", 0, "KEY=VALUE", "one of these settings; may be given again" },
		{ "estimator", 0, "NAME", "oracle (default) horus faketensor gpumemnet none; of clusters also replay (default there)",
		  .value = &w.estimator },
		{ "loads", 0, "WHAT", "of tasks that never ran before: learnt (default), guessed (captures), or known from W.csv",
		  .value = &w.loads, .words = "learnt guessed known" },
		{ "progress-lines", 0, "yes|no", "tasks print how far they are (no)", .value = &w.progress_lines, .words = "yes no" },
		{ "mps-multi-gpu", 0, "on|off", "off: an MPS server a GPU, so none for tasks of several (on)",
		  .value = &w.mps_multi_gpu, .words = "on off" },
		{ "seed", 0, "N", "vary run times by up to 2 %, as repeated runs do", .value = &w.seed },
		{ "mix", 0, "W.csv", "relative speeds of the workloads named, on one GPU; catalogue: of our own", .value = &w.mix },
		{ "cluster", 0, "WAY", "how nodes are given: whole GPUs, shard-declared, shard-estimated, or node, where each node's radd "
		  "places (default of several nodes)", .value = &w.cluster, .words = "whole shard-declared shard-estimated node" },
		{ "nodes", 0, "WHICH", "of a cluster: packed (default), the first that fits, or spread, the emptiest (CR_LLN)",
		  .value = &w.nodes, .words = "packed spread" },
		{ "wide", 0, "HOW", "jobs of several GPUs where radds place: shared (default) or alone", .value = &w.wide,
		  .words = "shared alone" },
		{ "shard-gpu", 0, "WHICH", "of a node: first (default) that fits, or least, with most left (LL_SHARED_GRES)",
		  .value = &w.shard_gpu, .words = "first least" },
		{ "shard-share", 0, "MODE", "how tasks with shards share a GPU: streams (default) or mps", .value = &w.shard_share,
		  .words = "streams mps" },
		{ "cpus-per-node", 0, "N", "CPUs of a node; 0: not counted (0)", .value = &w.cpus_per_node },
		{ "cpus-per-gpu", 0, "N", "CPUs that a job asks for with each GPU (0)", .value = &w.cpus_per_gpu },
		{ "requeue-delay", 0, "S", "before a requeued job may start again (120)", .value = &w.requeue_delay },
		{ "node-wait", 0, "S", "how long a node's radd is waited for, before the job is sent back (30)", .value = &w.node_wait },
		{ "bf-interval", 0, "S", "between backfills (30)", .value = &w.bf_interval },
		{ "bf-depth", 0, "N", "jobs that a backfill tries; 0: none passes another (500)", .value = &w.bf_depth },
		{ "report", 0, "F.html", "write pictures there; F.json for rad report, to lay runs side by side", .value = &w.report },
		{ "json", 0, NULL, "print JSON", .flag = &w.json },
	};
	struct args_option options[COUNT_OF(own) + COUNT_OF(named) + 1] = { 0 };
	memcpy(options, own, sizeof own);
	memcpy(options + COUNT_OF(own), named_rows, COUNT_OF(named) * sizeof *options);
	if (!cli_options(c, options))
		return c->rc;
	struct setup s = { .settings = settings_default(), .cluster = cluster_options_default() };
	int rc = run(c, &w, &s);
	settings_clear(&s.settings);
	sim_workloads_clear(&s.workloads);
	sim_trace_clear(&s.trace);
	free(s.devices);
	return rc;
}

int verb_simulate(struct cli_call *c)
{
	struct args_option rows[COUNT_OF(named)];
	struct said said[COUNT_OF(named)];
	for (size_t i = 0; i < COUNT_OF(named); i++)
		describe(named[i], &rows[i], &said[i]);
	int rc = call(c, rows);
	for (size_t i = 0; i < COUNT_OF(named); i++) {
		free(said[i].help);
		free(said[i].words);
	}
	return rc;
}
