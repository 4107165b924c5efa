/* SPDX-License-Identifier: MIT
 * cli_filter/rad: in sbatch, srun and salloc, as the user. A script with `#RAD` lines, or --rad-gpu-mem on the command line, has
 * the job ask for the part of a GPU that it is estimated to take. `rad sbatch --size` estimates, as a program of its own with
 * a deadline; where that fails, the job is submitted as it stands. Refused is only what `rad` refuses: a slip in a #RAD line,
 * more than any GPU has.
 *
 * Which script it is, no public function tells; the kernel knows the command line. A word of it that is no option and names a
 * file with `#RAD` lines is taken for it.
 */
#include "call.h"
#include "cli/slurm_conf.h"

#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef RAD_PROGRAM
#define RAD_PROGRAM "/usr/bin/rad"
#endif
#define PUBLIC __attribute__((visibility("default")))
#define LIMIT_MS 10000		/* of an estimate: reading a large capture from a file system that is slow */
#define SCRIPT_MAX (1 << 20)
#define COMMAND_MAX (256 << 10)
#define FILES_MAX 32		/* that are looked into: `srun cat *` has no script */

/* Of libslurmfull, which public headers do not declare. */
struct slurm_options;
extern char *slurm_option_get(struct slurm_options *opt, const char *name);
extern int slurm_option_set(struct slurm_options *opt, const char *name, const char *value, bool early);
extern void slurm_xfree(void **item);
extern void slurm_info(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

PUBLIC const char plugin_name[] = "Sizes of jobs by RAD-RM";
PUBLIC const char plugin_type[] = "cli_filter/rad";
PUBLIC const uint32_t plugin_version = SLURM_VERSION_NUMBER;

PUBLIC int init(void);
PUBLIC void fini(void);
PUBLIC int cli_filter_p_setup_defaults(struct slurm_options *opt, bool early);
PUBLIC int cli_filter_p_pre_submit(struct slurm_options *opt, int offset);
PUBLIC void cli_filter_p_post_submit(int offset, uint32_t job, uint32_t step);

PUBLIC int init(void)
{
	return SLURM_SUCCESS;
}

PUBLIC void fini(void)
{
}

PUBLIC int cli_filter_p_setup_defaults(struct slurm_options *opt, bool early)
{
	(void)opt, (void)early;
	return SLURM_SUCCESS;
}

PUBLIC void cli_filter_p_post_submit(int offset, uint32_t job, uint32_t step)
{
	(void)offset, (void)job, (void)step;
}

/* The command line -------------------------------------------------------------------------------------------------------- */

struct command { char *script; char *mem; bool asks; unsigned files; };	/* asks: for GPUs, in the user's own words */

static ssize_t read_up_to(const char *path, char *out, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	size_t used = 0;
	if (fd < 0)
		return -1;
	for (ssize_t n; used + 1 < size && (n = read(fd, out + used, size - 1 - used)) > 0; used += (size_t)n)
		;
	close(fd);
	out[used] = 0;
	return (ssize_t)used;
}

static bool has_directives(struct command *c, const char *path)
{
	struct stat st;
	bool found = false;
	if (stat(path, &st) || !S_ISREG(st.st_mode) || st.st_size > SCRIPT_MAX || c->files++ >= FILES_MAX)
		return false;
	char *text = malloc(SCRIPT_MAX + 1);
	if (text && read_up_to(path, text, SCRIPT_MAX + 1) > 0)
		found = !strncmp(text, "#RAD -", 6) || strstr(text, "\n#RAD -");
	free(text);
	return found;
}

static void read_word(struct command *c, char *word, char *next)
{
	static const char *const asking[] = { "--gres", "--gpus", "-G", "--tres-per-" };
	if (!strncmp(word, "--rad-gpu-mem=", 14))
		c->mem = word + 14;
	else if (!strcmp(word, "--rad-gpu-mem"))
		c->mem = next;
	for (size_t i = 0; i < sizeof asking / sizeof *asking; i++)
		c->asks = c->asks || !strncmp(word, asking[i], strlen(asking[i]));
	if (!c->script && *word != '-' && has_directives(c, word))
		c->script = word;
}

/* Up to the script: what follows it is the script's. */
static void read_command(struct command *c, char *text, size_t len)
{
	for (size_t at = strlen(text) + 1; at < len && !c->script; at += strlen(text + at) + 1) {
		size_t next = at + strlen(text + at) + 1;
		read_word(c, text + at, next < len ? text + next : NULL);
	}
}

/* The answer ------------------------------------------------------------------------------------------------------------ */

/* What is to be known on the node (spank_rad.c). */
static const struct { const char *key, *variable; } variables[] = {
	{ "mem", "SLURM_RAD_MEM" }, { "gpus", "SLURM_RAD_GPUS" }, { "exclusive", "SLURM_RAD_EXCLUSIVE" },
	{ "signature", "SLURM_RAD_SIGNATURE" },
};

/* "gres=shard:20" and these, a line each. */
static void obey(struct slurm_options *opt, char *answer)
{
	char *rest = answer;
	for (char *line; (line = strtok_r(rest, "\n", &rest));) {
		char *value = strchr(line, '=');
		if (!value)
			continue;
		*value++ = 0;
		if (!strcmp(line, "gres") && slurm_option_set(opt, "gres", value, false) < 0)
			slurm_info("rad: --gres=%s was not taken", value);
		for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
			if (!strcmp(line, variables[i].key))
				setenv(variables[i].variable, value, 1);
	}
}

/* A step of a job has what its job has. */
static bool is_step(const char *program)
{
	const char *slash = strrchr(program, '/');
	return !strcmp(slash ? slash + 1 : program, "srun") && getenv("SLURM_JOB_ID");
}

/* Of the job in which this sbatch runs, if any. */
static void forget_outer(void)
{
	for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
		unsetenv(variables[i].variable);
	unsetenv("SLURM_RESTART_COUNT");	/* Slurm sets it where it is not 0 */
}

static bool is_sized(void)
{
	const char *pid = getenv("RAD_SIZED_PID");	/* `rad sbatch` became this process */
	return pid && atoi(pid) == (int)getpid();
}

static int ask_rad(struct slurm_options *opt, const struct command *c)
{
	struct slurm_conf conf;
	char path[PATH_MAX], answer[1024], mem[128];
	size_t n;
	slurm_conf_default(&conf);
	slurm_conf_path(path);
	slurm_conf_read(path, &conf, NULL);
	char *partition = slurm_option_get(opt, "partition");
	char *argv[10] = { *conf.rad ? conf.rad : (char *)RAD_PROGRAM, "sbatch", "--size" };
	int at = 3;
	if (c->mem) {
		snprintf(mem, sizeof mem, "--gpu-mem=%s", c->mem);
		argv[at++] = mem;
	}
	if (partition && *partition) {
		argv[at++] = "-p";
		argv[at++] = partition;
	}
	if (c->script)
		argv[at++] = c->script;
	int rc = call_run(argv, NULL, LIMIT_MS, 1, answer, sizeof answer, &n);
	slurm_xfree((void **)&partition);
	if (!rc)
		obey(opt, answer);
	else if (rc < 0 || rc > 1)
		slurm_info("rad: no estimate (%s): the job is submitted as it stands", rc == CALL_LATE ? "it took too long" : "rad failed");
	return rc == 1 ? SLURM_ERROR : SLURM_SUCCESS;
}

PUBLIC int cli_filter_p_pre_submit(struct slurm_options *opt, int offset)
{
	struct command c = { 0 };
	int rc = SLURM_SUCCESS;
	if (offset || is_sized())
		return SLURM_SUCCESS;
	char *text = malloc(COMMAND_MAX);
	ssize_t len = text ? read_up_to("/proc/self/cmdline", text, COMMAND_MAX) : -1;
	if (len > 0)
		read_command(&c, text, (size_t)len);
	bool step = len > 0 && is_step(text);
	if (!step)
		forget_outer();
	if (!step && (c.script || c.mem) && !c.asks)
		rc = ask_rad(opt, &c);
	free(text);
	return rc;
}
