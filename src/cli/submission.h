/* SPDX-License-Identifier: MIT
 *
 * What `rad submit` and `rad run` have in common: from a command line to an accepted task.
 */
#ifndef RAD_CLI_SUBMISSION_H
#define RAD_CLI_SUBMISSION_H

#include "cli/cli.h"
#include "cli/submit_client.h"

/* Reads the command line, starts a radd when there is none, sends, and prints the notes. Returns true with *reply (a new
 * reference), or false with c->rc set when there is nothing more to do. *flags is to be cleared by the caller either way. */
bool submission_send(struct cli_call *c, struct submit_flags *flags, json_t **reply);

/* Submits one, and starts its capture where that is waited for. The answer, a new reference, or NULL. */
json_t *submission_queue(const struct spec *s, bool dry_run, const char *capture, struct error *err);

/* Submits what an experiment file of radT says (cli/submit_radt.h): all of its rows, or none. Returns the exit code. */
int submission_radt(struct cli_call *c, const char *path);
/* The file that --radt names on this command line; NULL: none. */
const char *submission_radt_path(const struct cli_call *c);

/* "Needs 12.3G on each GPU (declared)" of what radd accepted, if anything is known. A capture is played by a worker, which
 * takes a moment. */
void submission_print_need(const json_t *reply);
/* The answer to a --dry-run. Returns CLI_DONE. */
int submission_print_dry_run(json_t *reply, bool json);

/* The code to exit with when these tasks (the answer to `wait`) have ended: the first that is not 0. */
int submission_code(const json_t *tasks);
/* Says of those that have not ended why: a wait is over, too, for tasks whose dependencies can no longer be met. */
void submission_tell_vain(const json_t *tasks);
/* The same of a task that was just submitted (of an array: one element), where that is so already. */
void submission_tell_vain_at_once(const char *id);
/* Waits for those tasks to end; prints them as JSON if asked to. Returns the same code; that of the failure, which is told, if
 * it cannot; SUBMISSION_LATE, which is told too, where they have not ended in for_s seconds (-1: for ever). */
#define SUBMISSION_LATE 124	/* as of timeout(1) */
int submission_wait(struct cli_call *c, json_t *ids, int64_t for_s, bool json);

#endif
