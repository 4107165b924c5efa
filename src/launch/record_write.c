/* SPDX-License-Identifier: MIT
 * Making and writing the exit record: the shim's side, without a JSON library. See record.h.
 */
#include "launch/record.h"

#include "base/buf.h"
#include "base/io.h"
#include "base/scope.h"
#include "launch/attempt.h"

#include <assert.h>
#include <fcntl.h>
#include <sys/stat.h>

int record_reserve(int folder, struct error *err)
{
	static const char zeros[RECORD_BYTES];
	scoped_fd int fd = openat(folder, ATTEMPT_EXIT, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	struct stat st;
	if (fd < 0 || fstat(fd, &st))
		return error_errno(err, ATTEMPT_EXIT);
	if (st.st_size >= RECORD_BYTES)
		return 0;
	/* Written, so that the space is taken on any file system. */
	if (io_write_full(fd, zeros, sizeof zeros))
		return error_errno(err, ATTEMPT_EXIT);
	return 0;
}

/* What a program printed may be anything; in the record it is ASCII, so that no reader has to know its encoding. */
static void add_text(struct buf *out, const char *key, const char *text, size_t max)
{
	buf_printf(out, ",\"%s\":\"", key);
	for (size_t i = 0; i < max && text[i]; i++) {
		char c = text[i];
		if (c < ' ' || c > '~')
			c = '?';
		if (c == '"' || c == '\\')
			buf_add(out, "\\", 1);
		buf_add(out, &c, 1);
	}
	buf_add(out, "\"", 1);
}

int record_write(int fd, const struct exit_record *r)
{
	scoped_buf out = { 0 };
	buf_printf(&out, "{\"v\":1,\"began\":%s,\"exit_code\":%d,\"signal\":%d,\"start_ms\":%lld,\"end_ms\":%lld",
		   r->began ? "true" : "false", r->exit_code, r->signal, (long long)r->start_ms, (long long)r->end_ms);
	if (r->again)
		buf_add_text(&out, ",\"again\":true");
	buf_printf(&out, ",\"maxrss_kib\":%lld,\"oom_kills\":%lld", (long long)r->maxrss_kib, (long long)r->oom_kills);
	if (r->machine_oom)
		buf_add_text(&out, ",\"machine_oom\":true");
	if (r->host_peak_mib)
		buf_printf(&out, ",\"host_peak_mib\":%lld", (long long)r->host_peak_mib);
	buf_printf(&out, ",\"kind\":%d,\"survived\":%s,\"oom_near\":%s,\"oom_seen\":%u,\"offset\":%llu", r->output.kind,
		   r->output.survived ? "true" : "false", r->output.oom_near ? "true" : "false", r->output.oom_seen,
		   (unsigned long long)r->output.offset);
	if (r->output.tried_mib)
		buf_printf(&out, ",\"tried_mib\":%llu,\"held_mib\":%llu", (unsigned long long)r->output.tried_mib,
			   (unsigned long long)r->output.held_mib);
	add_text(&out, "source", r->output.source, sizeof r->output.source);
	add_text(&out, "line", r->output.line, sizeof r->output.line);
	buf_add_text(&out, "}\n");
	assert(out.len <= RECORD_PROGRESS);
	/* One write: a reader sees none of it or all of it, short of a power cut, which the newline and the braces tell. */
	if (pwrite(fd, out.data, out.len, 0) != (ssize_t)out.len)
		return -1;
	return fsync(fd);
}

int record_write_progress(int fd, const struct progress_record *r)
{
	const struct progress_report *p = &r->seen;
	scoped_buf out = { 0 };
	buf_printf(&out, "{\"v\":1,\"n\":%lld,\"t_ms\":%lld,\"done\":%lld,\"total\":%lld,\"epoch\":%lld,\"epochs\":%lld",
		   (long long)r->number, (long long)p->t_ms, (long long)p->done, (long long)p->total, (long long)p->epoch,
		   (long long)p->epochs);
	buf_printf(&out, ",\"fraction\":%.9g,\"left_s\":%.9g,\"spread_s\":%.9g,\"stands_ms\":%lld", p->fraction, p->left_s,
		   p->spread_s, (long long)p->stands_ms);
	buf_printf(&out, ",\"per_s\":%.9g,\"whole\":%.9g,\"advanced\":%.12g,\"series\":%lld", p->per_s, p->whole_units, p->advanced,
		   (long long)p->series);
	buf_printf(&out, ",\"dev\":%lld,\"ino\":%lld", (long long)r->dev, (long long)r->ino);
	if (r->host_mib)
		buf_printf(&out, ",\"host_mib\":%lld", (long long)r->host_mib);
	if (r->cpu.ran_ms)
		buf_printf(&out, ",\"ran_ms\":%lld,\"cpu_ms\":%lld,\"wait_ms\":%lld", (long long)r->cpu.ran_ms,
			   (long long)r->cpu.cpu_ms, (long long)r->cpu.wait_ms);
	add_text(&out, "source", progress_source_name(p->source), PROGRESS_WORD);
	add_text(&out, "unit", p->unit, sizeof p->unit);
	buf_printf(&out, ",\"end\":%lld}\n", (long long)r->number);
	assert(out.len <= RECORD_BYTES - RECORD_PROGRESS);
	return pwrite(fd, out.data, out.len, RECORD_PROGRESS) == (ssize_t)out.len ? 0 : -1;
}
