/* SPDX-License-Identifier: MIT
 * rad limit: users beside each other, and what each may have at one time; with --user, what one may have, and whose limits
 * these are; with words, sets one's own, or as an administrator anybody's.
 */
#include "base/buf.h"
#include "base/json.h"
#include "base/scope.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/format.h"
#include "cli/span.h"
#include "cli/table.h"
#include "queue/allowance.h"
#include "submit/wire.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* "max_gpus=2 max_mem=40G", "-": none. */
static char *limits_text(const json_t *limits)
{
	struct buf text = { 0 };
	char size[FORMAT_LEN];
	for (unsigned k = 0; k < ALLOWANCE_COUNT; k++) {
		const char *word = allowance_word((enum allowance_kind)k);
		double most = member_number(limits, word);
		if (isnan(most))
			continue;
		if (k == ALLOWANCE_MEM)
			buf_printf(&text, "%s%s=%s", text.len ? " " : "", word, format_mib(most, size));
		else
			buf_printf(&text, "%s%s=%.0f", text.len ? " " : "", word, most);
	}
	if (!text.len)
		buf_add_text(&text, "-");
	return buf_steal(&text);
}

static void print_row(struct table *table, const json_t *u)
{
	char text[FORMAT_LEN];
	scoped_free char *limits = limits_text(json_object_get(u, "limits"));
	table_cell(table, STYLE_PLAIN, member_text(u, "user"));
	table_cell(table, STYLE_PLAIN, format_seconds(member_number(u, "used_s"), text));
	table_printf(table, STYLE_PLAIN, "%lld", (long long)member_int(u, "running"));
	table_printf(table, STYLE_PLAIN, "%lld", (long long)member_int(u, "gpus"));
	table_cell(table, STYLE_PLAIN, member_number(u, "mem_mib") > 0 ? format_mib(member_number(u, "mem_mib"), text) : "0");
	table_printf(table, STYLE_PLAIN, "%lld", (long long)(member_int(u, "unfinished") - member_int(u, "running")));
	table_number(table, STYLE_PLAIN, "%.0f", member_number(u, "turn"));
	table_cell(table, STYLE_PLAIN, *member_text(u, "next") ? member_text(u, "next") : "-");
	table_cell(table, STYLE_PLAIN, limits);
}

static void print_users(const json_t *reply)
{
	static const struct table_column columns[] = {
		{ "USER", .min = 5 }, { "GPU TIME", .right = true }, { "RUN", .right = true }, { "GPUS", .right = true, .drop = 3 },
		{ "MEM", .right = true, .drop = 2 }, { "WAIT", .right = true }, { "TURN", .right = true },
		{ "NEXT", .right = true, .drop = 1 }, { "LIMITS" },
	};
	struct table *table = table_create(columns, COUNT_OF(columns));
	struct term term = term_ask();
	scoped_buf text = { 0 };
	char half_life[FORMAT_LEN];
	size_t i;
	json_t *u;
	const json_t *users = json_object_get(reply, "users");
	json_array_foreach(users, i, u)
		print_row(table, u);
	table_print(table, &term, stdout);
	table_destroy(table);
	if (json_is_true(json_object_get(reply, "fair")))
		buf_printf(&text, "GPU time lately; what is %s old counts half. Who had least goes next (what runs counts an hour ahead), "
			   "those who run nothing go before all.",
			   format_span(member_number(reply, "half_life_s"), half_life));
	else
		buf_add_text(&text, "Who comes first goes first, whatever he had (fair: off).");
	scoped_free char *line = term_wrap(buf_text(&text), 2, &term);
	printf("\n%s\n", line);
}

/* Of one user, asked for or after a change: each limit, and whose it is. He is called as he was named: radd may not have asked
 * for his name yet. */
static void print_limits(const json_t *reply, const char *user)
{
	const json_t *from = json_object_get(reply, "limits_from");
	scoped_free char *limits = limits_text(json_object_get(reply, "limits"));
	printf("%s: %s\n", user ? user : member_text(reply, "user"), strcmp(limits, "-") ? limits : "no limits");
	for (unsigned k = 0; k < ALLOWANCE_COUNT; k++) {
		const char *word = allowance_word((enum allowance_kind)k), *source = member_text(from, word);
		if (*source)
			printf("  %s: %s\n", word, source);
	}
	size_t i;
	json_t *word;
	json_array_foreach(json_object_get(reply, "without_effect"), i, word)
		printf("The user's own %s has no effect: what they may have is less. Only an administrator gives more.\n",
		       json_string_value(word));
}

/* Without words only asks. */
static int limits_of_one(struct cli_call *c, const char *user, bool json)
{
	struct error err = ERROR_INIT;
	scoped_buf words = { 0 };
	scoped_json *request = wire_request("limit");
	for (size_t i = 0; i < c->n_words; i++)
		buf_printf(&words, "%s%s", i ? " " : "", c->words[i]);
	if (c->n_words)
		json_object_set_new(request, "limits", json_text(buf_text(&words)));
	if (user && span_fill_user(request, user, &err))
		return cli_usage(c, "%s", err.text);
	scoped_json *reply = client_call(json_incref(request), &err);
	if (!reply)
		return cli_fail(c, &err);
	if (json)
		return cli_print_json(json_incref(reply));
	print_limits(reply, user);
	return CLI_DONE;
}

int verb_limit(struct cli_call *c)
{
	bool json = false;
	const char *user = NULL;
	const struct args_option options[] = {
		{ "user", 'u', "USER", "whose limits are shown or, by an administrator, set", .value = &user },
		{ "json", 0, NULL, "print JSON", .flag = &json },
		{ 0 },
	};
	struct error err = ERROR_INIT;
	if (!cli_options(c, options) || !cli_want_words(c, 0, CLI_ANY_NUMBER))
		return c->rc;
	if (c->n_words || user)
		return limits_of_one(c, user, json);
	scoped_json *reply = client_call(wire_request("users"), &err);
	if (!reply)
		return cli_fail(c, &err);
	if (json)
		return cli_print_json(json_incref(reply));
	print_users(reply);
	return CLI_DONE;
}
