/* SPDX-License-Identifier: MIT
 *
 * The results file of a bench: JSON lines, a head that says of what, then a row for each measurement, on disk before the next
 * one begins. A bench of the same head goes on with what is there.
 */
#ifndef RAD_CLI_BENCH_FILE_H
#define RAD_CLI_BENCH_FILE_H

#include "cli/bench.h"

/* Opens or begins it. Fails where it holds a bench of other commands, of another GPU or with another --seconds or --pattern.
 * With `head` NULL it is read as it is, and must be there. Borrows head. */
struct bench_file;
struct bench_file *bench_file_open(const char *path, json_t *head, struct error *err);
void bench_file_close(struct bench_file *f);	/* takes NULL */

/* All rows, of this bench and of those before it; borrowed. */
const json_t *bench_file_rows(const struct bench_file *f);
const json_t *bench_file_head(const struct bench_file *f);
const char *bench_file_path(const struct bench_file *f);
/* Takes the reference. What cannot be written (a full disk) is an error, and leaves whole lines. */
int bench_file_add(struct bench_file *f, json_t *row, struct error *err);
/* Whether that is there: of serial, `command` says which; else it is -1. */
bool bench_file_has(const struct bench_file *f, enum bench_mode mode, int64_t degree, int64_t command, int64_t repeat);

#endif
