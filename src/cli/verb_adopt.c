/* SPDX-License-Identifier: MIT
 * rad adopt: processes of the caller's that hold GPU memory become tasks, where they are.
 */
#include "base/json.h"
#include "base/scope.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/format.h"
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

static int adopt(const char *word, const struct adopt_wish *wish, struct error *err)
{
	const struct process_option options[] = { { "gpu-mem", wish->mem }, { "name", wish->name }, { "for", wish->limit } };
	pid_t pid;
	if (process_parse_pid(word, &pid, err))
		return -1;
	struct spec *s = process_spec(pid, err);
	json_t *reply = NULL;
	if (s && !process_set(s, options, COUNT_OF(options), err))
		reply = client_call(submit_request(s), err);
	spec_unref(s);
	if (!reply)
		return -1;
	if (wish->json)
		cli_print_json(json_incref(reply));
	else
		print_adopted(reply, pid, wish);
	json_decref(reply);
	return 0;
}

static int give_back(const char *id, const struct adopt_wish *wish, struct error *err)
{
	json_t *reply = client_call_id("give_back", id, err);
	if (!reply)
		return -1;
	if (wish->json)
		return cli_print_json(reply);
	json_decref(reply);
	return 0;
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
	int rc = CLI_DONE;
	for (size_t i = 0; i < c->n_words; i++) {
		struct error err = ERROR_INIT;
		if (wish.give_back ? give_back(c->words[i], &wish, &err) : adopt(c->words[i], &wish, &err))
			rc = cli_fail(c, &err);
	}
	return rc;
}
