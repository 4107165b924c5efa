/* SPDX-License-Identifier: MIT
 * rad show.
 */
#include "base/alloc.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/scope.h"
#include "base/text.h"
#include "base/words.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/client_queue.h"
#include "cli/event_text.h"
#include "cli/feeds.h"
#include "cli/format.h"
#include "cli/ids.h"
#include "cli/queue_table.h"
#include "cli/which.h"
#include "submit/wire.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LABEL 12	/* columns of the names on the left */

static void line(const struct term *term, const char *label, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* What people copy stays on one line, however wide that is. */
static void whole_line(const struct term *term, const char *label, const char *text)
{
	scoped_free char *clean = term_text(text, 0, term);
	printf("%s%*s%s  %s\n", term_style(term, STYLE_DIM), LABEL, label, term_style(term, STYLE_PLAIN), clean);
}

static void line(const struct term *term, const char *label, const char *fmt, ...)
{
	char text[4200];
	va_list ap;
	va_start(ap, fmt);
	text_vprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	scoped_free char *wrapped = term_wrap(text, LABEL + 2, term);
	printf("%s%*s%s  %s\n", term_style(term, STYLE_DIM), LABEL, label, term_style(term, STYLE_PLAIN), wrapped);
}

static void show_state(const struct term *term, const json_t *t)
{
	enum task_state s = member_state(t);
	scoped_free char *reason = format_times(member_text(t, "reason_text"));
	printf("%sTask %s%s  %s%s%s", term_style(term, STYLE_BOLD), member_text(t, "id"), term_style(term, STYLE_PLAIN),
	       term_style(term, format_state_style(s)), member_text(t, "state"), term_style(term, STYLE_PLAIN));
	if (json_is_integer(json_object_get(t, "signal")))
		printf(", signal %lld", (long long)member_int(t, "signal"));
	else if (json_is_integer(json_object_get(t, "exit_code")))
		printf(", exit code %lld", (long long)member_int(t, "exit_code"));
	putchar('\n');
	if (*member_text(t, "reason"))
		line(term, "reason", "%s%s%s", member_text(t, "reason"), *reason ? ": " : "", reason);
}

static void show_times(const struct term *term, const json_t *t)
{
	static const struct { const char *label, *key; } moments[] = {
		{ "submitted", "submit_time" }, { "begins", "begin_time" }, { "started", "start_time" }, { "ended", "end_time" },
	};
	char a[FORMAT_LEN], b[FORMAT_LEN], c[FORMAT_LEN], d[FORMAT_LEN], e[FORMAT_LEN];
	for (size_t i = 0; i < COUNT_OF(moments); i++)
		if (*member_text(t, moments[i].key))
			line(term, moments[i].label, "%s", format_time(member_text(t, moments[i].key), a));
	bool stood = member_number(t, "suspended_s") > 0;
	line(term, "times", "waited %s, held %s, ran %s (lost %s)%s%s", format_seconds(member_number(t, "wait_s"), a),
	     format_seconds(member_number(t, "held_s"), b), format_seconds(member_number(t, "run_s"), c),
	     format_seconds(member_number(t, "lost_s"), d), stood ? ", suspended " : "",
	     stood ? format_seconds(member_number(t, "suspended_s"), e) : "");
	if (!isnan(member_number(t, "time_limit_s")))
		line(term, "time limit", "%s", format_seconds(member_number(t, "time_limit_s"), a));
	if (member_int(t, "retries"))
		line(term, "retries", "%lld of %lld used", (long long)member_int(t, "retries_used"), (long long)member_int(t, "retries"));
	if (!isnan(member_number(t, "slot_s")))
		line(term, "time slot", "%s, made place %lld time%s, which cost %s", format_seconds(member_number(t, "slot_s"), a),
		     (long long)member_int(t, "slots"), member_int(t, "slots") == 1 ? "" : "s",
		     format_seconds(member_number(t, "slot_lost_s"), b));
}

/* What the task does to a GPU that it has alone, how sure that is, and where it is from. */
static void show_load(const struct term *term, const char *label, const json_t *load)
{
	static const char *const from[][2] = {
		{ "measured", "measured alone" }, { "inferred", "inferred in company" }, { "guessed", "guessed before it ran" }, { NULL },
	};
	const json_t *host = json_object_get(load, "host_pace");
	const char *words = words_beside(from, member_text(load, "source"));
	char pace[64] = "";
	if (isnan(member_number(load, "smact")))	/* of memory's bandwidth alone something may be known */
		return;
	if (json_is_object(host))
		snprintf(pace, sizeof pace, ", at a host's pace of %.2f by %lld task%s here", member_number(host, "pace"),
			 (long long)member_int(host, "tasks"), member_int(host, "tasks") == 1 ? "" : "s");
	line(term, label, "SMACT %.2f %s %.2f (%s%s)", member_number(load, "smact"), term_plus_minus(term),
	     member_number(load, "smact_sd"), words ? words : "", pace);
}

/* How long it takes alone, by the loops that its capture was made in. */
static void show_run(const struct term *term, const json_t *load)
{
	char text[FORMAT_LEN];
	double run_s = member_number(load, "run_s"), limit_s = member_number(load, "limit_s");
	if (limit_s > 0 && !(run_s < limit_s))
		line(term, "takes", "%s, after which its own clock ends it, by its capture", format_seconds(limit_s, text));
	else if (run_s > 0)
		line(term, "takes", "%s alone, by its capture; what it does between training steps is not counted",
		     format_seconds(run_s, text));
}

/* What it will take of the machine's cores, before it was seen. */
static void show_cores_expected(const struct term *term, const json_t *expected)
{
	double cores = member_number(expected, "cores");
	if (!isnan(cores))
		line(term, "cores", "about %.1f expected, %s", cores, strcmp(member_text(expected, "source"), "history") ?
		     "by its capture: what its data loaders keep busy, and the thread that launches" : "as earlier runs wanted");
}

/* What its capture, which was made while it waited, has to tell its user. */
static void show_notes(const struct term *term, const char *notes)
{
	const char *label = "captured";
	for (size_t n; *notes; notes += n + (notes[n] == '\n'), label = "")
		if ((n = strcspn(notes, "\n")))
			line(term, label, "%.*s", (int)n, notes);
}

static void show_request(const struct term *term, const json_t *t)
{
	const json_t *e = json_object_get(t, "estimate");
	char need[FORMAT_LEN], comfort[FORMAT_LEN], claim[FORMAT_LEN];
	line(term, "name", "%s", member_text(t, "name"));
	line(term, "user", "%s", member_text(t, "user"));
	whole_line(term, "command", member_text(t, "command"));
	whole_line(term, "folder", member_text(t, "cwd"));
	if (member_logs_nowhere(t))
		line(term, "log", "none: %s", json_is_true(json_object_get(t, "terminal")) ? "it runs on its user's terminal" :
		     "it is a process that rad did not begin");
	else
		whole_line(term, "log", member_text(t, "log_path"));
	long long n = member_int(t, "gpus_requested");
	const char *model = member_text(t, "gpu_model"), *constraint = member_text(t, "constraint");
	bool any = !*model && !*constraint;
	if (n)
		line(term, "asks for", "%lld GPU%s%s%s%s%s%s, share %s, priority %lld", n, n == 1 ? "" : "s", any ? "" : " (", model,
		     *model && *constraint ? ", " : "", constraint, any ? "" : ")", member_text(t, "share"),
		     (long long)member_int(t, "priority"));
	else
		line(term, "asks for", "no GPU, priority %lld", (long long)member_int(t, "priority"));
	if (*member_text(t, "dependency"))
		line(term, "depends on", "%s", member_text(t, "dependency"));
	char host[FORMAT_LEN];
	if (!isnan(member_number(t, "host_mem_mib")))
		line(term, "host memory", "%s", format_mib(member_number(t, "host_mem_mib"), host));
	if (!isnan(member_number(t, "cpus")))
		line(term, "CPUs", "%lld", (long long)member_int(t, "cpus"));
	else if (!n)
		line(term, "CPUs", "1, and one thread, since it does not say (--cpus-per-task)");
	if (!isnan(member_number(e, "claim_mib")))
		line(term, "memory", "%s %sheld on each GPU (%s: needs %s, takes up to %s)", format_mib(member_number(e, "claim_mib"), claim),
		     member_state(t) == TASK_PENDING || member_state(t) == TASK_HELD ? "to be " : "", member_text(e, "estimator"),
		     format_mib(member_number(e, "need_mib"), need), format_mib(member_number(e, "comfort_mib"), comfort));
	else if (json_is_object(e) && n)
		line(term, "memory", "no estimate: placed where enough is free");
	else if (n)
		line(term, "memory", json_object_get(t, "claims") ? "is estimated by the pilot that takes it" : "is being estimated");
	if (n && *member_text(e, "note"))
		line(term, "estimate", "%s", member_text(e, "note"));
	show_notes(term, member_text(t, "capture_notes"));
	show_load(term, "expected", json_object_get(e, "load"));
	show_run(term, json_object_get(e, "load"));
	show_cores_expected(term, json_object_get(e, "cores_expected"));
}

static void show_progress(const struct term *term, const json_t *t)
{
	const json_t *p = json_object_get(t, "progress");
	const char *unit = member_text(p, "unit");
	char end[FORMAT_LEN], left[FORMAT_LEN], spread[FORMAT_LEN];
	scoped_buf s = { 0 };
	if (json_is_number(json_object_get(p, "percent")))
		buf_printf(&s, "%.1f %%, ", member_number(p, "percent"));
	if (json_is_integer(json_object_get(p, "epochs")))
		buf_printf(&s, "%lld of %lld epochs, ", (long long)member_int(p, "epoch"), (long long)member_int(p, "epochs"));
	if (json_is_integer(json_object_get(p, "total")) && strcmp(unit, "epoch"))
		buf_printf(&s, "%s%s%lld of %lld, ", unit, *unit ? " " : "", (long long)member_int(p, "done"),
			   (long long)member_int(p, "total"));
	if (json_is_number(json_object_get(p, "rate")))
		buf_printf(&s, "%.3g%s%s/s, ", member_number(p, "rate"), *unit ? " " : "", unit);
	if (json_is_integer(json_object_get(p, "ends_ms")))
		buf_printf(&s, "ends %s (in %s, %s %s), ", format_ms(member_int(p, "ends_ms"), end),
			   format_left(member_number(p, "left_s"), left), term_plus_minus(term), format_left(member_number(p, "spread_s"), spread));
	if (s.len)
		line(term, "progress", "%sby its own output (%s)", buf_text(&s), member_text(p, "source"));
	if (json_is_number(json_object_get(t, "slowdown")))
		line(term, "slowdown", "%.2f (%s)", member_number(t, "slowdown"),
		     strcmp(member_text(t, "slowdown_source"), "law") ? member_text(t, "slowdown_source") : "predicted");
}

/* What its GPUs did beside, while it was there: only newer ones, or DCGM, tell it. */
static void show_activity(const struct term *term, const json_t *a)
{
	char smocc[FORMAT_LEN], dram[FORMAT_LEN];
	double rx = member_number(a, "mean_pcie_rx_mib_s"), tx = member_number(a, "mean_pcie_tx_mib_s");
	if (isnan(member_number(a, "mean_smocc")) && isnan(member_number(a, "mean_dram")))
		return;
	scoped_free char *pcie = isnan(rx) ? alloc_string("") : alloc_printf(", PCIe %.0f MiB/s in, %.0f out", rx, tx);
	line(term, "", "mean SMOCC %s, memory bandwidth %s%s", format_percent(member_number(a, "mean_smocc"), smocc),
	     format_percent(member_number(a, "mean_dram"), dram), pcie);
}

/* Of the machine's cores. Which part of so little a task waited for says nothing. */
#define HARDLY_ANY 0.05

/* Of late while it runs, else means. */
static void show_cores(const struct term *term, const json_t *a)
{
	double busy = member_number(a, "cores"), waited = member_number(a, "cores_waited");
	char part[FORMAT_LEN];
	if (isnan(busy))
		return;
	scoped_free char *waits = isnan(waited) || busy + waited < HARDLY_ANY ? alloc_string("") :
		alloc_printf(", waited for one %s of the time that it wanted one",
			     format_percent(busy + waited > 0 ? waited / (busy + waited) : 0, part));
	line(term, "", "took %.2f of the machine's cores%s", busy, waits);
}

static void show_attempt(const struct term *term, const json_t *a, size_t number, const json_t *gpus)
{
	char text[FORMAT_LEN], end[FORMAT_LEN], label[32];
	scoped_free char *where = format_place(json_object_get(a, "gpus"), gpus, member_text(a, "share"));
	bool ended = *member_text(a, "end");
	snprintf(label, sizeof label, "attempt %zu", number);
	line(term, label, "%s to %s %s%s%s", format_time(member_text(a, "start"), text), ended ?
	     format_time(member_text(a, "end"), end) : "now", where, ended ? ": " : "", ended ? member_text(a, "verdict") : "");
	if (*member_text(a, "evidence"))
		line(term, "evidence", "%s", member_text(a, "evidence"));
	if (json_is_integer(json_object_get(a, "fence_mib")))
		line(term, "fence", "%s on each GPU: MPS refuses it more", format_mib(member_number(a, "fence_mib"), text));
	char peak[FORMAT_LEN], smact[FORMAT_LEN], alone[FORMAT_LEN], energy[FORMAT_LEN];
	if (json_array_size(json_object_get(a, "given"))) {
		scoped_free char *given = format_gpus(json_object_get(a, "given"), gpus);
		line(term, "given", "GPU %s; its processes went elsewhere", given);
	}
	if (json_array_size(json_object_get(a, "gpus")))
		line(term, "measured", "peak %s, mean SMACT %s, alone %s, energy %s", format_mib(member_number(a, "peak_mib"), peak),
		     format_percent(member_number(a, "mean_smact"), smact), format_seconds(member_number(a, "alone_s"), alone),
		     format_energy(member_number(a, "energy_j"), energy));
	if (!isnan(member_number(a, "host_peak_mib")))
		line(term, "", "peak of the machine's memory %s", format_mib(member_number(a, "host_peak_mib"), peak));
	show_cores(term, a);
	show_activity(term, a);
	show_load(term, "load", json_object_get(a, "load"));
}

static void show_feed(const struct term *term, const json_t *f)
{
	char share[FORMAT_LEN];
	const char *role = member_text(f, "role"), *producer = member_text(f, "producer");
	bool produces = !strcmp(role, "producer");
	size_t i;
	json_t *other;
	if (!*role) {
		line(term, "feed", "%s", member_text(f, "name"));
		return;
	}
	line(term, "feed", "%s: %s%s; gets %.1f batches/s, waits %s of the time", member_text(f, "name"),
	     produces ? "it runs the loader" : *producer ? "its loader is run by task " : "its loader is run outside of RAD-RM",
	     produces ? "" : producer, member_number(f, "batches_s"), format_percent(member_number(f, "wait_fraction"), share));
	json_array_foreach(json_object_get(f, "others"), i, other)
		show_feed(term, other);
}

static void show_task(const struct term *term, const json_t *t, const json_t *gpus)
{
	size_t i;
	json_t *v;
	const json_t *failed = json_object_get(t, "notice_failed");
	char when[FORMAT_LEN];
	show_state(term, t);
	show_request(term, t);
	show_times(term, t);
	const json_t *with = json_object_get(t, "shared_with");
	scoped_buf others = { 0 };
	json_array_foreach(with, i, v)
		buf_printf(&others, "%s%s", i ? ", " : i + 1 < json_array_size(with) ? "tasks " : "task ", json_string_value(v));
	if (others.len)
		line(term, "beside", "%s", buf_text(&others));
	show_progress(term, t);
	if (json_is_object(json_object_get(t, "feed")))
		show_feed(term, json_object_get(t, "feed"));
	const json_t *attempts = json_object_get(t, "attempts");
	json_array_foreach(attempts, i, v)
		show_attempt(term, v, i + 1, gpus);
	if (failed)
		line(term, "not told", "%s: %s", format_time(member_text(failed, "time"), when), member_text(failed, "text"));
}

/* An array ------------------------------------------------------------------------------------------------------------- */

#define INDICES_SHOWN 60	/* characters of the list of those that ended alike */

/* What is told of each element. */
static const char *const array_members[] = { "reason", "start_time", "end_time", "run_s", "attempts[].peak_mib" };

/* Elements in one state for one reason: how many, and which. */
static void show_elements(const struct term *term, json_t **tasks, size_t n, const char *label)
{
	scoped_buf which = { 0 };
	const char *reason = member_text(*tasks, "reason");
	queue_table_add_elements(&which, tasks, n);
	const char *text = buf_text(&which);
	int shown = (int)which.len;
	while (shown > INDICES_SHOWN || (shown && shown < (int)which.len && text[shown - 1] != ','))
		shown--;
	line(term, label, "%zu %s%s%s%s: %.*s%s", n, member_text(*tasks, "state"), *reason ? " (" : "", reason, *reason ? ")" : "",
	     shown, text, shown < (int)which.len ? "..." : "");
}

/* Returns the first that did not end well. */
static json_t *show_all_elements(const struct term *term, const struct queue_rows *alike)
{
	json_t *bad = NULL;
	for (size_t i = 0; i < alike->n; i++) {
		const struct queue_row *row = &alike->rows[i];
		enum task_state s = member_state(*row->tasks);
		show_elements(term, row->tasks, row->n, i ? "" : "tasks");
		if (!bad && task_state_terminal(s) && s != TASK_COMPLETED && s != TASK_CANCELLED)
			bad = *row->tasks;
	}
	return bad;
}

/* From the first start to the last end; how long those that completed ran, and the most memory that one of them took. `common`:
 * what they have in common. */
static void show_array_sums(const struct term *term, const json_t *common, json_t *const *tasks, size_t n)
{
	const char *first = "", *last = "";
	double ran = 0, longest = 0, peak = 0;
	size_t completed = 0;
	char text[FORMAT_LEN], more[FORMAT_LEN];
	for (size_t t = 0; t < n; t++) {
		const char *start = member_text(tasks[t], "start_time"), *end = member_text(tasks[t], "end_time");
		first = *start && (!*first || strcmp(start, first) < 0) ? start : first;
		last = strcmp(end, last) > 0 ? end : last;
		peak = fmax(peak, member_over_attempts(tasks[t], "peak_mib", false));
		if (member_state(tasks[t]) != TASK_COMPLETED)
			continue;
		completed++;
		ran += member_number(tasks[t], "run_s");
		longest = fmax(longest, member_number(tasks[t], "run_s"));
	}
	line(term, "submitted", "%s", format_time(member_text(common, "submit_time"), text));
	if (*first)
		line(term, "first start", "%s", format_time(first, text));
	if (*last)
		line(term, "last end", "%s", format_time(last, text));
	if (completed)
		line(term, "ran", "mean %s, longest %s, of those that completed", format_seconds(ran / (double)completed, text),
		     format_seconds(longest, more));
	if (peak > 0)
		line(term, "took", "at most %s on a GPU", format_mib(peak, text));
}

/* All elements of an array: how they are, then what they have in common, which the first of them says. */
static void show_array(const struct term *term, const json_t *all, size_t from, size_t n, int *fd)
{
	scoped_json *tasks = json_array();
	json_t *first = json_array_get(all, from);
	for (size_t i = 0; i < n; i++) {
		json_t *t = json_array_get(all, from + i);
		json_array_append(tasks, t);
		first = member_id(t) < member_id(first) ? t : first;
	}
	struct queue_rows alike = queue_table_groups(tasks);
	scoped_json *whole = which_show_whole(fd, first), *common = json_copy(whole);
	scoped_free char *log = alloc_printf("%s, and so on", member_text(common, "log_path"));
	const char *id = member_text(first, "id");
	int job = (int)strcspn(id, "_");
	json_object_set_new(common, "log_path", json_text(log));
	printf("%sJob %.*s%s  an array of %zu\n", term_style(term, STYLE_BOLD), job, id, term_style(term, STYLE_PLAIN), n);
	json_t *bad = show_all_elements(term, &alike);
	scoped_json *bad_whole = bad ? which_show_whole(fd, bad) : NULL;
	if (bad)
		line(term, "evidence", "of %s: %s", member_text(bad, "id"), member_text(member_last_attempt(bad_whole), "evidence"));
	show_request(term, common);
	show_array_sums(term, common, alike.list, n);
	line(term, "each", "rad show %s; as a list: rad queue -r -t all %.*s", member_text(bad ? bad : first, "id"), job, id);
	queue_table_clear(&alike);
}

/* How many from there on are elements of an array that was named as a whole, and of which more than one is there; else 1. */
static size_t array_length(const json_t *tasks, size_t from, const struct ids *ids)
{
	task_id id = member_id(json_array_get(tasks, from)), whole = TASK_ID(TASK_JOB(id), -1);
	size_t n = 1;
	if (TASK_INDEX(id) < 0 || !ids_have(ids, whole))
		return 1;
	while (from + n < json_array_size(tasks) && TASK_JOB(member_id(json_array_get(tasks, from + n))) == TASK_JOB(id))
		n++;
	return n;
}

static int show_tasks(const json_t *tasks, const json_t *gpus, char *const *words, size_t n_words, int *fd, struct error *err)
{
	struct term term = term_ask();
	struct ids ids = { 0 };
	int rc = 0;
	for (size_t i = 0; i < n_words && !rc; i++)
		rc = ids_add(words[i], &ids, err);
	for (size_t i = 0, n; i < json_array_size(tasks) && !rc; i += n) {
		if (i)
			putchar('\n');
		n = array_length(tasks, i, &ids);
		if (n > 1)
			show_array(&term, tasks, i, n, fd);
		else
			show_task(&term, json_array_get(tasks, i), gpus);
	}
	ids_clear(&ids);
	return rc;
}

/* Events --------------------------------------------------------------------------------------------------------------- */

/* The name of who did it, and whether as the administrator, in the place of a number. */
static void name_actors(const json_t *events)
{
	size_t i;
	json_t *e;
	char user[FORMAT_LEN];
	json_array_foreach(events, i, e) {
		const json_t *uid = json_object_get(e, "by_uid");
		bool person = json_is_integer(uid);
		json_object_set_new(e, "by", person ? json_text(format_user((uid_t)json_integer_value(uid), user)) : json_null());
		json_object_set_new(e, "administrator", json_boolean(person && !json_integer_value(uid)));
	}
}

#define EVENT_INDENT 33	/* time, name and blanks before what it says */

static void print_event(const json_t *e, const json_t *gpus, const struct term *term)
{
	char time[FORMAT_LEN];
	scoped_free char *said = event_text(e, gpus), *wrapped = term_wrap(said, term->width > 80 ? EVENT_INDENT : 4, term);
	printf("%s  %s%-*s%s%s%s\n", format_time(member_text(e, "time"), time), term_style(term, STYLE_BOLD), *said ? 10 : 0,
	       member_text(e, "event"), term_style(term, STYLE_PLAIN), *said ? "  " : "", wrapped);
}

static int show_events(struct cli_call *c, const char *id, bool json)
{
	struct error err = ERROR_INIT;
	json_t *reply = client_call_id("events", id, &err);
	size_t i;
	json_t *e;
	if (!reply)
		return cli_fail(c, &err);
	const json_t *events = json_object_get(reply, "events");
	name_actors(events);
	if (json)
		return cli_print_json(reply);
	struct term term = term_ask();
	scoped_json *gpus = client_call(wire_request("gpus"), &err);	/* without them, GPUs are told by UUID */
	json_array_foreach(events, i, e)
		print_event(e, json_object_get(gpus, "gpus"), &term);
	if (json_is_true(json_object_get(reply, "truncated")))
		puts("... and more");
	json_decref(reply);
	return CLI_DONE;
}

/* A terminal is told nothing by what stands in it; a file gets every byte. */
static void print_script(const char *text)
{
	bool terminal = isatty(STDOUT_FILENO);
	for (size_t n; *text; text += n ? n : 1) {
		n = terminal && !strchr("\n\t", *text) ? words_turns(text) + words_controls(text) : 0;
		putchar(n ? '?' : *text);
	}
}

/* A word as a shell would take it back. */
static void print_word(const char *word)
{
	scoped_buf text = { 0 };
	words_add_shell_word(&text, word);
	print_script(buf_text(&text));
}

static int show_script(struct cli_call *c, const char *id, bool json)
{
	struct error err = ERROR_INIT;
	scoped_json *reply = client_call_id("script", id, &err);
	const json_t *argv = json_object_get(reply, "argv");
	size_t i;
	json_t *word;
	if (!reply)
		return cli_fail(c, &err);
	if (json)
		return cli_print_json(json_incref(reply));
	if (*member_text(reply, "script")) {
		print_script(member_text(reply, "script"));
		return CLI_DONE;
	}
	json_array_foreach(argv, i, word) {
		if (i)
			putchar(' ');
		print_word(json_string_value(word) ? json_string_value(word) : "?");
	}
	putchar('\n');
	return CLI_DONE;
}

/* What scontrol shows besides jobs, and who shows it here; NULL: it is none of these. */
static const char *other_thing(const char *word)
{
	static const struct { const char *word, *instead; } things[] = {
		{ "node", "this is one machine: rad gpus" }, { "nodes", "this is one machine: rad gpus" },
		{ "partition", "there are none: rad gpus, rad limit" }, { "partitions", "there are none: rad gpus, rad limit" },
		{ "config", "radd --check-config" }, { "reservation", "rad reserve" }, { "reservations", "rad reserve" },
		{ "res", "rad reserve" }, { "step", "there are no steps" }, { "steps", "there are no steps" },
		{ "licenses", "there are none" }, { "assoc_mgr", "rad limit" },
	};
	for (size_t i = 0; i < COUNT_OF(things); i++)
		if (!strcasecmp(word, things[i].word))
			return things[i].instead;
	return NULL;
}

int verb_show(struct cli_call *c)
{
	bool json = false, events = false, script = false;
	const struct args_option options[] = {
		{ "events", 0, NULL, "its log of events: everything that ever happened to it", .flag = &events },
		{ "script", 0, NULL, "what runs: the script as it was submitted, or the command", .flag = &script },
		CLIENT_QUEUE_OPTION,
		{ "json", 0, NULL, "print JSON", .flag = &json },
		{ 0 },
	};
	struct error err = ERROR_INIT;
	if (!cli_options(c, options))
		return c->rc;
	if (c->n_words && other_thing(c->words[0]))
		return cli_usage(c, "'%.60s': %s", c->words[0], other_thing(c->words[0]));
	c->n_words = ids_bare_words(c->words, c->n_words);
	bool one = events || script;
	if (one ? !cli_want_words(c, 1, 1) || !ids_want_one(c, c->words[0]) : !ids_want(c, CLI_ANY_NUMBER))
		return c->rc;
	if (script)
		return show_script(c, c->words[0], json);
	if (events)
		return show_events(c, c->words[0], json);
	scoped_fd int fd = -1;
	scoped_json *shown = which_show_on(&fd, c->words, c->n_words, json ? NULL : array_members, COUNT_OF(array_members), &err);
	scoped_json *gpus = shown ? client_look_on(&fd, wire_request("gpus"), &err) : NULL;
	if (!gpus)
		return cli_fail(c, &err);
	feeds_tell(json_object_get(shown, "tasks"));
	if (json)
		return cli_print_json(json_incref(shown));
	return show_tasks(json_object_get(shown, "tasks"), json_object_get(gpus, "gpus"), c->words, c->n_words, &fd, &err) ?
		cli_fail(c, &err) : CLI_DONE;
}
