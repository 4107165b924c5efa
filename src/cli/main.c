/* SPDX-License-Identifier: MIT
 * rad: the table of verbs, and the way to one of them.
 */
#include "base/scope.h"
#include "cli/cli.h"
#include "cli/simtask.h"
#include "submit/options.h"

#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

const struct cli_verb cli_verbs[] = {
	{ "submit", "queue a task file or a command", "[options] FILE.rad | COMMAND", verb_submit },
	{ "run", "submit, follow the output, exit with the task's code", "[options] FILE.rad | COMMAND", verb_run, true },
	{ "queue", "list pending and running tasks", "[options] [ID...]", verb_queue },
	{ "show", "all that is known of a task", "[options] ID...", verb_show },
	{ "why", "why a task is where it is, in numbers", "[options] ID", verb_why },
	{ "logs", "a task's output", "[options] ID", verb_logs },
	{ "wait", "wait for tasks to end, exit with their code", "[options] ID...", verb_wait, true },
	{ "cancel", "end tasks, or take them out of the queue", "[options] ID... | --all | --pending", verb_cancel },
	{ "hold", "keep pending tasks back", "[options] ID...", verb_change },
	{ "release", "let held tasks go", "[options] ID...", verb_change },
	{ "requeue", "put running or ended tasks back into the queue", "[options] ID...", verb_change },
	{ "update", "change a task's priority, time limit, memory or name", "[options] ID... [KEY=VALUE...]", verb_update },
	{ "gpus", "GPUs: load, memory, tasks, processes", "[options]", verb_gpus },
	{ "top", "GPUs and tasks on the whole screen, renewed every second", "[options]", verb_top },
	{ "acct", "what ended tasks, users and GPUs took", "[options]", verb_acct },
	{ "report", "a page of what ran where and when, and what it took", "[options] -o F.html [RUN.json...]", verb_report },
	{ "drain", "take GPUs out of use; what runs there goes on", "[options] GPU...", verb_drain },
	{ "undrain", "put drained GPUs back", "[options] GPU...", verb_drain },
	{ "estimate", "estimate a task's GPU memory", "[options] [FILE.rad]", verb_estimate },
	{ "parse", "what a model summary says to the estimators", "[options] SUMMARY | FILE.rad", verb_parse },
	{ "capture", "what a training script asks of the GPU's memory, found without a GPU",
	  "[options] -o FILE -- python train.py...", verb_capture },
	{ "doctor", "check that RAD-RM can work here", "[options]", verb_doctor },
	{ "version", "releases of rad and radd", "[options]", verb_version },
	{ "help", "help on rad, or on one command", "[COMMAND]", verb_help },
	{ "completion", "completion script for bash, zsh or fish", "bash | zsh | fish", verb_completion },
	{ "simulate", "what a trace of tasks would take on simulated GPUs",
	  "--devices LIST (--trace T.csv --workloads W.csv | --mix W.csv WORKLOAD...) [options]", verb_simulate },
	{ "trace", "make traces, import job logs, run a trace on simulated GPUs",
	  "make --workloads W.csv | import LOG --workloads W.csv | run T.csv --workloads W.csv [options]", verb_trace },
	{ "simtask", "a stand-in for a training program, for simulated GPUs", "--mem SIZE --seconds S [options]", verb_simtask },
	{ 0 },
};

static const struct cli_verb *find_verb(const char *name)
{
	for (const struct cli_verb *v = cli_verbs; v->name; v++)
		if (!strcmp(v->name, name))
			return v;
	return NULL;
}

static void list_verbs(FILE *out)
{
	fputs("Usage: rad COMMAND [options]\n"
	      "Runs training tasks on shared GPUs.\n\n", out);
	for (const struct cli_verb *v = cli_verbs; v->name; v++)
		fprintf(out, "  %-12s %s\n", v->name, v->help);
	fputs("\nrad COMMAND --help tells more. --json gives every answer as one JSON object.\n", out);
}

static int unknown_verb(const char *word)
{
	const char *names[sizeof cli_verbs / sizeof *cli_verbs] = { NULL };
	for (size_t i = 0; cli_verbs[i].name; i++)
		names[i] = cli_verbs[i].name;
	const char *near = options_nearest(word, names);
	for (size_t i = 0, len = strlen(word); !near && len > 1 && names[i]; i++)
		near = strncmp(word, names[i], len) ? NULL : names[i];
	if (near)
		cli_note("unknown command '%.60s': did you mean 'rad %s'?", word, near);
	else
		cli_note("unknown command '%.60s': see rad help", word);
	return CLI_USAGE;
}

int verb_help(struct cli_call *c)
{
	static const struct cli_option options[] = { { 0 } };
	if (!cli_options(c, options) || !cli_want_words(c, 0, 1))
		return c->rc;
	if (!c->n_words) {
		list_verbs(stdout);
		return CLI_DONE;
	}
	const struct cli_verb *v = find_verb(c->words[0]);
	char *argv[] = { c->words[0], "--help", NULL };
	struct cli_call other = { .verb = v, .argc = 2, .argv = argv };
	return v ? v->run(&other) : unknown_verb(c->words[0]);
}

int verb_completion(struct cli_call *c)
{
	static const struct cli_option options[] = { { 0 } };
	struct options_verb verbs[COUNT_OF(cli_verbs)] = { { 0 } };
	struct error err = ERROR_INIT;
	if (!cli_options(c, options) || !cli_want_words(c, 1, 1))
		return c->rc;
	for (size_t i = 0; cli_verbs[i].name; i++)
		verbs[i] = (struct options_verb){ cli_verbs[i].name, cli_verbs[i].help };
	return options_completion(stdout, c->words[0], verbs, &err) ? cli_usage(c, "%s", err.text) : CLI_DONE;
}

int verb_simtask(struct cli_call *c)
{
	return simtask_main(c->argc, c->argv);
}

int main(int argc, char **argv)
{
	setlocale(LC_CTYPE, "");
	signal(SIGPIPE, SIG_IGN);	/* a reader that went away is an error of write, and no reason to die half-way */
	if (argc < 2) {
		list_verbs(stderr);
		return CLI_USAGE;
	}
	const char *word = argv[1];
	if (!strcmp(word, "--help") || !strcmp(word, "-h"))
		word = "help";
	else if (!strcmp(word, "--version") || !strcmp(word, "-V"))
		word = "version";
	const struct cli_verb *v = find_verb(word);
	struct cli_call c = { .verb = v, .argc = argc - 1, .argv = argv + 1 };
	return cli_finish(v ? v->run(&c) : unknown_verb(argv[1]));
}
