/* SPDX-License-Identifier: MIT
 *
 * The exit record: one line of JSON, which the shim writes at an attempt's end. The file is made, with its blocks, before
 * the attempt begins, so that a disk that is full by then cannot take the record away; where it can (btrfs, ZFS), or fails, the
 * shim waits for it. What follows the line is zeros.
 * A line without its newline, or that is not JSON, was torn and counts as none.
 *	{"v":1,"began":true,"exit_code":1,"signal":0,"start_ms":...,"end_ms":...,"maxrss_kib":...,"oom_kills":0,
 *	 "again":false,"kind":1,"survived":false,"oom_seen":1,"offset":120,"source":"PyTorch","line":"..."}
 * With a GPU out-of-memory that told sizes "tried_mib" and "held_mib", too (recover/scan.h).
 * With "again":true the program did not begin for want of something that may come back.
 * `line` is the last error in the output, or why the program did not begin. It is ASCII here.
 *
 * In the second half of the same file, made over again every few seconds while the program runs, stands how far it is by its
 * own output (parse/progress.h), in one line too:
 *	{"v":1,"n":7,"source":"tqdm","t_ms":...,"done":120,"total":1000,...,"dev":2049,"ino":77,"end":7}
 * `n` counts these lines; a line that does not end with the number it began with was read while it was written. It is made
 * durable by nobody, since after a power cut there is no program that could be as far as it says.
 */
#ifndef RAD_LAUNCH_RECORD_H
#define RAD_LAUNCH_RECORD_H

#include "base/error.h"
#include "parse/progress.h"
#include "recover/scan.h"
#include "task/task.h"

#include <stdbool.h>
#include <stdint.h>

#define RECORD_BYTES 4096
#define RECORD_PROGRESS 2048	/* where the second half begins; both are bounded to a half */

struct exit_record {
	bool began;		/* the program was executed */
	bool again;		/* it was not, for want of something that may come back: the attempt may be begun again */
	int exit_code, signal;	/* signal 0: exited by itself */
	int64_t start_ms, end_ms;	/* wall; of the program itself, not of what it left behind */
	int64_t maxrss_kib;	/* largest resident size of one of its processes */
	int64_t oom_kills;	/* of the kernel's out-of-memory killer in its cgroup; 0 too when there is no counter */
	bool machine_oom;	/* that killer struck somewhere on the machine in its last seconds */
	int64_t host_peak_mib;	/* what its processes were seen to take of the machine's memory; 0: not known */
	struct scan_result output;
};

/* Which file the program printed into: what several tasks print into one file is nobody's progress. host_mib: as host_peak_mib,
 * so far. */
struct progress_record {
	int64_t number;
	struct progress_report seen;
	uint64_t dev, ino;
	int64_t host_mib;
	struct cpu_sums cpu;
};

/* Makes the file with its blocks; one that is there stays as it is. Fails when the disk is full. */
int record_reserve(int folder, struct error *err);
/* Writes the whole record and makes it durable. Returns 0 or -1 (errno). */
int record_write(int fd, const struct exit_record *r);
/* 1: *r is filled; 0: there is none yet, or it is torn; -1: error. */
int record_read(int folder, struct exit_record *r, struct error *err);
/* The same of its JSON, wherever that came from. 0; or -1, *r zeroed: it is none. */
struct json_t;
int record_from_json(const struct json_t *obj, struct exit_record *r);

/* The same of the second half. Nobody waits for the disk; what cannot be read says nothing. */
int record_write_progress(int fd, const struct progress_record *r);
bool record_read_progress(int folder, struct progress_record *r);

#endif
