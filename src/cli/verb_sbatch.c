/* SPDX-License-Identifier: MIT
 * rad sbatch: submits to Slurm what rad submit would submit to radd. What the task is estimated to take on a GPU becomes what
 * the job asks of Slurm (cli/slurm_conf.h says how), and sbatch does the rest, in this process: everything else on the command
 * line is its own.
 *
 * With --size it only says what it would ask for: so the plugin of Slurm's own commands asks it (slurm/cli_filter_rad.c).
 */
#include "base/alloc.h"
#include "base/io.h"
#include "base/json.h"
#include "base/scope.h"
#include "base/units.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/format.h"
#include "cli/slurm_conf.h"
#include "cli/slurm_file.h"
#include "cli/submit_caller.h"
#include "cli/submit_capture.h"
#include "cli/submit_client.h"
#include "estimate/estimate.h"
#include "parse/radfile.h"
#include "submit/signature.h"
#include "submit/wire.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define HISTORY_S 2	/* that a radd has for its answer */
#define CAPTURE_S 120	/* for `#RAD --capture=auto`; under the plugin, which has ten in all, fewer: */
#define CAPTURE_SIZE_S 7

struct sbatch {
	const char *file;		/* NULL: none */
	const char *mem, *partition;	/* as given; NULL: not */
	bool dry_run, size, asks;	/* asks: for GPUs, in the user's own words */
	bool no_size;			/* --gpu-mem says none */
	char **argv;			/* sbatch's, "sbatch" first; room for what is added */
	size_t n;
	char **arguments;		/* of the script */
};

/* The command line ----------------------------------------------------------------------------------------------------- */

/* Whether that word is the option, its value joined or in the next one. */
static bool takes(const char *word, const char *name, char **next, const char **value)
{
	size_t len = strlen(name);
	if (strncmp(word, name, len) || (word[len] && word[len] != '='))
		return false;
	*value = word[len] ? word + len + 1 : *next;
	return true;
}

/* Ours are taken out. Returns whether the next word went with it. */
static bool read_word(struct sbatch *s, char **word)
{
	static const char *const asking[] = { "--gres", "--gpus", "-G", "--tres-per-" };
	const char *value = NULL;
	if (!strcmp(*word, "--dry-run") || !strcmp(*word, "--size")) {
		s->dry_run = s->dry_run || word[0][2] == 'd';
		s->size = s->size || word[0][2] == 's';
		return false;
	}
	if (takes(*word, "--gpu-mem", word + 1, &value) || takes(*word, "--rad-gpu-mem", word + 1, &value)) {
		s->mem = value;
		s->no_size = !value;
		return value && value == word[1];
	}
	s->argv[s->n++] = *word;
	if (takes(*word, "--partition", word + 1, &value) || takes(*word, "-p", word + 1, &value))
		s->partition = value;
	else if (!strncmp(*word, "-p", 2))
		s->partition = *word + 2;
	for (size_t i = 0; i < COUNT_OF(asking); i++)
		s->asks = s->asks || !strncmp(*word, asking[i], strlen(asking[i]));
	return false;
}

/* Neither an option nor what may be the value of the one before it. */
static bool is_argument(char *const *word)
{
	return **word != '-' && (*word[-1] != '-' || strchr(word[-1], '='));
}

/* FILE first and sbatch's options behind it, the script's arguments after "--" or from the first word on that can be none of
 * sbatch's; or as sbatch: options, FILE, arguments. */
static void read_command(struct sbatch *s, int argc, char **argv)
{
	int at = 1;
	s->argv = alloc_zero((size_t)(argc + 8) * sizeof *s->argv);
	s->argv[s->n++] = "sbatch";
	for (; at < argc && *argv[at] == '-' && s->n == 1; at++)
		at += read_word(s, argv + at);
	if (at < argc && *argv[at] != '-' && s->n == 1)	/* nothing of sbatch's stands before it */
		s->file = argv[at++];
	for (; at < argc; at++) {
		if (s->file && !strcmp(argv[at], "--"))
			break;
		if (!s->file && *argv[at] != '-' && submit_is_task_file(argv[at])) {
			s->file = argv[at];
			break;
		}
		if (s->file && is_argument(argv + at)) {
			at--;
			break;
		}
		at += read_word(s, argv + at);
	}
	s->arguments = at < argc ? argv + at + 1 : argv + argc;
	if (s->file && !radfile_is_name(s->file))
		s->argv[s->n++] = (char *)s->file;
	for (char **a = s->arguments; *a && s->file; a++)
		s->argv[s->n++] = *a;
}

/* The size ------------------------------------------------------------------------------------------------------------- */

struct sized {
	struct spec *spec;
	struct slurm_wish wish;
	char gres[SLURM_GRES], estimator[32];
	const char *why;
};

/* As rad submit makes it, so that what earlier runs of either took is found. */
static void sign(struct spec *spec, char *const *arguments)
{
	spec_set_argv(spec, arguments);
	submit_caller_environ(spec);	/* it configures PyTorch, too */
	free(spec->signature);
	spec->signature = spec->script ? signature_make(spec, NULL, 0) : NULL;
}

static struct spec *read_spec(const struct sbatch *s, bool *capture, struct error *err)
{
	struct submit_flags flags = { .for_slurm = true };
	struct spec *spec = NULL;
	if (s->file)
		submit_parse_file(s->file, &spec, &flags, err);
	else
		spec = spec_create();
	for (size_t i = 0; i < flags.n_notes && !s->size; i++)
		cli_note("%s", flags.notes[i]);
	*capture = spec && flags.capture && !strcmp(flags.capture, "auto");
	submit_flags_clear(&flags);
	if (spec)
		sign(spec, s->file ? s->arguments : (char *[]){ NULL });
	if (spec && s->mem && units_parse_mib(s->mem, &spec->gpu_mem_mib, err)) {
		error_wrap(err, "--gpu-mem");
		spec_unref(spec);
		return NULL;
	}
	return spec;
}

/* What a radd of this machine knows besides: what earlier runs took. None is started, and one that hangs not waited for. */
static bool ask_history(struct spec *spec, struct sized *out)
{
	if (!spec->script)
		return false;
	if (!spec->cwd)
		spec->cwd = alloc_string("/");
	if (!spec->output)
		spec->output = alloc_string("/dev/null");
	scoped_free char *path = wire_socket_path();
	scoped_fd int fd = wire_connect_now(path, NULL);
	json_t *request = submit_request(spec);
	json_object_set_new(request, "dry_run", json_true());
	scoped_json *reply = client_call_within(fd, HISTORY_S, request, NULL);
	const json_t *e = json_object_get(reply, "estimate");
	const char *name = json_string_value(json_object_get(e, "estimator"));
	if (!name || strcmp(name, "history"))
		return false;
	out->wish.claim_mib = (uint64_t)json_integer_value(json_object_get(e, "claim_mib"));
	snprintf(out->estimator, sizeof out->estimator, "%s", name);
	return out->wish.claim_mib;
}

static void ask_estimators(struct spec *spec, struct sized *out)
{
	struct estimate_context context = { 0 };
	struct estimate_result r;
	estimate_auto(estimators, SLOW_ASK, spec, spec->gpu_mem_mib, &context, &r);
	out->wish.claim_mib = r.value.claim_mib;
	snprintf(out->estimator, sizeof out->estimator, "%s", r.value.claim_mib ? r.value.estimator : "");
}

/* Slurm does not wait for it, so it is made before. Without one, the rest of what is known counts. */
static void make_capture(const struct sbatch *s, struct spec *spec)
{
	struct error err = ERROR_INIT;
	size_t n = alloc_count(s->arguments);
	scoped_free char **words = alloc_zero((n + 2) * sizeof *words);
	words[0] = (char *)s->file;
	memcpy(words + 1, s->arguments, n * sizeof *words);
	if (submit_capture_now(spec, words, s->size ? CAPTURE_SIZE_S : CAPTURE_S, &err))
		cli_note("%s: no capture: %s", s->file, err.text);
	for (const char *at = spec->capture_notes; at && *at; at += strcspn(at, "\n"), at += *at == '\n')
		cli_note("%s: %.*s", s->file, (int)strcspn(at, "\n"), at);
}

static int find_size(const struct sbatch *s, const struct slurm_conf *c, struct sized *out, struct error *err)
{
	bool capture = false;
	out->spec = read_spec(s, &capture, err);
	if (!out->spec)
		return -1;
	scoped_free char *partition = s->partition ? alloc_string(s->partition) : slurm_file_partition(out->spec->script);
	out->wish = (struct slurm_wish){ .gpus = out->spec->gpus, .placed = slurm_conf_places(c, partition),
					 .exclusive = out->spec->exclusive || out->spec->share == SHARE_NEVER };
	if (s->asks || !out->spec->gpus)
		return 0;
	if (out->spec->gpu_mem_mib || !ask_history(out->spec, out)) {
		if (capture && !out->spec->gpu_mem_mib)
			make_capture(s, out->spec);
		ask_estimators(out->spec, out);
	}
	return slurm_conf_size(c, &out->wish, out->gres, &out->why, err);
}

/* What comes of it ---------------------------------------------------------------------------------------------------- */

static void tell(const struct sbatch *s, const struct sized *z)
{
	char mib[FORMAT_LEN];
	scoped_free char *takes_text = z->wish.claim_mib ?
		alloc_printf("%s on %s (%s)", format_mib((double)z->wish.claim_mib, mib), z->wish.gpus > 1 ? "each GPU" : "its GPU",
			     z->estimator) : alloc_string("an unknown amount");
	cli_note("%s: takes %s: asks Slurm for --gres=%s, %s", s->file ? s->file : "the job", takes_text, z->gres, z->why);
}

/* Lines that say something to radd, which Slurm is not told. */
static void tell_idle(const struct sbatch *s)
{
	scoped_free char *idle = s->file && !s->size ? slurm_file_idle(s->file) : NULL;
	if (idle)
		cli_note("%s: %s: not told to Slurm: say it to sbatch, by an option or a line of #SBATCH", s->file, idle);
}

/* The plugin on its node cannot see the estimate otherwise. What begins with SLURM_ goes along whatever --export says. */
static void set_variables(const struct sized *z)
{
	char number[24];
	snprintf(number, sizeof number, "%llu", (unsigned long long)z->wish.claim_mib);
	setenv("SLURM_RAD_MEM", number, 1);
	snprintf(number, sizeof number, "%u", z->wish.gpus);
	setenv("SLURM_RAD_GPUS", number, 1);
	if (z->wish.exclusive)
		setenv("SLURM_RAD_EXCLUSIVE", "1", 1);
	if (z->spec->signature)
		setenv("SLURM_RAD_SIGNATURE", z->spec->signature, 1);
}

static void print_size(const struct sized *z)
{
	printf("gres=%s\nmem=%llu\ngpus=%u\n", z->gres, (unsigned long long)z->wish.claim_mib, z->wish.gpus);
	if (z->wish.exclusive)
		puts("exclusive=1");
	if (z->spec->signature)
		printf("signature=%s\n", z->spec->signature);
}

static void forget_outer(void)
{
	static const char *const names[] = {	/* Slurm sets the last one where it is not 0 */
		"SLURM_RAD_MEM", "SLURM_RAD_GPUS", "SLURM_RAD_EXCLUSIVE", "SLURM_RAD_SIGNATURE", "SLURM_RESTART_COUNT",
	};
	for (size_t i = 0; i < COUNT_OF(names); i++)
		unsetenv(names[i]);
}

/* Behind "sbatch", before what the user gave. */
static void insert(struct sbatch *s, char *word)
{
	memmove(s->argv + 2, s->argv + 1, s->n * sizeof *s->argv);
	s->argv[1] = word;
	s->n++;
}

/* A .rad file as sbatch reads one: its script, on standard input, under its name and in its folder. */
static int use_script(struct sbatch *s, const struct spec *spec, struct error *err)
{
	scoped_free char *text = alloc_printf("%s%s", strncmp(spec->script, "#!", 2) ? "#!/bin/bash -e\n" : "", spec->script);
	scoped_fd int fd = memfd_create("script", MFD_CLOEXEC);
	if (spec->conda_env)
		return error_set(err, ERR_INVALID, "%s: 'env' does not go with sbatch: have the script activate it", s->file);
	if (fd < 0 || io_write_full(fd, text, strlen(text)) || lseek(fd, 0, SEEK_SET) || dup2(fd, STDIN_FILENO) < 0)
		return error_errno(err, "%s: handing it to sbatch", s->file);
	scoped_free char *real = realpath(s->file, NULL);
	char *slash = real ? strrchr(real, '/') : NULL;
	if (slash)
		insert(s, alloc_printf("--chdir=%.*s", (int)(slash > real ? slash - real : 1), real));
	insert(s, alloc_printf("--job-name=%s", spec->name));
	return 0;
}

static int become_sbatch(struct cli_call *c, struct sbatch *s)
{
	char pid[16];
	snprintf(pid, sizeof pid, "%d", (int)getpid());
	setenv("RAD_SIZED_PID", pid, 1);	/* the plugin in sbatch would ask us again */
	fflush(NULL);
	execvp("sbatch", s->argv);
	struct error err = ERROR_INIT;
	error_errno(&err, "sbatch");
	if (errno == ENOENT)
		error_set(&err, ERR_NOT_FOUND, "sbatch: not found in PATH: is Slurm installed here? 'rad submit' needs none");
	return cli_fail(c, &err);
}

static int print_command(const struct sbatch *s)
{
	for (size_t i = 0; s->argv[i]; i++)
		printf("%s%s", i ? " " : "", s->argv[i]);
	putchar('\n');
	return CLI_DONE;
}

static int submit(struct cli_call *c, struct sbatch *s)
{
	struct error err = ERROR_INIT;
	struct slurm_conf conf;
	struct sized z = { 0 };
	char path[PATH_MAX];
	forget_outer();
	slurm_conf_default(&conf);
	slurm_conf_path(path);
	if (slurm_conf_read(path, &conf, &err) || find_size(s, &conf, &z, &err)) {
		int code = cli_fail(c, &err);
		return s->size ? CLI_FAILED : code;	/* which the plugin, of any release, takes for a refusal */
	}
	tell_idle(s);
	if (s->asks || !z.spec->gpus) {
		cli_note("%s: asks for %s: left as it is", s->file ? s->file : "the job", s->asks ? "GPUs in its own words" : "no GPU");
	} else {
		tell(s, &z);
		if (!s->size)
			insert(s, alloc_printf("--gres=%s", z.gres));
		set_variables(&z);
	}
	int rc = CLI_DONE;
	if (s->size && (s->asks || z.spec->gpus))
		print_size(&z);
	else if (s->size)
		rc = CLI_DONE;	/* nothing is to be said to Slurm */
	else if (s->file && radfile_is_name(s->file) && use_script(s, z.spec, &err))
		rc = cli_fail(c, &err);
	else
		rc = s->dry_run ? print_command(s) : become_sbatch(c, s);
	spec_unref(z.spec);
	return rc;
}

/* Options of sbatch's go through, so there is no table to read them by; these rows are for help and completion. */
int verb_sbatch(struct cli_call *c)
{
	const struct args_option options[] = {
		{ "gpu-mem", 0, "SIZE", "GPU memory it takes on each GPU: 12G, 800M, or MiB (default: as estimated)" },
		{ "dry-run", 0, NULL, "say what would be asked of Slurm, and submit nothing" },
		{ "size", 0, NULL, NULL }, { 0 },
	};
	struct sbatch s = { 0 };
	if (cli_describe(c, options))
		return c->rc;
	for (int i = 1; i < c->argc; i++)
		if (!strcmp(c->argv[i], "--help") || !strcmp(c->argv[i], "-h")) {
			cli_print_help(c, options);
			puts("All other options are sbatch's.");
			return CLI_DONE;
		}
	read_command(&s, c->argc, c->argv);
	int rc = s.no_size ? cli_usage(c, "--gpu-mem: how much? 12G, 800M, or MiB") :
		 !s.file && !(s.size && s.mem) ? cli_usage(c, "which script?") : submit(c, &s);
	free(s.argv);
	return rc;
}
