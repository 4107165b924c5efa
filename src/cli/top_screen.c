/* SPDX-License-Identifier: MIT
 * The whole screen: see top_screen.h. Plain escape sequences on the alternate screen: lines that are drawn over each other need
 * no library. Signals are read from a descriptor, so that the terminal is put back before any of them takes effect; a crash
 * puts it back in its handler.
 */
#include "cli/top_screen.h"

#include "base/io.h"
#include "base/scope.h"

#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <termios.h>

/* The alternate screen, no cursor, long lines cut by the terminal; and back. */
#define ENTER "\033[?1049h\033[?25l\033[?7l"
#define LEAVE "\033[?7h\033[?25h\033[?1049l"

static struct screen {
	struct termios before;
	sigset_t mask;		/* as it was */
	int signals;
} screen;

static void screen_on(void)
{
	struct termios keys = screen.before;
	keys.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	keys.c_iflag &= ~(tcflag_t)(IXON | ICRNL);
	tcsetattr(STDIN_FILENO, TCSADRAIN, &keys);
	io_write_full(STDOUT_FILENO, ENTER, strlen(ENTER));
}

/* Only calls that a signal handler may make. */
static void screen_off(void)
{
	io_write_full(STDOUT_FILENO, LEAVE, strlen(LEAVE));
	tcsetattr(STDIN_FILENO, TCSADRAIN, &screen.before);
}

static void on_crash(int sig)
{
	screen_off();
	signal(sig, SIG_DFL);
	raise(sig);
}

int top_screen_open(struct error *err)
{
	static const int caught[] = { SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGTSTP, SIGWINCH };
	static const int crashes[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT };
	sigset_t set;
	sigemptyset(&set);
	for (size_t i = 0; i < COUNT_OF(caught); i++)
		sigaddset(&set, caught[i]);
	if (tcgetattr(STDIN_FILENO, &screen.before))
		return error_errno(err, "terminal");
	screen.signals = signalfd(-1, &set, SFD_CLOEXEC);
	if (screen.signals < 0)
		return error_errno(err, "signalfd");
	sigprocmask(SIG_BLOCK, &set, &screen.mask);
	for (size_t i = 0; i < COUNT_OF(crashes); i++)
		signal(crashes[i], on_crash);
	screen_on();
	return 0;
}

int top_screen_signals(void)
{
	return screen.signals;
}

const void *top_screen_mask(void)
{
	return &screen.mask;
}

void top_screen_close(int sig)
{
	screen_off();
	close(screen.signals);
	if (sig)
		raise(sig);
	sigprocmask(SIG_SETMASK, &screen.mask, NULL);
}

void top_screen_stop(void)
{
	sigset_t blocked;
	screen_off();
	raise(SIGTSTP);
	sigprocmask(SIG_SETMASK, &screen.mask, &blocked);
	sigprocmask(SIG_SETMASK, &blocked, NULL);
	screen_on();
}

/* Over what stands there, line by line, so that nothing flickers. */
void top_screen_show(const struct buf *lines, const struct term *term)
{
	scoped_buf out = { 0 };
	const char *p = buf_text(lines), *end;
	buf_add_text(&out, "\033[H");
	for (unsigned i = 0; (!term->height || i < term->height) && (end = strchr(p, '\n')); i++, p = end + 1) {
		buf_add_text(&out, i ? "\r\n\033[K" : "\033[K");	/* not behind the text: it would take the last column's */
		buf_add(&out, p, (size_t)(end - p));
	}
	buf_add_text(&out, "\033[J");
	io_write_full(STDOUT_FILENO, out.data, out.len);	/* when the terminal is gone, its hangup ends us */
}

/* ---- keys ---- */

static const struct { const char *bytes; int key; } sequences[] = {
	{ "\033[A", TOP_UP }, { "\033[B", TOP_DOWN }, { "\033[C", TOP_RIGHT }, { "\033[D", TOP_LEFT },
	{ "\033OA", TOP_UP }, { "\033OB", TOP_DOWN }, { "\033OC", TOP_RIGHT }, { "\033OD", TOP_LEFT },
	{ "\033[5~", TOP_PAGE_UP }, { "\033[6~", TOP_PAGE_DOWN }, { "\033[H", TOP_HOME }, { "\033[F", TOP_END },
	{ "\033OH", TOP_HOME }, { "\033OF", TOP_END }, { "\033[1~", TOP_HOME }, { "\033[4~", TOP_END }, { "\033[7~", TOP_HOME },
	{ "\033[8~", TOP_END },
};

/* How long a sequence of a key that is not known here is; 0: its end is not there. */
static size_t sequence_bytes(const char *bytes, size_t n)
{
	size_t i = 2;
	if (n < 3)
		return 0;
	if (bytes[1] == 'O')
		return 3;
	while (i < n && (bytes[i] < '@' || bytes[i] > '~'))
		i++;
	return i < n ? i + 1 : 0;
}

int top_screen_key(const char *bytes, size_t n, bool whole, size_t *used)
{
	*used = n > 0;
	if (!n)
		return TOP_NO_KEY;
	if (bytes[0] != TOP_ESCAPE)
		return bytes[0] == '\n' ? TOP_ENTER : bytes[0] == '\b' ? TOP_BACKSPACE : (unsigned char)bytes[0];
	for (size_t i = 0; i < COUNT_OF(sequences); i++) {
		size_t len = strlen(sequences[i].bytes);
		if (n >= len && !memcmp(bytes, sequences[i].bytes, len)) {
			*used = len;
			return sequences[i].key;
		}
	}
	if (n > 1 && bytes[1] != '[' && bytes[1] != 'O')	/* Escape, and then another key */
		return TOP_ESCAPE;
	size_t known = sequence_bytes(bytes, n);
	if (!known && whole) {
		*used = n;
		return n == 1 ? TOP_ESCAPE : TOP_NO_KEY;
	}
	*used = known;
	return TOP_NO_KEY;
}
