/* SPDX-License-Identifier: MIT
 *
 * What a bench says at its end, of the object {gpu, commands[], file, runs[]} whose runs bench_sum made.
 */
#ifndef RAD_CLI_BENCH_PRINT_H
#define RAD_CLI_BENCH_PRINT_H

#include "base/error.h"

#include <jansson.h>
#include <stdio.h>

/* A table for people. */
void bench_print_table(const json_t *result, FILE *out);
/* Files, whole or not at all. CSV has a line for each task of each run; the page is HTML that needs nothing else. */
int bench_print_csv(const json_t *result, const char *path, struct error *err);
int bench_print_page(const json_t *result, const char *path, struct error *err);

#endif
