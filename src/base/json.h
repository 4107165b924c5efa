/* SPDX-License-Identifier: MIT
 *
 * Small helpers over jansson: typed reads that explain what is wrong, and writers that map "unknown" to null.
 */
#ifndef RAD_BASE_JSON_H
#define RAD_BASE_JSON_H

#include "base/error.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

static inline void scope_json(json_t **j) { json_decref(*j); }
#define scoped_json __attribute__((cleanup(scope_json), unused)) json_t

/* Optional members: absent or null leaves *value as it is and returns 0; the wrong type or range is an error naming the key. */
int json_read_int(const json_t *obj, const char *key, int64_t min, int64_t max, int64_t *value, struct error *err);
int json_read_double(const json_t *obj, const char *key, double *value, struct error *err);
int json_read_bool(const json_t *obj, const char *key, bool *value, struct error *err);
/* Replaces *value (freed first) by a copy. Refuses more than `max_len` bytes and embedded zeros. */
int json_read_text(const json_t *obj, const char *key, size_t max_len, char **value, struct error *err);

/* A member that is a text, or "" where it is none. Borrowed. */
const char *json_member_text(const json_t *obj, const char *key);

/* The one way JSON leaves us: compact, members in the order they were set, reals with 12 significant digits. Free it. */
char *json_to_text(const json_t *v);
/* The same for a terminal: where a text has characters that it would obey or be misled by (words.h), all that are not ASCII are
 * escaped, which is the same JSON. */
char *json_to_terminal(const json_t *v);

/* A number with at most 3 decimals; null when not finite. */
json_t *json_round3(double v);
/* Bytes of users and programs (names, paths, what a hook printed, a text cut at its room) may be no UTF-8, and then have no
 * form in JSON: of jansson's own functions the result is NULL, and the whole answer around it is lost. Here all text has one,
 * with '?' for each byte that is part of no character. tests/check-layers refuses jansson's own anywhere else. NULL only for
 * NULL. */
void json_make_showable(char *text);
json_t *json_text(const char *text);
/* The first `n` bytes. */
json_t *json_text_n(const char *text, size_t n);
json_t *json_printf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* As json_text; null for NULL and "". */
json_t *json_text_or_null(const char *text);
/* Text that is acted upon as it is, such as a word of a command: NULL if it is no UTF-8, and the caller says so. */
json_t *json_exact(const char *text);
/* ISO time; null for 0. */
json_t *json_time_or_null(int64_t wall_ms);
/* An integer; null when `known` is false. */
json_t *json_int_or_null(int64_t v, bool known);

/* By a format, as jansson's json_pack: { } [ ] s o O i I b f n, with '?' (null for NULL) or '*' (left out where it is NULL)
 * behind. What 'o' gives is taken, whatever comes of it. NULL if a value is NULL, or a number is not finite. */
json_t *json_make(const char *fmt, ...);
#define json_pack json_make

#endif
