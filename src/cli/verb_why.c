/* SPDX-License-Identifier: MIT
 * rad why: for a task that waits, the arithmetic of every GPU; for one that runs or has ended, where it was and the verdicts.
 */
#include "base/alloc.h"
#include "base/escape.h"
#include "base/json.h"
#include "base/scope.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/feeds.h"
#include "cli/format.h"
#include "cli/ids.h"
#include "cli/log_file.h"
#include "cli/queue_table.h"
#include "cli/which.h"
#include "submit/wire.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MOST_GROUPS 20		/* that are listed of several tasks */
#define ROUNDED 0.01		/* more than that was not by rounding */
#define LOG_END_BYTES 4096
#define LOG_END_LINES 3
#define LOG_END_COLUMNS 240	/* of each; a line without an end would fill the screen */
#define LOG_END_QUOTED 60	/* evidence has no more of a line for sure */

static int how_telling(const json_t *t)
{
	switch (member_state(t)) {
	case TASK_PENDING: return strcmp(member_text(t, "reason"), "ArrayLimit") ? 5 : 4;
	case TASK_HELD: return 3;
	case TASK_COMPLETED: case TASK_CANCELLED: return 0;
	case TASK_RUNNING: return 1;
	default: return 2;
	}
}

/* Of an array, the element that says most: one that waits for a GPU, else one that waits, else one that did not do its work. */
static json_t *pick(const json_t *tasks)
{
	json_t *best = NULL, *t;
	size_t i;
	json_array_foreach(tasks, i, t)
		if (!best || how_telling(t) > how_telling(best))
			best = t;
	return best;
}

static json_t *group_json(const struct queue_row *g)
{
	scoped_free char *ids = queue_table_ids(g->tasks, g->n);
	return json_pack("{ss, sI, sO, sO?}", "ids", ids, "count", (json_int_t)g->n, "state", json_object_get(*g->tasks, "state"),
			 "reason", json_object_get(*g->tasks, "reason"));
}

/* What there is of each state and reason: {"ids", "count", "state", "reason"}. */
static json_t *elements_of(const json_t *tasks)
{
	struct queue_rows groups = queue_table_groups(tasks);
	json_t *list = json_array();
	for (size_t i = 0; i < groups.n; i++)
		json_array_append_new(list, group_json(&groups.rows[i]));
	queue_table_clear(&groups);
	return list;
}

/* As the lines of rad queue, but also of what has ended. */
static void print_elements(const json_t *elements, const struct term *term)
{
	size_t i;
	json_t *g;
	json_int_t tasks = 0, said = 0;
	json_array_foreach(elements, i, g)
		tasks += member_int(g, "count");
	printf("%lld tasks:\n", (long long)tasks);
	json_array_foreach(elements, i, g) {
		const char *reason = member_text(g, "reason");
		if (i == MOST_GROUPS)
			break;
		scoped_free char *line = alloc_printf("%s: %s%s%s%s", member_text(g, "ids"), member_text(g, "state"), *reason ? " (" : "",
						      reason, *reason ? ")" : "");
		format_below(line, STYLE_PLAIN, term);
		said += member_int(g, "count");
	}
	if (said < tasks)
		printf("  and %lld more: rad queue\n", (long long)(tasks - said));
}

/* Whose turn it is, and by which figure. */
static void print_turn(const json_t *turn, const struct term *term)
{
	scoped_buf text = { 0 };
	char his[FORMAT_LEN], own[FORMAT_LEN], half_life[FORMAT_LEN];
	const char *user = member_text(turn, "user"), *me = member_text(turn, "own_user");
	if (!json_is_object(turn))
		return;
	buf_printf(&text, "It is %s's turn (task %s: %s), who had %s of GPU time lately and runs %lld task%s", user,
		   member_text(turn, "task"), member_text(turn, "because"), format_seconds(member_number(turn, "used_s"), his),
		   (long long)member_int(turn, "running"), member_int(turn, "running") == 1 ? "" : "s");
	if (strcmp(user, me))
		buf_printf(&text, "; %s had %s and runs %lld", me, format_seconds(member_number(turn, "own_used_s"), own),
			   (long long)member_int(turn, "own_running"));
	buf_printf(&text, " (what is %s old counts half)", format_span(member_number(turn, "half_life_s"), half_life));
	scoped_free char *line = term_wrap(buf_text(&text), 2, term);
	puts(line);
}

/* What the running tasks take of the machine's cores, where that keeps it from sharing. */
static void print_cores(const json_t *cores)
{
	size_t i;
	json_t *t;
	if (!json_is_true(json_object_get(cores, "used_up")))
		return;
	printf("Of %g cores, running tasks need %.1f:\n", member_number(cores, "have"), member_number(cores, "need"));
	json_array_foreach(json_object_get(cores, "tasks"), i, t) {
		double busy = member_number(t, "cores"), waited = member_number(t, "cores_waited");
		printf("  task %s needs %.1f: ", member_text(t, "task"), member_number(t, "need"));
		if (isnan(busy) || isnan(waited))
			puts("as is expected, it was not seen yet");
		else if (member_number(t, "need") > busy + waited + ROUNDED)
			printf("as is expected, since it only starts: it takes %.1f and waits for %.1f more\n", busy, waited);
		else
			printf("it takes %.1f and waits for %.1f more\n", busy, waited);
	}
}

/* Why under `order: plan` nobody is promised a place. */
static void print_plan(const json_t *plan, const struct term *term)
{
	if (!json_is_object(plan))
		return;
	scoped_free char *said = alloc_printf("No plan is made: how long they take is known of %lld of the %lld tasks that run or "
		"wait, and half would do (--time tells it, --capture, or an earlier run of one like it)",
		(long long)member_int(plan, "known"), (long long)member_int(plan, "of")), *line = term_wrap(said, 2, term);
	puts(line);
}

static void print_waiting(const json_t *why, const struct term *term)
{
	size_t i;
	json_t *g;
	scoped_free char *text = format_times(member_text(why, "reason_text"));
	char claim[FORMAT_LEN];
	scoped_free char *line = alloc_printf("Task %s is %s: %s%s%s", member_text(why, "task"), member_text(why, "state"),
		member_text(why, "reason"), *text ? ": " : "", text), *head = term_wrap(line, 2, term);
	puts(head);
	print_turn(json_object_get(why, "turn"), term);
	const json_t *gpus = json_object_get(why, "gpus");
	if (!json_array_size(gpus))
		return;
	long long n = member_int(why, "gpus_requested");
	const char *estimator = member_text(why, "estimator");
	const bool known = strcmp(estimator, "none");	/* by what it wanted: else it ran out of memory before */
	scoped_free char *wants = member_int(why, "claim_mib") ?
		alloc_printf("It wants %lld GPU%s with %s on each%s%s%s", n, n == 1 ? "" : "s",
			     format_mib(member_number(why, "claim_mib"), claim), known ? " (" : "", known ? estimator : "", known ? ")" : "") :
		alloc_printf("It wants %lld GPU%s; nothing is known of its memory", n, n == 1 ? "" : "s");
	scoped_free char *wrapped = term_wrap(wants, 2, term);
	puts(wrapped);
	json_array_foreach(gpus, i, g) {
		scoped_free char *said = format_times(member_text(g, "text"));
		format_below(said, json_is_true(json_object_get(g, "fits")) ? STYLE_GOOD : STYLE_PLAIN, term);
	}
	print_cores(json_object_get(why, "cores"));
	print_plan(json_object_get(why, "plan"), term);
}

/* What a running task waits for that its GPU has no part in: whoever shares its data loader. */
static void print_feed(const json_t *feed)
{
	char share[FORMAT_LEN];
	const char *producer = member_text(feed, "producer"), *waits_for = member_text(feed, "waits_for");
	bool produces = !strcmp(member_text(feed, "role"), "producer");
	size_t i;
	json_t *other;
	if (json_is_true(json_object_get(feed, "full")))
		printf("  feed %s: it has as many tasks as it takes, and this is none of them: it waits until one leaves\n",
		       member_text(feed, "name"));
	if (!*member_text(feed, "role"))
		return;
	printf("  feed %s: %s%s; it got %.1f batches/s and waited %s of the time", member_text(feed, "name"),
	       produces ? "it runs the loader" : *producer ? "the loader is run by task " : "the loader is run outside of RAD-RM",
	       produces ? "" : producer, member_number(feed, "batches_s"),
	       format_percent(member_number(feed, "wait_fraction"), share));
	if (!strcmp(waits_for, "producer"))
		printf("; now it waits for the loader");
	else if (*waits_for)
		printf("; now the loader waits for the slowest: %s%s", strspn(waits_for, "0123456789_") == strlen(waits_for) ?
		       "task " : "", waits_for);
	putchar('\n');
	json_array_foreach(json_object_get(feed, "others"), i, other)
		print_feed(other);
}

/* In place. */
static void drop_escapes(char *line)
{
	enum escape at = ESCAPE_NONE;
	char *to = line;
	for (const char *p = line; *p; p++)
		if (!escape_takes(&at, *p))
			*to++ = *p;
	*to = '\0';
}

/* What the log of one that failed ends with, but an error that was quoted already: read with the rights of who asks, since what
 * a task prints is its owner's. */
static void print_log_end(const json_t *task, const struct term *term)
{
	char bytes[LOG_END_BYTES + 1];
	char *lines[LOG_END_LINES];
	struct stat st;
	size_t n = 0;
	scoped_fd int fd = log_file_open(member_text(task, "log_path"), member_text(task, "user"), NULL);
	if (fd < 0 || fstat(fd, &st))
		return;
	if (log_file_full(fd))
		printf("T%s\n", log_file_full(fd) + 1);	/* a sentence */
	ssize_t got = pread(fd, bytes, LOG_END_BYTES, st.st_size > LOG_END_BYTES ? st.st_size - LOG_END_BYTES : 0);
	for (char *end = bytes + (got > 0 ? got : 0); n < LOG_END_LINES && end > bytes; end--) {
		*end = '\0';
		while (end > bytes && !strchr("\n\r", end[-1]))
			end--;
		drop_escapes(end);
		if (end[strspn(end, " \t")])
			lines[n++] = end;
	}
	char last[LOG_END_QUOTED] = "";
	if (n)
		text_printf(last, sizeof last, "'%s", lines[0] + strspn(lines[0], " \t"));	/* as evidence quotes it */
	if (!n || strstr(member_text(member_last_attempt(task), "evidence"), last))
		return;
	puts("Its output ends:");
	while (n-- > 0) {
		scoped_free char *line = term_text_ends(lines[n], LOG_END_COLUMNS, term);
		format_below(line, STYLE_PLAIN, term);
	}
}

/* Whether larger GPUs are here than the one that was too small, since only then one can be asked for. As --constraint compares,
 * within a twentieth: GPUs that are sold as one size have not the same to the MiB. */
static void print_what_helps_oom(const json_t *task, const json_t *gpus)
{
	const json_t *tried = json_object_get(member_last_attempt(task), "gpus");
	double had = 0, most = 0;
	size_t i, j;
	json_t *g, *uuid;
	json_array_foreach(gpus, i, g) {
		most = fmax(most, member_number(g, "mem_total_mib"));
		json_array_foreach(tried, j, uuid)
			if (json_equal(uuid, json_object_get(g, "uuid")))
				had = fmax(had, member_number(g, "mem_total_mib"));
	}
	if (most - most / 20 > had && had > 0)
		printf("What helps: a smaller batch, or a GPU with more memory (--constraint='mem>%.0fG')\n", ceil(had / 1024));
	else
		printf("What helps: a smaller batch%s\n", had > 0 ? "; no GPU here has more memory" : "");
}

/* Whether it could not start because its folder is gone, where only one of them helps: a folder can be made again, a copy of
 * code is made by a submission. */
static bool print_lost_folder(const json_t *task)
{
	const char *folder = member_text(task, "cwd");
	struct stat st;
	if (!strstr(member_text(member_last_attempt(task), "evidence"), "not started: working directory ") || !stat(folder, &st) ||
	    errno != ENOENT)
		return false;
	bool copy = strstr(folder, "/rad/snapshots/") != NULL;
	puts(copy ? "What helps: submit it again. Its folder, a copy that --snapshot made, was removed, so 'rad requeue' does not help"
		  : "What helps: its folder, made again; then 'rad requeue'");
	return true;
}

/* What its user does next. One that completed, or that he cancelled, leaves nothing to do. */
static void print_next(const json_t *task, const json_t *gpus, const struct term *term)
{
	enum task_state s = member_state(task);
	const char *id = member_text(task, "id");
	struct stat st;
	if (s == TASK_OUT_OF_MEMORY)
		print_what_helps_oom(task, gpus);
	if (s == TASK_TIMEOUT)
		printf("What helps: a longer --time%s\n", member_number(task, "gpus_requested") > 0 ?
		       ", or --slot, which asks it to save and has it go on later" : "");
	if (s == TASK_FAILED && !strcmp(member_text(member_last_attempt(task), "verdict"), "host_oom"))
		puts("What helps: less memory of the machine, as by fewer loader workers; --mem says how much it takes");
	if (s == TASK_FAILED && print_lost_folder(task))
		return;
	if (s == TASK_FAILED)
		print_log_end(task, term);
	if (s != TASK_FAILED && s != TASK_OUT_OF_MEMORY && s != TASK_TIMEOUT && s != TASK_LOST)
		return;
	if (member_logs_nowhere(task))
		return;		/* nothing to read, and rad run or rad adopt begins it */
	if (!stat(member_text(task, "log_path"), &st) && st.st_size)
		printf("Its output: rad logs %s. ", id);
	printf("Once more: rad requeue %s\n", id);
}

static void print_attempts(const json_t *task, const json_t *gpus, const struct term *term)
{
	size_t i;
	json_t *a;
	const char *reason = member_text(task, "reason_text");
	bool ended = task_state_terminal(member_state(task));	/* of one that runs it is told below */
	printf("Task %s: %s%s%s\n", member_text(task, "id"), member_text(task, "state"), ended && *reason ? ": " : "",
	       ended ? reason : "");
	const json_t *attempts = json_object_get(task, "attempts");
	json_array_foreach(attempts, i, a) {
		scoped_free char *where = format_place(json_object_get(a, "gpus"), gpus, member_text(a, "share"));
		const char *said = member_text(a, "evidence");
		bool over = *member_text(a, "end");
		scoped_free char *line = alloc_printf("attempt %zu %s: %s%s%s", i + 1, where, over ? member_text(a, "verdict") : "running",
						      *said ? ": " : "", said);
		format_below(line, STYLE_PLAIN, term);
	}
	if (member_state(task) == TASK_RUNNING)
		print_feed(json_object_get(task, "feed"));
	print_next(task, gpus, term);
}

/* The answer of `why` for what still lives, with the attempts; the same members for what has ended. */
static json_t *why_json(int *fd, const json_t *task, struct error *err)
{
	json_t *why = NULL;
	if (!task_state_terminal(member_state(task)))
		why = client_look_id_on(fd, "why", member_text(task, "id"), err);
	else
		why = json_pack("{si, sO, sO, so, so, sO, so}", "schema", 1, "task", json_object_get(task, "id"), "state",
				json_object_get(task, "state"), "reason", json_null(), "reason_text", json_null(), "gpus_requested",
				json_object_get(task, "gpus_requested"), "gpus", json_array());
	if (!why)
		return NULL;
	json_object_set(why, "attempts", json_object_get(task, "attempts"));
	if (json_is_object(json_object_get(task, "feed")))
		json_object_set(why, "feed", json_object_get(task, "feed"));
	return why;
}

/* Who was to be told of it may wait for word. */
static void print_untold(const json_t *failed, const struct term *term)
{
	char when[FORMAT_LEN];
	if (!failed)
		return;
	format_time(member_text(failed, "time"), when);
	scoped_free char *text = alloc_printf("A notice about it was not sent (%s): %s", when, member_text(failed, "text"));
	scoped_free char *wrapped = term_wrap(text, 2, term);
	puts(wrapped);
}

/* A word that names several tasks is answered as an array is: by what there is of each state, and the one that says most. */
static int why_word(struct cli_call *c, int *fd, char *const *word, const json_t *gpus, bool json)
{
	static const char *const members[] = { "reason" };
	struct error err = ERROR_INIT;
	scoped_json *shown = which_show_on(fd, word, 1, members, COUNT_OF(members), &err);
	const json_t *tasks = json_object_get(shown, "tasks");
	json_t *picked = pick(tasks);
	scoped_json *task = picked ? which_show_whole(fd, picked) : NULL, *own = json_pack("[O*]", task);
	feeds_tell(own);
	scoped_json *why = task ? why_json(fd, task, &err) : NULL;
	if (!why)
		return cli_fail(c, &err);
	scoped_json *elements = json_array_size(tasks) > 1 ? elements_of(tasks) : NULL;
	if (elements)
		json_object_set(why, "elements", elements);
	if (json)
		return cli_print_json(json_incref(why));
	struct term term = term_ask();
	if (elements)
		print_elements(elements, &term);
	if (*member_text(why, "reason"))
		print_waiting(why, &term);
	else
		print_attempts(task, json_object_get(gpus, "gpus"), &term);
	print_untold(json_object_get(task, "notice_failed"), &term);
	return CLI_DONE;
}

int verb_why(struct cli_call *c)
{
	bool json = false;
	const struct args_option options[] = { { "json", 0, NULL, "print JSON", .flag = &json }, { 0 } };
	struct error err = ERROR_INIT;
	int rc = CLI_DONE;
	if (!cli_options(c, options) || !ids_want(c, json ? 1 : CLI_ANY_NUMBER))
		return c->rc;
	scoped_fd int fd = -1;
	scoped_json *gpus = client_look_on(&fd, wire_request("gpus"), &err);
	if (!gpus)
		return cli_fail(c, &err);
	for (size_t i = 0; i < c->n_words; i++) {
		if (i)
			putchar('\n');
		int one = why_word(c, &fd, &c->words[i], gpus, json);
		rc = rc ? rc : one;
	}
	return rc;
}
