/* SPDX-License-Identifier: MIT
 * rad reserve: GPUs for one user's tasks in a span of time; without a number of GPUs, those that there are.
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/scope.h"
#include "base/units.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/format.h"
#include "cli/moment.h"
#include "cli/span.h"
#include "cli/table.h"
#include "cli/which.h"
#include "submit/wire.h"

#include <string.h>

struct reserve_wish { const char *gpus, *user, *begin, *end, *length, *reason, *cancel; bool json; };

/* ---- listing ---- */

/* id: of the reservation, where several are listed; 0: the one that was just told of. */
static void print_overlaps(const json_t *overlaps, long long id, const json_t *gpus, const struct term *term)
{
	size_t i;
	json_t *o;
	char end[FORMAT_LEN], which[48] = "";
	if (id)
		snprintf(which, sizeof which, "reservation %lld: ", id);
	json_array_foreach(overlaps, i, o) {
		scoped_free char *where = format_gpus(json_object_get(o, "gpus"), gpus);
		bool known = *member_text(o, "end_time");
		scoped_free char *line = alloc_printf("  %stask %s of %s runs on GPU %s, %s%s; it is not ended for it", which,
			member_text(o, "task"), member_text(o, "user"), where, known ? "until about " : "nobody knows for how long",
			known ? format_time(member_text(o, "end_time"), end) : "");
		scoped_free char *clean = term_text(line, 0, term);
		printf("%s%s%s\n", term_style(term, STYLE_WARN), clean, term_style(term, STYLE_PLAIN));
	}
}

static void print_list(const json_t *list, const json_t *gpus, const struct term *term)
{
	static const struct table_column columns[] = {
		{ "ID", .right = true }, { "USER", .min = 6 }, { "GPUS" }, { "BEGIN" }, { "END" }, { "STATE", .drop = 1 },
		{ "REASON", .min = 6, .drop = 2 },
	};
	struct table *table = table_create(columns, COUNT_OF(columns));
	size_t i;
	json_t *r;
	char text[FORMAT_LEN];
	json_array_foreach(list, i, r) {
		scoped_free char *where = format_gpus(json_object_get(r, "gpus"), gpus);
		bool active = json_is_true(json_object_get(r, "active"));
		table_printf(table, STYLE_BOLD, "%lld", (long long)member_int(r, "id"));
		table_cell(table, STYLE_PLAIN, member_text(r, "user"));
		table_cell(table, STYLE_PLAIN, where);
		table_cell(table, STYLE_PLAIN, format_time(member_text(r, "begin_time"), text));
		table_cell(table, STYLE_PLAIN, format_time(member_text(r, "end_time"), text));
		table_cell(table, active ? STYLE_GOOD : STYLE_DIM, active ? "now" : "later");
		table_cell(table, STYLE_PLAIN, member_text(r, "reason"));
	}
	table_print(table, term, stdout);
	table_destroy(table);
	json_array_foreach(list, i, r)
		print_overlaps(json_object_get(r, "overlaps"), member_int(r, "id"), gpus, term);
}

static int list_all(struct cli_call *c, bool json)
{
	struct error err = ERROR_INIT;
	scoped_json *reply = client_call(wire_request("reservations"), &err);
	if (!reply)
		return cli_fail(c, &err);
	if (json)
		return cli_print_json(json_incref(reply));
	const json_t *list = json_object_get(reply, "reservations");
	if (!json_array_size(list)) {
		puts("No GPU is reserved");
		return CLI_DONE;
	}
	scoped_json *gpus = client_call(wire_request("gpus"), &err);
	if (!gpus)
		return cli_fail(c, &err);
	struct term term = term_ask();
	print_list(list, json_object_get(gpus, "gpus"), &term);
	return CLI_DONE;
}

/* ---- making ---- */

static int fill_span(const struct reserve_wish *w, json_t *request, struct error *err)
{
	int64_t now_ms = clock_wall_ms(), begin_ms = now_ms, end_ms = 0, seconds = 0;
	if (!w->end == !w->length)
		return error_set(err, ERR_INVALID, "give either --for or --end: how long it is to last");
	if (w->begin && moment_parse(w->begin, MOMENT_NEXT, now_ms, &begin_ms, err))
		return error_wrap(err, "--begin");
	if (begin_ms < now_ms)
		return error_set(err, ERR_INVALID, "--begin: '%.40s' is past", w->begin);
	/* "--begin 22:00 --end 06:00": the next 6:00 after it begins. */
	if (w->end && moment_parse(w->end, MOMENT_NEXT, begin_ms, &end_ms, err))
		return error_wrap(err, "--end");
	if (w->length && units_parse_duration(w->length, 1, UNITS_TEN_YEARS_S, &seconds, err))
		return error_wrap(err, "--for");
	end_ms = w->end ? end_ms : begin_ms + seconds * 1000;
	if (end_ms <= begin_ms)
		return error_set(err, ERR_INVALID, "it would end before it begins");
	json_object_set_new(request, "begin_ms", json_integer(begin_ms));
	json_object_set_new(request, "end_ms", json_integer(end_ms));
	return 0;
}

static int fill_gpus(const struct cli_call *c, const struct reserve_wish *w, json_t *request, struct error *err)
{
	int64_t count;
	if (!w->gpus == !c->n_words)
		return error_set(err, ERR_INVALID, "give either how many GPUs, or --gpus with which");
	if (!w->gpus) {
		if (units_parse_int(c->words[0], 1, SPEC_MAX_GPUS, &count, NULL))
			return error_set(err, ERR_INVALID, "'%.60s' is not how many GPUs, 1 to %d: which ones is said by --gpus %.60s", c->words[0],
					 SPEC_MAX_GPUS, c->words[0]);
		json_object_set_new(request, "gpus", json_integer(count));
		return 0;
	}
	json_t *list = json_array();
	which_gpus(w->gpus, list);
	json_object_set_new(request, "gpus", list);
	return 0;
}

/* As they were understood: an --end that is a minute too early is that of the next day. */
static void print_span(const json_t *request)
{
	char begin[FORMAT_LEN], end[FORMAT_LEN];
	printf("%s to %s\n", format_ms(member_int(request, "begin_ms"), begin), format_ms(member_int(request, "end_ms"), end));
}

static int make_one(struct cli_call *c, const struct reserve_wish *w)
{
	struct error err = ERROR_INIT;
	scoped_json *request = wire_request("reserve");
	json_object_set_new(request, "uid", json_integer((json_int_t)getuid()));
	if (fill_gpus(c, w, request, &err) || (w->user && span_fill_user(request, w->user, &err)) || fill_span(w, request, &err))
		return cli_usage(c, "%s", err.text);
	if (w->reason && json_object_set_new(request, "reason", json_exact(w->reason)))
		return cli_usage(c, "--reason: is not UTF-8");
	scoped_json *reply = client_call(json_incref(request), &err);
	if (!reply)
		return cli_fail(c, &err);
	if (w->json)
		return cli_print_json(json_incref(reply));
	scoped_json *gpus = client_call(wire_request("gpus"), &err);
	scoped_free char *where = format_gpus(json_object_get(reply, "gpus"), json_object_get(gpus, "gpus"));
	struct term term = term_ask();
	printf("Reservation %lld: ", (long long)member_int(reply, "id"));
	if (c->n_words)	/* "2" is two of them, and not the GPU of that number */
		printf("%s GPU%s, chosen now: ", c->words[0], !strcmp(c->words[0], "1") ? "" : "s");
	printf("GPU %s, ", where);
	print_span(request);
	print_overlaps(json_object_get(reply, "overlaps"), 0, json_object_get(gpus, "gpus"), &term);
	return CLI_DONE;
}

static int take_back(struct cli_call *c, const struct reserve_wish *w)
{
	struct error err = ERROR_INIT;
	int64_t id;
	if (units_parse_int(w->cancel, 1, UINT32_MAX, &id, &err))
		return cli_usage(c, "--delete: %s", err.text);
	json_t *request = wire_request("unreserve");
	json_object_set_new(request, "id", json_integer(id));
	scoped_json *reply = client_call(request, &err);
	if (!reply)
		return cli_fail(c, &err);
	return w->json ? cli_print_json(json_incref(reply)) : CLI_DONE;
}

int verb_reserve(struct cli_call *c)
{
	struct reserve_wish w = { 0 };
	const struct args_option options[] = {
		{ "user", 'u', "NAME", "whose tasks they are for (yourself)", .value = &w.user },
		{ "begin", 0, "TIME", "from when: 14:00, 2026-11-20T14:00, now+2h (now)", .value = &w.begin },
		{ "for", 0, "TIME", "for how long: 2h", .value = &w.length },
		{ "end", 0, "TIME", "until when, instead", .value = &w.end },
		{ "gpus", 0, "LIST", "these GPUs, by index or UUID: 0,2 or 4-7", .value = &w.gpus },
		{ "reason", 0, "TEXT", "why, for everybody to see", .value = &w.reason },
		{ "delete", 0, "ID", "takes one back", .value = &w.cancel },
		{ "json", 0, NULL, "print JSON", .flag = &w.json },
		{ 0 },
	};
	if (!cli_options(c, options) || !cli_want_words(c, 0, 1))
		return c->rc;
	bool makes = c->n_words || w.gpus || w.user || w.begin || w.length || w.end || w.reason;
	if (w.cancel)
		return makes ? cli_usage(c, "--delete goes alone") : take_back(c, &w);
	return makes ? make_one(c, &w) : list_all(c, w.json);
}
