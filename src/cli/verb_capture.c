/* SPDX-License-Identifier: MIT
 * rad capture: becomes the Python package radrm.capture under the interpreter that the command names, since that has the job's
 * PyTorch. Everything else, the options' meaning too, is there.
 */
#include "base/alloc.h"
#include "base/scope.h"
#include "cli/cli.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST_OPTIONS 16

/* The folder `relative` to this program's, if the package is there; else NULL. */
static char *beside(const char *relative)
{
	char path[4096];
	ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
	if (n <= 0)
		return NULL;
	path[n] = 0;
	char *slash = strrchr(path, '/');
	if (!slash)
		return NULL;
	*slash = 0;
	char *folder = alloc_printf("%s/%s", path, relative);
	scoped_free char *package = alloc_printf("%s/radrm/capture/__main__.py", folder);
	if (!access(package, R_OK))
		return folder;
	free(folder);
	return NULL;
}

/* Puts the package's folder in front of PYTHONPATH. One that is nowhere beside this program may be installed in Python. */
static void show_package(void)
{
	const char *named = getenv("RAD_PYTHONPATH"), *before = getenv("PYTHONPATH");
	scoped_free char *found = named && *named ? alloc_string(named) : beside("../share/rad/python");
	if (!found)
		found = beside("../python");
	if (!found)
		return;
	scoped_free char *path = before && *before ? alloc_printf("%s:%s", found, before) : alloc_string(found);
	setenv("PYTHONPATH", path, 1);
}

/* "python", "/opt/conda/bin/python3.12", ... */
static bool is_python(const char *word)
{
	const char *slash = strrchr(word, '/');
	return !strncmp(slash ? slash + 1 : word, "python", 6);
}

static bool is_script(const char *word)
{
	size_t n = strlen(word);
	return n > 3 && !strcmp(word + n - 3, ".py");
}

/* PyTorch's launcher of several processes: a Python script, whose words the package reads. */
static bool is_torchrun(const char *word)
{
	const char *slash = strrchr(word, '/');
	return !strcmp(slash ? slash + 1 : word, "torchrun");
}

/* What the package's own command line takes. */
struct wish {
	const char *output, *iterations, *timeout, *memory;
	bool fresh, verbose;
};

/* The command to become; the array is the caller's to free, its words are borrowed. */
static char **command(const struct cli_call *c, const struct wish *w)
{
	const char *valued[][2] = { { "-o", w->output }, { "--iterations", w->iterations }, { "--timeout", w->timeout },
				    { "--memory", w->memory } };
	const char **argv = alloc_zero((c->n_words + MOST_OPTIONS) * sizeof *argv);
	bool python = is_python(c->words[0]);
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
	if (w->fresh)
		argv[n++] = "--no-cache";
	if (w->verbose)
		argv[n++] = "-v";
	argv[n++] = "--";
	for (size_t i = python; i < c->n_words; i++)
		argv[n++] = c->words[i];
	return (char **)argv;
}

int verb_capture(struct cli_call *c)
{
	struct wish w = { 0 };
	const struct args_option options[] = {
		{ "output", 'o', "FILE", "the capture file to write", .value = &w.output },
		{ "iterations", 0, "N", "optimizer steps to see (default 3)", .value = &w.iterations },
		{ "timeout", 0, "S", "seconds that it may take (default 300)", .value = &w.timeout },
		{ "memory", 0, "MIB", "memory of this machine that it may take (default 32768)", .value = &w.memory },
		{ "no-cache", 0, NULL, "capture even if the same script was captured before", .flag = &w.fresh },
		{ "verbose", 'v', NULL, "show what the script prints", .flag = &w.verbose },
		{ 0 }
	};
	struct error err = ERROR_INIT;
	if (!cli_options(c, options) || !cli_want_words(c, 1, CLI_ANY_NUMBER))
		return c->rc;
	if (!w.output)
		return cli_usage(c, "-o FILE is missing");
	if (!is_python(c->words[0]) && !is_script(c->words[0]) && !is_torchrun(c->words[0]))
		return cli_usage(c, "'%.200s' is neither Python, torchrun nor a .py file: give the script itself, as in "
				 "-- python train.py", c->words[0]);
	scoped_free char **argv = command(c, &w);
	show_package();
	execvp(argv[0], argv);
	error_set(&err, ERR_NOT_FOUND, "%s: %s: is it installed, and its environment active?", argv[0], strerror(errno));
	return cli_fail(c, &err);
}
