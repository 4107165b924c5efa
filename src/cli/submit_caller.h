/* SPDX-License-Identifier: MIT
 *
 * What a task inherits from who submits it, and what can be known of its paths before it runs.
 */
#ifndef RAD_CLI_SUBMIT_CALLER_H
#define RAD_CLI_SUBMIT_CALLER_H

#include "base/error.h"
#include "task/spec.h"

#include <stdbool.h>
#include <stddef.h>

/* uid, gid, user, umask and resource limits. */
void submit_caller_identity(struct spec *s);
/* The environment without what belongs to another scheduler, to a login session, or to RAD-RM itself; PWD becomes s->cwd, if
 * set. Returns how many variables could not be taken along. */
size_t submit_caller_environ(struct spec *s);

/* What of it --export lets through: "ALL", "NONE", or a list of ALL, NAME and NAME=value (a value with a comma stands in
 * quotes). Without ALL, HOME, USER, LOGNAME, SHELL and PWD stay, and PATH is the system's. NULL: all. */
int submit_caller_export(struct spec *s, const char *list, struct error *err);

/* A file's name as a task's name: bounded, without control characters, UTF-8. Free it. */
char *submit_caller_name(const char *file);
bool submit_caller_is_utf8(const char *text);

/* Puts this machine's name in the place of %N, without its domain. */
void submit_caller_name_machine(char **pattern);
/* Whether the folder of a log pattern is there and writable. `what` is the option's name. */
int submit_caller_check_log(const char *what, const struct spec *s, const char *pattern, struct error *err);
/* Whether the command's program can be found (with a conda environment only a program with a path is looked for);
 * err->no is CLI_NO_PROGRAM or CLI_NOT_RUNNABLE where it cannot. */
int submit_caller_check_program(const struct spec *s, struct error *err);
/* Why no program is there, by what the system said of its path (errno): -1 with the reason. */
int submit_caller_explain_absent(const char *program, const char *path, int why, const char *cwd, struct error *err);
/* What the caller should be told of a script that the command names for an interpreter and that is not there, or that has
 * Windows line ends and is a shell's: it may be made, or mended, before the task's turn, so that is no error. NULL: nothing.
 * Free it. */
char *submit_caller_script_note(const struct spec *s);
/* Of a shell or an interpreter with nothing to run, which was meant to be typed at. NULL: nothing. Free it. */
char *submit_caller_reads_nothing(const struct spec *s);
/* Whether the conda that a task with `env:` enters is there, looked for where the task will (src/launch/shim_program.c).
 * *note is what the caller should be told of an environment that is in none of the usual folders; NULL: nothing. Free it. */
int submit_caller_check_conda(const struct spec *s, char **note, struct error *err);
/* Content of the first word of the command that names a script file; NULL if none does. Free it. */
char *submit_caller_program_text(const struct spec *s, size_t *len);

#endif
