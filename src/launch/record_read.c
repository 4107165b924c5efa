/* SPDX-License-Identifier: MIT
 * Reading the exit record: the daemon's side. A shim wrote it with its user's rights, so nothing in it is trusted to be
 * in range. See record.h.
 */
#include "launch/record.h"

#include "base/json.h"
#include "base/scope.h"
#include "launch/attempt.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>

#define CPU_MOST_MS INT64_C(1000000000000000)

static int read_numbers(const json_t *obj, struct exit_record *r)
{
	int64_t exit_code = 0, signal = 0, kind = 0, oom_seen = 0, offset = 0, tried = 0, held = 0;
	if (json_read_bool(obj, "began", &r->began, NULL) || json_read_bool(obj, "again", &r->again, NULL) ||
	    json_read_bool(obj, "survived", &r->output.survived, NULL) ||
	    json_read_bool(obj, "oom_near", &r->output.oom_near, NULL) ||
	    json_read_int(obj, "exit_code", 0, 255, &exit_code, NULL) ||
	    json_read_int(obj, "signal", 0, NSIG - 1, &signal, NULL) ||
	    json_read_int(obj, "start_ms", 0, INT64_MAX, &r->start_ms, NULL) ||
	    json_read_int(obj, "end_ms", 0, INT64_MAX, &r->end_ms, NULL) ||
	    json_read_int(obj, "maxrss_kib", 0, INT64_MAX, &r->maxrss_kib, NULL) ||
	    json_read_int(obj, "oom_kills", 0, INT64_MAX, &r->oom_kills, NULL) ||
	    json_read_bool(obj, "machine_oom", &r->machine_oom, NULL) ||
	    json_read_int(obj, "host_peak_mib", 0, 1 << 30, &r->host_peak_mib, NULL) ||
	    json_read_int(obj, "kind", 0, SCAN_OTHER_ERROR, &kind, NULL) ||
	    json_read_int(obj, "oom_seen", 0, UINT32_MAX, &oom_seen, NULL) ||
	    json_read_int(obj, "tried_mib", 0, 1 << 30, &tried, NULL) || json_read_int(obj, "held_mib", 0, 1 << 30, &held, NULL) ||
	    json_read_int(obj, "offset", 0, INT64_MAX, &offset, NULL))
		return -1;
	r->exit_code = (int)exit_code;
	r->signal = (int)signal;
	r->output.kind = (enum scan_kind)kind;
	r->output.oom_seen = (unsigned)oom_seen;
	r->output.offset = (uint64_t)offset;
	r->output.tried_mib = (uint64_t)tried;
	r->output.held_mib = (uint64_t)held;
	return 0;
}

static int read_text(const json_t *obj, const char *key, char *out, size_t size)
{
	scoped_free char *text = NULL;
	if (json_read_text(obj, key, size - 1, &text, NULL))
		return -1;
	snprintf(out, size, "%s", text ? text : "");
	return 0;
}

/* The line at that place: 1: *line is filled; 0: there is none, or it is torn; -1: error. */
static int read_half(int folder, off_t from, json_t **line, struct error *err)
{
	char bytes[RECORD_PROGRESS];
	int64_t version = 0;
	scoped_fd int fd = openat(folder, ATTEMPT_EXIT, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT)
		return 0;
	ssize_t n = fd < 0 ? -1 : pread(fd, bytes, sizeof bytes, from);
	if (n < 0)
		return error_errno(err, ATTEMPT_EXIT);
	const char *newline = memchr(bytes, '\n', (size_t)n);
	json_t *obj = newline && *bytes ? json_loadb(bytes, (size_t)(newline - bytes), 0, NULL) : NULL;
	if (json_is_object(obj) && !json_read_int(obj, "v", 1, 1, &version, NULL) && version) {
		*line = obj;
		return 1;
	}
	json_decref(obj);
	return 0;
}

int record_from_json(const json_t *obj, struct exit_record *r)
{
	memset(r, 0, sizeof *r);
	if (json_is_object(obj) && !read_numbers(obj, r) && !read_text(obj, "source", r->output.source, sizeof r->output.source) &&
	    !read_text(obj, "line", r->output.line, sizeof r->output.line))
		return 0;
	memset(r, 0, sizeof *r);
	return -1;
}

int record_read(int folder, struct exit_record *r, struct error *err)
{
	scoped_json *obj = NULL;
	memset(r, 0, sizeof *r);
	int rc = read_half(folder, 0, &obj, err);
	return rc <= 0 ? rc : !record_from_json(obj, r);
}

static int read_progress_counts(const json_t *obj, struct progress_record *r)
{
	struct progress_report *p = &r->seen;
	int64_t end = -1, dev = 0, ino = 0;
	if (json_read_int(obj, "n", 0, INT64_MAX, &r->number, NULL) || json_read_int(obj, "end", 0, INT64_MAX, &end, NULL) ||
	    json_read_int(obj, "t_ms", 0, INT64_MAX, &p->t_ms, NULL) || json_read_int(obj, "done", 0, PROGRESS_MOST, &p->done, NULL) ||
	    json_read_int(obj, "total", 0, PROGRESS_MOST, &p->total, NULL) ||
	    json_read_int(obj, "epoch", 0, PROGRESS_MOST, &p->epoch, NULL) ||
	    json_read_int(obj, "epochs", 0, PROGRESS_MOST + 1, &p->epochs, NULL) ||
	    json_read_int(obj, "stands_ms", 0, INT64_MAX, &p->stands_ms, NULL) ||
	    json_read_int(obj, "series", 0, INT64_MAX, &p->series, NULL) ||
	    json_read_int(obj, "host_mib", 0, 1 << 30, &r->host_mib, NULL) ||
	    json_read_int(obj, "ran_ms", 0, CPU_MOST_MS, &r->cpu.ran_ms, NULL) ||
	    json_read_int(obj, "cpu_ms", 0, CPU_MOST_MS, &r->cpu.cpu_ms, NULL) ||
	    json_read_int(obj, "wait_ms", -1, CPU_MOST_MS, &r->cpu.wait_ms, NULL) ||
	    json_read_int(obj, "dev", INT64_MIN, INT64_MAX, &dev, NULL) || json_read_int(obj, "ino", INT64_MIN, INT64_MAX, &ino, NULL))
		return -1;
	r->dev = (uint64_t)dev;
	r->ino = (uint64_t)ino;
	return end == r->number && p->done <= p->total && (!p->epochs || p->epoch <= p->epochs) ? 0 : -1;
}

/* -1 is not known, where that may be. */
static int read_amount(const json_t *obj, const char *key, double most, bool may_lack, double *value)
{
	double v = -1;
	if (json_read_double(obj, key, &v, NULL) || !(v <= most) || !(v >= 0 || (may_lack && v == -1)))
		return -1;
	*value = v;
	return 0;
}

static int read_progress_words(const json_t *obj, struct progress_report *p)
{
	char word[PROGRESS_WORD] = "";
	if (read_text(obj, "source", word, sizeof word) || read_text(obj, "unit", p->unit, sizeof p->unit))
		return -1;
	for (const char *u = p->unit; *u; u++)
		if (*u < 'a' || *u > 'z')
			return -1;
	p->source = 0;
	while (p->source < PROGRESS_SOURCE_COUNT && strcmp(word, progress_source_name(p->source)))
		p->source++;
	return p->source < PROGRESS_SOURCE_COUNT ? 0 : -1;
}

bool record_read_progress(int folder, struct progress_record *r)
{
	const double most = (double)PROGRESS_MOST;
	scoped_json *obj = NULL;
	memset(r, 0, sizeof *r);
	if (read_half(folder, RECORD_PROGRESS, &obj, NULL) <= 0)
		return false;
	struct progress_report *p = &r->seen;
	if (!read_progress_counts(obj, r) && !read_progress_words(obj, p) && !read_amount(obj, "fraction", 1, true, &p->fraction) &&
	    !read_amount(obj, "left_s", most, true, &p->left_s) && !read_amount(obj, "spread_s", most, true, &p->spread_s) &&
	    !read_amount(obj, "per_s", most * most, false, &p->per_s) &&
	    !read_amount(obj, "whole", most * most, false, &p->whole_units) &&
	    !read_amount(obj, "advanced", most * most, false, &p->advanced))
		return true;
	memset(r, 0, sizeof *r);
	return false;
}
