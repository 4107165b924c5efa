/* SPDX-License-Identifier: MIT
 * See submission.h.
 */
#include "cli/submission.h"

#include "base/alloc.h"
#include "base/json.h"
#include "base/scope.h"
#include "cli/client.h"
#include "cli/client_queue.h"
#include "cli/format.h"
#include "cli/snapshot.h"
#include "cli/submit_capture.h"
#include "cli/term.h"
#include "cli/which.h"
#include "estimate/estimate.h"
#include "submit/options.h"
#include "submit/wire.h"

#include <ctype.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define ESTIMATE_S 2	/* so long rad submit waits for what a capture comes to, before it says what it knows */

static void print_help(const struct cli_verb *v)
{
	scoped_free struct args_option *options = options_args();
	printf("Usage: rad %s [options] FILE.rad\n"
	       "       rad %s [options] [--] COMMAND [ARGUMENT...]\n"
	       "       rad %s [options] [- [ARGUMENT...]] <SCRIPT\n"
	       "%c%s. Options end at the first word.\n\n", v->name, v->name, v->name, toupper((unsigned char)*v->help), v->help + 1);
	args_help(stdout, options, term_ask().width);
}

/* Whether line 7 of positional task files counts is the daemon's to say. A daemon that is not there yet says nothing. */
static bool ask_positional_policy(void)
{
	struct error ignored = ERROR_INIT;
	scoped_json *status = client_call(wire_request("status"), &ignored);
	return json_is_true(json_object_get(status, "positional_policy"));
}

static int fail(const struct cli_call *c, const struct submit_flags *flags, const struct error *err)
{
	return flags->usage ? cli_usage(c, "%s", err->text) : cli_fail(c, err);
}

json_t *submission_queue(const struct spec *s, bool dry_run, const char *capture, struct error *err)
{
	json_t *request = submit_request(s);
	if (dry_run)
		json_object_set_new(request, "dry_run", json_true());
	if (client_queue())
		return client_call(request, err);
	scoped_fd int fd = client_connect_or_start(err);
	if (capture)
		json_object_set_new(request, "capture", json_text(capture));
	json_t *reply = client_call_on(fd, request, err);
	double wait_s = member_number(reply, "capture_wait_s");
	int failed = wait_s >= 1 ? submit_capture_start(s, member_text(reply, "id"), (int64_t)wait_s) : 0;
	if (failed)
		cli_note("task %s: no capture was begun: no process for it: %s; it starts without", member_text(reply, "id"),
			 strerror(failed));
	return reply;
}

/* What memory the spec's files say that it takes, on the server's first GPU. radd runs no slow estimator for a question that
 * leaves nothing behind, so it is asked here; true: *out has a claim. */
static bool estimate_here(const struct spec *s, struct estimate_result *out)
{
	struct error ignored = ERROR_INIT;
	scoped_json *reply = client_call(wire_request("gpus"), &ignored);
	const json_t *gpu = json_array_get(json_object_get(reply, "gpus"), 0);
	const char *name = member_text(gpu, "name");
	double total = member_number(gpu, "mem_total_mib");
	const struct estimate_context context = { .gpu_name = *name ? name : NULL,
						  .gpu_total_mib = isnan(total) ? 0 : (uint64_t)total };
	estimate_auto(estimators, SLOW_ASK, s, 0, &context, out);
	estimate_conclude(&context, out);
	return out->value.claim_mib;
}

/* The answer to a dry run when radd knows nothing, and a capture or a summary does: where so much would fit. */
static json_t *preview_with_files(struct spec *s, json_t *reply, struct error *err)
{
	struct estimate_result said;
	const char *by = member_text(json_object_get(reply, "estimate"), "estimator");
	if (strcmp(by, "none") || !(s->capture || s->model) || !estimate_here(s, &said))
		return reply;
	s->gpu_mem_mib = said.value.claim_mib;
	json_t *better = submission_queue(s, true, NULL, err);
	if (better)
		json_object_set_new(better, "estimate", task_estimate_json(&said.value));
	json_decref(reply);
	return better;
}

/* Somebody who tried simulated GPUs yesterday, and types here today; and everybody on a machine whose administrator tries some:
 * his training would run, and train on none of them. */
static void tell_simulated(void)
{
	const char *wanted = getenv("RAD_DEVICES");
	struct error ignored = ERROR_INIT;
	if (!isatty(STDERR_FILENO) || client_queue() || (wanted && !strncmp(wanted, "sim:", 4)))
		return;
	scoped_json *status = client_call(wire_request("status"), &ignored);
	const char *devices = member_text(status, "devices");
	if (strncmp(devices, "sim:", 4))
		return;
	if (client_server() || member_int(status, "uid") != (json_int_t)geteuid())
		cli_note("the GPUs of this machine's radd are simulated (%.80s): what needs a real one fails; which it uses is for its "
			 "administrator to say (devices in rad.conf)", devices);
	else
		cli_note("the GPUs of this radd are simulated (%.80s): for real ones 'rad stop', and submit again", devices);
}

/* With the first task that he has here: who has others there was told, or knows what to declare. One that is alone on its GPU
 * needs none of it. */
static void tell_unknown_memory(const struct spec *s, const struct submit_flags *flags, const json_t *reply)
{
	const json_t *estimate = json_object_get(reply, "estimate");
	bool unknown = !strcmp(member_text(estimate, "estimator"), "none") && isnan(member_number(estimate, "claim_mib"));
	bool captured = flags->capture && !strcmp(flags->capture, "auto");
	if (!isatty(STDERR_FILENO) || flags->parsable || flags->json || !unknown || !s->gpus || s->exclusive || captured ||
	    member_int(reply, "capture_wait_s") || member_int(reply, "others"))
		return;
	cli_note("its GPU memory is not known: it gets a GPU with some room, and is watched; %s it is placed better and sooner",
		 flags->capture ? "with --gpu-mem=SIZE or --capture=auto" : "with --gpu-mem=SIZE");
}

bool submission_send(struct cli_call *c, struct submit_flags *flags, json_t **reply)
{
	scoped_free struct args_option *options = options_args();
	struct error err = ERROR_INIT;
	struct spec *spec = NULL;
	if (cli_describe(c, options))
		return false;
	flags->positional_policy = ask_positional_policy;
	if (submit_parse_command(c->argc, c->argv, &spec, flags, &err)) {
		c->rc = fail(c, flags, &err);
		return false;
	}
	if (flags->help) {
		print_help(c->verb);
		c->rc = CLI_DONE;
		return false;
	}
	for (size_t i = 0; i < flags->n_notes; i++)
		cli_note("%s", flags->notes[i]);
	if (flags->snapshot) {
		if (snapshot_take(spec, flags->dry_run, &err)) {
			c->rc = cli_fail(c, &err);
			spec_unref(spec);
			return false;
		}
		flags->copy = flags->dry_run ? NULL : alloc_string(spec->cwd);
	}
	if (flags->sending)
		flags->sending(spec);
	*reply = submission_queue(spec, flags->dry_run, flags->capture, &err);
	if (*reply && flags->dry_run)
		*reply = preview_with_files(spec, *reply, &err);
	if (*reply) {
		tell_unknown_memory(spec, flags, *reply);
		tell_simulated();
	} else {
		c->rc = cli_fail(c, &err);
	}
	spec_unref(spec);
	return *reply;
}

static void print_estimate(const json_t *estimate)
{
	char mib[FORMAT_LEN];
	double need = member_number(estimate, "claim_mib");
	if (!isnan(need))
		printf("Needs %s on each GPU (%s)\n", format_mib(need, mib), member_text(estimate, "estimator"));
}

void submission_print_need(const json_t *reply)
{
	struct error ignored = ERROR_INIT;
	const json_t *estimate = json_object_get(reply, "estimate");
	scoped_json *waited = NULL;
	if (json_is_null(estimate) && !client_queue() && !member_int(reply, "capture_wait_s")) {
		json_t *request = wire_request("wait");
		json_object_set_new(request, "ids", json_pack("[s]", member_text(reply, "first")));
		json_object_set_new(request, "until", json_text("estimate"));
		scoped_fd int fd = client_connect_now(&ignored);
		waited = client_call_within(fd, ESTIMATE_S, request, &ignored);
		estimate = json_object_get(json_array_get(json_object_get(waited, "tasks"), 0), "estimate");
	}
	print_estimate(estimate);
}

int submission_print_dry_run(json_t *reply, bool json)
{
	if (json)
		return cli_print_json(json_incref(reply));
	size_t i;
	json_t *g;
	struct term term = term_ask();
	puts(json_is_true(json_object_get(reply, "fits_now")) ? "It would be accepted, and a place for it is free now"
							       : "It would be accepted, and wait");
	print_estimate(json_object_get(reply, "estimate"));
	json_array_foreach(json_object_get(reply, "gpus"), i, g) {
		scoped_free char *text = format_times(member_text(g, "text"));
		format_below(text, json_is_true(json_object_get(g, "fits")) ? STYLE_GOOD : STYLE_PLAIN, &term);
	}
	return CLI_DONE;
}

int submission_code(const json_t *tasks)
{
	int code = 0;
	size_t i;
	json_t *t;
	json_array_foreach(tasks, i, t)
		code = code ? code : format_exit_code(t);
	return code;
}

/* Of an array the first says it for all. */
void submission_tell_vain(const json_t *tasks)
{
	size_t i;
	json_t *t;
	uint32_t told = 0;
	json_array_foreach(tasks, i, t) {
		uint32_t job = TASK_JOB(member_id(t));
		if (task_state_terminal(member_state(t)) || !job || job == told)
			continue;
		told = job;
		cli_note("task %u: is %s and will not run: %s", told, member_text(t, "state"), member_text(t, "reason_text"));
	}
}

void submission_tell_vain_at_once(const char *id)
{
	struct error ignored = ERROR_INIT;
	scoped_free char *word = alloc_string(id);
	scoped_json *shown = which_show(&word, 1, &ignored);
	const json_t *tasks = json_object_get(shown, "tasks");
	const json_t *first = json_array_get(tasks, 0);
	if (strcmp(member_text(first, "reason"), "DependencyNeverSatisfied"))
		return;
	if (task_state_terminal(member_state(first)))
		cli_note("task %s: %s", id, member_text(first, "reason_text"));
	else
		submission_tell_vain(tasks);
}

/* Ctrl-C of rad run cancels its task; here it ends the wait alone. */
static void on_interrupt(int number)
{
	static const char text[] = "\nrad: left; what is waited for goes on (rad cancel ends it)\n";
	ssize_t all = write(STDERR_FILENO, text, sizeof text - 1);
	(void)all;
	raise(number);
}

static void catch_interrupt(void)
{
	const struct sigaction action = { .sa_handler = on_interrupt, .sa_flags = SA_RESETHAND };
	struct sigaction before;
	if (isatty(STDERR_FILENO) && !sigaction(SIGINT, NULL, &before) && before.sa_handler != SIG_IGN)
		sigaction(SIGINT, &action, NULL);
}

int submission_wait(struct cli_call *c, json_t *ids, int64_t for_s, bool json)
{
	struct error err = ERROR_INIT;
	catch_interrupt();
	scoped_json *reply = client_wait_ended(ids, for_s < 0 ? -1 : for_s * 1000, &err);
	if (!reply && !err.code) {
		cli_note("not all have ended in that time; they go on, and rad queue shows them");
		return SUBMISSION_LATE;
	}
	if (!reply)
		return cli_fail(c, &err);
	if (json)
		cli_print_json(json_incref(reply));
	submission_tell_vain(json_object_get(reply, "tasks"));
	return submission_code(json_object_get(reply, "tasks"));
}
