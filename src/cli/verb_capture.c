/* SPDX-License-Identifier: MIT
 * rad capture: becomes the Python package radrm.capture under the interpreter that the command names, since that has the job's
 * PyTorch. Everything else, the options' meaning too, is there.
 */
#include "base/alloc.h"
#include "base/paths.h"
#include "base/scope.h"
#include "cli/aside.h"
#include "cli/cli.h"
#include "cli/ids.h"
#include "cli/submit_caller.h"
#include "cli/submit_capture.h"
#include "cli/submit_client.h"

#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MOST_OPTIONS 24	/* words of command() beside those of the command, and the NULL */
#define DEFAULT_SECONDS 300
#define OUTPUT_AT 4	/* where command() puts the file: python3 -m radrm.capture -o FILE */

/* The folder `relative` to this program's, if the package is there; else NULL. */
static char *package_beside(const char *relative)
{
	scoped_free char *folder = paths_beside(relative);
	scoped_free char *package = folder ? alloc_printf("%s/radrm/capture/__main__.py", folder) : NULL;
	return package && !access(package, R_OK) ? steal(folder) : NULL;
}

/* Puts the package's folder in front of PYTHONPATH. One that is nowhere beside this program may be installed in Python. */
static void show_package(void)
{
	const char *named = getenv("RAD_PYTHONPATH"), *before = getenv("PYTHONPATH");
	scoped_free char *found = named && *named ? alloc_string(named) : package_beside("../share/rad/python");
	if (!found)
		found = package_beside("../python");
	if (!found)
		return;
	scoped_free char *path = before && *before ? alloc_printf("%s:%s", found, before) : alloc_string(found);
	setenv("PYTHONPATH", path, 1);
}

/* Which library keeps the hook of commands (capture_hook.c): this program's own, whatever `rad` PATH has. */
static void show_library(void)
{
	scoped_free char *path = paths_library("libradcapture.so");
	if (path)
		setenv("RADRM_CAPTURE_LIBRARY", path, 1);
	else
		unsetenv("RADRM_CAPTURE_LIBRARY");
}

/* What the package's own command line takes. */
struct wish {
	const char *output, *iterations, *timeout, *clock, *memory, *gpus, *task;
	bool fresh, verbose, in_place, aside;
};

/* What a capture would take the place of, since it is written beside that and renamed: root's /dev/null. */
static bool is_no_file(const char *path)
{
	char to[8] = "";
	struct stat st;
	if (lstat(path, &st) || S_ISREG(st.st_mode))
		return false;
	if (!S_ISLNK(st.st_mode))
		return true;
	return readlink(path, to, sizeof to - 1) > 0 && (!strncmp(to, "/proc/", 6) || (!stat(path, &st) && !S_ISREG(st.st_mode)));
}

/* A task file stands for its script, in its folder and its environment. *spec keeps the words. 0, or -1 with the reason. */
static int enter_task_file(struct cli_call *c, struct wish *w, struct spec **spec, char script[32], struct error *err)
{
	static char output[PATH_MAX], gpus[16];
	struct submit_flags flags = { 0 };
	if (!submit_is_task_file(c->words[0]))
		return 0;
	if (w->output && *w->output != '/' && getcwd(output, sizeof output)) {
		size_t n = strlen(output);
		if ((size_t)snprintf(output + n, sizeof output - n, "/%s", w->output) >= sizeof output - n)
			return error_set(err, ERR_INVALID, "-o: %.60s...: the path is too long", w->output);
		w->output = output;
	}
	int failed = submit_parse_script(c->words, spec, &flags, err);
	submit_flags_clear(&flags);
	if (failed)
		return -1;
	snprintf(gpus, sizeof gpus, "%u", (*spec)->gpus);
	w->gpus = w->gpus ? w->gpus : gpus;
	if (chdir((*spec)->cwd))
		return error_errno(err, "%.300s", (*spec)->cwd);
	c->words = (char **)submit_capture_words(*spec, script);
	for (c->n_words = 0; c->words[c->n_words]; c->n_words++)
		;
	return 0;
}

/* The command to become; the array is the caller's to free, its words are borrowed. */
static char **command(const struct cli_call *c, const struct wish *w)
{
	const char *valued[][2] = { { "-o", w->output }, { "--iterations", w->iterations }, { "--timeout", w->timeout },
				    { "--clock", w->clock }, { "--memory", w->memory }, { "--gpus", w->gpus } };
	const char **argv = alloc_zero((c->n_words + MOST_OPTIONS) * sizeof *argv);
	bool python = submit_capture_is_interpreter(c->words[0]);
	size_t n = 0;
	argv[n++] = python ? c->words[0] : "python3";
	argv[n++] = "-m";
	argv[n++] = "radrm.capture";
	for (size_t i = 0; i < COUNT_OF(valued); i++) {
		if (!valued[i][1])
			continue;
		argv[n++] = valued[i][0];
		argv[n++] = valued[i][1];
	}
	if (w->in_place)
		argv[n++] = "--in-place";
	if (w->aside)
		argv[n++] = "--aside";
	if (w->fresh)
		argv[n++] = "--no-cache";
	if (w->verbose)
		argv[n++] = "-v";
	if (python)
		argv[n++] = "--python"; /* what follows is its script, though that may be a program as well */
	argv[n++] = "--";
	for (size_t i = python; i < c->n_words; i++)
		argv[n++] = c->words[i];
	return (char **)argv;
}

/* What it is to be run with is refused here, before a Python is looked for. */
static int check_numbers(const struct wish *w, int64_t *seconds, struct error *err)
{
	int64_t n;
	double s = DEFAULT_SECONDS;
	if (cli_read_int("iterations", w->iterations, 1, 100, &n, err) || cli_read_int("memory", w->memory, 1, INT32_MAX, &n, err) ||
	    cli_read_int("gpus", w->gpus, 1, SPEC_MAX_GPUS, &n, err) ||
	    cli_read_double("timeout", w->timeout, w->task ? 1 : 0.001, INT32_MAX, &s, err))
		return -1;
	*seconds = (int64_t)s;
	return cli_read_double("clock", w->clock, 0.001, INT32_MAX, &s, err);
}

int verb_capture(struct cli_call *c)
{
	struct wish w = { 0 };
	const struct args_option options[] = {
		{ "output", 'o', "FILE", "the capture file to write", .value = &w.output },
		{ "iterations", 0, "N", "optimizer steps to see (default 3)", .value = &w.iterations },
		{ "timeout", 0, "S", "seconds of processor time that it may take (default 300)", .value = &w.timeout },
		{ "clock", 0, "S", "seconds that it may take by the clock (default: five times --timeout)", .value = &w.clock },
		{ "memory", 0, "MIB", "memory of this machine that it may take (default 32768)", .value = &w.memory },
		{ "gpus", 0, "N", "GPUs that the script is to see (default: the task file's, or 1)", .value = &w.gpus },
		{ "no-cache", 0, NULL, "capture even if the same script was captured before", .flag = &w.fresh },
		{ "in-place", 0, NULL, "let the script write its files for real, where it writes them", .flag = &w.in_place },
		{ "for", 0, "ID", "send it to radd for that task, which waits for it, in place of -o", .value = &w.task },
		{ "verbose", 'v', NULL, "show what the script prints", .flag = &w.verbose },
		{ 0 }
	};
	struct error err = ERROR_INIT;
	if (!cli_options(c, options) || !cli_want_words(c, 1, CLI_ANY_NUMBER))
		return c->rc;
	if (!w.output == !w.task)
		return cli_usage(c, "%s", w.task ? "either -o FILE or --for ID" : "-o FILE is missing");
	if (w.output && is_no_file(w.output))
		return cli_usage(c, "-o: %.300s: is no file: a capture is read from one again", w.output);
	if (w.task && !ids_want_one(c, w.task))
		return c->rc;
	char script[32];
	struct spec *spec = NULL;
	int64_t seconds = DEFAULT_SECONDS;
	if (check_numbers(&w, &seconds, &err))
		return cli_usage(c, "%s", err.text);
	if (enter_task_file(c, &w, &spec, script, &err))
		return cli_fail(c, &err);
	if (w.task) {
		w.output = "-";
		w.aside = !w.in_place && aside_works(".");	/* radd is to know beforehand; else the package finds out */
		w.in_place = !w.aside;
	}
	scoped_free char **argv = command(c, &w);
	show_package();
	show_library();
	if (w.task)
		return submit_capture_deliver(argv, OUTPUT_AT, w.task, w.aside, seconds);
	execvp(argv[0], argv);
	if (!strchr(argv[0], '/') && errno == ENOENT)
		error_set(&err, ERR_NOT_FOUND, "there is no %s in PATH: is it installed, and its environment active?", argv[0]);
	else
		submit_caller_explain_absent(argv[0], argv[0], errno, ".", &err);
	return cli_fail(c, &err);
}
