/* SPDX-License-Identifier: MIT
 * rad bench solo: see bench_solo.h.
 */
#include "cli/bench_solo.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/scope.h"
#include "cli/bench.h"
#include "cli/bench_sum.h"
#include "cli/client.h"
#include "cli/format.h"
#include "cli/submission.h"
#include "cli/table.h"
#include "estimate/activity.h"
#include "estimate/estimate.h"
#include "submit/wire.h"

#include <math.h>
#include <poll.h>
#include <signal.h>
#include <string.h>

#define POLL_MS 200
#define LOOK_MS 1000
#define PROGRESS_S 2	/* radd is given that long to tell it, */
#define CANCEL_S 5	/* and that long to heed the first interrupt */

static volatile sig_atomic_t interrupts;

static void on_interrupt(int signum)
{
	(void)signum;
	interrupts++;
}

/* Steps a second, by what the running task prints of itself; what was known before where it is not. */
static double look_at_progress(const char *id, double before)
{
	struct error ignored = ERROR_INIT;
	scoped_json *shown = client_call_id_within(PROGRESS_S, "show", id, &ignored);
	const json_t *task = json_array_get(json_object_get(shown, "tasks"), 0);
	double rate = member_number(json_object_get(task, "progress"), "rate");
	return isnan(rate) ? before : rate;
}

/* The ended task; NULL with *err, or left by a second interrupt. The first one cancels it. */
static json_t *wait_for_end(const char *id, double *steps_s, struct error *err)
{
	int64_t look_ms = clock_mono_ms() + LOOK_MS;
	struct sigaction action = { .sa_handler = on_interrupt };
	scoped_json *ids = json_pack("[s]", id);
	struct client_wait *w = client_wait_create(ids, false, err);
	json_t *reply = NULL;
	bool cancelled = false;
	int rc = w ? 0 : -1;
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	while (!rc && interrupts < 2) {
		struct pollfd p = { client_wait_fd(w), POLLIN, 0 };
		poll(&p, 1, POLL_MS);
		if (interrupts && !cancelled)
			json_decref(client_call_id_within(CANCEL_S, "cancel", id, NULL));
		cancelled = interrupts;
		rc = client_wait_poll(w, &reply, err);
		if (rc || clock_mono_ms() < look_ms)
			continue;
		*steps_s = look_at_progress(id, *steps_s);
		look_ms = clock_mono_ms() + LOOK_MS;
	}
	client_wait_destroy(w);
	if (!rc)
		error_set(err, ERR_CONFLICT, "left; task %s is radd's now (rad show %s)", id, id);
	json_decref(reply);
	return rc > 0 ? client_call_id("show", id, err) : NULL;
}

/* What a capture among its options tells of a step and of the load on the GPU that it had; false: nothing does. */
static bool ask_activity(int argc, char **argv, const json_t *task, struct activity *a)
{
	struct error ignored = ERROR_INIT;
	struct submit_flags flags = { .terminal = NULL };
	struct spec *spec = NULL;
	scoped_json *reply = client_call(wire_request("gpus"), &ignored);
	const char *uuid = json_string_value(json_array_get(json_object_get(member_last_attempt(task), "gpus"), 0));
	const json_t *gpu = uuid ? member_find(json_object_get(reply, "gpus"), "uuid", uuid) : NULL;
	bool known = !submit_parse_command(argc, argv, &spec, &flags, &ignored) && spec &&
		     !estimate_activity(spec, &(struct estimate_context){ .gpu_name = gpu ? member_text(gpu, "name") : NULL }, a, &ignored);
	spec_unref(spec);
	submit_flags_clear(&flags);
	return known;
}

/* What an attempt alone was seen to do, in the form of a run of a bench. */
static json_t *run_of(const json_t *task, double rate)
{
	const json_t *attempt = member_last_attempt(task), *load = json_object_get(attempt, "load");
	double smact = member_number(load, "smact"), watts = member_number(load, "watts");
	return json_pack("{ss, si, s[{ss, so, si}], si, si, so, so, so, so, so, so, so}", "mode", "solo", "degree", 1, "tasks",
		"name", member_text(task, "name"), "steps_s", json_round3(rate), "relative", 1, "stp", 1, "delta", 1,
		"gract", json_round3(member_number(load, "gract")),
		"smact", json_round3(isnan(smact) ? member_number(attempt, "mean_smact") : smact),
		"smocc", json_round3(member_number(load, "smocc")), "dram", json_round3(member_number(load, "dram")),
		"power_w", json_round3(watts), "energy_j", json_round3(watts * BENCH_WORK_S),
		"mem_used_mib", json_round3(member_number(attempt, "peak_mib")));
}

static void print_row(struct table *t, const char *what, double predicted, double seen,
		      char *(*format)(double v, char buf[FORMAT_LEN]))
{
	char text[FORMAT_LEN];
	table_cell(t, STYLE_PLAIN, what);
	table_cell(t, STYLE_PLAIN, format(predicted, text));
	table_cell(t, STYLE_PLAIN, format(seen, text));
}

static char *as_number(double v, char text[FORMAT_LEN])
{
	snprintf(text, FORMAT_LEN, isnan(v) ? "-" : "%.4g", v);
	return text;
}

/* `a` NULL: no capture told of it. */
static void print_table(const json_t *task, const json_t *run, const struct activity *a)
{
	static const struct table_column columns[] = { { "", false, 0 }, { "PREDICTED", true, 0 }, { "SEEN", true, 0 } };
	const json_t *told = json_object_get(task, "estimate");
	struct table *t = table_create(columns, COUNT_OF(columns));
	struct term term = term_ask();
	print_row(t, "memory", member_number(told, "comfort_mib"), member_number(run, "mem_used_mib"), format_mib);
	print_row(t, "steps a second", a && a->step_s > 0 ? 1 / a->step_s : NAN,
		  member_number(json_array_get(json_object_get(run, "tasks"), 0), "steps_s"), as_number);
	print_row(t, "GRACT", a ? a->load.load.gract : NAN, member_number(run, "gract"), format_percent);
	print_row(t, "SMACT", a ? a->load.load.smact : NAN, member_number(run, "smact"), format_percent);
	print_row(t, "watts", a ? a->load.watts : NAN, member_number(run, "power_w"), as_number);
	table_print(t, &term, stdout);
	table_destroy(t);
}

static json_t *activity_json(const struct activity *a)
{
	return a ? json_pack("{so, so, so, so}", "step_ms", json_round3(a->step_s * 1000), "gract", json_round3(a->load.load.gract),
			     "smact", json_round3(a->load.load.smact), "watts", json_round3(a->load.watts)) : json_null();
}

static int tell(const json_t *task, double steps_s, const struct activity *a, bool json)
{
	scoped_json *run = run_of(task, steps_s);
	if (member_state(task) != TASK_COMPLETED)
		cli_note("task %s: %s: %s; what it took is no measurement", member_text(task, "id"), member_text(task, "state"),
			 member_text(member_last_attempt(task), "evidence"));
	if (json)
		cli_print_json(json_pack("{si, ss, sO?, so, s[O]}", "schema", 1, "bench", "solo", "estimate",
					 json_object_get(task, "estimate"), "load", activity_json(a), "runs", run));
	else
		print_table(task, run, a);
	return member_state(task) == TASK_COMPLETED ? CLI_DONE : CLI_FAILED;
}

int bench_solo(struct cli_call *c)
{
	struct submit_flags flags = { .terminal = NULL };
	struct error err = ERROR_INIT;
	scoped_free char **argv = alloc_zero(((size_t)c->argc + 2) * sizeof *argv);
	json_t *accepted = NULL;
	argv[0] = c->argv[0];
	argv[1] = (char *)"--exclusive";
	memcpy(argv + 2, c->argv + 1, (size_t)c->argc * sizeof *argv);	/* with its NULL */
	struct cli_call other = { .verb = c->verb, .argc = c->argc + 1, .argv = argv };
	double steps_s = NAN;
	int rc = CLI_FAILED;
	if (!submission_send(&other, &flags, &accepted)) {
		rc = other.rc;
	} else if (flags.dry_run) {
		rc = submission_print_dry_run(accepted, flags.json);
	} else {
		cli_note("task %s runs alone on a GPU; what it prints is in %s", member_text(accepted, "id"),
			 member_text(accepted, "log_path"));
		scoped_json *shown = wait_for_end(member_text(accepted, "id"), &steps_s, &err);
		const json_t *task = json_array_get(json_object_get(shown, "tasks"), 0);
		struct activity a = { 0 };
		bool known = task && ask_activity(other.argc, other.argv, task, &a);
		rc = task ? tell(task, steps_s, known ? &a : NULL, flags.json) : cli_fail(c, &err);
		if (interrupts)
			rc = CLI_LEFT;
	}
	submit_flags_clear(&flags);
	json_decref(accepted);
	return rc;
}
