/* SPDX-License-Identifier: MIT
 * Log lines on stderr: one write per line, so that lines of several processes do not mix.
 */
#include "base/log.h"

#include "base/clock.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static enum log_level threshold = LOG_INFO;
static const char *const names[] = { "error", "warn", "info", "debug" };

void log_set_level(enum log_level level)
{
	threshold = level;
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

void log_line(enum log_level level, const char *fmt, ...)
{
	if (level > threshold)
		return;
	char line[2048], when[CLOCK_ISO_LEN];
	int n = snprintf(line, sizeof line, "%s %-5s ", clock_iso(clock_wall_ms(), when), names[level]);
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(line + n, sizeof line - (size_t)n - 1, fmt, ap);
	va_end(ap);
	size_t len = strlen(line);
	for (size_t i = 0; i < len; i++)
		if (line[i] == '\n')
			line[i] = ' ';
	line[len++] = '\n';
	ssize_t ignored = write(STDERR_FILENO, line, len);
	(void)ignored;	/* a log that cannot be written must not stop anything */
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
