/* SPDX-License-Identifier: MIT
 * rad bench: reads the command line. Outside of a task a bench queues itself as one that has a GPU alone, so that radd puts
 * nobody beside it; what it starts there, it starts itself.
 */
#include "base/alloc.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/order.h"
#include "base/proc.h"
#include "base/scope.h"
#include "base/units.h"
#include "base/words.h"
#include "cli/bench_file.h"
#include "cli/bench_mps.h"
#include "cli/bench_print.h"
#include "cli/bench_run.h"
#include "cli/bench_solo.h"
#include "cli/bench_sum.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/member.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define SEPARATOR "+"
#define RESULTS "rad-bench.jsonl"

struct bench_words {
	const char *degrees, *modes, *seconds, *repeat, *patience, *pattern, *gpu, *output, *csv, *page;
	bool json, rows_only;
};

/* Exit code 3 is of a radd that is not there, and not of a driver. */
static int fail(const struct cli_call *c, struct error *err)
{
	if (err->code == ERR_UNAVAILABLE)
		err->code = ERR_CONFLICT;
	return cli_fail(c, err);
}

/* Options ------------------------------------------------------------------------------------------------------------------ */

static int read_degrees(const char *text, struct bench_plan *p, struct error *err)
{
	scoped_free char *copy = alloc_string(text);
	for (char *rest = copy, *word; (word = strsep(&rest, ","));) {
		if (p->n_degrees == BENCH_MAX_DEGREES)
			return error_set(err, ERR_INVALID, "at most %d of them", BENCH_MAX_DEGREES);
		if (units_parse_int(word, 1, BENCH_MAX_DEGREE, &p->degrees[p->n_degrees++], err))
			return -1;
	}
	qsort(p->degrees, p->n_degrees, sizeof *p->degrees, order_i64);
	return 0;
}

static int read_modes(const char *text, struct bench_plan *p, struct error *err)
{
	scoped_free char *copy = alloc_string(text);
	p->modes_given = true;
	for (char *rest = copy, *word; (word = strsep(&rest, ","));) {
		enum bench_mode m = 0;
		while (m < BENCH_MODE_COUNT && strcmp(word, bench_mode_name(m)))
			m++;
		if (m == BENCH_MODE_COUNT)
			return error_set(err, ERR_INVALID, "'%.40s': serial, streams, mps, mps-percent or mig, with commas", word);
		p->modes[m] = true;
	}
	return 0;
}

static int read_options(const struct bench_words *w, struct bench_plan *p, struct error *err)
{
	p->seconds = 20;
	p->patience_s = 300;
	p->repeat = 2;
	p->gpu = -1;
	p->pattern = w->pattern;
	if (!w->degrees && p->n_commands > 1)
		p->degrees[p->n_degrees++] = (int64_t)p->n_commands;
	else if (read_degrees(w->degrees ? w->degrees : "1,2,3,7", p, err))
		return error_wrap(err, "--degrees");
	if (w->modes && read_modes(w->modes, p, err))
		return error_wrap(err, "--modes");
	return cli_read_double("seconds", w->seconds, 0.5, 86400, &p->seconds, err) ||
	       cli_read_double("patience", w->patience, 1, 86400, &p->patience_s, err) ||
	       cli_read_int("repeat", w->repeat, 1, 1000, &p->repeat, err) || cli_read_int("gpu", w->gpu, 0, 1023, &p->gpu, err);
}

/* Commands ----------------------------------------------------------------------------------------------------------------- */

/* As people would call it: the program, and words that are no options' dashes. */
static char *name_of(char *const *argv)
{
	scoped_buf b = { 0 };
	for (size_t i = 0; argv[i] && b.len < 60; i++)
		buf_printf(&b, "%s%s", i ? " " : "", argv[i][0] != '-' ? words_base(argv[i]) : argv[i]);
	if (b.len > 60) {
		b.len = 57;
		b.data[57] = 0;
		buf_add_text(&b, "...");
	}
	char *name = buf_steal(&b);
	bench_make_showable(name);
	return name;
}

/* "a 1 + b 2": two. The words are cut in place. */
static int read_commands(char **words, size_t n, struct bench_plan *p, struct error *err)
{
	char **begin = words;
	for (size_t i = 0; i <= n; i++) {
		if (i < n && strcmp(words[i], SEPARATOR))
			continue;
		if (begin == words + i)
			return error_set(err, ERR_INVALID, "a command is missing: rad bench collocate [options] -- COMMAND [" SEPARATOR
					 " COMMAND...]");
		if (p->n_commands == BENCH_MAX_COMMANDS)
			return error_set(err, ERR_INVALID, "at most %d commands", BENCH_MAX_COMMANDS);
		words[i] = NULL;
		p->commands[p->n_commands++] = (struct bench_command){ begin, name_of(begin) };
		begin = words + i + 1;
	}
	return 0;
}

static char *text_of(char *const *argv)
{
	scoped_buf b = { 0 };
	for (size_t i = 0; argv[i]; i++)
		buf_printf(&b, "%s%s", i ? " " : "", argv[i]);
	char *text = buf_steal(&b);
	bench_make_showable(text);
	return text;
}

/* What a results file is of: a bench of another head is another bench. */
static json_t *make_head(const struct bench_plan *p, const char *gpu)
{
	json_t *commands = json_array();
	for (size_t c = 0; c < p->n_commands; c++) {
		scoped_free char *text = text_of(p->commands[c].argv);
		json_array_append_new(commands, json_text(text));
	}
	return json_pack("{si, ss, ss, so, so, so}", "schema", 1, "bench", "collocate", "gpu", gpu, "commands", commands,
			 "seconds", json_real(p->seconds), "pattern", json_text_or_null(p->pattern));
}

/* Running ------------------------------------------------------------------------------------------------------------------ */

static void on_stop(int signum)
{
	(void)signum;
	bench_run_stop++;
}

/* By default what is possible here. */
static int settle_modes(struct bench_plan *p, const struct bench_gpu *g, struct error *err)
{
	bool mps = bench_mps_available(g), mig = bench_gpu_instances(g) > 1;
	if (!p->modes_given) {
		p->modes[BENCH_STREAMS] = true;
		p->modes[BENCH_MPS] = mps;
		p->modes[BENCH_PERCENT] = mps && !bench_gpu_file(g);	/* simulated devices know no parts of SMs */
		p->modes[BENCH_MIG] = mig;
	}
	if ((p->modes[BENCH_MPS] || p->modes[BENCH_PERCENT]) && !mps)
		return error_set(err, ERR_UNAVAILABLE, "--modes: there is no MPS here: nvidia-cuda-mps-control, which comes with the "
				 "driver, is not in PATH");
	if (p->modes[BENCH_PERCENT] && bench_gpu_file(g))
		return error_set(err, ERR_UNAVAILABLE, "--modes: simulated devices know no parts of SMs");
	if (p->modes[BENCH_MIG] && !bench_gpu_instances(g))
		return error_set(err, ERR_UNAVAILABLE, "--modes: this GPU has no MIG instances, and rad makes none: nvidia-smi mig does");
	return 0;
}

static json_t *make_result(const struct bench_file *f)
{
	json_t *result = json_copy((json_t *)bench_file_head(f));
	json_object_set_new(result, "file", json_text(bench_file_path(f)));
	json_object_set_new(result, "runs", bench_sum(bench_file_rows(f)));
	return result;
}

/* Files and the table, of all that there is. Returns the exit code: `rc`, or that of a file which cannot be written. */
static int tell(struct cli_call *c, const struct bench_words *w, const struct bench_file *f, int rc)
{
	struct error err = ERROR_INIT;
	scoped_json *result = make_result(f);
	if (w->rows_only)
		return rc;
	if ((w->csv && bench_print_csv(result, w->csv, &err)) || (w->page && bench_print_page(result, w->page, &err)))
		rc = fail(c, &err);
	if (w->json)
		cli_print_json(json_incref(result));
	else
		bench_print_table(result, stdout);
	return rc;
}

static void tell_interrupted(const struct bench_words *w)
{
	if (!w->rows_only)
		cli_note("interrupted; what was measured is in %s, and the same command goes on with it", w->output);
}

/* What ends a bench; *these: which signals. */
static void catch_signals(sigset_t *these, void (*handler)(int))
{
	static const int stops[] = { SIGINT, SIGTERM, SIGHUP };
	const struct sigaction action = { .sa_handler = handler };
	sigemptyset(these);
	for (size_t i = 0; i < COUNT_OF(stops); i++) {
		sigaction(stops[i], &action, NULL);
		sigaddset(these, stops[i]);
	}
}

static int run_on(struct cli_call *c, const struct bench_words *w, struct bench_plan *p, struct bench_gpu *g)
{
	struct error err = ERROR_INIT;
	if (settle_modes(p, g, &err) || bench_gpu_check_free(g, &err))
		return fail(c, &err);
	scoped_json *head = make_head(p, bench_gpu_name(g));
	struct bench_file *f = bench_file_open(w->output, head, &err);
	if (!f)
		return fail(c, &err);
	int rc = bench_run(p, g, f, &err);
	if (bench_run_stop)
		tell_interrupted(w);
	else if (rc < 0)
		fail(c, &err);
	rc = tell(c, w, f, bench_run_stop ? CLI_LEFT : rc ? CLI_FAILED : CLI_DONE);
	bench_file_close(f);
	return rc;
}

/* An instance of a GPU is what is wanted of the queue where nothing else is to be measured. */
static bool wants_instance(const struct bench_plan *p)
{
	bool others = !p->modes_given;
	for (enum bench_mode m = BENCH_SERIAL + 1; m < BENCH_MODE_COUNT; m++)
		others |= p->modes[m] && m != BENCH_MIG;
	return p->modes[BENCH_MIG] && !others;
}

/* In the child: becomes `rad run --exclusive -- rad bench ... --rows-only`, and all that is printed goes to standard error. */
static void become_queued(struct cli_call *c, char *rad, const struct bench_plan *p)
{
	scoped_free char **argv = alloc_zero(((size_t)c->argc + 11) * sizeof *argv);
	const char *const begin[] = { "rad", "run", "--exclusive", wants_instance(p) ? "--constraint=mig" : "--constraint=!mig",
				      "--name", "bench", "--", rad, "bench", "--rows-only" };
	size_t n = 0;
	for (size_t i = 0; i < COUNT_OF(begin); i++)
		argv[n++] = (char *)begin[i];
	memcpy(argv + n, c->argv + 1, ((size_t)c->argc - 1) * sizeof *argv);
	setpgid(0, 0);	/* a terminal's Ctrl-C comes to us alone: told of it twice, it would not wait for the task's end */
	dup2(2, 1);
	execv(rad, argv);
	cli_note("%s: %s", rad, strerror(errno));
	_exit(CLI_OWN);
}

/* Its exit code. What is to end us, it is told, each time: such signals come only while this sleeps, with the mask `open`. */
static int wait_queued(pid_t child, const sigset_t *open)
{
	int status;
	sig_atomic_t told = 0;
	scoped_fd int fd = proc_pidfd(child);
	struct pollfd end = { .fd = fd, .events = POLLIN };
	while (!waitpid(child, &status, WNOHANG)) {
		ppoll(&end, 1, &(struct timespec){ .tv_sec = 1 }, open);
		if (bench_run_stop == told)
			continue;
		told = bench_run_stop;
		kill(child, SIGTERM);
	}
	return WIFEXITED(status) && WEXITSTATUS(status) != CLI_OWN ? WEXITSTATUS(status) : CLI_FAILED;
}

/* Whether what is in the file is this bench, on whatever GPU it was. */
static bool is_of(const struct bench_file *f, const struct bench_plan *p)
{
	scoped_json *head = make_head(p, member_text(bench_file_head(f), "gpu"));
	return json_equal(head, bench_file_head(f));
}

static int queue_itself(struct cli_call *c, const struct bench_words *w, const struct bench_plan *p)
{
	struct error err = ERROR_INIT;
	scoped_free char *rad = client_find_program("rad");
	sigset_t stops, open;
	catch_signals(&stops, on_stop);
	sigprocmask(SIG_BLOCK, &stops, &open);
	pid_t child = rad ? fork() : -1;
	if (!child) {
		catch_signals(&stops, SIG_DFL);	/* one that came before it is another program is not lost */
		sigprocmask(SIG_SETMASK, &open, NULL);
		become_queued(c, rad, p);
	}
	if (child < 0) {
		error_errno(&err, "rad cannot be run again");
		return fail(c, &err);
	}
	int rc = wait_queued(child, &open);
	sigprocmask(SIG_SETMASK, &open, NULL);
	struct bench_file *f = bench_file_open(w->output, NULL, &err);
	if (bench_run_stop)
		tell_interrupted(w);
	if (f && is_of(f, p))
		rc = tell(c, w, f, bench_run_stop ? CLI_LEFT : rc ? CLI_FAILED : CLI_DONE);
	bench_file_close(f);
	return rc;	/* without a file of its own the task said why */
}

static int collocate(struct cli_call *c, const struct bench_words *w)
{
	struct bench_plan p = { 0 };
	struct error err = ERROR_INIT;
	int rc;
	scoped_free char **words = alloc_zero((c->n_words + 1) * sizeof *words);
	memcpy(words, c->words + 1, (c->n_words - 1) * sizeof *words);
	if (read_commands(words, c->n_words - 1, &p, &err) || read_options(w, &p, &err)) {
		rc = cli_usage(c, "%s", err.text);
	} else if (p.gpu < 0 && !getenv("RAD_TASK_ID")) {
		rc = queue_itself(c, w, &p);
	} else {
		sigset_t stops;
		catch_signals(&stops, on_stop);
		struct bench_gpu *g = bench_gpu_open(p.gpu, &err);
		rc = g ? run_on(c, w, &p, g) : fail(c, &err);
		bench_gpu_close(g);
	}
	for (size_t i = 0; i < p.n_commands; i++)
		free(p.commands[i].name);
	return rc;
}

int verb_bench(struct cli_call *c)
{
	struct bench_words w = { .output = RESULTS };
	const struct args_option options[] = {
		{ "degrees", 0, "LIST", "how many at a time (1,2,3,7; of several commands, as many as there are)", .value = &w.degrees },
		{ "modes", 0, "LIST", "streams,mps,mps-percent,mig (what is possible here)", .value = &w.modes },
		{ "seconds", 0, "S", "of each measurement, at least (20)", .value = &w.seconds },
		{ "repeat", 0, "N", "measurements of each (2)", .value = &w.repeat },
		{ "pattern", 0, "REGEX", "lines of progress; its group is the number of steps done", .value = &w.pattern },
		{ "patience", 0, "S", "without progress, until a task is given up (300)", .value = &w.patience },
		{ "gpu", 0, "N", "on that GPU, now and without radd (a GPU from the queue)", .value = &w.gpu },
		{ "output", 'o', "FILE", "rows, gone on with where it is there (" RESULTS ")", .value = &w.output },
		{ "rows-only", 0, NULL, NULL, .flag = &w.rows_only },
		{ "csv", 0, "FILE", "a line for each task of each run", .value = &w.csv },
		{ "page", 0, "F.html", "the same as a page", .value = &w.page },
		{ "json", 0, NULL, "print JSON", .flag = &w.json },
		{ 0 },
	};
	if (!c->describe && c->argc > 1 && !strcmp(c->argv[1], "solo")) {
		static const struct cli_verb itself = { .name = "bench solo", .help = "a command as a task with a GPU alone: what was "
			"predicted of it, and what it did" };
		struct cli_call solo = { .verb = &itself, .argc = c->argc - 1, .argv = c->argv + 1 };
		return bench_solo(&solo);
	}
	if (!cli_options(c, options))
		return c->rc;
	if (!c->n_words || strcmp(c->words[0], "collocate"))
		return c->n_words ? cli_usage(c, "'%.40s': expected collocate or solo", c->words[0]) :
				    cli_usage(c, "expected collocate or solo");
	return collocate(c, &w);
}
