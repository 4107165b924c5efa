/* SPDX-License-Identifier: MIT
 *
 * Exit code, last error and device evidence to a verdict, and the sentence that a person reads in `rad show`.
 *
 * No witness is enough alone. An exit code says that something failed, not what. Output may quote an error that was caught,
 * or one of another process; it comes from the user, who may print what he likes (doc/security.md: he gains a place in line
 * by it, no more). The device may have been full of somebody else. So the order below: what cannot be mistaken first (the
 * stop we asked for, the kernel's own killer with its signal), then a plain out-of-memory in the output, then what
 * neighbours did, and last the errors that are an out-of-memory only if the device agrees.
 *
 * The sentence always names its evidence, so that a wrong verdict can be seen to be one.
 */
#include "recover/recover.h"

#include "base/text.h"
#include "base/units.h"
#include "base/words.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define QUOTE_MAX 120		/* bytes of the error line that are quoted */
#define FULL_MIN_MIB 1024	/* a GPU with less free, or less than 1/40 of it, is nearly full: handles and workspaces of */
#define FULL_PART 40		/* CUDA's libraries take hundreds of MiB at once */
#define CLIENT_MIN_KIB 5120	/* resident: decision 178 */

/* Words as they are: most attempts end with these alone. */
static void verdict_add(struct verdict_result *out, const char *words)
{
	size_t len = strlen(out->evidence);

	strncat(out->evidence, words, sizeof out->evidence - len - 1);
}

static void verdict_say(struct verdict_result *out, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void verdict_say(struct verdict_result *out, const char *fmt, ...)
{
	size_t len = strlen(out->evidence);
	va_list args;

	va_start(args, fmt);
	text_vprintf(out->evidence + len, sizeof out->evidence - len, fmt, args);
	va_end(args);
}

/* Signal names come from the C library; real-time signals have none. */
static void say_how(const struct exit_report *r, struct verdict_result *out)
{
	const char *name = r->signal ? sigabbrev_np(r->signal) : NULL;

	if (r->unseen)
		verdict_add(out, "it ended; how is not known, for RAD-RM did not start it");
	else if (!r->signal)
		verdict_say(out, "exit %d", r->exit_code);
	else if (name)
		verdict_say(out, "killed by signal %d (%s)", r->signal, name);
	else
		verdict_say(out, "killed by signal %d", r->signal);
}

static void say_error(const struct exit_report *r, struct verdict_result *out)
{
	const struct scan_result *o = &r->output;
	int len = (int)words_cut(o->line, QUOTE_MAX);

	if (o->kind == SCAN_NOTHING) {
		verdict_add(out, "; no error in its output");
		return;
	}
	verdict_say(out, "; last error '%.*s%s'", len, o->line, o->line[len] ? "..." : "");
	if (o->source[0])
		verdict_say(out, " (%s)", o->source);
	if (o->survived)
		verdict_add(out, ", after which it went on");
}

uint64_t recover_held_mib(const struct exit_report *r)
{
	uint64_t told = r->device_known && r->output.held_mib > r->device_total_mib ? 0 : r->output.held_mib;
	return told > r->peak_mib ? told : r->peak_mib;
}

static void say_device(const struct exit_report *r, struct verdict_result *out)
{
	uint64_t held_mib = recover_held_mib(r);
	char free_text[16], total_text[16], held_text[16], claim_text[16];

	if (!r->device_known)
		return;
	verdict_say(out, "; GPU had %s of %s free", units_format_mib((double)r->device_free_min_mib, free_text, sizeof free_text),
		    units_format_mib((double)r->device_total_mib, total_text, sizeof total_text));
	if (held_mib)
		verdict_say(out, ", the task held %s", units_format_mib((double)held_mib, held_text, sizeof held_text));
	if (r->fenced)
		verdict_say(out, ", limit %s", units_format_mib((double)r->claim_mib, claim_text, sizeof claim_text));
	if (!r->had_neighbours)
		verdict_add(out, ", alone");
}

/* By the lowest free memory around the end. Not known is not full: then only the output can say so. */
static bool device_full(const struct exit_report *r)
{
	uint64_t part = r->device_total_mib / FULL_PART;

	return r->device_known && r->device_free_min_mib < (part > FULL_MIN_MIB ? part : FULL_MIN_MIB);
}

/* At its MPS limit: within the size of a workspace of it. So is one of which no memory was seen where CUDA's context alone is
 * larger. */
static bool fence_full(const struct exit_report *r)
{
	return r->fenced && r->peak_mib + FULL_MIN_MIB / 2 >= r->claim_mib;
}

/* Errors of CUDA's libraries that say nothing of memory and are often caused by the lack of it. */
static bool handle_error(const struct scan_result *o)
{
	static const char *const sources[] = { "cuBLAS", "cuDNN", "cuSOLVER", "cuSPARSE", "NCCL" };

	for (size_t i = 0; i < sizeof sources / sizeof *sources; i++)
		if (o->kind == SCAN_OTHER_ERROR && !strcmp(o->source, sources[i]))
			return true;
	return false;
}

/* By these codes a shell, env, timeout or docker says that there was no such command, or none that can be run; what it prints
 * hangs on the language. */
static bool no_such_command(const struct exit_report *r)
{
	return !r->signal && (r->exit_code == 126 || r->exit_code == 127);
}

bool recover_was_no_client(const struct exit_report *r)
{
	enum scan_kind kind = r->output.kind;

	return r->max_rss_kib && r->max_rss_kib < CLIENT_MIN_KIB && !r->peak_mib && kind != SCAN_MPS && kind != SCAN_DEVICE_FAULT;
}

/* Whether its end can be the work of another client's fault. An error of Python's own cannot, nor a command that is not there.
 * That it was never seen to have GPU memory does not say so: between two samples there is time to get it and to be ended. */
static bool verdict_blameless(const struct exit_report *r)
{
	const struct scan_result *o = &r->output;

	if (o->kind == SCAN_NOTHING || o->survived)
		return !no_such_command(r) && !recover_was_no_client(r);
	return o->kind == SCAN_MPS || o->kind == SCAN_DEVICE_FAULT || (o->kind == SCAN_OTHER_ERROR && o->source[0]);
}

/* An MPS error with nobody else on the server is the server's failure, not a neighbour's: it is started again as any launch. */
static enum verdict mps_verdict(const struct exit_report *r)
{
	bool text = r->output.kind == SCAN_MPS && !r->output.survived;

	if (!r->mps)
		return VERDICT_NONE;
	if (text)
		return r->had_neighbours || r->neighbour_faulted ? VERDICT_NEIGHBOUR : VERDICT_LAUNCH;
	return r->neighbour_faulted && verdict_blameless(r) ? VERDICT_NEIGHBOUR : VERDICT_NONE;
}

/* The kernel's killer comes first only with its signal: it may have struck a worker long before the end, and the task gone
 * on. */
static enum verdict failure_verdict(const struct exit_report *r)
{
	const struct scan_result *o = &r->output;
	enum verdict mps;

	if ((r->cgroup_oom || r->machine_oom) && (r->signal == SIGKILL || r->exit_code == 128 + SIGKILL))
		return VERDICT_HOST_OOM;
	if (o->kind == SCAN_GPU_OOM && !o->survived && !r->no_gpu)
		return VERDICT_OOM;
	mps = mps_verdict(r);
	if (mps != VERDICT_NONE)
		return mps;
	if (r->cgroup_oom || (o->kind == SCAN_HOST_OOM && !o->survived))
		return VERDICT_HOST_OOM;
	if (!o->survived && (o->oom_near || handle_error(o)) && (device_full(r) || fence_full(r)))
		return VERDICT_OOM;
	return VERDICT_FAILED;
}

/* What it took of the machine, where that has to do with its end. */
static void say_host(const struct exit_report *r, struct verdict_result *out)
{
	char peak[16], asked[16];
	bool above = r->host_asked_mib && r->host_peak_mib > r->host_asked_mib;
	if (out->verdict != VERDICT_HOST_OOM && !above)
		return;
	if (r->host_peak_mib)
		verdict_say(out, "; it took %s of host memory", units_format_mib((double)r->host_peak_mib, peak, sizeof peak));
	if (r->host_asked_mib)
		verdict_say(out, "%s asked for %s", r->host_peak_mib ? " and" : "; it",
			    units_format_mib((double)r->host_asked_mib, asked, sizeof asked));
}

/* Both are told of each other: which of them was at fault is not known before they have run alone. */
static void say_neighbour(const struct exit_report *r, struct verdict_result *out)
{
	char id[TASK_ID_TEXT];

	if (!r->neighbour_faulted)
		verdict_add(out, "; its MPS server ended it or could not be reached");
	else if (!r->neighbour)
		verdict_add(out, "; another client of its MPS server died at the same time");
	else
		verdict_say(out, "; task %s%s, another client of its MPS server, died at the same time",
			    task_id_text(r->neighbour, id), r->neighbour_is_others ? " of another user" : "");
}

static void explain_failure(const struct exit_report *r, struct verdict_result *out)
{
	say_how(r, out);
	if (r->cgroup_oom)
		verdict_add(out, "; the kernel's out-of-memory killer struck in its cgroup");
	else if (out->verdict == VERDICT_HOST_OOM && r->machine_oom)
		verdict_add(out, "; the kernel's out-of-memory killer struck on this machine in those seconds");
	say_host(r, out);
	say_error(r, out);
	if (out->verdict == VERDICT_OOM || r->output.oom_seen)
		say_device(r, out);
	if (r->output.oom_seen && out->verdict == VERDICT_FAILED && r->output.kind != SCAN_GPU_OOM)
		verdict_add(out, "; a GPU out-of-memory before that is not what ended it");
	if (out->verdict == VERDICT_NEIGHBOUR)
		say_neighbour(r, out);
	if (out->verdict == VERDICT_LAUNCH)
		verdict_add(out, "; its MPS server failed with no other client on it");
	if (r->requeue_code && !r->signal && r->exit_code == r->requeue_code)
		verdict_add(out, "; that code means 'start me again' only at the end of a time slot, when it was asked to make place");
}

/* A code alone is not believed: a program that always ends so would be started for ever. */
bool recover_made_place(const struct exit_report *r)
{
	return r->have_record && !r->never_began && r->slot_asked && r->requeue_code && !r->signal &&
	       r->exit_code == r->requeue_code && !r->stopping;
}

/* What we asked for ended it, whatever it said meanwhile: a program that dies of SIGTERM prints all sorts of errors. Only a
 * requeue without a record is no answer: nobody knows whether it ended, so it must not be started again. */
static bool verdict_when_stopping(const struct exit_report *r, struct verdict_result *out)
{
	if (r->stopping == STOP_NONE || (r->stopping == STOP_REQUEUE && !r->have_record && !r->never_began))
		return false;
	if (r->stopping == STOP_GIVEN_BACK) {
		out->verdict = VERDICT_OK;
		verdict_add(out, "given back");
		return true;
	}
	out->verdict = r->stopping == STOP_TIME_LIMIT ? VERDICT_TIMEOUT : VERDICT_CANCELLED;
	verdict_say(out, "%s; ", r->stopping == STOP_TIME_LIMIT ? "ended at its time limit" :
			 r->stopping == STOP_REQUEUE ? "ended to be queued again" : "cancelled");
	if (r->never_began)
		verdict_add(out, "it had not begun");
	else if (!r->have_record)
		verdict_add(out, "it left no exit record");
	else
		say_how(r, out);
	return true;
}

void recover_verdict(const struct exit_report *r, struct verdict_result *out)
{
	memset(out, 0, sizeof *out);
	if (verdict_when_stopping(r, out))
		return;
	if (r->never_began) {
		out->verdict = r->have_record ? VERDICT_FAILED : VERDICT_LAUNCH;
		verdict_say(out, "not started: %s", r->output.line[0] ? r->output.line : "the reason was not recorded");
	} else if (!r->have_record) {
		out->verdict = VERDICT_LOST;
		verdict_add(out, "no exit record: nobody saw it end (was its shim killed, or the machine restarted?); "
				 "not run again by itself");
	} else if (r->unseen) {
		out->verdict = VERDICT_OK;
		say_how(r, out);
	} else if (!r->signal && r->exit_code == 0) {
		out->verdict = VERDICT_OK;
		verdict_add(out, "exit 0");
		if (r->output.oom_seen)
			verdict_say(out, "; survived %u GPU out-of-memory error%s", r->output.oom_seen, r->output.oom_seen > 1 ? "s" : "");
	} else if (recover_made_place(r)) {
		out->verdict = VERDICT_SLOT;
		verdict_say(out, "exit %d: made place at the end of its time slot, and goes on later", r->exit_code);
	} else {
		out->verdict = failure_verdict(r);
		explain_failure(r, out);
	}
}

bool recover_heeds_neighbours(const struct exit_report *r)
{
	struct exit_report together = *r, alone = *r;
	struct verdict_result a, b;
	together.neighbour_faulted = true;
	together.neighbour = 1;
	alone.neighbour_faulted = false;
	recover_verdict(&together, &a);
	recover_verdict(&alone, &b);
	return a.verdict != b.verdict || strcmp(a.evidence, b.evidence) != 0;
}
