/* SPDX-License-Identifier: MIT
 * rad top: the tables of `rad gpus` and `rad queue` on the whole screen, again and again. Plain escape sequences on the
 * alternate screen: two tables that fit it need no library. Signals are read from a descriptor, so that the terminal is
 * put back before any of them takes effect.
 */
#include "base/buf.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/json.h"
#include "base/scope.h"
#include "base/units.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/member.h"
#include "cli/term.h"
#include "submit/wire.h"

#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <termios.h>
#include <time.h>

#define ANSWER_S 3	/* radd is given that long: keys and signals are read only between two answers */

/* The alternate screen, no cursor, long lines cut by the terminal; and back. */
#define ENTER "\033[?1049h\033[?25l\033[?7l"
#define LEAVE "\033[?7h\033[?25h\033[?1049l"

struct screen {
	struct termios before;
	sigset_t mask;		/* as it was */
	int signals;		/* signalfd */
};

/* When the terminal is gone, its hangup or the end of stdin ends the loop. */
static void put(const char *text, size_t n)
{
	io_write_full(STDOUT_FILENO, text, n);
}

/* ---- the screen ---- */

static void screen_on(const struct screen *s)
{
	struct termios keys = s->before;
	keys.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	tcsetattr(STDIN_FILENO, TCSADRAIN, &keys);
	put(ENTER, strlen(ENTER));
}

static void screen_off(const struct screen *s)
{
	put(LEAVE, strlen(LEAVE));
	tcsetattr(STDIN_FILENO, TCSADRAIN, &s->before);
}

static int screen_open(struct screen *s, struct error *err)
{
	static const int caught[] = { SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGTSTP, SIGWINCH };
	sigset_t set;
	sigemptyset(&set);
	for (size_t i = 0; i < COUNT_OF(caught); i++)
		sigaddset(&set, caught[i]);
	if (tcgetattr(STDIN_FILENO, &s->before))
		return error_errno(err, "terminal");
	s->signals = signalfd(-1, &set, SFD_CLOEXEC);
	if (s->signals < 0)
		return error_errno(err, "signalfd");
	sigprocmask(SIG_BLOCK, &set, &s->mask);
	screen_on(s);
	return 0;
}

/* A signal that was read takes its usual effect here, with the terminal as it was before. */
static void screen_close(const struct screen *s, int sig)
{
	screen_off(s);
	close(s->signals);
	if (sig)
		raise(sig);
	sigprocmask(SIG_SETMASK, &s->mask, NULL);
}

/* Ctrl-Z: the shell gets its terminal back until it is told to go on. */
static void screen_stop(const struct screen *s)
{
	sigset_t blocked;
	screen_off(s);
	raise(SIGTSTP);
	sigprocmask(SIG_SETMASK, &s->mask, &blocked);
	sigprocmask(SIG_SETMASK, &blocked, NULL);
	screen_on(s);
}

/* ---- a frame ---- */

static void count_states(const json_t *tasks, size_t counts[TASK_STATE_COUNT + 1])
{
	size_t i;
	json_t *t;
	json_array_foreach(tasks, i, t)
		counts[member_state(t)]++;
}

static void print_title(FILE *out, const json_t *gpus, const json_t *tasks, const struct term *term)
{
	char host[64] = "", clock[16];
	size_t counts[TASK_STATE_COUNT + 1] = { 0 };
	time_t now = time(NULL);
	struct tm local;
	gethostname(host, sizeof host - 1);
	strftime(clock, sizeof clock, "%H:%M:%S", localtime_r(&now, &local));
	count_states(tasks, counts);
	fprintf(out, "%s%s %s  %zu GPUs, %zu running, %zu pending, %zu held%s  (q: quit)\n\n", term_style(term, STYLE_BOLD),
		host, clock, json_array_size(gpus), counts[TASK_RUNNING], counts[TASK_PENDING], counts[TASK_HELD],
		term_style(term, STYLE_PLAIN));
}

static json_t *ask(const char *op, struct error *err)
{
	const struct timeval patience = { .tv_sec = ANSWER_S };
	scoped_fd int fd = client_connect(err);
	if (fd >= 0)
		setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
	int64_t from = clock_mono_ms();
	json_t *reply = client_call_on(fd, wire_request(op), err);
	if (!reply && fd >= 0 && clock_mono_ms() - from >= ANSWER_S * 1000)
		error_set(err, ERR_UNAVAILABLE, "radd has not answered for %d s", ANSWER_S);
	return reply;
}

/* The tables as text, however long. */
static int draw(struct buf *frame, const struct term *term, struct error *err)
{
	scoped_json *gpus = ask("gpus", err);
	scoped_json *tasks = gpus ? ask("list", err) : NULL;
	scoped_free char *text = NULL;
	size_t n;
	if (!tasks)
		return -1;
	FILE *out = open_memstream(&text, &n);
	if (!out)
		return error_errno(err, "memory");
	print_title(out, json_object_get(gpus, "gpus"), json_object_get(tasks, "tasks"), term);
	verb_gpus_print(json_object_get(gpus, "gpus"), term, out);
	putc('\n', out);
	verb_queue_print(json_object_get(tasks, "tasks"), json_object_get(gpus, "gpus"), term, out);
	if (json_is_true(json_object_get(tasks, "truncated")))
		fputs("... and more tasks than one message can carry\n", out);
	fclose(out);
	buf_add(frame, text, n);
	return 0;
}

/* Over what stands there, line by line, so that nothing flickers; the last line says what did not fit. */
static void show(const struct buf *frame, const struct term *term)
{
	scoped_buf out = { 0 };
	const char *p = buf_text(frame), *end;
	size_t lines = 0, room = term->height;
	for (const char *q = p; (q = strchr(q, '\n')); q++)
		lines++;
	size_t shown = !room || lines <= room ? lines : room - 1;
	buf_add_text(&out, "\033[H");
	for (size_t i = 0; i < shown && (end = strchr(p, '\n')); i++, p = end + 1) {
		buf_add(&out, p, (size_t)(end - p));
		buf_add_text(&out, "\033[K");
		if (i + 1 < lines)
			buf_add_text(&out, "\r\n");
	}
	if (shown < lines)
		buf_printf(&out, "%s... and %zu lines more%s\033[K", term_style(term, STYLE_DIM), lines - shown,
			   term_style(term, STYLE_PLAIN));
	buf_add_text(&out, "\033[J");
	put(out.data, out.len);
}

static void refresh(void)
{
	scoped_buf frame = { 0 };
	struct term term = term_ask();
	struct error err = ERROR_INIT;
	if (draw(&frame, &term, &err)) {
		scoped_free char *line = term_text(err.text, 0, &term);
		buf_printf(&frame, "%s%s%s\nTrying again; running tasks go on. (q: quit)\n", term_style(&term, STYLE_RED), line,
			   term_style(&term, STYLE_PLAIN));
	}
	show(&frame, &term);
}

/* ---- the loop ---- */

static bool key_quits(void)
{
	char keys[64];
	ssize_t n = read(STDIN_FILENO, keys, sizeof keys);
	return n <= 0 || memchr(keys, 'q', (size_t)n);
}

/* Until the next frame is due, or at once when the window has another size. True at the end: `sig` is what ended it, or 0. */
static bool pause_ends(const struct screen *s, int64_t until_ms, int *sig)
{
	for (int64_t left; (left = until_ms - clock_mono_ms()) > 0;) {
		struct pollfd p[] = { { STDIN_FILENO, POLLIN, 0 }, { s->signals, POLLIN, 0 } };
		struct signalfd_siginfo info = { 0 };
		if (poll(p, 2, (int)left) <= 0)
			continue;
		if (p[0].revents && key_quits())
			return true;
		if (!p[1].revents || read(s->signals, &info, sizeof info) != sizeof info)
			continue;
		if (info.ssi_signo == SIGTSTP)
			screen_stop(s);
		else if (info.ssi_signo != SIGWINCH)
			return *sig = (int)info.ssi_signo, true;
		return false;
	}
	return false;
}

int verb_top(struct cli_call *c)
{
	const char *delay = "1";
	const struct args_option options[] = {
		{ "delay", 'd', "SECONDS", "time between two looks (default 1)", .value = &delay },
		{ 0 },
	};
	struct error err = ERROR_INIT;
	struct screen screen;
	double seconds;
	int sig = 0;
	if (!cli_options(c, options) || !cli_want_words(c, 0, 0))
		return c->rc;
	if (units_parse_double(delay, 0.2, 3600, &seconds, &err))
		return cli_usage(c, "--delay: %s", err.text);
	if (!term_ask().live || !isatty(STDIN_FILENO))
		return cli_usage(c, "a terminal is needed ('rad gpus' and 'rad queue' print the same once)");
	scoped_json *first = ask("gpus", &err);	/* no daemon is said on the common screen, where it stays */
	if (!first || screen_open(&screen, &err))
		return cli_fail(c, &err);
	do
		refresh();
	while (!pause_ends(&screen, clock_mono_ms() + (int64_t)(seconds * 1000), &sig));
	screen_close(&screen, sig);
	return CLI_DONE;
}
