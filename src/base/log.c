/* SPDX-License-Identifier: MIT
 * Log lines on stderr: one write per line, so that lines of several processes do not mix.
 */
#include "base/log.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/scope.h"
#include "base/text.h"
#include "base/words.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOG_MAX_BYTES (8 << 20)

static enum log_level threshold = LOG_INFO;
static int log_fd = STDERR_FILENO;
static int send_flags;		/* of a socket; 0: it is none */
static bool to_journal;		/* stderr is systemd's journal, which notes the time of each line itself */
static unsigned lost;		/* lines since the last that could be written */
static const char *const names[] = { "error", "warn", "info", "debug" };
static const int priorities[] = { 3, 4, 6, 7 };	/* as syslog(3) counts; the journal takes them from "<N>" (sd-daemon(3)) */

void log_set_level(enum log_level level)
{
	threshold = level;
}

bool log_writes(enum log_level level)
{
	return level <= threshold;
}

bool log_level_parse(const char *word, enum log_level *level)
{
	for (int i = LOG_ERROR; i <= LOG_DEBUG; i++)
		if (!strcmp(word, names[i])) {
			*level = (enum log_level)i;
			return true;
		}
	return false;
}

/* JOURNAL_STREAM is the device and inode of the journal's socket (systemd.exec(5)). It is inherited by whoever turns stderr
 * elsewhere too, so it counts only where it names what stderr is. */
static bool is_journal(const struct stat *st)
{
	const char *said = getenv("JOURNAL_STREAM");
	unsigned long long dev, ino;
	return said && sscanf(said, "%llu:%llu", &dev, &ino) == 2 && dev == st->st_dev && ino == st->st_ino;
}

/* What stands before a text. */
static int log_begin(char *line, size_t size, enum log_level level)
{
	char when[CLOCK_ISO_LEN];
	if (to_journal)
		return snprintf(line, size, "<%d>%-5s ", priorities[level], names[level]);
	return snprintf(line, size, "%s %-5s ", clock_iso(clock_wall_ms(), when), names[level]);
}

/* A description of our own: to set O_NONBLOCK on the one that was handed down would change it for the shell as well. */
void log_never_wait(void)
{
	struct stat st;
	if (fstat(STDERR_FILENO, &st))
		return;
	to_journal = is_journal(&st);
	if (S_ISSOCK(st.st_mode)) {
		send_flags = MSG_DONTWAIT | MSG_NOSIGNAL;
	} else if (S_ISFIFO(st.st_mode) || S_ISCHR(st.st_mode)) {
		int fd = open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
		log_fd = fd < 0 ? STDERR_FILENO : fd;
	}
}

static void log_write(const char *line, size_t n)
{
	ssize_t wrote = send_flags ? send(STDERR_FILENO, line, n, send_flags) : write(log_fd, line, n);
	/* A log that cannot be written must not stop anything. */
	lost = wrote < 0 ? lost + 1 : 0;
}

void log_line(enum log_level level, const char *fmt, ...)
{
	if (level > threshold)
		return;
	char line[2048];
	int n = log_begin(line, sizeof line, level);
	va_list ap;
	va_start(ap, fmt);
	text_vprintf(line + n, sizeof line - (size_t)n - 1, fmt, ap);
	va_end(ap);
	words_replace_controls(line, ' ');
	size_t len = strlen(line);
	line[len++] = '\n';
	if (lost) {
		char told[128];
		int before = log_begin(told, sizeof told, LOG_WARN);
		before += snprintf(told + before, sizeof told - (size_t)before, "(%u lines before this were lost: nobody read them)\n", lost);
		unsigned until_now = lost;
		log_write(told, (size_t)before);
		lost = lost ? until_now : 0;
	}
	log_write(line, len);
}

bool log_limit_pass(struct log_limit *limit)
{
	long long now = clock_mono_ms();
	if (now < limit->next_ms) {
		limit->kept++;
		return false;
	}
	if (limit->kept)
		log_warn("(the next message was kept back %u times)", limit->kept);
	limit->next_ms = now + 60000;
	limit->kept = 0;
	return true;
}

/* The sampler, MPS servers and workers have the file open as well, so it is copied and emptied, not renamed. What there is no
 * room for is lost. */
void log_bound(const char *path)
{
	struct stat ours, named;
	if (fstat(STDERR_FILENO, &ours) || !S_ISREG(ours.st_mode) || ours.st_size < LOG_MAX_BYTES ||
	    !(fcntl(STDERR_FILENO, F_GETFL) & O_APPEND) || stat(path, &named) ||
	    named.st_dev != ours.st_dev || named.st_ino != ours.st_ino)
		return;
	scoped_free char *older = alloc_printf("%s.1", path);
	scoped_fd int from = open(path, O_RDONLY | O_CLOEXEC);
	scoped_fd int to = open(older, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	bool kept = from >= 0 && to >= 0;
	ssize_t n = 0;
	while (kept && (n = sendfile(to, from, NULL, LOG_MAX_BYTES)) > 0)
		;
	if (!ftruncate(STDERR_FILENO, 0))
		log_info(kept && !n ? "what was here is in %s" : "what was here is lost: it could not be copied to %s", older);
}
