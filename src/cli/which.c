/* SPDX-License-Identifier: MIT
 * See which.h. The words of `rad queue` and of Slurm's scancel; radd is asked for the lists, and they are looked through here,
 * with the caller's rights.
 */
#include "cli/which.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/scope.h"
#include "cli/accounts.h"
#include "cli/client.h"
#include "cli/columns.h"
#include "cli/span.h"
#include "submit/wire.h"

#include <ctype.h>
#include <fnmatch.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define RECENT_MS ((int64_t)24 * 3600 * 1000)	/* how far back ended tasks are looked for that are not named */

static int add_user(struct which *w, const char *user, struct error *err)
{
	char name[FORMAT_LEN];
	uid_t uid = getuid();
	if (user && span_user(user, &uid, err))
		return -1;
	json_object_set_new(w->users, format_user(uid, name), json_true());
	return 0;
}

int which_users(struct which *w, const char *users, struct error *err)
{
	json_decref(w->users);
	w->users = NULL;
	if (users && !strcmp(users, "all") && !getpwnam(users))
		return 0;
	w->users = json_object();
	if (!users)
		return add_user(w, NULL, err);
	scoped_free char *copy = alloc_string(users);
	char *rest = copy;
	for (char *user; (user = strsep(&rest, ","));)
		if (add_user(w, user, err))
			return -1;
	return 0;
}

/* Slurm has states that no task is ever in here: what there is instead, NULL for what is no state of its either. */
static const char *of_slurm(const char *word)
{
	static const char *const none[] = {
		"BF", "BOOT_FAIL", "CF", "CONFIGURING", "CG", "COMPLETING", "DL", "DEADLINE", "NF", "NODE_FAIL", "PR", "PREEMPTED", "RD",
		"RESV_DEL_HOLD", "RF", "REQUEUE_FED", "RQ", "REQUEUED", "RS", "RESIZING", "RV", "REVOKED", "SI", "SIGNALING", "SE",
		"SPECIAL_EXIT", "SO", "STAGE_OUT", "ST", "STOPPED",
	};
	if (!strcasecmp(word, "S") || !strcasecmp(word, "SUSPENDED"))
		return "tasks that are suspended are R, with that as their reason";
	if (!strcasecmp(word, "RH") || !strcasecmp(word, "REQUEUE_HOLD"))
		return "tasks that are held are H";
	for (size_t i = 0; i < COUNT_OF(none); i++)
		if (!strcasecmp(word, none[i]))
			return "no task is ever in that state here";
	return NULL;
}

int which_states(struct which *w, const char *words, struct error *err)
{
	scoped_free char *copy = alloc_string(words);
	char *rest = copy;
	for (const char *word; (word = strsep(&rest, ","));) {
		enum task_state s = TASK_STATE_COUNT;
		bool all = !strcasecmp(word, "all");
		if (!all && of_slurm(word))
			return error_set(err, ERR_INVALID, "state '%.40s': %s: PD H R CD F OOM CA TO LO are those there are", word,
					 of_slurm(word));
		if (!all && task_state_parse(word, &s))
			return error_set(err, ERR_INVALID, "state '%.40s': expected all, or some of PD H R CD F OOM CA TO LO, with commas",
					 word);
		for (unsigned i = 0; i < TASK_STATE_COUNT; i++)
			w->states[i] = w->states[i] || all || i == s;
	}
	for (unsigned i = 0; i < TASK_STATE_COUNT; i++)
		w->ended = w->ended || (w->states[i] && task_state_terminal(i));
	return 0;
}

int which_ids(struct which *w, char *const *words, size_t n, struct error *err)
{
	for (size_t i = 0; i < n; i++)
		if (ids_add(words[i], &w->ids, err))
			return -1;
	return 0;
}

static bool has_name(const struct which *w, const char *name)
{
	if (!w->name || !fnmatch(w->name, name, 0))
		return true;
	scoped_free char *copy = alloc_string(w->name);
	char *rest = copy;
	for (char *one; (one = strsep(&rest, ","));)
		if (!fnmatch(one, name, 0))
			return true;
	return false;
}

bool which_has(const struct which *w, const json_t *t)
{
	task_id id = member_id(t);
	enum task_state s = member_state(t);
	return id && s != TASK_STATE_COUNT && w->states[s] &&
	       (!w->ids.n || ids_have(&w->ids, id)) && (!w->users || json_object_get(w->users, member_text(t, "user"))) &&
	       has_name(w, member_text(t, "name"));
}

void which_clear(struct which *w)
{
	ids_clear(&w->ids);
	json_decref(w->users);
	*w = (struct which){ .name = NULL };
}

/* ---- fetching ---- */

/* What is wanted of each task, beside its id, name, user and state; NULL: all. `elements`: only of those of an array, all of
 * any other task. */
struct wanted { const char *const *members; size_t n; bool elements; };

static json_t *show_request(task_id id, const struct wanted *wanted)
{
	char text[TASK_ID_TEXT];
	json_t *request = wire_request("show");
	json_object_set_new(request, "id", json_text(task_id_text(id, text)));
	if (wanted)
		member_want(request, wanted->members, wanted->n);
	return request;
}

/* A job's id does not tell of how many tasks it is: that shows in the answer. */
static json_t *show_id(task_id id, const struct wanted *wanted, int *fd, struct error *err)
{
	bool some = wanted->members && (!wanted->elements || TASK_INDEX(id) < 0);
	json_t *reply = client_look_on(fd, show_request(id, some ? wanted : NULL), err);
	if (!reply || !some || !wanted->elements || json_array_size(json_object_get(reply, "tasks")) > 1)
		return reply;
	json_decref(reply);
	return client_look_on(fd, show_request(id, NULL), err);
}

/* Adds what is known of these, over one connection, which the first of them makes. -1 with an error when none of them is there,
 * or radd cannot say. */
static int show_ids(const struct ids *ids, const struct wanted *wanted, int *fd, json_t *tasks, struct error *err)
{
	size_t before = json_array_size(tasks);
	struct error missing = ERROR_INIT;
	for (size_t i = 0; i < ids->n; i++) {
		struct error why = ERROR_INIT;
		scoped_json *reply = show_id(ids->list[i], wanted, fd, &why);
		if (reply)
			json_array_extend(tasks, json_object_get(reply, "tasks"));
		else if (why.code != ERR_NOT_FOUND)
			return error_pass(err, &why);
		else if (!missing.code)
			missing = why;
	}
	if (json_array_size(tasks) > before)
		return 0;
	return error_pass(err, &missing);
}

json_t *which_show(char *const *words, size_t n, struct error *err)
{
	scoped_fd int fd = -1;
	return which_show_on(&fd, words, n, NULL, 0, err);
}

json_t *which_show_on(int *fd, char *const *words, size_t n, const char *const *members, size_t n_members, struct error *err)
{
	const struct wanted wanted = { members, n_members, .elements = true };
	scoped_json *tasks = json_array();
	for (size_t i = 0; i < n; i++) {
		struct ids ids = { 0 };
		int failed = ids_add(words[i], &ids, err) || show_ids(&ids, &wanted, fd, tasks, err);
		ids_clear(&ids);
		if (failed)
			return NULL;
	}
	return json_pack("{si, sO}", "schema", 1, "tasks", tasks);
}

json_t *which_show_whole(int *fd, json_t *task)
{
	struct error ignored = ERROR_INIT;
	scoped_json *reply = client_look_on(fd, show_request(member_id(task), NULL), &ignored);
	json_t *whole = json_array_get(json_object_get(reply, "tasks"), 0);
	return json_incref(whole ? whole : task);
}

/* Those that are named, however long ago they ended. One that is not there is none. */
static json_t *named_tasks(const struct which *w, const struct wanted *wanted, struct error *err)
{
	json_t *tasks = json_array();
	struct error why = ERROR_INIT;
	scoped_fd int fd = -1;
	if (!show_ids(&w->ids, wanted, &fd, tasks, &why) || why.code == ERR_NOT_FOUND)
		return json_pack("{so}", "tasks", tasks);
	*err = why;
	json_decref(tasks);
	return NULL;
}

static json_t *recent_tasks(const char *const *members, size_t n, struct error *err)
{
	json_t *request = wire_request("acct");
	json_object_set_new(request, "from_ms", json_integer(clock_wall_ms() - RECENT_MS));
	if (members)
		accounts_want(request, members, n);
	return accounts_fetch_all(request, err);
}

/* What only accounts have is no part of the task object. */
static void drop_accounts(json_t *task)
{
	size_t i;
	json_t *a;
	json_object_del(task, "gpu_s");
	json_object_del(task, "gpu_share_s");
	json_array_foreach(json_object_get(task, "attempts"), i, a) {
		json_object_del(a, "gpu_s");
		json_object_del(a, "gpu_share_s");
	}
}

/* What only a living task has is null. */
static void add_ended(json_t *to, const struct which *w, const json_t *tasks)
{
	size_t i;
	json_t *t;
	json_array_foreach(tasks, i, t) {
		if (!task_state_terminal(member_state(t)) || !which_has(w, t))
			continue;
		drop_accounts(t);
		json_object_set_new(t, "reason", json_null());
		json_object_set_new(t, "reason_text", json_null());
		json_object_set_new(t, "shared_with", json_array());
		json_array_append(to, t);
	}
}

/* A task that ended between the two answers is in both, and told as it ended. */
static void add_live(json_t *to, const struct which *w, const json_t *tasks)
{
	scoped_json *gone = json_object();
	size_t i;
	json_t *t;
	json_array_foreach(to, i, t)
		json_object_set_new(gone, member_text(t, "id"), json_true());
	json_array_foreach(tasks, i, t)
		if (which_has(w, t) && !json_object_get(gone, member_text(t, "id")))
			json_array_append(to, t);
}

static json_t *ask_live(const struct which *w, const char *const *members, size_t n)
{
	json_t *request = wire_request("list");
	if (members)
		member_want(request, members, n);
	if (members && w->fold && !w->ended && !w->ids.n)	/* else each is looked for */
		json_object_set_new(request, "fold", json_true());
	return request;
}

/* Whether the tasks that were named are there at all: one that has ended, or is another's, is, and is left out of a list. */
static int check_named(const struct which *w, const json_t *tasks, struct error *err)
{
	scoped_fd int fd = -1;
	scoped_json *ignored = json_array();
	const struct wanted nothing = { (const char *const[]){ "id" }, 1, .elements = false };
	return w->ids.n && !json_array_size(tasks) ? show_ids(&w->ids, &nothing, &fd, ignored, err) : 0;
}

json_t *which_fetch(const struct which *w, const char *const *members, size_t n_members, struct error *err)
{
	const struct wanted wanted = { members, n_members, .elements = false };
	scoped_json *live = client_call(ask_live(w, members, n_members), err);
	scoped_json *ended = !live || !w->ended ? NULL : w->ids.n ? named_tasks(w, &wanted, err) :
			     recent_tasks(members, n_members, err);
	if (!live || (w->ended && !ended))
		return NULL;
	json_t *tasks = json_array();
	add_ended(tasks, w, json_object_get(ended, "tasks"));
	/* as radd looks at them: running first, then in turn */
	add_live(tasks, w, json_object_get(live, "tasks"));
	if (w->ended)	/* which are in no turn */
		columns_sort(tasks, "JobID", NULL);
	if (check_named(w, tasks, err)) {
		json_decref(tasks);
		return NULL;
	}
	return json_pack("{si, so, sb}", "schema", 1, "tasks", tasks, "truncated", json_is_true(json_object_get(live, "truncated")));
}

void which_gpus(const char *list, json_t *names)
{
	scoped_free char *copy = alloc_string(list);
	for (char *rest = copy, *word; (word = strsep(&rest, ",")); ) {
		unsigned first, last;
		char more, number[12];
		bool row = isdigit((unsigned char)*word) && sscanf(word, "%4u-%4u%c", &first, &last, &more) == 2 &&
			   first <= last && last - first < SPEC_MAX_GPUS;
		if (!row)
			json_array_append_new(names, json_text(word));
		for (; row && first <= last; first++) {
			snprintf(number, sizeof number, "%u", first);
			json_array_append_new(names, json_text(number));
		}
	}
}
