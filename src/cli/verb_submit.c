/* SPDX-License-Identifier: MIT
 * rad submit.
 */
#include "base/json.h"
#include "cli/cli.h"
#include "cli/member.h"
#include "cli/submission.h"

#include <stdio.h>

static void print_accepted(const json_t *reply, const char *copy)
{
	long long n = member_int(reply, "tasks");
	if (n > 1)
		printf("Submitted task %s (%lld elements)\n", member_text(reply, "id"), n);
	else
		printf("Submitted task %s\n", member_text(reply, "id"));
	submission_print_need(reply);
	if (*member_text(reply, "log_path"))
		printf(n > 1 ? "Logs: %s, and so on\n" : "Log: %s\n", member_text(reply, "log_path"));
	if (copy)
		printf("Code: %s\n", copy);
}

static int wait_for_end(struct cli_call *c, const char *id, bool json)
{
	scoped_json *ids = json_pack("[s]", id);
	return submission_wait(c, ids, -1, json);
}

int verb_submit(struct cli_call *c)
{
	struct submit_flags flags = { 0 };
	json_t *reply = NULL;
	const char *radt = submission_radt_path(c);
	if (radt)
		return submission_radt(c, radt);
	if (!submission_send(c, &flags, &reply)) {
		submit_flags_clear(&flags);
		return c->rc;
	}
	bool wait = flags.wait && !flags.dry_run, json = flags.json;
	char id[TASK_ID_TEXT];
	snprintf(id, sizeof id, "%s", member_text(reply, "id"));
	if (flags.dry_run)
		submission_print_dry_run(reply, json);
	else if (flags.parsable)
		puts(id);
	else if (!json)
		print_accepted(reply, flags.copy);
	else if (!wait)
		cli_print_json(json_incref(reply));
	fflush(stdout);
	if (flags.dependent && !wait && !flags.dry_run)	/* a wait tells it at its end */
		submission_tell_vain_at_once(member_text(reply, "first"));
	json_decref(reply);
	submit_flags_clear(&flags);
	return wait ? wait_for_end(c, id, json) : CLI_DONE;
}
