/* SPDX-License-Identifier: MIT
 *
 * Completion scripts for shells, made from the table of verbs and the tables of their options.
 */
#ifndef RAD_CLI_COMPLETION_H
#define RAD_CLI_COMPLETION_H

#include "cli/cli.h"

/* Writes the script of "bash", "zsh" or "fish" for these verbs (ends with a NULL name). Each verb is run, to be asked for its
 * options. Fails for another shell. */
int completion_write(FILE *out, const char *shell, const struct cli_verb *verbs, struct error *err);

#endif
