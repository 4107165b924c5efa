/* SPDX-License-Identifier: MIT
 * rad top: GPUs and tasks on the whole screen, again and again, with keys for what is done most often to a task. Nothing here
 * waits: keys, signals, radd's answers and the output of other verbs are taken as they come.
 */
#include "base/buf.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/scope.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/format.h"
#include "cli/span.h"
#include "cli/term.h"
#include "cli/top_act.h"
#include "cli/top_feed.h"
#include "cli/top_list.h"
#include "cli/top_pager.h"
#include "cli/top_screen.h"
#include "submit/wire.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <time.h>

#define ANSWER_S 3	/* radd is given that long for its first answer */
#define ESCAPE_MS 30	/* the rest of a key's bytes comes by then */
#define AS_GIVEN 1000	/* lines, when a log is opened */

/* What stands there beside the list. */
enum { TOP_BOTH, TOP_TASKS, TOP_GPUS, TOP_VIEWS };

struct top {
	struct term term;
	struct top_feed feed;
	struct top_act act;
	struct top_list list;
	int64_t every_ms;
	int view;
	size_t first_gpu;		/* line of their table, where they have the screen */
	struct top_pager *pager;	/* NULL: the list is shown */
	char title[80];			/* of the pager */
	bool help;
	char asking;			/* 'u' or '/': what is being typed; 0: nothing */
	char typed[TOP_LIST_WORD];
	char question[200];		/* whether to do what is chosen to be done */
	char note[200];			/* to the last key; "": none */
	char keys[256];			/* not understood yet */
	size_t n_keys;
	int over;			/* 1: the end */
};

/* ---- lines ---- */

static void print_styled(FILE *out, const struct term *term, enum style style, const char *text)
{
	scoped_free char *clean = term_text(text, term->width, term);
	fprintf(out, "%s%s%s\n", term_style(term, style), clean, term_style(term, STYLE_PLAIN));
}

static void print_title(FILE *out, const struct top *t)
{
	char host[64] = "", clock[16];
	size_t counts[TASK_STATE_COUNT + 1];
	time_t now = time(NULL);
	struct tm local;
	scoped_buf text = { 0 };
	gethostname(host, sizeof host - 1);
	strftime(clock, sizeof clock, "%H:%M:%S", localtime_r(&now, &local));
	queue_table_count(t->feed.tasks, counts);
	buf_printf(&text, "%s %s  %zu GPUs, %zu running, %zu pending, %zu held%s", host, clock, json_array_size(t->feed.gpus),
		   counts[TASK_RUNNING], counts[TASK_PENDING], counts[TASK_HELD], t->feed.truncated ? ", and more" : "");
	if (*t->list.user)
		buf_printf(&text, "  of %s", t->list.user);
	if (*t->list.find)
		buf_printf(&text, "  with '%s'", t->list.find);
	if (top_list_order(&t->list))
		buf_printf(&text, "  by %s%s", top_list_order(&t->list), t->list.reverse ? ", reversed" : "");
	print_styled(out, &t->term, STYLE_BOLD, buf_text(&text));
}

/* Their table and what stands below it, as far as there is room. Returns how many lines were written. */
static unsigned print_gpus(FILE *out, struct top *t, unsigned room)
{
	scoped_free char *text = NULL;
	size_t n, lines = 0, from = t->view == TOP_GPUS ? t->first_gpu : 0;
	unsigned shown = 0;
	FILE *f = room ? open_memstream(&text, &n) : NULL;
	if (!f)
		return 0;
	verb_gpus_print(t->feed.gpus, &t->term, f);
	fclose(f);
	for (const char *p = text; (p = strchr(p, '\n')); p++)
		lines++;
	from = lines > room && from > lines - room ? lines - room : lines > room ? from : 0;
	t->first_gpu = from;
	size_t at = 0;
	for (const char *p = text, *end; (end = strchr(p, '\n')); p = end + 1, at++) {
		bool title = !at, cut = t->view != TOP_GPUS && lines > room && shown + 1 == room;
		if ((!title && at < from + (from > 0)) || shown >= room)
			continue;
		if (cut)
			fprintf(out, "... and %zu lines more (v: GPUs alone)\n", lines - shown);
		else
			fprintf(out, "%.*s\n", (int)(end - p), p);
		shown++;
	}
	return shown;
}

static const char *const help_lines[] = {
	"Up Down PgUp PgDn Home End, or j k: choose a task",
	"Enter, l   its log, as it grows",
	"w          why it is where it is",
	"i          all that is known of it",
	"c          cancel it, after asking;  H hold, R release",
	"u          only one user's tasks (nothing: everybody's)",
	"/          only tasks with a text (id, name, user, reason)",
	"Escape     all tasks again",
	"< >, s     sort by another column;  r: the other way round",
	"v          GPUs and tasks, tasks alone, GPUs alone",
	"q, Ctrl-C  quit;  Ctrl-Z: to the shell, fg: back",
	"",
	"In a log or another text the same keys move, Left and",
	"Right shift long lines, q or Escape goes back.",
	"",
	"rad update, suspend, resume and requeue change more.",
};

/* As many as there is room for: the help has all of them. */
static void print_keys(char *foot, size_t size, const char *place, unsigned width)
{
	static const char *const keys[] = { "q quit", "  ? help", "  l log", "  w why", "  c cancel", "  H hold", "  R release",
					    "  u user", "  / find", "  <> sort", "  v GPUs" };
	size_t len = (size_t)snprintf(foot, size, "%s", place);
	for (size_t i = 0; i < COUNT_OF(keys) && (!width || len + strlen(keys[i]) <= width); i++)
		len += (size_t)snprintf(foot + len, size - len, "%s", keys[i]);
}

/* The last line: not in the last column, which what clears the screen below it would take. */
static void print_foot(FILE *out, struct top *t, unsigned lines)
{
	char place[80] = "", foot[400];
	unsigned width = t->term.width > 1 ? t->term.width - 1 : t->term.width;
	size_t first = t->list.first + 1, last = t->list.first + (lines ? lines - 1 : 0);
	if (t->act.request) {
		snprintf(foot, sizeof foot, "%s", t->question);
	} else if (t->asking) {
		snprintf(foot, sizeof foot, "%s: %s_", t->asking == 'u' ? "user (nothing: everybody)" : "tasks with the text", t->typed);
	} else if (*t->note) {
		snprintf(foot, sizeof foot, "%s", t->note);
	} else if (t->pager) {
		top_pager_place(t->pager, lines, place, sizeof place);
		snprintf(foot, sizeof foot, "%s  %s  q: back", t->title, place);
	} else {
		if (lines && t->list.rows.n > lines - 1)
			snprintf(place, sizeof place, "%zu-%zu of %zu  ", first, last, t->list.rows.n);
		print_keys(foot, sizeof foot, place, width);
	}
	scoped_free char *clean = term_text(foot, width, &t->term);
	fprintf(out, "%s%s%s\n", term_style(&t->term, STYLE_DIM), clean, term_style(&t->term, STYLE_PLAIN));
}

static unsigned print_help(FILE *out, const struct term *term, unsigned room)
{
	unsigned n = 0;
	for (; n < COUNT_OF(help_lines) && n < room; n++)
		print_styled(out, term, STYLE_PLAIN, help_lines[n]);
	return n;
}

/* All between the first line and the last. Returns how many lines of what the foot speaks of are there. */
static unsigned print_body(FILE *out, struct top *t, unsigned room)
{
	unsigned used = 0, listed;
	if (t->help)
		return print_help(out, &t->term, room);
	if (t->pager)
		return top_pager_print(t->pager, room, &t->term, out);
	if (*t->feed.why && room) {
		print_styled(out, &t->term, STYLE_BAD, t->feed.why);
		used++;
	}
	if (*t->feed.why && room > used) {
		print_styled(out, &t->term, STYLE_PLAIN, "Trying again; running tasks go on. What is below was so before.");
		used++;
	}
	if (t->view != TOP_TASKS)
		used += print_gpus(out, t, t->view == TOP_GPUS ? room - used : (room - used) / 2);
	if (t->view == TOP_GPUS)
		return 0;
	if (t->view == TOP_BOTH && room > used + 3) {
		putc('\n', out);
		used++;
	}
	listed = top_list_print(&t->list, room - used, &t->term, out);
	if (listed && !t->list.rows.n && room > used + listed)
		print_styled(out, &t->term, STYLE_DIM, *t->list.user || *t->list.find ? "No such task (Escape: all of them)"
			     : "No task runs or waits");
	return listed;
}

static void draw(struct top *t)
{
	struct buf frame = { 0 };
	size_t size = 0, body = 0;
	char *text = NULL, *middle = NULL;
	t->term = term_ask();
	unsigned height = t->term.height ? t->term.height : 24;
	FILE *out = open_memstream(&middle, &body);
	if (!out)
		return;
	unsigned room = height > 2 ? height - 2 : 0, listed = print_body(out, t, room), lines = 0;
	fclose(out);
	out = open_memstream(&text, &size);
	if (out) {
		print_title(out, t);
		fwrite(middle, 1, body, out);
		for (size_t i = 0; i < body; i++)
			lines += middle[i] == '\n';
		for (; lines < room; lines++)
			putc('\n', out);
		print_foot(out, t, listed);
		fclose(out);
		frame = (struct buf){ text, size, size };
		top_screen_show(&frame, &t->term);
	}
	free(text);
	free(middle);
}

/* ---- keys ---- */

static void update(struct top *t)
{
	top_list_update(&t->list, t->feed.tasks, t->feed.gpus);
}

static void open_pager(struct top *t, const char *verb)
{
	char lines[24];
	const char *id = top_list_chosen(&t->list);
	struct error err = ERROR_INIT;
	bool log = !strcmp(verb, "logs");
	snprintf(lines, sizeof lines, "%d", AS_GIVEN);
	const char *const words[TOP_PAGER_WORDS] = { verb, id, log ? "--follow" : NULL, "--lines", lines };
	if (!id) {
		snprintf(t->note, sizeof t->note, "no task is chosen");
		return;
	}
	t->pager = top_pager_create(words, log, t->term.width, &err);
	snprintf(t->title, sizeof t->title, "rad %s %s", verb, id);
	if (!t->pager)
		text_printf(t->note, sizeof t->note, "%.199s", err.text);
}

static void send_act(struct top *t)
{
	struct error err = ERROR_INIT;
	if (top_act_send(&t->act, &err))
		snprintf(t->note, sizeof t->note, "%.199s", err.text);
}

/* Only a cancel is asked about: it alone cannot be taken back. */
static void begin_act(struct top *t, const char *op)
{
	struct error err = ERROR_INIT;
	scoped_free char *ids = NULL;
	const json_t *task = t->view == TOP_GPUS ? NULL : top_list_chosen_row(&t->list, &ids);
	if (!task) {
		snprintf(t->note, sizeof t->note, "no task is chosen%s", t->view == TOP_GPUS ? " (v: the list)" : "");
		return;
	}
	const char *state = task_state_name(member_state(task)), *user = member_text(task, "user");
	if (top_act_choose(&t->act, op, ids, state, &err))
		snprintf(t->note, sizeof t->note, "%.199s", err.text);
	else if (strcmp(op, "cancel"))
		send_act(t);
	else
		snprintf(t->question, sizeof t->question, "cancel %.60s (%.40s) of %.30s, %s? y: yes, any other key: no", ids,
			 member_text(task, "name"), user, state);
}

static void on_answer(struct top *t, int key)
{
	if (key == 'y' || key == 'Y') {
		send_act(t);
		return;
	}
	top_act_forget(&t->act);
	snprintf(t->note, sizeof t->note, "nothing was done");
}

/* What was typed is looked for from now on. */
static void end_asking(struct top *t, bool heed)
{
	char *word = t->asking == 'u' ? t->list.user : t->list.find;
	if (heed) {
		snprintf(word, TOP_LIST_WORD, "%s", t->typed);
		update(t);
	}
	t->asking = 0;
}

static void on_typed(struct top *t, int key)
{
	size_t n = strlen(t->typed);
	if (key == TOP_ENTER || key == TOP_ESCAPE) {
		end_asking(t, key == TOP_ENTER);
	} else if (key == TOP_BACKSPACE) {
		while (n && ((unsigned char)t->typed[n - 1] & 0xc0) == 0x80)
			n--;
		t->typed[n ? n - 1 : 0] = 0;
	} else if (key >= ' ' && key < 256 && n + 1 < sizeof t->typed) {
		t->typed[n] = (char)key;
		t->typed[n + 1] = 0;
	}
}

/* How many lines a key goes; 0: it is none that moves. */
static long lines_of(int key, const struct top *t)
{
	long page = t->term.height > 4 ? (long)t->term.height - 4 : 1;
	page = t->view == TOP_BOTH && !t->pager ? page / 2 + 1 : page;
	switch (key) {
	case TOP_UP: case 'k': return -1;
	case TOP_DOWN: case 'j': return 1;
	case TOP_PAGE_UP: case 'b': return -page;
	case TOP_PAGE_DOWN: case ' ': case 'f': return page;
	case TOP_HOME: case 'g': return -(1L << 30);
	case TOP_END: case 'G': return 1L << 30;
	default: return 0;
	}
}

static void move(struct top *t, long lines)
{
	if (t->pager)
		top_pager_move(t->pager, lines, 0);
	else if (t->view == TOP_GPUS)
		t->first_gpu = lines < 0 && t->first_gpu < (size_t)-lines ? 0 : t->first_gpu + (size_t)lines;
	else
		top_list_move(&t->list, lines);
}

static void close_pager(struct top *t)
{
	top_pager_destroy(t->pager);
	t->pager = NULL;
}

static void on_page_key(struct top *t, int key)
{
	long half = t->term.width / 2;
	if (key == 'q' || key == TOP_ESCAPE)
		close_pager(t);
	else if (key == TOP_LEFT || key == TOP_RIGHT)
		top_pager_move(t->pager, 0, key == TOP_LEFT ? -half : half);
}

static void on_list_key(struct top *t, int key)
{
	switch (key) {
	case 'q': t->over = 1; break;
	case '?': case 'h': t->help = true; break;
	case TOP_ENTER: case 'l': open_pager(t, "logs"); break;
	case 'w': open_pager(t, "why"); break;
	case 'i': open_pager(t, "show"); break;
	case 'c': begin_act(t, "cancel"); break;
	case 'H': begin_act(t, "hold"); break;
	case 'R': begin_act(t, "release"); break;
	case 'v': t->view = (t->view + 1) % TOP_VIEWS; break;
	case 'u': case '/':
		t->asking = (char)key;
		t->typed[0] = 0;
		break;
	case '<': case TOP_LEFT: top_list_sort(&t->list, -1); update(t); break;
	case '>': case TOP_RIGHT: case 's': top_list_sort(&t->list, 1); update(t); break;
	case 'r': t->list.reverse = !t->list.reverse; update(t); break;
	case TOP_ESCAPE:
		t->list.user[0] = t->list.find[0] = 0;
		update(t);
		break;
	}
}

static void on_key(struct top *t, int key)
{
	long lines = lines_of(key, t);
	t->note[0] = 0;
	if (t->act.request)
		on_answer(t, key);
	else if (t->asking)
		on_typed(t, key);
	else if (t->help)
		t->help = false;
	else if (lines)
		move(t, lines);
	else if (t->pager)
		on_page_key(t, key);
	else
		on_list_key(t, key);
}

/* What was typed since. The bytes of one key may come in two parts. */
static void read_keys(struct top *t)
{
	ssize_t n = read(STDIN_FILENO, t->keys + t->n_keys, sizeof t->keys - t->n_keys);
	if (!n || (n < 0 && errno != EINTR && errno != EAGAIN))
		t->over = 1;	/* the terminal is gone */
	t->n_keys += n > 0 ? (size_t)n : 0;
	for (size_t used; t->n_keys && !t->over;) {
		int key = top_screen_key(t->keys, t->n_keys, false, &used);
		struct pollfd more = { STDIN_FILENO, POLLIN, 0 };
		if (!used && t->n_keys < sizeof t->keys && poll(&more, 1, ESCAPE_MS) > 0)
			return;
		if (!used)
			key = top_screen_key(t->keys, t->n_keys, true, &used);
		t->n_keys -= used;
		memmove(t->keys, t->keys + used, t->n_keys);
		if (key != TOP_NO_KEY)
			on_key(t, key);
	}
}

/* ---- the loop ---- */

/* A signal: 0, or what ends it. */
static int read_signal(void)
{
	struct signalfd_siginfo info = { 0 };
	if (read(top_screen_signals(), &info, sizeof info) != sizeof info)
		return 0;
	if (info.ssi_signo == SIGTSTP)
		top_screen_stop();
	return info.ssi_signo == SIGTSTP || info.ssi_signo == SIGWINCH ? 0 : (int)info.ssi_signo;
}

/* Returns the signal that ended it, or 0. */
static int watch(struct top *t)
{
	int sig = 0;
	for (bool redraw = true; !t->over && !sig;) {
		if (top_feed_turn(&t->feed, t->every_ms)) {
			if (t->feed.tasks)
				update(t);
			redraw = true;
		}
		if (redraw)
			draw(t);
		int64_t left = top_feed_due_ms(&t->feed) - clock_mono_ms();
		struct pollfd p[] = {
			{ STDIN_FILENO, POLLIN, 0 }, { top_screen_signals(), POLLIN, 0 }, { top_feed_fd(&t->feed), POLLIN, 0 },
			{ t->pager ? top_pager_fd(t->pager) : -1, POLLIN, 0 }, { top_act_fd(&t->act), POLLIN, 0 },
		};
		redraw = poll(p, COUNT_OF(p), left > 0 ? (int)(left < 60000 ? left : 60000) : 0) > 0 &&
			 (p[0].revents || p[1].revents || p[3].revents || p[4].revents);
		if (p[1].revents)
			sig = read_signal();
		if (p[3].revents)
			top_pager_read(t->pager);
		if (p[4].revents && top_act_take(&t->act, t->note, sizeof t->note))
			t->feed.due_ms = 0;	/* what it looks like now */
		if (p[0].revents && !sig)
			read_keys(t);
	}
	return sig;
}

/* No daemon is said on the common screen, where it stays. */
static int ask_once(struct error *err)
{
	scoped_fd int fd = client_connect(err);
	scoped_json *reply = client_call_within(fd, ANSWER_S, wire_request("gpus"), err);
	return reply ? 0 : -1;
}

int verb_top(struct cli_call *c)
{
	const char *delay = "1", *user = NULL;
	const struct args_option options[] = {
		{ "delay", 'd', "SECONDS", "time between two looks (default 1)", .value = &delay },
		{ "user", 'u', "USER", "only this user's tasks", .value = &user },
		{ 0 },
	};
	struct error err = ERROR_INIT;
	char name[FORMAT_LEN];
	double seconds;
	uid_t uid = 0;
	if (!cli_options(c, options) || !cli_want_words(c, 0, 0))
		return c->rc;
	if (cli_read_double("delay", delay, 0.2, 3600, &seconds, &err))
		return cli_usage(c, "%s", err.text);
	if (!term_ask().live || !isatty(STDIN_FILENO))
		return cli_usage(c, "a terminal is needed: 'rad gpus' and 'rad queue' print the same once");
	struct top t = { .every_ms = (int64_t)(seconds * 1000) };
	if (user && strcmp(user, "all") && span_user(user, &uid, &err))
		return cli_usage(c, "%s", err.text);
	snprintf(t.list.user, sizeof t.list.user, "%s", user && strcmp(user, "all") ? format_user(uid, name) : "");
	if (ask_once(&err) || top_screen_open(&err))
		return cli_fail(c, &err);
	int sig = watch(&t);
	close_pager(&t);
	top_act_clear(&t.act);
	top_feed_clear(&t.feed);
	top_list_clear(&t.list);
	top_screen_close(sig);
	return CLI_DONE;
}
