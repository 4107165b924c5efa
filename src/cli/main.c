/* SPDX-License-Identifier: MIT
 * rad: the table of verbs, and the way to one of them.
 */
#include "base/io.h"
#include "base/paths.h"
#include "base/scope.h"
#include "base/words.h"
#include "cli/cli.h"
#include "cli/completion.h"
#include "cli/term.h"
#include "submit/wire.h"

#include <langinfo.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const struct cli_verb cli_verbs[] = {
#define X(name, run, help, usage, code) { #name, help, usage, run, code },
	CLI_VERBS(X)
#undef X
	{ 0 },
};

static const struct cli_verb *find_verb(const char *name)
{
	for (const struct cli_verb *v = cli_verbs; v->name; v++)
		if (!strcmp(v->name, name))
			return v;
	return NULL;
}

/* What stands above the verb of that name; NULL: it goes with the one before it. */
static const char *heading(const char *verb)
{
	static const char *const headings[][2] = {
		{ "submit", "Tasks" }, { "gpus", "GPUs, and what ran on them" }, { "drain", "Who may have which GPUs" },
		{ "estimate", "Memory, before a task runs" }, { "start", "The daemon, and rad itself" },
		{ "pilot", "Clusters, simulations, benches" },
		{ NULL },
	};
	return words_beside(headings, verb);
}

/* What somebody types who has just met us. */
static void list_first(FILE *out, const struct term *term)
{
	static const struct { const char *line, *does; } rows[] = {
		{ "rad submit python train.py", "runs when a GPU has room, instead of at once" },
		{ "rad queue", "what runs, and what waits" }, { "rad why ID", "why it waits, or failed" },
		{ "rad logs -f ID", "its output" },
	};
	fputs("\nTo begin:\n", out);
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		scoped_free char *does = term_wrap(rows[i].does, 31, term);
		fprintf(out, "$ %-28s %s\n", rows[i].line, does);
	}
}

static void list_verbs(FILE *out)
{
	struct term term = term_ask();
	fputs("Usage: rad COMMAND [options]\n"
	      "Runs training tasks on shared GPUs.\n", out);
	list_first(out, &term);
	for (const struct cli_verb *v = cli_verbs; v->name; v++) {
		if (heading(v->name))
			fprintf(out, "\n%s:\n", heading(v->name));
		scoped_free char *help = term_wrap(v->help, 15, &term);
		fprintf(out, "  %-12s %s\n", v->name, help);
	}
	scoped_free char *more = term_wrap("rad COMMAND --help tells more. --json gives every answer as one JSON object.", 0, &term);
	fprintf(out, "\n%s\n", more);
}

/* What Slurm's commands, and scontrol's words, are here; NULL: it is none of them. */
static const char *of_slurm(const char *word)
{
	static const char *const commands[][2] = {
		{ "squeue", "rad queue" }, { "sacct", "rad acct" }, { "scancel", "rad cancel" }, { "sinfo", "rad gpus" },
		{ "sbatch", "rad submit" }, { "srun", "rad run" }, { "salloc", "rad run --pty bash, or rad lease" },
		{ "sstat", "rad show ID" }, { "seff", "rad show ID" }, { "sprio", "rad why ID" }, { "sattach", "rad logs -f ID" },
		{ "sreport", "rad acct --by user, or rad report" }, { "sshare", "rad limit" }, { "sacctmgr", "rad limit" },
		{ "scontrol", "rad show, update, hold, release, requeue, suspend, resume" }, { "sdiag", "rad doctor" },
		{ "uhold", "rad hold" }, { "requeuehold", "rad requeue, and rad hold" }, { "listpids", "rad gpus" },
		{ "reconfigure", "SIGHUP to radd" }, { "wait_job", "rad wait ID" }, { "sview", "rad top, or rad web" },
		{ "strigger", "--notify and --dependency of rad submit" }, { "scrontab", "cron(8), or rad submit --begin" },
		{ NULL },
	};
	return words_beside(commands, word);
}

/* What people type who know PBS, LSF, ts, pueue, hq, Ray, gpustat, docker or kubectl, and what comes to mind; NULL: it is none
 * of them. */
static const char *of_others(const char *word)
{
	static const char *const words[][2] = {
		{ "list", "queue" }, { "ls", "queue" }, { "ps", "queue" }, { "jobs", "queue" }, { "tasks", "queue" },
		{ "status", "queue, or rad gpus" }, { "stat", "queue, or rad gpus" }, { "nodes", "gpus" },
		{ "users", "limit" }, { "reservations", "reserve" }, { "-v", "version" },
		{ "nvidia-smi", "gpus" }, { "gpustat", "gpus" }, { "nvtop", "top" }, { "htop", "top" },
		{ "kill", "cancel" }, { "rm", "cancel" }, { "delete", "cancel" }, { "abort", "cancel" },
		{ "log", "logs" }, { "tail", "logs -f" }, { "cat", "logs" }, { "output", "logs" },
		{ "info", "show" }, { "describe", "show" }, { "history", "acct" }, { "exec", "run" }, { "add", "submit" },
		{ "retry", "requeue" }, { "rerun", "requeue" }, { "restart", "requeue" }, { "pause", "suspend, or rad hold" },
		{ "follow", "logs -f" }, { "attach", "logs -f, or rad run --pty" }, { "remove", "cancel, or rad purge" },
		{ "clean", "purge" }, { "enqueue", "submit" }, { "config", "doctor, or radd --check-config" }, { "man", "help" },
		{ "shell", "run --pty bash" }, { "bash", "run --pty bash" }, { "watch", "top, or rad queue --watch 5" },
		{ "edit", "update" }, { "modify", "update" }, { "priority", "update --priority" }, { "continue", "resume" },
		{ "resubmit", "requeue" }, { "explain", "why" }, { "unreserve", "reserve --delete" }, { "usage", "acct, or rad report" },
		{ "qsub", "submit" }, { "qstat", "queue" }, { "qdel", "cancel" }, { "bsub", "submit" }, { "bjobs", "queue" },
		{ "bkill", "cancel" }, { "del", "cancel" }, { "reset", "cancel --all" }, { "stash", "hold, or rad submit --hold" },
		{ "switch", "update --priority" }, { "parallel", "submit --array=0-99%4; for all tasks, max_running in rad.conf(5)" },
		{ "group", "submit --name=NAME, and --name of rad queue, cancel, requeue" }, { "callback", "submit --notify" },
		{ "job", "submit, queue, show, logs, wait, cancel" }, { "task", "queue, show, logs, wait, cancel" },
		{ "server", "start" }, { "shutdown", "stop" }, { "worker", "start, or, in Slurm's jobs, rad pilot" },
		{ "alloc", "pilot --submit" }, { "stats", "queue, or rad gpus" },
		{ NULL },
	};
	return words_beside(words, word);
}

/* A file, a script, or a program in PATH: what people run who leave out the command. */
static bool is_to_be_run(const char *word)
{
	scoped_free char *program = paths_find(word, getenv("PATH"));
	return program || strpbrk(word, "/.") || !access(word, F_OK) || !strcmp(word, "python");
}

static int unknown_verb(const char *word)
{
	if (of_slurm(word)) {
		cli_note("'%.60s' is Slurm's: here it is %s", word, of_slurm(word));
		return CLI_USAGE;
	}
	if (of_others(word)) {
		cli_note("unknown command '%.60s': here it is rad %s", word, of_others(word));
		return CLI_USAGE;
	}
	if (*word == '-') {
		cli_note("'%.60s': options stand behind the command: rad queue --json; rad help lists the commands", word);
		return CLI_USAGE;
	}
	const char *names[sizeof cli_verbs / sizeof *cli_verbs] = { NULL };
	for (size_t i = 0; cli_verbs[i].name; i++)
		names[i] = cli_verbs[i].name;
	const char *near = words_nearest(word, names);
	for (size_t i = 0, len = strlen(word); !near && len > 1 && names[i]; i++)
		near = strncmp(word, names[i], len) ? NULL : names[i];
	if (near)
		cli_note("unknown command '%.60s': did you mean 'rad %s'?", word, near);
	else if (is_to_be_run(word))
		cli_note("unknown command '%.60s': a program is run by 'rad submit %.60s ...', or here by 'rad run %.60s ...'", word,
			 word, word);
	else
		cli_note("unknown command '%.60s': see rad help", word);
	return CLI_USAGE;
}

int verb_help(struct cli_call *c)
{
	static const struct args_option options[] = { { 0 } };
	if (!cli_options(c, options) || !cli_want_words(c, 0, 1))
		return c->rc;
	if (!c->n_words) {
		list_verbs(stdout);
		return CLI_DONE;
	}
	const struct cli_verb *v = find_verb(c->words[0]);
	char *argv[] = { c->words[0], "--help", NULL };
	struct cli_call other = { .verb = v, .argc = 2, .argv = argv };
	return v ? cli_call(&other) : unknown_verb(c->words[0]);
}

int verb_completion(struct cli_call *c)
{
	static const struct args_option options[] = { { 0 } };
	struct error err = ERROR_INIT;
	if (!cli_options(c, options) || !cli_want_words(c, 1, 1))
		return c->rc;
	return completion_write(stdout, c->words[0], cli_verbs, &err) ? cli_usage(c, "%s", err.text) : CLI_DONE;
}

/* Of the locale that the environment asks for, only which characters the terminal has: in a Turkish one "I" is no "i", and
 * words are the same everywhere. One that is not installed here, as on small images and behind ssh, says it all the same. */
static void take_locale(void)
{
	const char *asked = "";
	for (const char *const *name = (const char *const[]){ "LANG", "LC_CTYPE", "LC_ALL", NULL }; *name; name++)
		asked = getenv(*name) && *getenv(*name) ? getenv(*name) : asked;
	bool utf8 = setlocale(LC_CTYPE, "") ? !strcmp(nl_langinfo(CODESET), "UTF-8") :
		    strcasestr(asked, ".UTF-8") || strcasestr(asked, ".utf8");
	setlocale(LC_CTYPE, utf8 ? "C.UTF-8" : "C");	/* where there is no C.UTF-8, what was asked for stays */
}

int main(int argc, char **argv)
{
	io_fill_standard();
	take_locale();
	wire_settle_socket();
	signal(SIGPIPE, SIG_IGN);	/* a reader that went away is an error of write, and no reason to die half-way */
	signal(SIGCHLD, SIG_DFL);	/* whoever ignores it for us would have our children's ends lost */
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
	return cli_finish(&c, v ? cli_call(&c) : unknown_verb(argv[1]));
}
