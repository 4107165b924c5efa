/* SPDX-License-Identifier: MIT
 * What a shim wrote into its attempt's folder: the exit record, the word on progress and the claim, in one file of any bytes. What is
 * accepted is in range, and a record, written again, reads the same.
 */
#include "fuzz.h"

#include "base/scope.h"
#include "launch/attempt.h"
#include "launch/record.h"

#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

static char folder_path[] = "/dev/shm/fuzz-record-XXXXXX";	/* a record is synced each time it is written */
static int folder = -1;

static void end(void)
{
	unlinkat(folder, ATTEMPT_EXIT, 0);
	rmdir(folder_path);
}

static void begin(void)
{
	FUZZ_HOLDS(mkdtemp(folder_path));
	folder = open(folder_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	FUZZ_HOLDS(folder >= 0 && !atexit(end));
}

static int open_record(void)
{
	int fd = openat(folder, ATTEMPT_EXIT, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	FUZZ_HOLDS(fd >= 0);
	return fd;
}

static void check_exit(const struct exit_record *r)
{
	struct exit_record again;
	struct error err;
	FUZZ_HOLDS(r->exit_code >= 0 && r->exit_code <= 255 && r->signal >= 0 && r->signal < NSIG);
	FUZZ_HOLDS(memchr(r->output.line, 0, sizeof r->output.line) && memchr(r->output.source, 0, sizeof r->output.source));
	scoped_fd int fd = open_record();
	FUZZ_HOLDS(!record_write(fd, r));
	FUZZ_HOLDS(record_read(folder, &again, &err) == 1);
	FUZZ_HOLDS(again.exit_code == r->exit_code && again.start_ms == r->start_ms && again.output.kind == r->output.kind);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct exit_record r;
	struct progress_record p;
	struct proc_id claimed;
	struct error err;
	if (folder < 0)
		begin();
	scoped_fd int fd = open_record();
	FUZZ_HOLDS(!ftruncate(fd, 0) && pwrite(fd, data, size, 0) == (ssize_t)size);
	bool progress = record_read_progress(folder, &p);
	if (progress)
		FUZZ_HOLDS(isfinite(p.seen.fraction) && p.seen.fraction <= 1);
	if (claim_read(folder, ATTEMPT_EXIT, &claimed, &err) == 1)
		FUZZ_HOLDS(claimed.pid > 1);
	if (record_read(folder, &r, &err) == 1)
		check_exit(&r);
	return 0;
}
