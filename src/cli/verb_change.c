/* SPDX-License-Identifier: MIT
 * rad cancel, hold, release, suspend, resume, requeue, update: operations that change something and answer briefly.
 */
#include "base/alloc.h"
#include "base/json.h"
#include "base/scope.h"
#include "base/units.h"
#include "base/words.h"
#include "cli/change.h"
#include "cli/client_queue.h"
#include "cli/format.h"
#include "cli/ids.h"
#include "cli/member.h"
#include "cli/submit_client.h"
#include "cli/which.h"
#include "submit/options.h"
#include "submit/wire.h"

#include <ctype.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

int verb_change(struct cli_call *c)
{
	const char *verb = c->verb->name;
	/* of a requeue: what ended badly; what went well is named by its id, or by --state */
	bool running = !strcmp(verb, "suspend") || !strcmp(verb, "resume");
	const char *states = running ? "R" : !strcmp(verb, "hold") ? "PD" : !strcmp(verb, "release") ? "H" : "F,OOM,TO,LO";
	struct change_selection s = { .default_states = states };
	const struct args_option of_radd[] = { CHANGE_OPTIONS(s), { 0 } };
	const struct args_option options[] = { CLIENT_QUEUE_OPTION, CHANGE_OPTIONS(s), { 0 } }, with_force[] = {
		CLIENT_QUEUE_OPTION,
		{ "force", 0, NULL, "of a queue of files: its pilot's node is dead, and what ran there runs no more", .flag = &s.force },
		CHANGE_OPTIONS(s), { 0 },
	};
	if (!cli_options(c, running ? of_radd : strcmp(verb, "requeue") ? options : with_force))
		return c->rc;
	if (s.force && (!client_queue() || !c->n_words))
		return cli_usage(c, "--force is for tasks of a queue of files (--queue), named by their ids");
	return change_selected(c, &s);
}

/* ---- cancel ---- */

/* What ends a task is what cancel is. */
static int take_signal(struct cli_call *c, const char *text, struct change_selection *s)
{
	int64_t before_s;
	struct error err = ERROR_INIT;
	if (strpbrk(text, "@:") || options_parse_signal(text, &s->signal, &before_s, &err))
		return cli_usage(c, "--signal: '%.60s' names no signal: USR1, SIGHUP or 10", text);
	if (s->signal == SIGSTOP || s->signal == SIGTSTP || s->signal == SIGCONT)
		return cli_usage(c, "--signal: %.60s: 'rad %s' does that", text, s->signal == SIGCONT ? "resume" : "suspend");
	if (s->signal == SIGTERM || s->signal == SIGKILL)
		s->signal = 0;
	else
		s->default_states = "R";
	return CLI_DONE;
}

int verb_cancel(struct cli_call *c)
{
	bool pending = false, me = false, batch = false, full = false;
	const char *signal = NULL, *slurms = NULL;
	struct change_selection s = { .default_states = "PD,H,R" };
	const struct args_option options[] = {
		{ "all", 0, NULL, "all your own tasks, running ones too (root: root's own)", .flag = &s.all },
		{ "pending", 0, NULL, "all your own tasks that do not run", .flag = &pending },
		CLIENT_QUEUE_OPTION,
		{ "signal", 's', "SIGNAL", "send this one to processes of running tasks that handle it, and end nothing: USR1",
		  .value = &signal },
		{ "me", 0, NULL, "all your own tasks", .flag = &me },
		{ "full", 'f', NULL, "with --signal: as always, the script's shell and every other process", .flag = &full },
		{ "batch", 'b', NULL, NULL, .flag = &batch },	/* scancel's, and refused, from here on */
		{ "partition", 'p', "NAME", NULL, .value = &slurms },
		{ "account", 'A', "NAME", NULL, .value = &slurms },
		{ "qos", 'q', "NAME", NULL, .value = &slurms },
		CHANGE_OPTIONS(s), { 0 },
	};
	char own[FORMAT_LEN];
	int rc = CLI_DONE;
	if (!cli_options(c, options))
		return c->rc;
	if (slurms)
		return cli_usage(c, CLI_NO_PARTITIONS, slurms);
	if (batch)
		return cli_usage(c, "--batch: a task has no step beside its script: --signal is for every process that handles it");
	if (me && s.user)
		return cli_usage(c, CLI_ONE_OWNER);
	if (signal && (rc = take_signal(c, signal, &s)))
		return rc;
	if (me)
		s.user = format_user(getuid(), own);
	if ((s.all || pending) && (c->n_words || s.states))
		return cli_usage(c, "either %s or --%s", c->n_words ? "ids" : "--state", s.all ? "all" : "pending");
	if (pending && !s.all)
		s.default_states = "PD,H";
	s.all = s.all || pending;
	return change_selected(c, &s);
}

/* ---- update ---- */

#define CHANGEABLE "priority, time, begin, dependency, gpus, gpu-mem, mem, retries, max-slowdown, array=%%N or name"

/* What may change of a task, as on the command line of submit. */
struct update {
	const char *priority, *time, *gpu_mem, *max_slowdown, *array, *begin, *name, *gpus, *gres, *mem, *retries, *dependency;
};

/* "%8" as behind --array's indices, "8" as scontrol's ArrayTaskThrottle; none for no limit. */
static int read_array_limit(const char *text, int64_t *limit, struct error *err)
{
	static const char *const none[] = { "none", "off", "unlimited", "0", "%0" };
	*limit = 0;
	for (size_t i = 0; i < COUNT_OF(none); i++)
		if (!strcasecmp(text, none[i]))
			return 0;
	if (!units_parse_int(text + (*text == '%'), 1, SPEC_MAX_ARRAY, limit, NULL))
		return 0;
	return error_set(err, ERR_INVALID, "array: '%.60s': of an array that is there, how many run at once can be changed: %%8, "
			 "or none", text);
}

/* Read as submit reads them, into a spec that is nobody's. */
static int fill_as_submit(const struct update *u, json_t *request, struct error *err)
{
	const struct { const char *option, *value; } said[] = {
		{ "gres", u->gres }, { "gpus", u->gpus }, { "mem", u->mem }, { "retries", u->retries }, { "priority", u->priority },
		{ "time", u->time }, { "max-slowdown", u->max_slowdown }, { "name", u->name },
	};
	struct spec *s = spec_create();
	struct submit_pending p = { 0 };
	int failed = 0;
	for (size_t i = 0; i < COUNT_OF(said) && !failed; i++)
		failed = said[i].value ? options_set(s, &p, options_find(said[i].option), said[i].value, said[i].option, err) : 0;
	if (!failed && p.mem_doubt)
		cli_note("%s", p.mem_doubt);
	if (!failed && p.time_doubt)
		cli_note("%s", p.time_doubt);
	if (!failed && s->gpu_model)	/* the same, or radd refuses it */
		json_object_set_new(request, "gpu_model", json_text(s->gpu_model));
	if (u->gpus || u->gres)
		json_object_set_new(request, "gpus", json_integer(s->gpus));
	if (u->mem)
		json_object_set_new(request, "host_mem_mib", json_integer((json_int_t)s->host_mem_mib));
	if (u->retries)
		json_object_set_new(request, "retries", json_integer(s->retries));
	if (u->priority)
		json_object_set_new(request, "priority", json_integer(s->priority));
	if (u->time)
		json_object_set_new(request, "time_limit_s", json_integer(s->time_limit_s));
	if (u->max_slowdown)
		json_object_set_new(request, "max_slowdown", json_real(s->max_slowdown));
	if (!failed && u->name && json_object_set_new(request, "name", json_exact(s->name)))
		failed = error_set(err, ERR_INVALID, "name: is not UTF-8");
	options_pending_clear(&p);
	spec_unref(s);
	return failed;
}

/* "" takes all of them away, as scontrol's; "none" as elsewhere here. */
static int fill_dependency(const char *text, json_t *request, struct error *err)
{
	struct dependency *deps = NULL;
	size_t n = 0;
	bool singleton = false, none = !*text || !strcasecmp(text, "none");
	if (!none && options_parse_dependencies(text, &deps, &n, &singleton, err))
		return error_wrap(err, "dependency");
	json_object_set_new(request, "deps", spec_deps_to_json(deps, n));
	if (singleton)
		json_object_set_new(request, "singleton", json_true());
	free(deps);
	return 0;
}

static int fill_update(const struct update *u, json_t *request, struct error *err)
{
	int64_t array_limit, begin_s;
	uint64_t mib;
	if (fill_as_submit(u, request, err) || (u->dependency && fill_dependency(u->dependency, request, err)))
		return -1;
	if (u->gpu_mem && options_read_gpu_mem(u->gpu_mem, &mib, err))
		return error_wrap(err, "gpu-mem");
	if (u->array && read_array_limit(u->array, &array_limit, err))
		return -1;
	if (u->begin && submit_read_begin(u->begin, &begin_s, err))
		return error_wrap(err, "begin");
	if (u->begin)
		json_object_set_new(request, "begin_s", json_integer(begin_s));
	if (u->array)
		json_object_set_new(request, "array_limit", json_integer(array_limit));
	if (u->gpu_mem)
		json_object_set_new(request, "gpu_mem_mib", json_integer((json_int_t)mib));
	return 0;
}

/* Our name of a key as Slurm's users write it: in any case, with '_' for '-', by scontrol's word. Free it. */
static char *setting_name(const char *word, size_t len)
{
	static const char *const others[][2] = {
		{ "arraytaskthrottle", "array" },
		{ "timelimit", "time" }, { "jobname", "name" }, { "numgpus", "gpus" }, { "starttime", "begin" }, { "tresspernode", "gres" },
		{ "numcpus", "cpus-per-task" }, { "minmemorynode", "mem" }, { "features", "constraint" }, { "workdir", "chdir" },
		{ NULL },
	};
	char *name = alloc_printf("%.*s", (int)len, word);
	for (char *p = name; *p; p++)
		*p = *p == '_' ? '-' : (char)tolower((unsigned char)*p);
	const char *ours = words_beside(others, name);
	if (!ours)
		return name;
	free(name);
	return alloc_string(ours);
}

static const struct args_option *changeable(const struct args_option *options, const char *key)
{
	while (options->name && !(options->value && !strcmp(options->name, key)))
		options++;
	return options->name ? options : NULL;
}

/* What a task has from its submission and keeps, whether as an option or as KEY=VALUE. */
static int refuse_lasting(struct cli_call *c, const char *word)
{
	return cli_usage(c, "'%.60s': cannot be changed of a task that is there: cancel it and submit it anew; what can is "
			 CHANGEABLE, word);
}

static int check_options(struct cli_call *c, const struct args_option *options)
{
	for (int i = 1; i < c->argc; i++) {
		const char *word = c->argv[i];
		scoped_free char *key = setting_name(word + strspn(word, "-"), strcspn(word + strspn(word, "-"), "="));
		const struct submit_option *o = strncmp(word, "--", 2) ? NULL : options_find(key);
		if (o && o->set && !changeable(options, key))
			return refuse_lasting(c, word);
	}
	return 0;
}

/* Takes the words of the form KEY=VALUE out of the list; Slurm's users write them so. */
static int take_settings(struct cli_call *c, const struct args_option *options)
{
	size_t kept = 0;
	for (size_t i = 0; i < c->n_words; i++) {
		char *equals = strchr(c->words[i], '=');
		if (!equals) {
			c->words[kept++] = c->words[i];
			continue;
		}
		scoped_free char *key = setting_name(c->words[i], (size_t)(equals - c->words[i]));
		const struct args_option *o = changeable(options, key);
		if (!o && options_find(key))
			return refuse_lasting(c, c->words[i]);
		if (!o)
			return cli_usage(c, "'%.60s': expected " CHANGEABLE, c->words[i]);
		*o->value = equals + 1;
	}
	c->n_words = kept;
	return 0;
}

/* "+30", "-1h", as scontrol takes them: the limit of each task is changed by so much. */
static bool is_by(const char *time)
{
	return time && (*time == '+' || *time == '-') && isdigit((unsigned char)time[1]);
}

/* radd adds it to the limit of each: all are refused where that cannot be done to one. */
static int update_by(struct cli_call *c, json_t *request, const char *time, bool json)
{
	struct error err = ERROR_INIT;
	int64_t by_s = 0;
	if (units_parse_duration(time + 1, 0, UNITS_TEN_YEARS_S, &by_s, &err))
		return cli_usage(c, "time: %s", err.text);
	json_object_set_new(request, "time_limit_by_s", json_integer(*time == '-' ? -by_s : by_s));
	return change_at_once(c, request, json);
}

/* What is of an array is not said of some of its elements. */
static int only_whole(const struct cli_call *c, struct error *err)
{
	struct ids ids = { 0 };
	char id[TASK_ID_TEXT];
	int rc = 0;
	for (size_t i = 0; i < c->n_words && !rc; i++)
		rc = ids_add(c->words[i], &ids, err);
	for (size_t i = 0; i < ids.n && !rc; i++)
		if (TASK_INDEX(ids.list[i]) >= 0)
			rc = error_set(err, ERR_INVALID, "array: %s is an element: name the array, %u", task_id_text(ids.list[i], id),
				       TASK_JOB(ids.list[i]));
	ids_clear(&ids);
	return rc;
}

/* "rad update 12 python train.py": what else it is to run. */
static int refuse_command(struct cli_call *c)
{
	struct ids ids = { 0 };
	size_t i = 1;
	while (i < c->n_words && !ids_add(c->words[i], &ids, NULL))
		i++;
	ids_clear(&ids);
	return i < c->n_words ? refuse_lasting(c, c->words[i]) : 0;
}

int verb_update(struct cli_call *c)
{
	bool json = false;
	struct update u = { 0 };
	const struct args_option options[] = {
		{ "priority", 0, "N", "its place in the queue: higher goes first", .value = &u.priority },
		{ "time", 't', "TIME", "its time limit, counted from its start; unlimited for none; +30 or -1h: changed by so much",
		  .value = &u.time },
		{ "gpu-mem", 0, "SIZE", "the memory it takes on each GPU, for its next attempt", .value = &u.gpu_mem },
		{ "dependency", 'd', "KIND:ID", "while it waits, what it waits for, in place of all that it waited for; none: nothing",
		  .value = &u.dependency },
		{ "gpus", 'G', "N", "GPUs it needs at once, while it waits; 0: it runs on the CPU", .value = &u.gpus },
		{ "gres", 0, "gpu:N", "the same, in Slurm's spelling", .value = &u.gres },
		{ "mem", 0, "SIZE", "memory of the machine it takes, while it waits; 0: not said", .value = &u.mem },
		{ "retries", 0, "N", "how often it is run again if it fails by itself", .value = &u.retries },
		{ "max-slowdown", 0, "X", "the slowdown it bears", .value = &u.max_slowdown },
		{ "begin", 'b', "TIME", "it starts no sooner; now: as soon as there is room", .value = &u.begin },
		{ "array", 'a', "%N", "of a whole array: so many of its elements at once; none: all that find room", .value = &u.array },
		{ "name", 'J', "NAME", "its name", .value = &u.name },
		{ "job-name", 0, "NAME", "the same, in Slurm's spelling", .value = &u.name },
		{ "json", 0, NULL, "print JSON", .flag = &json },
		{ 0 },
	};
	struct error err = ERROR_INIT;
	int rc = c->describe ? 0 : check_options(c, options);
	if (rc || !cli_options(c, options))
		return rc ? rc : c->rc;
	c->n_words = ids_bare_words(c->words, c->n_words);
	rc = take_settings(c, options);
	rc = rc ? rc : refuse_command(c);
	if (rc || !cli_want_words(c, 1, CLI_ANY_NUMBER))
		return rc ? rc : c->rc;
	scoped_json *request = wire_request("update");
	size_t plain = json_object_size(request);
	const char *by = is_by(u.time) ? u.time : NULL;
	u.time = by ? NULL : u.time;
	if (fill_update(&u, request, &err) || (u.array && only_whole(c, &err)))
		return cli_usage(c, "%s", err.text);
	if (by)
		return update_by(c, request, by, json);
	if (json_object_size(request) == plain)
		return cli_usage(c, "nothing to change: say what, of " CHANGEABLE);
	return change_words(c, request, json);
}
