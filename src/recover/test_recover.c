/* SPDX-License-Identifier: MIT
 * Verdicts where exit code, text and device disagree, and what is decided after each.
 */
#include "base/json.h"
#include "base/scope.h"
#include "recover/recover.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define OOM_TEXT "CUDA out of memory. Tried to allocate 2.00 GiB"
#define GPU_OOM { SCAN_GPU_OOM, "torch.OutOfMemoryError: " OOM_TEXT, "PyTorch", .oom_seen = 1 }
#define CAUGHT_OOM { SCAN_GPU_OOM, OOM_TEXT, "PyTorch", .survived = true, .oom_seen = 1 }
#define VALUE_ERROR { SCAN_OTHER_ERROR, "ValueError: bad shape", "" }
#define OOM_THEN_VALUE_ERROR { SCAN_OTHER_ERROR, "ValueError: bad shape", "", .oom_seen = 1 }
#define OOM_IN_HANDLER { SCAN_OTHER_ERROR, "KeyError: 'batch'", "", .oom_near = true, .oom_seen = 1 }
#define NO_HANDLE { SCAN_OTHER_ERROR, "RuntimeError: CUDA error: CUBLAS_STATUS_NOT_INITIALIZED", "cuBLAS" }
#define MPS_ERROR { SCAN_MPS, "RuntimeError: CUDA error: the MPS client has been terminated by the server", "CUDA" }
#define DEVICE_FAULT { SCAN_DEVICE_FAULT, "RuntimeError: CUDA error: an illegal memory access was encountered", "CUDA" }
#define HOST_OOM { SCAN_HOST_OOM, "MemoryError", "Python" }

#define FULL .device_known = true, .device_total_mib = 40960, .device_free_min_mib = 400, .peak_mib = 30000
#define ROOMY .device_known = true, .device_total_mib = 40960, .device_free_min_mib = 20000, .peak_mib = 8000
#define ENDED .have_record = true

struct verdict_case {
	const char *what;
	struct exit_report report;
	enum verdict verdict;
	const char *evidence;	/* a part of it */
};

static const struct verdict_case verdict_cases[] = {
	{ "plain success", { ENDED }, VERDICT_OK, "exit 0" },
	{ "success though it printed an out-of-memory last", { ENDED, .output = GPU_OOM, FULL }, VERDICT_OK,
	  "exit 0; survived 1 GPU out-of-memory error" },
	{ "a process that we did not start", { ENDED, .unseen = true }, VERDICT_OK, "how is not known" },
	{ "one that was cancelled", { ENDED, .unseen = true, .stopping = STOP_CANCEL }, VERDICT_CANCELLED, "cancelled; it ended" },
	{ "one that was given back", { ENDED, .unseen = true, .stopping = STOP_GIVEN_BACK }, VERDICT_OK, "given back" },
	{ "success in a cgroup where a helper was killed", { ENDED, .cgroup_oom = true }, VERDICT_OK, "exit 0" },

	{ "out of memory", { ENDED, .exit_code = 1, .output = GPU_OOM, FULL, .had_neighbours = true }, VERDICT_OOM,
	  "exit 1; last error 'torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB' (PyTorch); GPU had 400M of "
	  "40.0G free, the task held 29.3G" },
	{ "out of memory with room left: one large allocation", { ENDED, .exit_code = 1, .output = GPU_OOM, ROOMY }, VERDICT_OOM,
	  "GPU had 19.5G of 40.0G free, the task held 7.8G, alone" },
	{ "out of memory, device not known", { ENDED, .exit_code = 1, .output = GPU_OOM }, VERDICT_OOM, "exit 1; last error" },
	{ "more in its words than in samples", { ENDED, .exit_code = 1, .output = { SCAN_GPU_OOM, OOM_TEXT, "PyTorch", .oom_seen = 1,
	  .tried_mib = 2048, .held_mib = 9216 }, ROOMY }, VERDICT_OOM, "the task held 9.0G, alone" },
	{ "more in its words than there is", { ENDED, .exit_code = 1, .output = { SCAN_GPU_OOM, OOM_TEXT, "PyTorch", .oom_seen = 1,
	  .tried_mib = 2048, .held_mib = 40961 }, ROOMY }, VERDICT_OOM, "the task held 7.8G, alone" },
	{ "out of memory without a GPU", { ENDED, .exit_code = 1, .output = GPU_OOM, .no_gpu = true }, VERDICT_FAILED, "exit 1" },
	{ "out of memory that aborts", { ENDED, .signal = SIGABRT, .output = GPU_OOM }, VERDICT_OOM, "killed by signal 6 (ABRT)" },
	{ "out of memory at its fence", { ENDED, .exit_code = 1, .output = GPU_OOM, ROOMY, .fenced = true, .claim_mib = 8192 },
	  VERDICT_OOM, "limit 8.0G" },

	{ "survived, then a silent failure, device full", { ENDED, .exit_code = 3, .output = CAUGHT_OOM, FULL }, VERDICT_FAILED,
	  "after which it went on" },
	{ "survived, then another error, device full", { ENDED, .exit_code = 1, .output = OOM_THEN_VALUE_ERROR, FULL },
	  VERDICT_FAILED, "'ValueError: bad shape'; GPU had 400M of 40.0G free, the task held 29.3G, alone; a GPU out-of-memory "
	  "before that is not what ended it" },
	{ "handler of an out-of-memory failed, device full", { ENDED, .exit_code = 1, .output = OOM_IN_HANDLER, FULL },
	  VERDICT_OOM, "KeyError" },
	{ "handler of an out-of-memory failed, room left", { ENDED, .exit_code = 1, .output = OOM_IN_HANDLER, ROOMY },
	  VERDICT_FAILED, "KeyError" },
	{ "handler of an out-of-memory failed, at its fence",
	  { ENDED, .exit_code = 1, .output = OOM_IN_HANDLER, ROOMY, .fenced = true, .claim_mib = 8192 }, VERDICT_OOM, "limit 8.0G" },
	{ "no handler, for the fence is below CUDA's context", { ENDED, .exit_code = 1, .output = OOM_IN_HANDLER, .device_known = true,
	  .device_total_mib = 40960, .device_free_min_mib = 40000, .fenced = true, .claim_mib = 400 }, VERDICT_OOM, "limit 400M" },
	{ "no handle, device full", { ENDED, .exit_code = 1, .output = NO_HANDLE, FULL }, VERDICT_OOM, "(cuBLAS); GPU had 400M" },
	{ "no handle, room left", { ENDED, .exit_code = 1, .output = NO_HANDLE, ROOMY }, VERDICT_FAILED, "(cuBLAS)" },
	{ "no handle, device not known", { ENDED, .exit_code = 1, .output = NO_HANDLE }, VERDICT_FAILED, "(cuBLAS)" },
	{ "plain error, device full", { ENDED, .exit_code = 1, .output = VALUE_ERROR, FULL }, VERDICT_FAILED,
	  "exit 1; last error 'ValueError: bad shape'" },
	{ "silent error, device full", { ENDED, .exit_code = 2, FULL }, VERDICT_FAILED, "exit 2; no error in its output" },

	{ "killed in its cgroup", { ENDED, .signal = SIGKILL, .cgroup_oom = true }, VERDICT_HOST_OOM, "out-of-memory killer" },
	{ "killed in its cgroup, seen by its shell", { ENDED, .exit_code = 137, .cgroup_oom = true }, VERDICT_HOST_OOM, "exit 137" },
	{ "killed in its cgroup after a GPU out-of-memory", { ENDED, .signal = SIGKILL, .cgroup_oom = true, .output = GPU_OOM },
	  VERDICT_HOST_OOM, "out-of-memory killer" },
	{ "a helper was killed, it failed of GPU memory", { ENDED, .exit_code = 1, .cgroup_oom = true, .output = GPU_OOM },
	  VERDICT_OOM, "exit 1" },
	{ "a helper was killed, it failed", { ENDED, .exit_code = 1, .cgroup_oom = true, .output = VALUE_ERROR }, VERDICT_HOST_OOM,
	  "out-of-memory killer" },
	{ "host memory by its text", { ENDED, .exit_code = 1, .output = HOST_OOM, FULL }, VERDICT_HOST_OOM, "MemoryError" },
	{ "killed by somebody", { ENDED, .signal = SIGKILL }, VERDICT_FAILED, "killed by signal 9 (KILL)" },

	{ "cancelled", { ENDED, .signal = SIGTERM, .stopping = STOP_CANCEL }, VERDICT_CANCELLED, "cancelled; killed by signal 15" },
	{ "cancelled while out of memory", { ENDED, .exit_code = 1, .stopping = STOP_CANCEL, .output = GPU_OOM }, VERDICT_CANCELLED,
	  "cancelled; exit 1" },
	{ "time limit, killed", { ENDED, .signal = SIGKILL, .stopping = STOP_TIME_LIMIT }, VERDICT_TIMEOUT, "time limit" },
	{ "time limit, saved and left", { ENDED, .stopping = STOP_TIME_LIMIT }, VERDICT_TIMEOUT, "time limit; exit 0" },
	{ "requeued", { ENDED, .signal = SIGTERM, .stopping = STOP_REQUEUE }, VERDICT_CANCELLED, "to be queued again" },
	{ "cancelled, shim gone too", { .stopping = STOP_CANCEL }, VERDICT_CANCELLED, "no exit record" },
	{ "requeued, shim gone too: it may still run", { .stopping = STOP_REQUEUE }, VERDICT_LOST, "no exit record" },
	{ "no record", { .output = GPU_OOM }, VERDICT_LOST, "no exit record" },

	{ "program not found", { ENDED, .never_began = true, .output.line = "exec trian: not found in PATH" }, VERDICT_FAILED,
	  "not started: exec trian: not found in PATH" },
	{ "no shim", { .never_began = true, .output.line = "fork: Cannot allocate memory" }, VERDICT_LAUNCH, "not started: fork" },
	{ "no shim, no reason", { .never_began = true }, VERDICT_LAUNCH, "the reason was not recorded" },
	{ "cancelled before it began", { .never_began = true, .stopping = STOP_CANCEL }, VERDICT_CANCELLED, "had not begun" },

	{ "ended by the server beside others", { ENDED, .exit_code = 1, .output = MPS_ERROR, .mps = true, .had_neighbours = true },
	  VERDICT_NEIGHBOUR, "MPS server" },
	{ "the server's only client cannot reach it", { ENDED, .exit_code = 1, .output = MPS_ERROR, .mps = true }, VERDICT_LAUNCH,
	  "no other client" },
	{ "MPS words without MPS", { ENDED, .exit_code = 1, .output = MPS_ERROR }, VERDICT_FAILED, "last error" },
	{ "faults with a neighbour: cohort",
	  { ENDED, .exit_code = 1, .output = DEVICE_FAULT, .mps = true, .had_neighbours = true, .neighbour_faulted = true },
	  VERDICT_NEIGHBOUR, "died at the same time" },
	{ "faults with another user's task", { ENDED, .exit_code = 1, .output = DEVICE_FAULT, .mps = true, .had_neighbours = true,
	  .neighbour_faulted = true, .neighbour = TASK_ID(12, 3), .neighbour_is_others = true }, VERDICT_NEIGHBOUR,
	  "; task 12_3 of another user, another client of its MPS server, died at the same time" },
	{ "faults alone", { ENDED, .exit_code = 1, .output = DEVICE_FAULT, .mps = true }, VERDICT_FAILED, "illegal memory access" },
	{ "faults beside a healthy neighbour", { ENDED, .exit_code = 1, .output = DEVICE_FAULT, .mps = true, .had_neighbours = true },
	  VERDICT_FAILED, "illegal memory access" },
	{ "its own error at the time of a neighbour's", { ENDED, .exit_code = 1, .output = VALUE_ERROR, .mps = true,
	  .had_neighbours = true, .neighbour_faulted = true }, VERDICT_FAILED, "ValueError" },
	{ "silent death with a neighbour", { ENDED, .signal = SIGSEGV, .mps = true, .had_neighbours = true,
	  .neighbour_faulted = true }, VERDICT_NEIGHBOUR, "(SEGV)" },
	{ "no such command, with a neighbour", { ENDED, .exit_code = 127, .mps = true, .had_neighbours = true,
	  .neighbour_faulted = true }, VERDICT_FAILED, "exit 127; no error in its output" },
	{ "a command that cannot be run, with a neighbour", { ENDED, .exit_code = 126, .mps = true, .had_neighbours = true,
	  .neighbour_faulted = true }, VERDICT_FAILED, "exit 126" },
	{ "a silent end with a neighbour", { ENDED, .exit_code = 1, .mps = true, .had_neighbours = true, .neighbour_faulted = true },
	  VERDICT_NEIGHBOUR, "exit 1" },
	{ "a silent end of what was too small for a client", { ENDED, .exit_code = 1, .mps = true, .had_neighbours = true,
	  .neighbour_faulted = true, .max_rss_kib = 3000 }, VERDICT_FAILED, "exit 1; no error in its output" },
	{ "a silent end of what was large enough", { ENDED, .exit_code = 1, .mps = true, .had_neighbours = true,
	  .neighbour_faulted = true, .max_rss_kib = 6156 }, VERDICT_NEIGHBOUR, "exit 1" },
	{ "small, and seen to hold GPU memory", { ENDED, .exit_code = 1, .mps = true, .had_neighbours = true,
	  .neighbour_faulted = true, .max_rss_kib = 3000, .peak_mib = 100 }, VERDICT_NEIGHBOUR, "exit 1" },
	{ "small, and told of a fault", { ENDED, .exit_code = 1, .output = DEVICE_FAULT, .mps = true, .had_neighbours = true,
	  .neighbour_faulted = true, .max_rss_kib = 3000 }, VERDICT_NEIGHBOUR, "illegal memory access" },
	{ "a fault, then no such command", { ENDED, .exit_code = 127, .output = DEVICE_FAULT, .mps = true, .had_neighbours = true,
	  .neighbour_faulted = true }, VERDICT_NEIGHBOUR, "illegal memory access" },
	{ "its own out-of-memory beside a dying neighbour", { ENDED, .exit_code = 1, .output = GPU_OOM, .mps = true,
	  .had_neighbours = true, .neighbour_faulted = true }, VERDICT_OOM, "CUDA out of memory" },
	{ "a neighbour died, but this is no MPS task", { ENDED, .exit_code = 1, .output = DEVICE_FAULT, .had_neighbours = true,
	  .neighbour_faulted = true }, VERDICT_FAILED, "illegal memory access" },
};

static void test_verdicts(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT_OF(verdict_cases); i++) {
		const struct verdict_case *k = &verdict_cases[i];
		struct verdict_result v;

		recover_verdict(&k->report, &v);
		if (v.verdict != k->verdict || !strstr(v.evidence, k->evidence))
			fail_msg("%s: %s, '%s'", k->what, verdict_name(v.verdict), v.evidence);
	}
}

/* Whatever the witnesses say together, there is one verdict, a text that fits, and it is valid UTF-8. */
static void test_every_combination_has_a_verdict(void **state)
{
	char wide[sizeof((struct scan_result *)0)->line];

	(void)state;
	for (size_t i = 0; i + 2 < sizeof wide; i += 2)
		memcpy(wide + i, "\xc3\xa9", 3);
	for (unsigned bits = 0; bits < 1 << 13; bits++) {
		struct exit_report r = { .have_record = bits & 1, .never_began = bits & 2, .exit_code = bits & 4 ? 1 : 0,
			.signal = bits & 8 ? SIGKILL : 0, .cgroup_oom = bits & 16, .device_known = bits & 32,
			.device_total_mib = 40960, .device_free_min_mib = bits & 64 ? 100 : 30000, .peak_mib = 9000, .claim_mib = 9000,
			.fenced = bits & 128, .mps = bits & 256, .had_neighbours = bits & 512, .neighbour_faulted = bits & 1024,
			.stopping = (enum stop_reason)(bits >> 11 & 3) };
		struct verdict_result v;
		scoped_json *text = NULL;

		r.output.kind = (enum scan_kind)(bits % 6);
		snprintf(r.output.line, sizeof r.output.line, "%s", wide);
		recover_verdict(&r, &v);
		assert_true(v.verdict > VERDICT_NONE && v.verdict < VERDICT_COUNT);
		assert_true(v.evidence[0] && strlen(v.evidence) < sizeof v.evidence - 1);
		text = json_string(v.evidence);
		assert_non_null(text);
	}
}

static void test_whose_verdict_needs_the_word_of_neighbours(void **state)
{
	(void)state;
	const struct exit_report own = { ENDED, .exit_code = 1, .output = VALUE_ERROR, .mps = true, .had_neighbours = true };
	const struct exit_report fault = { ENDED, .exit_code = 1, .output = DEVICE_FAULT, .mps = true, .had_neighbours = true };
	const struct exit_report server = { ENDED, .exit_code = 1, .output = MPS_ERROR, .mps = true, .had_neighbours = true };
	const struct exit_report silent = { ENDED, .signal = SIGSEGV, .mps = true, .had_neighbours = true };
	assert_false(recover_heeds_neighbours(&own));
	assert_true(recover_heeds_neighbours(&fault));
	assert_true(recover_heeds_neighbours(&server));	/* the same verdict, but it is told whose task died */
	assert_true(recover_heeds_neighbours(&silent));
}

struct decide_case {
	const char *what;
	enum recover_mode mode;
	unsigned recoveries;			/* before this attempt */
	enum verdict before;			/* verdict of the attempt before this one; VERDICT_NONE: it is the first */
	bool no_requeue;
	enum verdict verdict;
	struct exit_report report;
	uint64_t empty_mib;
	struct recover_next expected;
};

#define SHARED .had_neighbours = true
#define FINAL(s) { NEXT_DONE, s, 0, false }
#define AGAIN(queue, s, claim, alone) { queue, s, claim, alone }
#define OOM_STATE TASK_OUT_OF_MEMORY
#define TOLD(tried, held) .output = { .tried_mib = tried, .held_mib = held }
#define EMPTY .device_known = true, .device_total_mib = 40960, .device_free_min_mib = 40000

/* FULL: 400 MiB free and 30000 of its own: 30400 were available to it; + 5120 is 35520. */
static const struct decide_case decide_cases[] = {
	{ "exclusive: alone next, with the claim to grow from", RECOVER_EXCLUSIVE, 0, 0, false, VERDICT_OOM,
	  { FULL, SHARED, .claim_mib = 12000 }, 40000, AGAIN(NEXT_RECOVER, OOM_STATE, 35520, true) },
	{ "grow: shared next", RECOVER_GROW, 0, 0, false, VERDICT_OOM, { FULL, SHARED, .claim_mib = 12000 }, 40000,
	  AGAIN(NEXT_RECOVER, OOM_STATE, 35520, false) },
	{ "grow: from the claim when it was larger", RECOVER_GROW, 0, 0, false, VERDICT_OOM, { FULL, SHARED, .claim_mib = 32000 },
	  40000, AGAIN(NEXT_RECOVER, OOM_STATE, 37120, false) },
	{ "grow: from the claim when nothing was seen", RECOVER_GROW, 0, 0, false, VERDICT_OOM, { SHARED, .claim_mib = 12000 }, 40000,
	  AGAIN(NEXT_RECOVER, OOM_STATE, 17120, false) },
	{ "grow: clamped to an empty GPU, which it then gets alone", RECOVER_GROW, 1, VERDICT_OOM, false, VERDICT_OOM,
	  { FULL, SHARED, .claim_mib = 39000 }, 40000, AGAIN(NEXT_RECOVER, OOM_STATE, 40000, true) },
	{ "grow: no clamp when no GPU is known", RECOVER_GROW, 0, 0, false, VERDICT_OOM, { FULL, SHARED, .claim_mib = 39000 }, 0,
	  AGAIN(NEXT_RECOVER, OOM_STATE, 44120, false) },
	{ "off", RECOVER_OFF, 0, 0, false, VERDICT_OOM, { FULL, SHARED }, 40000, FINAL(OOM_STATE) },
	{ "fourth attempt is the last", RECOVER_EXCLUSIVE, 3, VERDICT_OOM, false, VERDICT_OOM, { FULL, SHARED }, 40000,
	  FINAL(OOM_STATE) },
	{ "third is not", RECOVER_EXCLUSIVE, 2, VERDICT_OOM, false, VERDICT_OOM, { FULL, SHARED, .claim_mib = 12000 }, 40000,
	  AGAIN(NEXT_RECOVER, OOM_STATE, 35520, true) },
	{ "alone on a whole GPU", RECOVER_EXCLUSIVE, 0, 0, false, VERDICT_OOM, { FULL, .claim_mib = 12000 }, 40000,
	  FINAL(OOM_STATE) },
	{ "alone on a whole GPU, nothing seen of it", RECOVER_GROW, 0, 0, false, VERDICT_OOM, { .claim_mib = 12000 }, 40000,
	  FINAL(OOM_STATE) },
	{ "alone, but a larger GPU exists", RECOVER_GROW, 0, 0, false, VERDICT_OOM, { FULL, .claim_mib = 12000 }, 80000,
	  AGAIN(NEXT_RECOVER, OOM_STATE, 80000, true) },
	{ "at its fence with room: half as much again, shared", RECOVER_EXCLUSIVE, 0, 0, false, VERDICT_OOM,
	  { ROOMY, SHARED, .fenced = true, .claim_mib = 8000 }, 40000, AGAIN(NEXT_RECOVER, OOM_STATE, 12000, false) },
	{ "at its fence with room, alone", RECOVER_EXCLUSIVE, 0, 0, false, VERDICT_OOM, { ROOMY, .fenced = true, .claim_mib = 8000 },
	  40000, AGAIN(NEXT_RECOVER, OOM_STATE, 12000, false) },
	{ "at its fence, device not known", RECOVER_EXCLUSIVE, 0, 0, false, VERDICT_OOM,
	  { SHARED, .fenced = true, .claim_mib = 8000, .peak_mib = 7900 }, 40000, AGAIN(NEXT_RECOVER, OOM_STATE, 12000, false) },
	{ "at its fence by its own words, device not known", RECOVER_EXCLUSIVE, 0, 0, false, VERDICT_OOM,
	  { SHARED, .fenced = true, .claim_mib = 8000, TOLD(20, 7900) }, 40000, AGAIN(NEXT_RECOVER, OOM_STATE, 12000, false) },
	{ "fenced, but the device was full", RECOVER_EXCLUSIVE, 0, 0, false, VERDICT_OOM,
	  { FULL, SHARED, .fenced = true, .claim_mib = 32000 }, 40000, AGAIN(NEXT_RECOVER, OOM_STATE, 37120, true) },
	{ "at its fence again: four times as much, shared", RECOVER_EXCLUSIVE, 1, VERDICT_OOM, false, VERDICT_OOM,
	  { ROOMY, SHARED, .fenced = true, .claim_mib = 4000 }, 40000, AGAIN(NEXT_RECOVER, OOM_STATE, 16000, false) },
	{ "at its fence again: no further than half of a GPU", RECOVER_EXCLUSIVE, 1, VERDICT_OOM, false, VERDICT_OOM,
	  { ROOMY, SHARED, .fenced = true, .claim_mib = 12000 }, 40000, AGAIN(NEXT_RECOVER, OOM_STATE, 20000, false) },
	{ "at its fence again: beyond half of a GPU, alone", RECOVER_EXCLUSIVE, 1, VERDICT_OOM, false, VERDICT_OOM,
	  { ROOMY, SHARED, .fenced = true, .claim_mib = 14000 }, 40000, AGAIN(NEXT_RECOVER, OOM_STATE, 21000, true) },
	{ "the same where claims grow", RECOVER_GROW, 1, VERDICT_OOM, false, VERDICT_OOM,
	  { ROOMY, SHARED, .fenced = true, .claim_mib = 14000 }, 40000, AGAIN(NEXT_RECOVER, OOM_STATE, 21000, true) },
	{ "at its fence again: by its own words beyond half of a GPU, alone", RECOVER_EXCLUSIVE, 1, VERDICT_OOM, false, VERDICT_OOM,
	  { ROOMY, SHARED, .fenced = true, .claim_mib = 4000, TOLD(13000, 8000) }, 40000,
	  AGAIN(NEXT_RECOVER, OOM_STATE, 26250, true) },
	{ "at its fence again, and no GPU is known: alone", RECOVER_EXCLUSIVE, 1, VERDICT_OOM, false, VERDICT_OOM,
	  { ROOMY, SHARED, .fenced = true, .claim_mib = 4000 }, 0, AGAIN(NEXT_RECOVER, OOM_STATE, 6000, true) },
	{ "the first time beyond half of a GPU, shared", RECOVER_EXCLUSIVE, 0, 0, false, VERDICT_OOM,
	  { ROOMY, SHARED, .fenced = true, .claim_mib = 20000 }, 40000, AGAIN(NEXT_RECOVER, OOM_STATE, 30000, false) },
	{ "at its fence: the last attempt is alone", RECOVER_EXCLUSIVE, 2, VERDICT_OOM, false, VERDICT_OOM,
	  { ROOMY, SHARED, .fenced = true, .claim_mib = 2000 }, 40000, AGAIN(NEXT_RECOVER, OOM_STATE, 8000, true) },
	{ "the same where claims grow", RECOVER_GROW, 2, VERDICT_OOM, false, VERDICT_OOM,
	  { ROOMY, SHARED, .fenced = true, .claim_mib = 2000 }, 40000, AGAIN(NEXT_RECOVER, OOM_STATE, 8000, true) },
	{ "at its fence, a large allocation: what it had and asked for, and a quarter", RECOVER_EXCLUSIVE, 0, 0, false, VERDICT_OOM,
	  { ROOMY, SHARED, .fenced = true, .claim_mib = 8000, TOLD(12000, 7000) }, 40000,
	  AGAIN(NEXT_RECOVER, OOM_STATE, 25000, false) },
	{ "the task was seen to have less than it says", RECOVER_EXCLUSIVE, 0, 0, false, VERDICT_OOM,
	  { ROOMY, SHARED, .fenced = true, .claim_mib = 12000, TOLD(12000, 12000) }, 40000,
	  AGAIN(NEXT_RECOVER, OOM_STATE, 30000, false) },
	{ "a small allocation: half as much again", RECOVER_EXCLUSIVE, 0, 0, false, VERDICT_OOM,
	  { ROOMY, SHARED, .fenced = true, .claim_mib = 8000, TOLD(20, 7990) }, 40000, AGAIN(NEXT_RECOVER, OOM_STATE, 12000, false) },
	{ "more than any GPU has: no size", RECOVER_EXCLUSIVE, 0, 0, false, VERDICT_OOM,
	  { ROOMY, SHARED, .fenced = true, .claim_mib = 8000, TOLD(40001, 0) }, 40000, AGAIN(NEXT_RECOVER, OOM_STATE, 12000, false) },
	{ "has more than any GPU, which is not known: no size", RECOVER_EXCLUSIVE, 0, 0, false, VERDICT_OOM,
	  { .peak_mib = 8000, SHARED, .fenced = true, .claim_mib = 8000, TOLD(2000, 1 << 30) }, 40000,
	  AGAIN(NEXT_RECOVER, OOM_STATE, 12000, false) },
	{ "as much as a GPU has: the whole GPU", RECOVER_EXCLUSIVE, 0, 0, false, VERDICT_OOM,
	  { ROOMY, SHARED, .fenced = true, .claim_mib = 8000, TOLD(39000, 0) }, 40000, AGAIN(NEXT_RECOVER, OOM_STATE, 40000, true) },
	{ "the device was full, and a large allocation", RECOVER_GROW, 0, 0, false, VERDICT_OOM,
	  { FULL, SHARED, .claim_mib = 12000, TOLD(4000, 30000) }, 80000, AGAIN(NEXT_RECOVER, OOM_STATE, 42500, false) },
	{ "a fence below CUDA's context", RECOVER_EXCLUSIVE, 0, 0, false, VERDICT_OOM,
	  { EMPTY, SHARED, .fenced = true, .claim_mib = 20 }, 40000, AGAIN(NEXT_RECOVER, OOM_STATE, 5140, false) },
	{ "a small one in which the context came up", RECOVER_EXCLUSIVE, 0, 0, false, VERDICT_OOM,
	  { EMPTY, SHARED, .fenced = true, .claim_mib = 600, TOLD(40, 580) }, 40000, AGAIN(NEXT_RECOVER, OOM_STATE, 900, false) },
	{ "a fence that cannot grow: the whole GPU without one", RECOVER_EXCLUSIVE, 1, VERDICT_OOM, false, VERDICT_OOM,
	  { ROOMY, SHARED, .fenced = true, .claim_mib = 30000 }, 40000, AGAIN(NEXT_RECOVER, OOM_STATE, 40000, true) },

	{ "neighbour: once more, alone", RECOVER_OFF, 0, 0, false, VERDICT_NEIGHBOUR, { .mps = true, SHARED }, 40000,
	  AGAIN(NEXT_RECOVER, TASK_FAILED, 0, true) },
	{ "neighbour twice: guilty", RECOVER_EXCLUSIVE, 0, VERDICT_NEIGHBOUR, false, VERDICT_NEIGHBOUR, { .mps = true }, 40000,
	  FINAL(TASK_FAILED) },
	{ "neighbour twice, with neighbours: not known", RECOVER_EXCLUSIVE, 0, VERDICT_NEIGHBOUR, false, VERDICT_NEIGHBOUR,
	  { .mps = true, SHARED }, 40000, AGAIN(NEXT_RECOVER, TASK_FAILED, 0, true) },
	{ "neighbour after another kind of failure", RECOVER_EXCLUSIVE, 1, VERDICT_OOM, false, VERDICT_NEIGHBOUR,
	  { .mps = true, SHARED }, 40000, AGAIN(NEXT_RECOVER, TASK_FAILED, 0, true) },
	{ "neighbour, not to be requeued", RECOVER_EXCLUSIVE, 0, 0, true, VERDICT_NEIGHBOUR, { .mps = true, SHARED }, 40000,
	  FINAL(TASK_FAILED) },
	{ "never began: again, even if not to be requeued", RECOVER_EXCLUSIVE, 0, 0, true, VERDICT_LAUNCH, { .never_began = true },
	  40000, AGAIN(NEXT_QUEUE, TASK_FAILED, 0, false) },
	{ "MPS server dead: again", RECOVER_EXCLUSIVE, 0, 0, false, VERDICT_LAUNCH, { .mps = true }, 40000,
	  AGAIN(NEXT_QUEUE, TASK_FAILED, 0, false) },
	{ "MPS server dead twice: without one", RECOVER_EXCLUSIVE, 0, VERDICT_LAUNCH, false, VERDICT_LAUNCH, { .mps = true }, 40000,
	  AGAIN(NEXT_QUEUE, TASK_FAILED, 0, true) },
	{ "MPS server dead, not to be requeued", RECOVER_EXCLUSIVE, 0, 0, true, VERDICT_LAUNCH, { .mps = true }, 40000,
	  FINAL(TASK_FAILED) },

	{ "requeued by a person", RECOVER_OFF, 0, 0, true, VERDICT_CANCELLED, { .stopping = STOP_REQUEUE }, 40000,
	  AGAIN(NEXT_QUEUE, TASK_CANCELLED, 0, false) },
	{ "cancelled", RECOVER_EXCLUSIVE, 0, 0, false, VERDICT_CANCELLED, { .stopping = STOP_CANCEL }, 40000, FINAL(TASK_CANCELLED) },
	{ "ok", RECOVER_EXCLUSIVE, 0, 0, false, VERDICT_OK, { 0 }, 40000, FINAL(TASK_COMPLETED) },
	{ "failed", RECOVER_EXCLUSIVE, 0, 0, false, VERDICT_FAILED, { FULL, SHARED }, 40000, FINAL(TASK_FAILED) },
	{ "host memory", RECOVER_EXCLUSIVE, 0, 0, false, VERDICT_HOST_OOM, { SHARED }, 40000, FINAL(TASK_FAILED) },
	{ "timeout", RECOVER_EXCLUSIVE, 0, 0, false, VERDICT_TIMEOUT, { .stopping = STOP_TIME_LIMIT }, 40000, FINAL(TASK_TIMEOUT) },
	{ "lost: never a second run", RECOVER_EXCLUSIVE, 0, 0, false, VERDICT_LOST, { SHARED }, 40000, FINAL(TASK_LOST) },
};

static void test_decisions(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT_OF(decide_cases); i++) {
		const struct decide_case *k = &decide_cases[i];
		struct recover_policy p = recover_policy_default();
		struct spec spec = { .requeue = !k->no_requeue };
		struct attempt attempts[2] = { { .verdict = k->before } };
		struct task t = { .spec = &spec, .recoveries = k->recoveries, .attempts = attempts,
				  .n_attempts = k->before ? 2 : 1 };
		struct recover_next n;

		p.mode = k->mode;
		recover_decide(&p, &t, &k->report, k->verdict, k->empty_mib, &n);
		if (n.next != k->expected.next || n.state != k->expected.state || n.claim_mib != k->expected.claim_mib ||
		    n.exclusive != k->expected.exclusive)
			fail_msg("%s: next %d, state %s, claim %llu, exclusive %d", k->what, (int)n.next, task_state_name(n.state),
				 (unsigned long long)n.claim_mib, n.exclusive);
	}
}

/* How many attempts a task takes that needs so many times what it claims, of which the last has the GPU to itself. */
static void test_attempts_to_reach_a_need(void **state)
{
	static const struct { uint64_t claim, need, last; unsigned attempts; bool alone; } rows[] = {
		/* In small pieces, as PyTorch trains: claims grow by half, then to four times that. */
		{ 4000, 4400, 20, 2, false }, { 4000, 8000, 20, 3, false }, { 860, 4300, 20, 3, false }, { 4000, 20000, 20, 3, false },
		{ 10000, 38000, 20, 3, false }, { 10000, 50000, 20, 4, true }, { 2000, 40000, 20, 4, true },
		/* Where that would be more than half of a GPU, the third has one to itself. */
		{ 27000, 42000, 20, 3, true }, { 40000, 70000, 20, 3, true },
		/* Much at once: a model's weights, a cache of keys, a program of JAX. */
		{ 4000, 4400, 2000, 2, false }, { 4000, 8000, 6000, 2, false }, { 4000, 20000, 18000, 2, false },
		{ 2000, 40000, 39000, 2, false },
		/* A number that meant GiB. */
		{ 1, 1100, 20, 2, false }, { 2, 2000, 20, 2, false }, { 5, 5000, 20, 2, false }, { 20, 20000, 20, 3, false },
		{ 20, 20000, 19000, 3, false },
	};
	(void)state;
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct recover_policy p = recover_policy_default();
		struct spec spec = { .requeue = true };
		struct attempt attempts[4] = { 0 };
		struct task t = { .spec = &spec, .attempts = attempts };
		struct recover_next n = { .claim_mib = rows[i].claim };
		for (t.n_attempts = 1; !n.exclusive && n.claim_mib < rows[i].need; t.n_attempts++, t.recoveries++) {
			uint64_t before = rows[i].need - rows[i].last, held = before < n.claim_mib ? before : n.claim_mib;
			if (n.claim_mib < 514)
				held = 0;
			struct exit_report r = { ENDED, .exit_code = 1, .fenced = true, .claim_mib = n.claim_mib, .peak_mib = held / 2,
						 .device_known = true, .device_total_mib = 81920, .device_free_min_mib = 40000,
						 .output = { SCAN_GPU_OOM, .oom_seen = 1 } };
			if (held) {
				r.output.held_mib = held;
				r.output.tried_mib = before < n.claim_mib ? rows[i].last : 20;
			}
			recover_decide(&p, &t, &r, VERDICT_OOM, 80000, &n);
			assert_int_equal(n.next, NEXT_RECOVER);
		}
		if (t.n_attempts != rows[i].attempts || n.exclusive != rows[i].alone)
			fail_msg("row %zu: %u attempts, the last with %llu%s", i, t.n_attempts, (unsigned long long)n.claim_mib,
				 n.exclusive ? ", alone" : "");
	}
}

/* Whatever became of what somebody ran at a terminal. */
static void test_once_is_once(void **state)
{
	(void)state;
	static const enum verdict deaths[] = { VERDICT_OOM, VERDICT_NEIGHBOUR, VERDICT_LAUNCH, VERDICT_HOST_OOM };
	struct recover_policy p = recover_policy_default();
	struct spec s = { .requeue = true, .terminal = (char *)"/run/s" };
	struct attempt a = { .claim_mib = 8192 };
	struct task t = { .spec = &s, .state = TASK_RUNNING, .attempts = &a, .n_attempts = 1 };
	for (size_t i = 0; i < COUNT_OF(deaths); i++) {
		struct exit_report r = { ENDED, .exit_code = 1, .claim_mib = 8192, .had_neighbours = true };
		struct recover_next n;
		recover_decide(&p, &t, &r, deaths[i], 40000, &n);
		assert_int_equal(n.next, NEXT_DONE);
	}
}

static char one_gpu[1][GPU_UUID_LEN] = { "GPU-aaaa" };

/* Until the end, through the real record: every way of dying again and again ends, after max_attempts at most. */
static void test_every_life_ends(void **state)
{
	static const enum verdict deaths[] = { VERDICT_OOM, VERDICT_NEIGHBOUR, VERDICT_LAUNCH, VERDICT_FAILED };

	(void)state;
	for (size_t d = 0; d < COUNT_OF(deaths); d++) {
		struct recover_policy p = recover_policy_default();
		struct task *t = task_create(TASK_ID(7, -1), spec_create());
		struct exit_report r = { FULL, SHARED, .mps = true, .claim_mib = 8000 };
		struct event submitted = { .kind = EV_SUBMITTED, .task = t->id, .t_ms = 1 };
		int64_t now_ms = 1;

		assert_int_equal(task_apply(t, &submitted, NULL), 0);
		while (!task_state_terminal(t->state)) {
			struct event placed = { .kind = EV_PLACED, .task = t->id, .t_ms = ++now_ms, .u.placed = { .gpus = one_gpu,
						.n_gpus = 1, .mode = SHARE_MPS, .claim_mib = r.claim_mib } };
			struct event ended = { .kind = EV_ENDED, .task = t->id, .t_ms = ++now_ms };
			struct recover_next n;

			assert_int_equal(task_apply(t, &placed, NULL), 0);
			recover_decide(&p, t, &r, deaths[d], 40000, &n);
			ended.u.ended.verdict = deaths[d];
			ended.u.ended.next = n.next;
			ended.u.ended.state = n.state;
			ended.u.ended.next_claim_mib = n.claim_mib;
			ended.u.ended.next_exclusive = n.exclusive;
			assert_int_equal(task_apply(t, &ended, NULL), 0);
			assert_true(t->n_attempts <= p.max_attempts);
			r.claim_mib = n.claim_mib ? n.claim_mib : r.claim_mib;
		}
		task_destroy(t);
	}
}

/* The code is believed of one that was asked, and of nobody else; a signal is none, and what we end ourselves made no place. */
static void test_slot(void **state)
{
	(void)state;
	static const struct { bool asked; int code; enum stop_reason stopping; bool record; enum verdict verdict; } rows[] = {
		{ true, 85, STOP_NONE, true, VERDICT_SLOT }, { false, 85, STOP_NONE, true, VERDICT_FAILED },
		{ true, 1, STOP_NONE, true, VERDICT_FAILED }, { true, 0, STOP_NONE, true, VERDICT_OK },
		{ true, 85, STOP_CANCEL, true, VERDICT_CANCELLED }, { true, 85, STOP_TIME_LIMIT, true, VERDICT_TIMEOUT },
		{ true, 85, STOP_NONE, false, VERDICT_LOST },
	};
	struct recover_policy p = recover_policy_default();
	struct task *t = task_create(TASK_ID(1, -1), spec_create());
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct exit_report r = { .have_record = rows[i].record, .exit_code = rows[i].code, .requeue_code = 85,
					 .slot_asked = rows[i].asked, .stopping = rows[i].stopping };
		struct verdict_result v;
		struct recover_next next;
		recover_verdict(&r, &v);
		assert_int_equal(v.verdict, rows[i].verdict);
		assert_int_equal(recover_made_place(&r), v.verdict == VERDICT_SLOT);
		recover_decide(&p, t, &r, v.verdict, 40000, &next);
		assert_int_equal(next.next, v.verdict == VERDICT_SLOT ? NEXT_QUEUE : NEXT_DONE);
		if (r.exit_code == 85 && v.verdict == VERDICT_FAILED)
			assert_non_null(strstr(v.evidence, "start me again"));
	}
	task_destroy(t);
}

/* The kernel's killer in its own cgroup: at its own limit, which may grow; elsewhere on the machine: the machine's end, which
 * is final. Somebody's SIGKILL is neither. */
static void test_host_oom(void **state)
{
	(void)state;
	static const struct {
		bool cgroup, machine;
		int signal;
		uint64_t asked, all;
		enum verdict verdict;
		uint64_t next;		/* 0: final */
	} rows[] = {
		{ true, false, SIGKILL, 8000, 64000, VERDICT_HOST_OOM, 12000 },
		{ true, false, SIGKILL, 50000, 64000, VERDICT_HOST_OOM, 64000 },
		{ true, false, SIGKILL, 64000, 64000, VERDICT_HOST_OOM, 0 }, { true, false, SIGKILL, 0, 64000, VERDICT_HOST_OOM, 0 },
		{ true, true, SIGKILL, 8000, 0, VERDICT_HOST_OOM, 12000 }, { false, true, SIGKILL, 8000, 64000, VERDICT_HOST_OOM, 0 },
		{ false, true, 0, 8000, 64000, VERDICT_FAILED, 0 }, { false, false, SIGKILL, 8000, 64000, VERDICT_FAILED, 0 },
	};
	struct recover_policy p = recover_policy_default();
	struct task *t = task_create(TASK_ID(1, -1), spec_create());
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct exit_report r = { .have_record = true, .exit_code = rows[i].signal ? 0 : 1, .signal = rows[i].signal,
					 .cgroup_oom = rows[i].cgroup, .machine_oom = rows[i].machine,
					 .host_asked_mib = rows[i].asked, .host_mem_mib = rows[i].all, .host_peak_mib = 7990 };
		struct verdict_result v;
		struct recover_next next;
		recover_verdict(&r, &v);
		assert_int_equal(v.verdict, rows[i].verdict);
		if (v.verdict == VERDICT_HOST_OOM)
			assert_non_null(strstr(v.evidence, "it took 7.8G of host memory"));
		recover_decide(&p, t, &r, v.verdict, 40000, &next);
		assert_int_equal(next.next, rows[i].next ? NEXT_QUEUE : NEXT_DONE);
		assert_int_equal(next.host_mem_mib, rows[i].next);
		t->spec->requeue = false;
		recover_decide(&p, t, &r, v.verdict, 40000, &next);
		assert_int_equal(next.next, NEXT_DONE);
		t->spec->requeue = true;
	}
	task_destroy(t);
}

/* What failed before a person queued it again is not held against it: it has all its attempts anew. */
static void test_a_requeue_begins_anew(void **state)
{
	(void)state;
	static const struct { enum verdict verdict; enum task_next next; } rows[] = {
		{ VERDICT_NEIGHBOUR, NEXT_RECOVER }, { VERDICT_LAUNCH, NEXT_QUEUE }, { VERDICT_HOST_OOM, NEXT_QUEUE },
	};
	char gpu[1][GPU_UUID_LEN] = { "GPU-0" };
	struct recover_policy p = recover_policy_default();
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		const struct exit_report r = { .have_record = true, .mps = true, .cgroup_oom = true, .host_asked_mib = 8000 };
		struct spec *spec = spec_create();
		spec->requeue = true;
		struct task *t = task_create(TASK_ID(1, -1), spec);
		struct event placed = { .kind = EV_PLACED, .t_ms = 1, .u.placed = { .gpus = gpu, .n_gpus = 1 } };
		struct event ended = { .kind = EV_ENDED, .t_ms = 1, .u.ended = { .verdict = rows[i].verdict } };
		struct recover_next next;
		assert_int_equal(task_apply(t, &(struct event){ .kind = EV_SUBMITTED, .t_ms = 1 }, NULL), 0);
		for (unsigned k = 0; k < p.max_attempts; k++) {
			assert_int_equal(task_apply(t, &placed, NULL), 0);
			recover_decide(&p, t, &r, rows[i].verdict, 40000, &next);
			ended.u.ended.next = k + 1 < p.max_attempts ? NEXT_QUEUE : NEXT_DONE;
			ended.u.ended.state = TASK_FAILED;
			assert_int_equal(task_apply(t, &ended, NULL), 0);
		}
		assert_int_equal(next.next, NEXT_DONE);
		assert_int_equal(task_apply(t, &(struct event){ .kind = EV_REQUEUED, .t_ms = 2 }, NULL), 0);
		assert_int_equal(task_apply(t, &placed, NULL), 0);
		recover_decide(&p, t, &r, rows[i].verdict, 40000, &next);
		assert_int_equal(next.next, rows[i].next);
		task_destroy(t);
	}
}

/* As often as it says, after delays that double up to ten minutes; what else an attempt may end of uses no retry up, and has
 * none. */
static void test_retries(void **state)
{
	static const int64_t delays[] = { 10, 20, 40, 80, 160, 320, 600, 600 };
	char gpu[1][GPU_UUID_LEN] = { "GPU-0" };
	struct recover_policy p = recover_policy_default();
	const struct exit_report killed = { .have_record = true, .signal = SIGSEGV };
	struct task *t = task_create(TASK_ID(1, -1), spec_create());
	struct event placed = { .kind = EV_PLACED, .t_ms = 1, .u.placed = { .gpus = gpu, .n_gpus = 1 } };
	struct event ended = { .kind = EV_ENDED, .t_ms = 1 };
	struct recover_next next;
	(void)state;
	t->retries = COUNT_OF(delays);
	assert_int_equal(task_apply(t, &(struct event){ .kind = EV_SUBMITTED, .t_ms = 1 }, NULL), 0);
	for (unsigned round = 0; round < 2; round++) {
		for (size_t i = 0; i <= COUNT_OF(delays); i++) {
			assert_int_equal(task_apply(t, &placed, NULL), 0);
			ended.u.ended.verdict = VERDICT_OOM;
			ended.u.ended.next = NEXT_RECOVER;
			ended.u.ended.next_delay_s = 0;
			assert_int_equal(task_apply(t, &ended, NULL), 0);
			assert_int_equal(task_apply(t, &placed, NULL), 0);
			assert_int_equal(task_retries_used(t), i);
			recover_decide(&p, t, &killed, VERDICT_FAILED, 40000, &next);
			assert_int_equal(next.next, i < COUNT_OF(delays) ? NEXT_QUEUE : NEXT_DONE);
			assert_int_equal(next.delay_s, i < COUNT_OF(delays) ? delays[i] : 0);
			assert_int_equal(next.state, TASK_FAILED);
			ended.u.ended.verdict = VERDICT_FAILED;
			ended.u.ended.next = next.next;
			ended.u.ended.state = TASK_FAILED;
			ended.u.ended.next_delay_s = next.delay_s;
			assert_int_equal(task_apply(t, &ended, NULL), 0);
		}
		assert_int_equal(task_apply(t, &(struct event){ .kind = EV_REQUEUED, .t_ms = 2 }, NULL), 0);
	}
	for (enum verdict v = VERDICT_OK; v < VERDICT_COUNT; v++) {
		recover_decide(&p, t, &(struct exit_report){ .have_record = true, .exit_code = 1 }, v, 40000, &next);
		assert_int_equal(next.delay_s, v == VERDICT_FAILED ? 10 : 0);
		if (v == VERDICT_CANCELLED || v == VERDICT_TIMEOUT || v == VERDICT_LOST)
			assert_int_equal(next.next, NEXT_DONE);
	}
	t->spec->requeue = false;
	recover_decide(&p, t, &killed, VERDICT_FAILED, 40000, &next);
	assert_int_equal(next.next, NEXT_DONE);
	task_destroy(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_retries),
		cmocka_unit_test(test_verdicts),
		cmocka_unit_test(test_every_combination_has_a_verdict),
		cmocka_unit_test(test_whose_verdict_needs_the_word_of_neighbours),
		cmocka_unit_test(test_decisions),
		cmocka_unit_test(test_attempts_to_reach_a_need),
		cmocka_unit_test(test_once_is_once),
		cmocka_unit_test(test_every_life_ends),
		cmocka_unit_test(test_slot),
		cmocka_unit_test(test_host_oom),
		cmocka_unit_test(test_a_requeue_begins_anew),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
