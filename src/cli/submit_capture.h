/* SPDX-License-Identifier: MIT
 *
 * `rad submit --capture=auto`: a capture of what was just submitted, made while it waits. It runs as the submitter, from the
 * submitter's session, in a process of its own that `rad submit` does not wait for; see doc/decisions/0091.
 */
#ifndef RAD_CLI_SUBMIT_CAPTURE_H
#define RAD_CLI_SUBMIT_CAPTURE_H

#include "submit/options.h"
#include "task/spec.h"

#include <stdint.h>

/* "python", "/opt/conda/bin/python3.12", ... */
bool submit_capture_is_interpreter(const char *word);

/* What the request says of it: "auto" when it was asked for, "may" when the task looks as if it could be captured and says
 * nothing of its memory (the server's setting decides), else NULL. */
const char *submit_capture_wish(const struct spec *s, enum submit_capture how);

/* The command as the task runs it: a script by bash from memory (`path` is its name there), in its conda environment. Ends with
 * NULL; the caller frees the list, its words are borrowed. */
const char **submit_capture_words(const struct spec *s, char path[32]);

/* Starts it for the job that radd knows by that id, and returns at once. Once its turn has come, it sends what it finds, or why
 * there is nothing: it may take `wait_s` seconds of processor time, and CAPTURE_CLOCK times as many by the clock. If it cannot
 * be started, radd is told why; returns 0, or the errno where there was no process for it. */
int submit_capture_start(const struct spec *s, const char *id, int64_t wait_s);

/* Makes it now, of a task file and its arguments (`words`), and waits: for what is submitted to others, who cannot wait for it.
 * 0: it is in the spec, with its notes. -1: there is none, with the reason; `wait_s` and two seconds later at the latest. */
int submit_capture_now(struct spec *s, char *const *words, int64_t wait_s, struct error *err);

/* Runs `argv` (the package's command line; argv[output] stands for its file), and sends what came out. `aside`: what the script
 * writes is laid aside, so the task may run beside it. For rad capture --for. Returns the exit code. */
int submit_capture_deliver(char **argv, size_t output, const char *id, bool aside, int64_t wait_s);

#endif
