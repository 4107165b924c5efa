/* SPDX-License-Identifier: MIT
 * The option table and what each row does to a spec: see options.h. What a value may be is said here, once, for the command
 * line and for files alike.
 */
#include "submit/options.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/scope.h"
#include "base/units.h"
#include "base/words.h"
#include "feed/name.h"
#include "submit/notices.h"
#include "task/constraint.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define MAX_WORD 100			/* names, optimizers: as the spec's codec has them */
#define CONTEXT_MIB 300		/* CUDA's context and a program's first kernels take more, and so does a Python program of memory */

static void replace(char **text, const char *value)
{
	free(*text);
	*text = alloc_string(value);
}

/* A text without control characters, bounded. */
static int set_text(char **to, const char *value, size_t max, struct error *err)
{
	if (!*value)
		return error_set(err, ERR_INVALID, "expected a value");
	if (strlen(value) > max)
		return error_set(err, ERR_INVALID, "'%.60s...' is %zu bytes long; %zu are allowed", value, strlen(value), max);
	for (const char *p = value; *p; p++)
		if (words_controls(p))
			return error_set(err, ERR_INVALID, "holds a control character (byte 0x%02x)", (unsigned char)*p);
	replace(to, value);
	return 0;
}

static int parse_flag(const char *value, bool *flag, struct error *err)
{
	static const struct { const char *word; bool value; } words[] = {
		{ "", true }, { "true", true }, { "yes", true }, { "1", true },
		{ "false", false }, { "no", false }, { "0", false },
	};
	for (size_t i = 0; i < COUNT_OF(words); i++)
		if (!strcasecmp(value, words[i].word)) {
			*flag = words[i].value;
			return 0;
		}
	return error_set(err, ERR_INVALID, "'%.60s' is not yes or no", value);
}

static int set_positive(int64_t *to, const char *value, struct error *err)
{
	return units_parse_int(value, 1, INT32_MAX, to, err);
}

static int set_number_of_cpus(unsigned *to, const char *value, struct error *err)
{
	int64_t n;
	if (units_parse_int(value, 1, 65536, &n, err))
		return -1;
	*to = (unsigned)n;
	return 0;
}

/* `exclusive` and `share` say the same in two ways; they are kept in agreement. */
static void set_sharing(struct spec *s, enum share_mode mode)
{
	s->share = mode;
	s->exclusive = mode == SHARE_NEVER;
}

/* The function of a row, where it is one expression. */
#define SETTER(name, expression) \
	static int set_##name(struct spec *s, struct submit_pending *p, const char *value, struct error *err) \
	{ \
		(void)s, (void)p; \
		return expression; \
	}

/* "2"; as Slurm has it, "a100:2". A number alone leaves no model but one that --gres has named; of none there is no model. */
static int set_gpus(struct spec *s, struct submit_pending *p, const char *value, struct error *err)
{
	const char *colon = strrchr(value, ':');
	scoped_free char *model = colon ? alloc_printf("%.*s", (int)(colon - value), value) : NULL;
	int64_t n;
	double part = strtod(value, NULL);
	if (part > 0 && part < 1)	/* as in Ray and the like */
		return error_set(err, ERR_INVALID, "'%.60s' is no number of GPUs: tasks share GPUs by themselves. Leave it out; --gpu-mem "
				 "says how much of one it takes", value);
	if (strchr(value, ',') || !strcmp(value, "all"))
		return error_set(err, ERR_INVALID, "'%.60s' is no number of GPUs: say how many; RAD-RM chooses which", value);
	if (units_parse_int(colon ? colon + 1 : value, 0, SPEC_MAX_GPUS, &n, err) || (model && constraint_check(model, err)))
		return -1;
	s->gpus = (unsigned)n;
	if (model || !p->gres_model || !n) {
		free(s->gpu_model);
		s->gpu_model = n ? steal(model) : NULL;
	}
	return 0;
}

/* "gpu", "gpu:2", "gpu:a100", "gpu:a100:2", "none". */
static int set_gres(struct spec *s, struct submit_pending *p, const char *value, struct error *err)
{
	const char *what = !strcmp(value, "none") ? "0" : strncmp(value, "gpu:", 4) ? NULL : value + 4;
	if (strcmp(value, "gpu") && (!what || !*what))
		return error_set(err, ERR_INVALID, "'%.60s': only gpu:N, gpu:MODEL, gpu:MODEL:N and none are known here", value);
	scoped_free char *one = !what || isdigit((unsigned char)*what) || strchr(what, ':') ? NULL : alloc_printf("%s:1", what);
	p->gres_model = false;
	int rc = set_gpus(s, p, one ? one : what ? what : "1", err);
	p->gres_model = s->gpu_model;
	return rc;
}

/* Whoever writes 24, or 141, means GiB. With a unit it is meant. */
static bool means_gib(const char *value, uint64_t mib)
{
	return mib && mib < CONTEXT_MIB && !value[strspn(value, "0123456789. ")];
}

int options_read_gpu_mem(const char *value, uint64_t *mib, struct error *err)
{
	if (units_parse_mib(value, mib, err))
		return -1;
	return !means_gib(value, *mib) ? 0 :
	       error_set(err, ERR_INVALID, "'%.60s': a number alone is MiB, and that is less than CUDA itself takes on a GPU: write "
			 "%.60sG for GiB, %.60sM if MiB is meant", value, value, value);
}

static int set_gpu_mem(struct spec *s, struct submit_pending *p, const char *value, struct error *err)
{
	(void)p;
	uint64_t mib;
	if (options_read_gpu_mem(value, &mib, err))
		return -1;
	if (!mib)
		return error_set(err, ERR_INVALID, "'%.60s': a task that declares no memory leaves this out", value);
	s->gpu_mem_mib = mib;
	return 0;
}

SETTER(constraint, constraint_check(value, err) ? -1 : set_text(&s->constraint, value, CONSTRAINT_MAX, err))

static int set_mem(struct spec *s, struct submit_pending *p, const char *value, struct error *err)
{
	if (units_parse_mib(value, &s->host_mem_mib, err))	/* 0, as Slurm's "all of it": nothing is said */
		return -1;
	free(p->mem_doubt);
	p->mem_doubt = !means_gib(value, s->host_mem_mib) ? NULL :
		       alloc_printf("--mem: a number alone is MiB, and %.60s MiB is less than a Python program takes: for GiB write "
				    "%.60sG", value, value);
	return 0;
}

SETTER(feed, feed_name_check(value, FEED_STEM_MAX, err) ? -1 : set_text(&s->feed, value, MAX_WORD, err))
SETTER(feed_mem, units_parse_mib(value, &s->feed_mem_mib, err))
SETTER(feed_cpus, set_number_of_cpus(&s->feed_cpus, value, err))
SETTER(cpus, set_number_of_cpus(&s->cpus, value, err))

static int set_exclusive(struct spec *s, struct submit_pending *p, const char *value, struct error *err)
{
	(void)p;
	bool on = false;
	if (parse_flag(value, &on, err))
		return -1;
	if (on)
		set_sharing(s, SHARE_NEVER);
	else if (s->exclusive)
		set_sharing(s, SHARE_AUTO);
	return 0;
}

static int set_policy(struct spec *s, struct submit_pending *p, const char *value, struct error *err)
{
	if (strcmp(value, "exclusive") && strcmp(value, "collocation"))
		return error_set(err, ERR_INVALID, "'%.60s': expected exclusive or collocation", value);
	return set_exclusive(s, p, *value == 'e' ? "yes" : "no", err);
}

static int set_share(struct spec *s, struct submit_pending *p, const char *value, struct error *err)
{
	(void)p;
	enum share_mode mode;
	if (share_mode_parse(value, &mode, err))
		return -1;
	set_sharing(s, mode);
	return 0;
}

SETTER(max_slowdown, units_parse_double(value, 1, SPEC_MAX_SLOWDOWN, &s->max_slowdown, err))
SETTER(batch_size, set_positive(&s->batch_size, value, err))
SETTER(seq_len, set_positive(&s->seq_len, value, err))

/* "3x224x224" */
static int set_input_size(struct spec *s, struct submit_pending *p, const char *value, struct error *err)
{
	char part[3][24], rest;
	int64_t n[3];

	(void)p;
	if (sscanf(value, "%23[0-9]x%23[0-9]x%23[0-9]%c", part[0], part[1], part[2], &rest) != 3)
		return error_set(err, ERR_INVALID, "'%.40s': expected channels, height and width: 3x224x224", value);
	for (size_t i = 0; i < 3; i++)
		if (units_parse_int(part[i], 1, SPEC_MAX_INPUT, &n[i], err))
			return -1;
	s->input_channels = n[0];
	s->input_height = n[1];
	s->input_width = n[2];
	return 0;
}

SETTER(optimizer, set_text(&s->optimizer, value, MAX_WORD, err))
SETTER(precision, set_text(&s->precision, value, MAX_WORD, err))

static int set_env(struct spec *s, struct submit_pending *p, const char *value, struct error *err)
{
	(void)p;
	if (*value == '-')
		return error_set(err, ERR_INVALID, "'%.60s' is no name of a conda environment", value);
	return set_text(&s->conda_env, value, SPEC_MAX_PATH - 1, err);
}

SETTER(model, set_text(&p->model, value, SPEC_MAX_PATH - 1, err))

static int set_capture(struct spec *s, struct submit_pending *p, const char *value, struct error *err)
{
	(void)s;
	free(p->capture);
	p->capture = NULL;
	p->capture_how = !strcmp(value, "auto") ? CAPTURE_AUTO : !strcmp(value, "off") ? CAPTURE_OFF : CAPTURE_FILE;
	return p->capture_how == CAPTURE_FILE ? set_text(&p->capture, value, SPEC_MAX_PATH - 1, err) : 0;
}

SETTER(chdir, set_text(&p->chdir, value, SPEC_MAX_PATH - 1, err))
SETTER(name, set_text(&s->name, value, MAX_WORD, err))

/* A path in which % stands only before what it can name. */
static int set_pattern(char **to, const char *value, struct error *err)
{
	for (const char *c = strchr(value, '%'); c; c = strchr(c + 2, '%'))
		if (!*(c += strspn(c + 1, "0123456789")) || !c[1] || !strchr("jAaxuNJnts%", c[1]))
			return error_set(err, ERR_INVALID, "'%.60s': '%%%.1s' stands for nothing: known are %%j %%A %%a %%x %%u %%N %%%%",
					 value, c + 1);
	return set_text(to, value, SPEC_MAX_PATH - 1, err);
}

SETTER(output, set_pattern(&s->output, value, err))
SETTER(error, set_pattern(&s->error, value, err))
SETTER(priority, units_parse_int(value, -1000000000, 1000000000, &s->priority, err))
SETTER(nice, units_parse_int(*value ? value : "100", -1000000000, 1000000000, &p->nice, err))

/* A number alone that is rather one of hours: 2, 12, 48; not 5, 30 or 120. Taken for minutes, it ends a training early. */
static bool means_hours(const char *value)
{
	size_t len = strspn(value, "0123456789");
	long n = len && len < 4 && !value[len] ? atol(value) : 0;
	return n && n % 5 && (n <= 24 || n % 24 == 0);
}

static int set_time(struct spec *s, struct submit_pending *p, const char *value, struct error *err)
{
	int64_t seconds = 0;
	if (strcasecmp(value, "unlimited") && strcasecmp(value, "infinite") &&
	    units_parse_duration(value, 0, UNITS_TEN_YEARS_S, &seconds, err))
		return -1;
	s->time_limit_s = seconds;
	free(p->time_doubt);
	p->time_doubt = !means_hours(value) ? NULL :
			alloc_printf("--time: a number alone is minutes, as in Slurm, and the task is ended after them: for hours write %sh", value);
	return 0;
}

static int set_slot(struct spec *s, struct submit_pending *p, const char *value, struct error *err)
{
	(void)p;
	int64_t seconds = -1;
	if (strcasecmp(value, "none") && strcasecmp(value, "off") &&
	    units_parse_duration(value, SPEC_MIN_SLOT_S, UNITS_TEN_YEARS_S, &seconds, err))
		return -1;
	s->slot_s = seconds;
	return 0;
}

static int set_requeue_code(struct spec *s, struct submit_pending *p, const char *value, struct error *err)
{
	(void)p;
	int64_t code;
	if (units_parse_int(value, 1, 255, &code, err))
		return -1;
	s->requeue_code = (int)code;
	return 0;
}

SETTER(signal, options_parse_signal(value, &s->signal, &s->signal_before_s, err))

static int set_array(struct spec *s, struct submit_pending *p, const char *value, struct error *err)
{
	(void)p;
	uint32_t *indices;
	size_t n;
	if (options_parse_array(value, &indices, &n, &s->array_limit, err))
		return -1;
	free(s->array);
	s->array = indices;
	s->n_array = n;
	return 0;
}

static int set_dependency(struct spec *s, struct submit_pending *p, const char *value, struct error *err)
{
	(void)p;
	struct dependency *deps;
	size_t n;
	if (options_parse_dependencies(value, &deps, &n, &s->singleton, err))
		return -1;
	free(s->deps);
	s->deps = deps;
	s->n_deps = n;
	return 0;
}

SETTER(begin, set_text(&p->begin, value, MAX_WORD, err))
SETTER(export, set_text(&p->export, value, SPEC_MAX_TEXT, err))
SETTER(hold, parse_flag(value, &s->hold, err))
SETTER(notify, notices_check(value, err) ? -1 : set_text(&s->notify, value, MAX_WORD, err))
SETTER(notify_to, notices_check_to(value, err) ? -1 : set_text(&s->notify_to, value, NOTICES_MAX_TO, err))

/* Slurm's words; those that have none of ours here are of what does not happen here. */
static int set_mail_type(struct spec *s, struct submit_pending *p, const char *value, struct error *err)
{
	static const struct { const char *slurm, *ours; } words[] = {
		{ "BEGIN", "begin" }, { "END", "end" }, { "FAIL", "fail" }, { "ALL", "begin,end" }, { "TIME_LIMIT", "fail" }, { "NONE", "" },
		{ "REQUEUE", "" }, { "INVALID_DEPEND", "" }, { "STAGE_OUT", "" }, { "ARRAY_TASKS", "" }, { "TIME_LIMIT_90", "" },
		{ "TIME_LIMIT_80", "" }, { "TIME_LIMIT_50", "" },
	};
	scoped_buf list = { 0 };
	for (const char *word = value;; word++) {
		size_t i = 0, n = strcspn(word, ",");
		while (i < COUNT_OF(words) && (strlen(words[i].slurm) != n || strncasecmp(word, words[i].slurm, n)))
			i++;
		if (i == COUNT_OF(words))
			return error_set(err, ERR_INVALID, "'%.*s': expected BEGIN, END, FAIL, ALL or NONE, or --notify, which has more",
					 (int)(n < 60 ? n : 60), word);
		if (*words[i].ours && !notices_has(buf_text(&list), words[i].ours))
			buf_printf(&list, "%s%s", list.len ? "," : "", words[i].ours);
		word += n;
		if (!*word)
			break;
	}
	return set_notify(s, p, list.len ? buf_text(&list) : "none", err);
}

static int set_mail_user(struct spec *s, struct submit_pending *p, const char *value, struct error *err)
{
	scoped_free char *place = alloc_printf("mail:%s", value);
	return set_notify_to(s, p, place, err);
}

SETTER(requeue, parse_flag(value, &s->requeue, err))

static int set_no_requeue(struct spec *s, struct submit_pending *p, const char *value, struct error *err)
{
	(void)p;
	bool no = false;
	if (parse_flag(value, &no, err))
		return -1;
	s->requeue = !no;
	return 0;
}

static int set_kill_on_invalid_dep(struct spec *s, struct submit_pending *p, const char *value, struct error *err)
{
	(void)p;
	bool yes = false;
	if (parse_flag(value, &yes, err))
		return -1;
	s->kill_on_invalid_dep = yes ? 1 : -1;
	return 0;
}

static int set_retries(struct spec *s, struct submit_pending *p, const char *value, struct error *err)
{
	(void)p;
	int64_t n;
	if (units_parse_int(value, 0, SPEC_MAX_RETRIES, &n, err))
		return -1;
	s->retries = (unsigned)n;
	return 0;
}

/* Sbatch reads a letter of it. */
static int set_open_mode(struct spec *s, struct submit_pending *p, const char *value, struct error *err)
{
	(void)p;
	if (!*value || strncasecmp(value, strchr("tT", *value) ? "truncate" : "append", strlen(value)))
		return error_set(err, ERR_INVALID, "'%.40s': expected append or truncate", value);
	s->truncate = strchr("tT", *value);
	return 0;
}

/* What Slurm's users write out of habit is no mistake; anything else would be. */
static int set_nodes(struct spec *s, struct submit_pending *p, const char *value, struct error *err)
{
	(void)s, (void)p;
	return !strcmp(value, "1") || !strcmp(value, "1-1") ? 0 :
	       error_set(err, ERR_INVALID, "'%.60s': this is one machine: write 1, or leave it out", value);
}

static int set_ntasks(struct spec *s, struct submit_pending *p, const char *value, struct error *err)
{
	(void)s, (void)p;
	return !strcmp(value, "1") ? 0 :
	       error_set(err, ERR_INVALID, "'%.60s': a task's command is started once, and starts others itself (torchrun "
			 "--nproc-per-node=2): leave it out; --array is for several tasks, --cpus-per-task for CPUs", value);
}

#define CHOICE(name, letter, arg, words, key, alias, set, help) { name, letter, arg, key, alias, help, words, set }
#define TASK(name, letter, arg, key, alias, set, help) CHOICE(name, letter, arg, NULL, key, alias, set, help)
#define CLIENT(name, letter, help) { name, letter, NULL, NULL, NULL, help, NULL, NULL }

/* "auto never ...": without the blank before the first */
#define X(name, word) " " word
#define SHARE_WORDS (SHARE_MODES(X)) + 1

const struct submit_option submit_options[] = {
	TASK("gpus", 'G', "N", "gpus", NULL, set_gpus, "GPUs the task needs at once (default 1); 0: it runs on the CPU, with no GPU"),
	TASK("gres", 0, "gpu[:MODEL][:N]", NULL, NULL, set_gres, "the same, in Slurm's spelling, and of that model"),
	TASK("gpus-per-node", 0, "N", NULL, NULL, set_gpus, "the same, in Slurm's spelling: this is one node"),
	TASK("nodes", 'N', "1", NULL, NULL, set_nodes, "may be said as to Slurm: this is one node"),
	TASK("ntasks", 'n', "1", NULL, NULL, set_ntasks, "the same: the command is started once"),
	TASK("constraint", 'C', "TERMS", NULL, NULL, set_constraint,
	     "which GPUs will do: a100, 'a100|h100', 'mem>=40G', 'h100&mem>=80G'"),
	TASK("gpu-mem", 0, "SIZE", "gpu_mem", NULL, set_gpu_mem,
	     "GPU memory it takes on each GPU: 12G, 800M, or MiB; beats every estimate"),
	TASK("mem", 0, "SIZE", NULL, NULL, set_mem, "memory of the machine it takes, all its processes together: 64G, or MiB"),
	TASK("cpus-per-task", 'c', "N", NULL, NULL, set_cpus, "CPUs of the machine it uses"),
	TASK("feed", 0, "NAME", "feed", NULL, set_feed,
	     "it shares the data loader of that name (radrm.feed): run it where others of yours that do so run"),
	TASK("feed-cpus", 0, "N", "feed_cpus", NULL, set_feed_cpus, "CPUs of the machine for that loader, once for all its tasks"),
	TASK("feed-mem", 0, "SIZE", "feed_mem", NULL, set_feed_mem,
	     "memory of the machine for that loader and its ring, once for all its tasks"),
	TASK("batch-size", 0, "N", "batch_size", NULL, set_batch_size, "batch size, for estimates"),
	TASK("seq-len", 0, "N", "seq_len", NULL, set_seq_len, "sequence length, for estimates"),
	TASK("input-size", 0, "CxHxW", "input_size", NULL, set_input_size, "size of an image that goes in, for estimates: 3x224x224"),
	TASK("model", 0, "FILE", "model", NULL, set_model, "model summary, for estimates"),
	TASK("capture", 0, "FILE", "capture", NULL, set_capture,
	     "capture of the task's allocations, for estimates; auto: one is made while it waits; off: none is"),
	CHOICE("optimizer", 0, "NAME", "adam adamw sgd momentum rmsprop adagrad adadelta adafactor lamb lars lion", "optimizer", NULL,
	       set_optimizer, "optimizer, for estimates: adam, sgd, ..."),
	CHOICE("precision", 0, "NAME", "fp32 tf32 fp16 bf16 amp mixed", "precision", NULL, set_precision,
	       "precision, for estimates: fp32, bf16, amp, ..."),
	TASK("exclusive", 0, NULL, NULL, NULL, set_exclusive, "alone on its GPUs for as long as it runs"),
	CHOICE("policy", 0, "WORD", "exclusive collocation", "policy", NULL, set_policy, "exclusive (as --exclusive) or collocation"),
	CHOICE("share", 0, "MODE", SHARE_WORDS, "share", NULL, set_share,
	       "how its GPUs may be shared: auto, never, mps, streams or mig"),
	TASK("max-slowdown", 0, "X", NULL, NULL, set_max_slowdown, "share only where it should take at most X times as long as alone"),
	TASK("priority", 0, "N", "priority", NULL, set_priority, "higher goes first (default 0)"),
	TASK("nice", 0, "[N]", NULL, NULL, set_nice, "lowers the priority by N (default 100)"),
	TASK("time", 't', "TIME", "time", "time_limit", set_time, "time limit: MM, HH:MM:SS, D-HH:MM, 90s, 15m, 2h, 1d"),
	TASK("for", 0, "TIME", NULL, NULL, set_time, "the same, said of a session or a lease: it ends by then"),
	TASK("signal", 0, "SIG[@SEC]", NULL, NULL, set_signal,
	     "signal sent SEC seconds (default 60) before the time limit, and at the end of a time slot (there USR1 without this)"),
	TASK("slot", 0, "TIME", "slot", NULL, set_slot,
	     "time slot: after it, when others wait, it is asked to save and exit, and goes on at its next turn"),
	TASK("requeue-code", 0, "N", NULL, NULL, set_requeue_code,
	     "exit code by which it then says that it saved and is to be started again (default 85)"),
	TASK("name", 'J', "NAME", "name", NULL, set_name, "name shown in lists (default: the file's, script's or program's)"),
	TASK("job-name", 0, "NAME", NULL, NULL, set_name, "the same, in Slurm's spelling"),
	TASK("array", 'a', "INDICES", NULL, NULL, set_array, "one task for each index: 0-9, 1,3,7, 0-99:10, 0-9%4 (four at once)"),
	CHOICE("dependency", 'd', "KIND:ID", "afterok: afterany: afternotok: after: aftercorr: singleton", "dependency", NULL,
	     set_dependency, "starts after others: afterok:12:13,afterany:14,after:15,singleton"),
	TASK("begin", 'b', "TIME", NULL, NULL, set_begin, "starts no sooner: now+1hour, 16:00, tomorrow, 2026-11-22T16:00"),
	TASK("hold", 'H', NULL, NULL, NULL, set_hold, "waits for `rad release`"),
	TASK("output", 'o', "FILE", "output", NULL, set_output, "log file; %j task, %A job, %a index, %x name, %u user, %N machine"),
	TASK("error", 'e', "FILE", "error", NULL, set_error, "a log file of its own for errors"),
	CHOICE("kill-on-invalid-dep", 0, "yes|no", "yes no", "kill_on_invalid_dep", NULL, set_kill_on_invalid_dep,
	       "yes: it is cancelled when what it depends on can no longer be met; no: it waits for a person"),
	CHOICE("open-mode", 0, "MODE", "append truncate", NULL, NULL, set_open_mode,
	       "append (default): what is in the log stays; truncate: it is emptied before the first start"),
	TASK("chdir", 'D', "DIR", NULL, NULL, set_chdir, "working directory"),
	TASK("env", 0, "NAME", "env", NULL, set_env, "conda environment to run in"),
	TASK("export", 0, "VARS", NULL, NULL, set_export, "environment it gets: ALL (default), NONE, or NAME,NAME=value,..."),
	TASK("requeue", 0, NULL, "requeue", NULL, set_requeue, "run again when the machine or a neighbour was at fault (default)"),
	CHOICE("notify", 0, "EVENTS", "begin end fail oom slot mem none", "notify", NULL, set_notify,
	       "what to be told of: begin, end, fail, oom, slot, mem; joined by commas"),
	TASK("notify-to", 0, "PLACE", "notify_to", NULL, set_notify_to, "where to: mail:ADDRESS, https://..., or exec:/PROGRAM"),
	CHOICE("mail-type", 0, "TYPES", "BEGIN END FAIL ALL NONE", NULL, NULL, set_mail_type,
	       "as --notify, in Slurm's spelling: BEGIN, END, FAIL, ALL"),
	TASK("mail-user", 0, "ADDRESS", NULL, NULL, set_mail_user, "as --notify-to=mail:ADDRESS, in Slurm's spelling"),
	TASK("retries", 0, "N", "retries", NULL, set_retries,
	     "run again up to N times when it fails by itself, after 10 s, 20 s, 40 s ... (default 0)"),
	TASK("no-requeue", 0, NULL, NULL, NULL, set_no_requeue, "never run again"),
	{ .name = "radt", .arg = "F.csv",
	  .help = "of `rad submit`: the rows of an experiment file of radT, in the place of a command" },
	{ .name = "wrap", .arg = "COMMAND", .help = "a line of shell to run, in the place of a file or a command" },
	{ .name = "queue", .arg = "DIR", .help = "into a queue of files (rad-pilot(1)), not to radd; default RAD_QUEUE" },
	CLIENT("parsable", 0, "print the id and nothing else"),
	CLIENT("dry-run", 0, "check everything, show estimate and placement, queue nothing"),
	CLIENT("test-only", 0, "the same, in Slurm's spelling"),
	CLIENT("snapshot", 0, "run a copy of the code as it is now: of what git keeps in this repository"),
	CLIENT("wait", 'W', "wait for the end; exit with the task's code"),
	CLIENT("json", 0, "print JSON"),
	CLIENT("pty", 0, "of `rad run`: on this terminal, as in ssh; no log is kept without --output"),
	{ 0 },
};
#undef X

const struct submit_option *options_find(const char *name)
{
	for (const struct submit_option *o = submit_options; o->name; o++)
		if (!strcmp(o->name, name))
			return o;
	return NULL;
}

const struct submit_option *options_find_letter(char letter)
{
	for (const struct submit_option *o = submit_options; letter && o->name; o++)
		if (o->letter == letter)
			return o;
	return NULL;
}

const struct submit_option *options_find_key(const char *key)
{
	size_t n = strlen(key);
	for (const struct submit_option *o = submit_options; o->name; o++)
		if ((o->key && words_are_key(key, n, o->key)) || (o->alias && words_are_key(key, n, o->alias)))
			return o;
	return NULL;
}

int options_set(struct spec *s, struct submit_pending *p, const struct submit_option *o, const char *value, const char *where,
		struct error *err)
{
	if (o->set(s, p, value ? value : "", err))
		return error_wrap(err, "%.400s", where);
	return 0;
}

void options_pending_clear(struct submit_pending *p)
{
	free(p->model);
	free(p->capture);
	free(p->chdir);
	free(p->begin);
	free(p->export);
	free(p->mem_doubt);
	free(p->time_doubt);
	*p = (struct submit_pending){ 0 };
}

const char **options_names(const char *(*name)(const struct submit_option *o))
{
	size_t n = 0;
	const char **names = alloc_zero(sizeof *names);
	for (const struct submit_option *o = submit_options; o->name; o++) {
		if (!name(o))
			continue;
		names = alloc_resize(names, n + 2, sizeof *names);
		names[n++] = name(o);
		names[n] = NULL;
	}
	return names;
}

struct args_option *options_args(void)
{
	size_t n = 0;
	while (submit_options[n].name)
		n++;
	struct args_option *args = alloc_zero((n + 1) * sizeof *args);
	for (size_t i = 0; i < n; i++) {
		const struct submit_option *o = &submit_options[i];
		args[i] = (struct args_option){ .name = o->name, .letter = o->letter, .arg = o->arg, .help = o->help, .words = o->words };
	}
	return args;
}

static const char *long_name(const struct submit_option *o)
{
	return o->name;
}

const struct submit_option *options_near(const char *word)
{
	scoped_free const char **names = options_names(long_name);
	scoped_free char *bare = alloc_string(word + strspn(word, "-"));
	bare[strcspn(bare, "=")] = 0;
	const char *name = words_nearest(bare, names);
	return name ? options_find(name) : NULL;
}
