/* SPDX-License-Identifier: MIT
 *
 * Asks the driver as radd does: in a process of its own, that may hang. What that one logs is taken apart here: what is amiss
 * with a GPU that is not listed stands nowhere else.
 */
#include "cli/doctor_driver.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/scope.h"
#include "cli/client.h"
#include "cli/doctor.h"
#include "cli/member.h"
#include "monitor/sampler.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define DRIVER_MS 10000		/* the first call of a driver may take seconds */
#define WITHOUT_IT "each task counts as half a GPU (under placements other than gain, max_tasks decides)"
#define MAX_LOG (64 << 10)

/* Of the GPUs that answer: which figures are there. */
struct readable {
	size_t answer, activity, deaf, per_process;
	struct buf unmeasured;	/* names of those of which not even the memory is known */
};

/* GeForce cards before the 50 series, and all before Volta (of which no SMs are counted), tell their activity to nobody. */
static bool is_deaf(const struct gpu_reading *r)
{
	return !r->mig && (!r->sm_count || (strstr(r->name, "GeForce") && !strstr(r->name, "RTX 50")));
}

static struct readable count_readable(const struct snapshot *s)
{
	struct readable n = { 0 };
	for (size_t i = 0; i < s->n_gpus; i++) {
		const struct gpu_reading *r = &s->gpus[i];
		if (r->fallen)
			continue;
		n.answer++;
		n.activity += !!(r->valid & GPU_SMACT);
		n.deaf += !(r->valid & GPU_SMACT) && is_deaf(r);
		n.per_process += !!(r->valid & GPU_PROC_MEM);
		if (!(r->valid & GPU_MEM_TOTAL))
			buf_printf(&n.unmeasured, "%sGPU %u (%s)", n.unmeasured.len ? ", " : "", r->index, r->name);
	}
	return n;
}

/* What the reader said, as `level` or worse, and begins so. */
static void report_log(struct doctor *d, const char *log, const char *check, const char *levels, const char *begins)
{
	for (const char *line = log, *next; *line; line = next) {
		char level[8], text[1024];
		next = line + strcspn(line, "\n");
		next += *next == '\n';
		if (sscanf(line, "%*s %7s %1023[^\n]", level, text) == 2 && strstr(levels, level) && !strncmp(text, begins, strlen(begins)))
			doctor_say(d, GRADE_WARN, check, "%s", text);
	}
}

static void report_activity(struct doctor *d, const struct readable *n, const char *log)
{
	size_t mute = n->answer - n->activity - n->deaf;
	if (n->deaf)
		doctor_say(d, GRADE_OK, "activity", "nothing can read the SMACT of %zu of %zu GPUs (GeForce before the 50 series, all "
			      "before Volta): " WITHOUT_IT, n->deaf, n->answer);
	if (mute)
		doctor_say(d, GRADE_WARN, "activity", "SMACT can be read for %zu of %zu GPUs: those before Hopper need DCGM (install "
			      "datacenter-gpu-manager, start nvidia-dcgm), others driver 520 or newer; without it " WITHOUT_IT,
			      n->activity, n->answer);
	if (mute)
		report_log(d, log, "activity", "info", "dcgm: ");
	if (n->per_process < n->answer)
		doctor_say(d, GRADE_WARN, "activity", "memory per process can be read for %zu of %zu GPUs: on the others, claims are "
			      "held for life", n->per_process, n->answer);
}

static void report_readings(struct doctor *d, const struct snapshot *s, const char *log)
{
	struct readable n = count_readable(s);
	scoped_free char *which = snapshot_describe(s);
	if (!s->n_gpus)
		doctor_say(d, GRADE_FAIL, "driver", "answers, and shows no GPU that could be used: in MIG mode without instances, in "
			      "prohibited mode, or not this user's to open (ls -l /dev/nvidia*)");
	else
		doctor_say(d, n.answer ? GRADE_OK : GRADE_FAIL, "driver", "answers, and shows %s", which);
	if (n.answer < s->n_gpus && !d->status)
		doctor_say(d, GRADE_FAIL, "driver", "%zu of them do not answer: see nvidia-smi, and dmesg for Xid errors; one that "
			      "\"requires reset\" takes nvidia-smi --gpu-reset, or a reboot", s->n_gpus - n.answer);
	report_log(d, log, "driver", "warn error", "");
	if (n.unmeasured.len)
		doctor_say(d, GRADE_FAIL, "driver", "the memory of %s cannot be read: no task is placed there", buf_text(&n.unmeasured));
	report_activity(d, &n, log);
	buf_free(&n.unmeasured);
}

/* Activity is measured between two samples: the second one tells whether it can be read. Returns how many came, or -1. */
static int take_samples(struct sampler *sampler, struct snapshot *s, struct error *err)
{
	int rc = 0, samples = 0;
	for (int64_t until = clock_mono_ms() + DRIVER_MS, left; rc >= 0 && samples < 2 && (left = until - clock_mono_ms()) > 0;) {
		struct pollfd p = { sampler_fd(sampler), POLLIN, 0 };
		poll(&p, 1, (int)left);
		snapshot_clear(s);
		rc = sampler_read(sampler, s, err);
		samples += rc > 0;
	}
	return rc < 0 ? -1 : samples;
}

/* Its log goes to `log`, not among our lines; below 0, to where ours goes. */
static int start_with_log(struct sampler *sampler, int log, struct error *err)
{
	scoped_fd int ours = log < 0 ? -1 : fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);
	if (ours >= 0)
		dup2(log, STDERR_FILENO);
	int rc = sampler_start(sampler, err);
	if (ours >= 0)
		dup2(ours, STDERR_FILENO);
	return rc;
}

/* Whoever may do less than a radd that runs may be refused what that one is not. */
static bool asks_as_radd(const struct doctor *d)
{
	return !d->status || !geteuid() || (uid_t)member_int(d->status, "uid") == geteuid();
}

static void ask_driver(struct doctor *d, const char *radd)
{
	struct error err = ERROR_INIT;
	struct snapshot s = { 0 };
	scoped_buf said = { 0 };
	scoped_fd int log = memfd_create("rad-doctor", MFD_CLOEXEC);
	struct sampler *sampler = sampler_create(radd, d->device, 250);
	int rc = start_with_log(sampler, log, &err) ? -1 : take_samples(sampler, &s, &err);
	if (log >= 0 && lseek(log, 0, SEEK_SET) == 0)
		io_read_fd(log, "log", MAX_LOG, &said, NULL);
	if (rc < 0)
		doctor_say(d, asks_as_radd(d) ? GRADE_FAIL : GRADE_WARN, "driver", "%s", err.text);
	else if (!rc)
		doctor_say(d, GRADE_FAIL, "driver", "does not answer in %d s: see dmesg for Xid errors; a reboot may be needed",
			      DRIVER_MS / 1000);
	else
		report_readings(d, &s, buf_text(&said));
	snapshot_clear(&s);
	sampler_destroy(sampler);
}

void doctor_driver(struct doctor *d)
{
	scoped_free char *radd = client_find_program("radd");
	bool needed = device_kind(d->device)->needs_driver;
	if (!needed)
		doctor_say(d, GRADE_OK, "driver", "none is needed: radd's GPUs are simulated; with it stopped, "
			      "RAD_DEVICES=nvml rad doctor checks the real ones");
	else if (radd)
		ask_driver(d, radd);
}
