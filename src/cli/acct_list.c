/* SPDX-License-Identifier: MIT
 * See acct_list.h. Sums are radd's, and are of a whole span; what is looked through here is listed, and not summed.
 */
#include "cli/acct_list.h"

#include "base/json.h"
#include "base/scope.h"
#include "cli/accounts.h"
#include "cli/client.h"
#include "cli/columns.h"
#include "cli/which.h"
#include "submit/wire.h"

#include <strings.h>

#define USUAL "JobID,JobName%20,User,NGPUs,State%13,ExitCode,Elapsed"
#define BRIEF "JobID,State%13,ExitCode"

bool acct_list_wanted(const struct acct_list *l, const struct cli_call *c)
{
	return l->format || l->brief || l->jobs || l->states || l->name || l->bare || l->parsable || l->parsable2 || l->delimiter ||
	       l->fields || l->allocations || c->n_words;
}

/* Ids say which whatever their state; without, it is those that ended. */
static int take_which(struct cli_call *c, const struct acct_list *l, struct which *w, struct error *err)
{
	char *jobs = (char *)l->jobs;
	bool named = l->jobs || c->n_words;
	w->name = l->name;
	if ((l->users && which_users(w, l->users, err)) ||
	    which_states(w, l->states ? l->states : named ? "all" : "CD,F,OOM,CA,TO,LO", err) ||
	    which_ids(w, c->words, c->n_words, err) || (jobs && which_ids(w, &jobs, 1, err)))
		return -1;
	for (unsigned i = 0; l->states && strcasecmp(l->states, "all") && !named && i < TASK_STATE_COUNT; i++)
		if (w->states[i] && !task_state_terminal(i))
			return error_set(err, ERR_INVALID, "--state: accounts are of tasks that have ended: rad queue -t %s lists those that "
					 "have not", task_state_code(i));
	return 0;
}

/* Tasks that are named have no span. */
static json_t *fetch(struct cli_call *c, const struct acct_list *l, const struct which *w, json_t *request, struct error *err)
{
	char *jobs[] = { (char *)l->jobs };
	scoped_json *reply = l->jobs ? which_show(jobs, 1, err) : c->n_words ? which_show(c->words, c->n_words, err) :
			     accounts_fetch_all(json_incref(request), err);
	scoped_json *more = reply && l->jobs && c->n_words ? which_show(c->words, c->n_words, err) : NULL;
	json_t *tasks, *t;
	size_t i;
	if (!reply || (l->jobs && c->n_words && !more))
		return NULL;
	json_array_extend(json_object_get(reply, "tasks"), json_object_get(more, "tasks"));
	tasks = json_array();
	json_array_foreach(json_object_get(reply, "tasks"), i, t)
		if (which_has(w, t))
			json_array_append(tasks, t);
	return tasks;
}

static int print_tasks(struct cli_call *c, const struct acct_list *l, const struct column_set *columns, const json_t *tasks,
		       struct error *err)
{
	scoped_json *gpus = client_call(wire_request("gpus"), err);
	if (!gpus)
		return cli_fail(c, err);
	columns_print(columns, !l->bare, tasks, json_object_get(gpus, "gpus"), stdout);
	return CLI_DONE;
}

static int list(struct cli_call *c, const struct acct_list *l, json_t *request, bool json)
{
	struct error err = ERROR_INIT;
	const char *members[COLUMNS_MEMBERS];
	struct which w = { .name = NULL };
	struct column_set *columns = columns_parse(l->format ? l->format : l->brief ? BRIEF : USUAL, COLUMN_SACCT, &err);
	if (columns && !json)
		accounts_want(request, members, columns_members(columns, members));
	bool read = columns && !take_which(c, l, &w, &err);
	scoped_json *tasks = read ? fetch(c, l, &w, request, &err) : NULL;
	if (columns && (l->parsable || l->parsable2 || l->delimiter))
		columns_delimit(columns, l->delimiter ? l->delimiter : "|", !l->parsable2);
	int rc = !columns ? cli_usage(c, "--format: %s", err.text) : !read ? cli_usage(c, "%s", err.text) :
		 !tasks ? cli_fail(c, &err) : json ? cli_print_json(json_pack("{si, sO}", "schema", 1, "tasks", tasks)) :
		 print_tasks(c, l, columns, tasks, &err);
	columns_destroy(columns);
	which_clear(&w);
	return rc;
}

int acct_list_print(struct cli_call *c, const struct acct_list *l, json_t *request, bool json)
{
	scoped_json *asked = request;
	if (!l->fields)
		return list(c, l, asked, json);
	columns_list(stdout);
	return CLI_DONE;
}
