/* SPDX-License-Identifier: MIT
 * Reading the exit record: the daemon's side. A shim wrote it with its user's rights, so nothing in it is trusted to be
 * in range. See record.h.
 */
#include "launch/record.h"

#include "base/io.h"
#include "base/json.h"
#include "base/scope.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>

static int read_numbers(const json_t *obj, struct exit_record *r)
{
	int64_t exit_code = 0, signal = 0, kind = 0, oom_seen = 0, offset = 0;
	if (json_read_bool(obj, "began", &r->began, NULL) || json_read_bool(obj, "survived", &r->output.survived, NULL) ||
	    json_read_bool(obj, "oom_near", &r->output.oom_near, NULL) ||
	    json_read_int(obj, "exit_code", 0, 255, &exit_code, NULL) ||
	    json_read_int(obj, "signal", 0, NSIG - 1, &signal, NULL) ||
	    json_read_int(obj, "start_ms", 0, INT64_MAX, &r->start_ms, NULL) ||
	    json_read_int(obj, "end_ms", 0, INT64_MAX, &r->end_ms, NULL) ||
	    json_read_int(obj, "maxrss_kib", 0, INT64_MAX, &r->maxrss_kib, NULL) ||
	    json_read_int(obj, "oom_kills", 0, INT64_MAX, &r->oom_kills, NULL) ||
	    json_read_int(obj, "kind", 0, SCAN_OTHER_ERROR, &kind, NULL) ||
	    json_read_int(obj, "oom_seen", 0, UINT32_MAX, &oom_seen, NULL) ||
	    json_read_int(obj, "offset", 0, INT64_MAX, &offset, NULL))
		return -1;
	r->exit_code = (int)exit_code;
	r->signal = (int)signal;
	r->output.kind = (enum scan_kind)kind;
	r->output.oom_seen = (unsigned)oom_seen;
	r->output.offset = (uint64_t)offset;
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

int record_read(int folder, const char *name, struct exit_record *r, struct error *err)
{
	char bytes[RECORD_BYTES + 1];
	memset(r, 0, sizeof *r);
	scoped_fd int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT)
		return 0;
	ssize_t n = fd < 0 ? -1 : io_read_full(fd, bytes, RECORD_BYTES);
	if (n < 0)
		return error_errno(err, "%s", name);
	const char *newline = memchr(bytes, '\n', (size_t)n);
	if (!newline)
		return 0;
	int64_t version = 0;
	scoped_json *obj = json_loadb(bytes, (size_t)(newline - bytes), 0, NULL);
	if (!json_is_object(obj) || json_read_int(obj, "v", 1, 1, &version, NULL) || !version || read_numbers(obj, r) ||
	    read_text(obj, "source", r->output.source, sizeof r->output.source) ||
	    read_text(obj, "line", r->output.line, sizeof r->output.line)) {
		memset(r, 0, sizeof *r);
		return 0;
	}
	return 1;
}
