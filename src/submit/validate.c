/* SPDX-License-Identifier: MIT
 * Sense of a submission: see validate.h.
 */
#include "submit/validate.h"

#include "base/alloc.h"
#include "base/scope.h"
#include "base/words.h"
#include "submit/notices.h"
#include "submit/signature.h"
#include "feed/name.h"
#include "task/constraint.h"
#include "task/task.h"

#include <string.h>
#include <sys/resource.h>

#define EXEC_MOST (6u << 20)	/* what execve takes at most, of words and variables together, and at least; else it is a */
#define EXEC_LEAST (128u << 10)	/* quarter of the stack's limit (bprm_stack_limits of Linux), pointers to them included */
#define EXEC_OURS (32u << 10)	/* of it, for what a task gets beside that: variables, a shell and its prelude, its path */
#define MAX_PAIRS 50000	/* of an element and what it alone waits for, all made in one turn */
#define LATEST_BEGIN_S INT64_C(253402300799)	/* the end of the year 9999, behind which no time can be shown */
#define EXEC_STRING ((128u << 10) - 1)	/* one of them (MAX_ARG_STRLEN) */

static int check_path(const char *what, const char *path, struct error *err)
{
	if (path && *path == '/' && strlen(path) < SPEC_MAX_PATH)
		return 0;
	return error_set(err, ERR_INVALID, "'%s' must be an absolute path of less than %d bytes", what, SPEC_MAX_PATH);
}

/* A pattern such as %x%x%x... grows: it is the path of the last task there could be that must be short enough. */
static int check_pattern(const char *what, const struct spec *s, const char *pattern, struct error *err)
{
	if (check_path(what, pattern, err))
		return -1;
	scoped_free char *path = spec_expand_path(s, pattern, TASK_ID(UINT32_MAX >> 1, (1 << TASK_INDEX_BITS) - 2));
	if (strlen(path) < SPEC_MAX_PATH)
		return 0;
	return error_set(err, ERR_INVALID, "'%s' becomes a path of %zu bytes; less than %d are allowed", what, strlen(path),
			 SPEC_MAX_PATH);
}

/* Adds what execve needs for them. */
static int add_strings(const char *what, char *const *strings, size_t *bytes, struct error *err)
{
	for (char *const *one = strings; one && *one; one++) {
		size_t len = strlen(*one);
		*bytes += len + 1 + sizeof *one;
		if (len > EXEC_STRING)
			return error_set(err, ERR_INVALID, "'%s': '%.40s...' has %zu bytes, and a program is started with none of more than "
					 "%u: put it in a file", what, *one, len, EXEC_STRING);
	}
	return 0;
}

/* By the limit that the task will have if this process starts it. */
static size_t exec_room(const struct spec *s)
{
	struct rlimit stack;
	if (getrlimit(RLIMIT_STACK, &stack))
		return EXEC_LEAST - EXEC_OURS;
	for (size_t i = 0; i < s->n_rlimits; i++)
		if (s->rlimits[i].resource == RLIMIT_STACK)
			spec_limit_apply(&s->rlimits[i], &stack);
	rlim_t room = stack.rlim_cur / 4 < EXEC_MOST ? stack.rlim_cur / 4 : EXEC_MOST;
	return (size_t)(room > EXEC_LEAST ? room : EXEC_LEAST) - EXEC_OURS;
}

/* Whether execve will take it: that it does not would else be found out when the task's turn has come. */
static int check_exec(const struct spec *s, struct error *err)
{
	size_t words = 0, variables = 0, room = exec_room(s);
	if (add_strings("argv", s->argv, &words, err) || add_strings("environ", s->environ, &variables, err))
		return -1;
	if (words + variables <= room)
		return 0;
	return error_set(err, ERR_INVALID, "'argv' has %zu KiB and 'environ' %zu, and a program is started with %zu KiB of both (a "
			 "quarter of the stack's limit, 128 KiB to 6 MiB): put words in a file, leave variables out (--export), or raise "
			 "that limit (ulimit -s)", (words + 1023) >> 10, (variables + 1023) >> 10, room >> 10);
}

int submit_check_slowdown(double most, struct error *err)
{
	if (most != 0 && !(most >= 1 && most <= SPEC_MAX_SLOWDOWN))
		return error_set(err, ERR_INVALID, "'max_slowdown' must be from 1 to %d, or 0 for no limit", SPEC_MAX_SLOWDOWN);
	return 0;
}

int submit_check_name(const char *name, struct error *err)
{
	if (!name || !*name)
		return error_set(err, ERR_INVALID, "'name' is missing");
	for (const char *p = name; *p; p++)
		if (words_controls(p))
			return error_set(err, ERR_INVALID, "'name' holds a control character");
	return 0;
}

static int check_what_runs(const struct spec *s, struct error *err)
{
	if (!s->argv || (!s->script && (!s->argv[0] || !*s->argv[0])))
		return error_set(err, ERR_INVALID, "a task needs a 'script' or a command in 'argv'");
	if (s->script && !*s->script)
		return error_set(err, ERR_INVALID, "'script' is empty");
	if (submit_check_name(s->name, err) || check_path("cwd", s->cwd, err) || check_pattern("output", s, s->output, err) ||
	    (s->error && check_pattern("error", s, s->error, err)))
		return -1;
	for (char *const *e = s->environ; e && *e; e++)
		if (**e == '=' || !strchr(*e, '='))
			return error_set(err, ERR_INVALID, "'environ': '%.40s' is not NAME=value", *e);
	return s->process_pid ? 0 : check_exec(s, err);
}

/* A terminal is one, its owner waits at it, and all that is written goes there. */
static int check_terminal(const struct spec *s, struct error *err)
{
	if (!s->terminal)
		return 0;
	if (*s->terminal != '/')
		return error_set(err, ERR_INVALID, "'terminal' must be an absolute path");
	if (s->n_array)
		return error_set(err, ERR_INVALID, "'array' does not go with --pty: one terminal serves one task");
	if (s->error)
		return error_set(err, ERR_INVALID, "'error' does not go with --pty: a terminal has one output (--output)");
	return 0;
}

/* A process is one, has its terminal and its output, and is there already. */
static int check_process(const struct spec *s, struct error *err)
{
	if (!s->process_pid)
		return s->lease ? error_set(err, ERR_INVALID, "'lease' is of a process: 'process_pid' is missing") : 0;
	if (s->process_pid < 2 || !s->process_ticks)
		return error_set(err, ERR_INVALID, "'process_pid' and 'process_ticks' must name a process and its start");
	if (s->n_array || s->script || s->terminal || s->conda_env)
		return error_set(err, ERR_INVALID, "'array', 'script', 'terminal' and 'env' do not go with a process that is there already");
	if (!s->lease && (s->hold || s->n_deps || s->singleton || s->begin_s))
		return error_set(err, ERR_INVALID, "'hold', 'dependency' and 'begin' do not go with a process that holds its GPU "
				 "already");
	return 0;
}

static int check_limits(const struct spec *s, struct error *err)
{
	for (size_t i = 0; i < s->n_rlimits; i++) {
		const struct spec_rlimit *l = &s->rlimits[i];
		bool soft_above = l->hard != -1 && (l->soft == -1 || l->soft > l->hard);
		if (l->resource < 0 || l->resource >= (int)RLIM_NLIMITS || l->soft < -1 || l->hard < -1 || soft_above)
			return error_set(err, ERR_INVALID, "'rlimits': limit %d from %lld to %lld makes no sense", l->resource,
					 (long long)l->soft, (long long)l->hard);
	}
	if (s->umask & ~(mode_t)0777)
		return error_set(err, ERR_INVALID, "'umask' is %o", s->umask);
	return 0;
}

const char *submit_said_of_gpus(const struct spec *s)
{
	const struct { const char *word; bool said; } of_gpus[] = {
		{ "gpu_mem", s->gpu_mem_mib }, { "exclusive", s->exclusive }, { "share", s->share != SHARE_AUTO },
		{ "gpu_model", s->gpu_model }, { "constraint", s->constraint }, { "max_slowdown", s->max_slowdown > 0 },
		{ "capture", s->capture || s->capture_until_s }, { "model", s->model }, { "lease", s->lease },
		{ "slot", s->slot_s > 0 },
	};
	for (size_t i = 0; i < COUNT_OF(of_gpus); i++)
		if (of_gpus[i].said)
			return of_gpus[i].word;
	return NULL;
}

int submit_check_needs(const struct spec *s, struct error *err)
{
	if (s->gpus > SPEC_MAX_GPUS)
		return error_set(err, ERR_INVALID, "'gpus' is %u; it must be from 0 to %d", s->gpus, SPEC_MAX_GPUS);
	const char *of_gpus = s->gpus ? NULL : submit_said_of_gpus(s);
	if (of_gpus)	/* a slip, there or in their number */
		return error_set(err, ERR_INVALID, "'gpus' is 0 and '%s' is of GPUs: leave one of them out", of_gpus);
	if ((s->gpu_model && constraint_check(s->gpu_model, err)) || (s->constraint && constraint_check(s->constraint, err)))
		return error_wrap(err, "'constraint'");
	if (s->feed && feed_name_check(s->feed, FEED_STEM_MAX, err))
		return error_wrap(err, "'feed'");
	if (!s->feed && (s->feed_cpus || s->feed_mem_mib))
		return error_set(err, ERR_INVALID, "'feed_cpus' and 'feed_mem' are of a feed's loader: add --feed with its name");
	if (submit_check_slowdown(s->max_slowdown, err))
		return -1;
	if (s->share == SHARE_MIG && s->gpus > 1)
		return error_set(err, ERR_INVALID, "'share' is mig with %u GPUs: a task can use one MIG instance only: ask for 1 GPU",
				 s->gpus);
	if (s->signal < 0 || s->signal > 64 || (s->signal && !s->time_limit_s && s->slot_s <= 0))
		return error_set(err, ERR_INVALID, "'signal' needs a time limit or a slot at whose end it comes: add --time or --slot");
	if (s->begin_s > LATEST_BEGIN_S)
		return error_set(err, ERR_INVALID, "'begin_s' is %lld, which is after the year 9999", (long long)s->begin_s);
	if (s->slot_s > 0 && s->slot_s < SPEC_MIN_SLOT_S)
		return error_set(err, ERR_INVALID, "'slot_s' is %lld; it must be from %d, or -1 for none", (long long)s->slot_s,
				 SPEC_MIN_SLOT_S);
	if (s->slot_s > 0 && !s->requeue)
		return error_set(err, ERR_INVALID, "'slot' and --no-requeue: a task with a slot is started again after it: leave one out");
	if (s->retries > SPEC_MAX_RETRIES)
		return error_set(err, ERR_INVALID, "'retries' is %u; it may be from 0 to %d", s->retries, SPEC_MAX_RETRIES);
	if (s->retries && !s->requeue)
		return error_set(err, ERR_INVALID, "'retries' and --no-requeue: one says to run it again, the other never to: leave one out");
	if (s->retries && spec_is_attended(s))
		return error_set(err, ERR_INVALID, "'retries' does not go with a terminal, nor with a process that is there already: what "
				 "somebody is at is run once");
	return 0;
}

int submit_check_pairs(size_t elements, size_t deps, struct error *err)
{
	return elements * deps <= MAX_PAIRS ? 0 :
	       error_set(err, ERR_INVALID, "%zu elements with %zu dependencies each are too many where each waits by itself: their "
			 "product may be %d: submit them with afterok, or in smaller arrays", elements, deps, MAX_PAIRS);
}

static int check_array(const struct spec *s, struct error *err)
{
	if (s->n_array > SPEC_MAX_ARRAY)
		return error_set(err, ERR_INVALID, "'array' has more than %d elements", SPEC_MAX_ARRAY);
	scoped_free unsigned char *seen = s->n_array ? alloc_zero((1 << TASK_INDEX_BITS) / 8) : NULL;
	for (size_t i = 0; i < s->n_array; i++) {
		uint32_t index = s->array[i];
		if (index >= (1 << TASK_INDEX_BITS) - 1 || seen[index / 8] & (1u << index % 8))
			return error_set(err, ERR_INVALID, "'array': index %u is out of range or stands there twice", index);
		seen[index / 8] |= (unsigned char)(1u << index % 8);
	}
	for (size_t i = 0; i < s->n_deps; i++)
		if (s->deps[i].task <= 0)
			return error_set(err, ERR_INVALID, "'deps': no task has that id");
		else if (s->deps[i].kind == DEP_AFTERCORR && submit_check_pairs(s->n_array, s->n_deps, err))
			return error_wrap(err, "'deps': aftercorr");
	return 0;
}

int submit_validate(const struct spec *s, struct error *err)
{
	if (check_what_runs(s, err) || check_terminal(s, err) || check_process(s, err) || check_limits(s, err) ||
	    submit_check_needs(s, err) || check_array(s, err))
		return -1;
	if ((s->notify && notices_check(s->notify, err)) || (s->notify_to && notices_check_to(s->notify_to, err)))
		return error_wrap(err, "'notify'");
	if (s->signature && !signature_belongs(s->signature, s->uid))
		return error_set(err, ERR_INVALID, "'signature' is not one of user %lu", (unsigned long)s->uid);
	return 0;
}

int submit_check_dependency(const struct spec *s, const struct dependency *d,
			    int (*has)(void *ctx, task_id id, bool *there, struct error *err), void *ctx, struct error *err)
{
	char text[TASK_ID_TEXT];
	bool there;
	if (has(ctx, d->task, &there, err))
		return -1;
	if (!there)
		return error_set(err, ERR_NOT_FOUND, "dependency %s:%s: there is no such task", dependency_kind_name(d->kind),
				 task_id_text(d->task, text));
	if (d->kind != DEP_AFTERCORR || TASK_INDEX(d->task) >= 0)
		return 0;
	if (!s->n_array)
		return error_set(err, ERR_INVALID, "dependency aftercorr:%s: is between the elements of two arrays, and this is none: "
				 "use afterok", task_id_text(d->task, text));
	/* The first and the last one tell of all. */
	for (size_t i = 0; i < s->n_array && there; i += s->n_array > 1 ? s->n_array - 1 : 1)
		if (has(ctx, TASK_ID(TASK_JOB(d->task), s->array[i]), &there, err))
			return -1;
	return there ? 0 : error_set(err, ERR_NOT_FOUND, "dependency aftercorr:%s: that is no array with the indices of this one",
				     task_id_text(d->task, text));
}
