/* SPDX-License-Identifier: MIT
 * rad feed: the feeds of one's own on this machine (radrm.feed), and who waits for whom. Asks no daemon.
 */
#include "base/json.h"
#include "base/scope.h"
#include "cli/cli.h"
#include "cli/feeds.h"
#include "cli/format.h"
#include "cli/table.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static char *bytes_text(double bytes, char buf[FORMAT_LEN])
{
	if (bytes >= 1 << 20 || isnan(bytes))
		return format_mib(bytes / (1 << 20), buf);
	snprintf(buf, FORMAT_LEN, "%.0fK", bytes / 1024);
	return buf;
}

static void tell_wait(const char *for_whom)
{
	bool task = *for_whom && strspn(for_whom, "0123456789_") == strlen(for_whom);
	if (!strcmp(for_whom, "producer"))
		printf("; readers wait for the loader");
	else if (*for_whom)
		printf("; the loader waits for %s%s", task ? "task " : "", for_whom);
}

static void tell_feed(const json_t *f)
{
	char memory[FORMAT_LEN], slot[FORMAT_LEN];
	const char *state = member_text(f, "state");
	long long tasks = member_int(f, "tasks");
	printf("Feed %s: %lld task%s", member_text(f, "name"), tasks, tasks == 1 ? "" : "s");
	if (!strcmp(state, "nobody"))
		puts(", and nobody runs the loader");
	else if (!strcmp(state, "begins"))
		puts(", and the loader has not made its first batch");
	else if (!strcmp(state, "hidden"))
		puts("; its figures cannot be seen from here: it is another user's, in another container, or of another release");
	else {
		printf(", epoch %lld, batch %lld; %lld slots of %s, %s of memory", (long long)member_int(f, "epoch"),
		       (long long)member_int(f, "batch"), (long long)member_int(f, "slots"),
		       bytes_text(member_number(f, "slot_bytes"), slot), bytes_text(member_number(f, "memory_bytes"), memory));
		tell_wait(member_text(f, "waits_for"));
		putchar('\n');
	}
}

static void add_row(struct table *t, const char *role, const json_t *process, const json_t *figures)
{
	char rate[FORMAT_LEN], waits[FORMAT_LEN];
	const char *task = member_text(process, "task");
	table_cell(t, STYLE_PLAIN, role);
	table_cell(t, STYLE_PLAIN, *task ? task : "-");
	table_printf(t, STYLE_PLAIN, "%lld", (long long)member_int(process, "pid"));
	table_number(t, STYLE_PLAIN, "%.1f", member_number(figures, "batches_s"));
	table_printf(t, STYLE_PLAIN, "%s/s", bytes_text(member_number(figures, "bytes_s"), rate));
	table_cell(t, STYLE_PLAIN, format_percent(member_number(figures, "wait_fraction"), waits));
	table_number(t, STYLE_PLAIN, "%.0f", member_number(process, "behind"));
}

static void tell_processes(const json_t *f, const struct term *term)
{
	static const struct table_column columns[] = {
		{ .title = "ROLE" }, { .title = "TASK" }, { .title = "PID", .right = true }, { .title = "BATCHES/S", .right = true },
		{ .title = "BYTES", .right = true }, { .title = "WAITS", .right = true }, { .title = "BEHIND", .right = true },
	};
	const json_t *producer = json_object_get(f, "producer");
	size_t i;
	json_t *r;
	if (!json_is_object(producer))
		return;
	struct table *t = table_create(columns, COUNT_OF(columns));
	add_row(t, "loader", producer, f);
	json_array_foreach(json_object_get(f, "readers"), i, r)
		add_row(t, "reader", r, r);
	table_print(t, term, stdout);
	table_destroy(t);
}

int verb_feed(struct cli_call *c)
{
	bool json = false;
	const struct args_option options[] = { { "json", 0, NULL, "print JSON", .flag = &json }, { 0 } };
	struct error err = ERROR_INIT;
	size_t i;
	json_t *f;
	if (!cli_options(c, options) || !cli_want_words(c, 0, CLI_ANY_NUMBER))
		return c->rc;
	scoped_json *feeds = feeds_list(c->words, c->n_words, &err);
	if (!feeds)
		return cli_fail(c, &err);
	if (json)
		return cli_print_json(json_pack("{si, sO}", "schema", 1, "feeds", feeds));
	struct term term = term_ask();
	if (!json_array_size(feeds))
		puts("No feeds of yours on this machine.");
	json_array_foreach(feeds, i, f) {
		if (i)
			putchar('\n');
		tell_feed(f);
		tell_processes(f, &term);
	}
	return CLI_DONE;
}
