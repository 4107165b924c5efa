/* SPDX-License-Identifier: MIT
 * rad adopt: processes of the caller's that hold GPU memory become tasks, where they are.
 */
#include "base/alloc.h"
#include "base/json.h"
#include "base/scope.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/format.h"
#include "cli/ids.h"
#include "cli/process.h"
#include "cli/submit_client.h"

#include <stdio.h>

struct adopt_wish { const char *mem, *name, *limit; bool json, parsable, give_back; };

static void print_adopted(const json_t *reply, pid_t pid, const struct adopt_wish *wish)
{
	char mib[FORMAT_LEN];
	const char *id = member_text(reply, "id");
	if (wish->parsable)
		puts(id);
	else
		printf("Process %d is task %s: %s on each of its GPUs are counted for it\n", (int)pid, id,
		       format_mib(member_number(json_object_get(reply, "estimate"), "claim_mib"), mib));
	if (*member_text(reply, "over_limit"))
		fprintf(stderr, "rad adopt: you have more now than %s allows: no other task of yours starts until you have less "
			"(rad limit)\n", member_text(reply, "over_limit"));
}

/* The answer, for JSON; NULL with an error. */
static json_t *adopt(pid_t pid, const struct adopt_wish *wish, struct error *err)
{
	const struct process_option options[] = { { "gpu-mem", wish->mem }, { "name", wish->name }, { "for", wish->limit } };
	struct spec *s = process_spec(pid, err);
	json_t *reply = NULL;
	if (s && !process_set(s, options, COUNT_OF(options), err))
		reply = client_call(submit_request(s), err);
	spec_unref(s);
	if (reply)
		json_object_set_new(reply, "pid", json_integer(pid));
	if (reply && !wish->json)
		print_adopted(reply, pid, wish);
	return reply;
}

/* One document, whatever the number of words: of one process its task, of several a list of them; of tasks that are given back
 * how many they are, as of all that is changed. */
static void print_answers(const json_t *answers, size_t n_words, bool gives_back)
{
	size_t i;
	json_t *o;
	json_int_t changed = 0;
	json_array_foreach(answers, i, o) {
		changed += member_int(o, "changed");
		if (n_words > 1)
			json_object_del(o, "schema");
	}
	if (gives_back)
		cli_print_json(json_pack("{si, sI}", "schema", 1, "changed", changed));
	else if (n_words > 1)
		cli_print_json(json_pack("{si, sO}", "schema", 1, "adopted", answers));
	else if (json_array_size(answers))
		cli_print_json(json_incref(json_array_get(answers, 0)));
}

int verb_adopt(struct cli_call *c)
{
	struct adopt_wish wish = { 0 };
	const struct args_option options[] = {
		{ "gpu-mem", 0, "SIZE", "count at least so much on each of its GPUs: what it still will take", .value = &wish.mem },
		{ "name", 'J', "NAME", "name shown in lists (default: the program's)", .value = &wish.name },
		{ "for", 0, "TIME", "time limit from now on", .value = &wish.limit },
		{ "give-back", 0, NULL, "the words are tasks: their processes go on, and are tasks no more", .flag = &wish.give_back },
		{ "parsable", 0, NULL, "print the ids and nothing else", .flag = &wish.parsable },
		{ "json", 0, NULL, "print JSON", .flag = &wish.json },
		{ 0 },
	};
	if (!cli_options(c, options) || !cli_want_words(c, 1, CLI_ANY_NUMBER))
		return c->rc;
	scoped_free pid_t *pids = alloc_zero(c->n_words * sizeof *pids);
	for (size_t i = 0; i < c->n_words; i++)
		if (wish.give_back ? !ids_want_one(c, c->words[i]) : !process_want_pid(c, c->words[i], &pids[i]))
			return c->rc;
	int rc = CLI_DONE;
	scoped_json *answers = json_array();
	for (size_t i = 0; i < c->n_words; i++) {
		struct error err = ERROR_INIT;
		json_t *answer = wish.give_back ? client_call_id("give_back", c->words[i], &err) : adopt(pids[i], &wish, &err);
		if (!answer || json_array_append_new(answers, answer))
			rc = cli_fail(c, &err);
	}
	if (wish.json && rc != CLI_NO_DAEMON)
		print_answers(answers, c->n_words, wish.give_back);
	return rc;
}
