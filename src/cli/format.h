/* SPDX-License-Identifier: MIT
 *
 * Values of the daemon's objects as text for people.
 */
#ifndef RAD_CLI_FORMAT_H
#define RAD_CLI_FORMAT_H

#include "cli/member.h"
#include "cli/term.h"

#include <jansson.h>
#include <stdio.h>
#include <sys/types.h>

#define FORMAT_LEN 64
/* Each returns buf; "-" for what is unknown. */
char *format_mib(double mib, char buf[FORMAT_LEN]);
char *format_seconds(double s, char buf[FORMAT_LEN]);
/* Roughly, in five columns or six: "42s", "12m", "4h05m", "3d04h". */
char *format_left(double s, char buf[FORMAT_LEN]);
char *format_percent(double fraction, char buf[FORMAT_LEN]);
char *format_energy(double joules, char buf[FORMAT_LEN]);
/* The unit of a column of energies, by its largest (NaN: none is known): the title with the unit in it, and the value. */
struct format_energy_unit { const char *title; double joules; int digits; };
struct format_energy_unit format_energy_unit(double most_j);
char *format_energy_in(const struct format_energy_unit *u, double joules, char buf[FORMAT_LEN]);
/* Hours for a bill: "12.346". */
char *format_hours(double seconds, char buf[FORMAT_LEN]);
/* A length of time in a sentence: "7 days", "12 hours", else as format_seconds. */
char *format_span(double s, char buf[FORMAT_LEN]);
/* An ISO time of the daemon in the caller's time zone, to the second; the same of ms since 1970. */
char *format_time(const char *iso, char buf[FORMAT_LEN]);
char *format_ms(int64_t ms, char buf[FORMAT_LEN]);
/* A text of the daemon, with each ISO time in it as format_time writes it. Free it. */
char *format_times(const char *text);
/* Prints a line below a headline: two columns to the right, and what does not fit two more. */
void format_below(const char *line, enum style style, const struct term *term);

/* A field of CSV by RFC 4180: a text, as words_add_csv has it; a number behind its comma, nothing for what is unknown. */
void format_csv_text(FILE *out, const char *text);
void format_csv_number(FILE *out, double v);

enum style format_state_style(enum task_state s);

/* The number of one of the answer to `gpus`; its UUID's beginning, where it is gone and another has its number now. */
const char *format_gpu(const json_t *gpu, const json_t *gpus, char buf[FORMAT_LEN]);
/* The same of these UUIDs: "0,1"; a UUID's beginning, too, where it is not listed. Free it. */
char *format_gpus(const json_t *uuids, const json_t *gpus);
/* "on GPU 0,1, alone", or "without a GPU"; `share` may be "". Free it. */
char *format_place(const json_t *uuids, const json_t *gpus, const char *share);

/* The user's name; the number where there is no name. */
char *format_user(uid_t uid, char buf[FORMAT_LEN]);

/* What a shell would see of this ended task: its exit code, 128 + signal; 1 where it did not complete, but its program
 * ended with 0; CLI_OWN when it never ran or was lost. */
int format_exit_code(const json_t *task);

#endif
