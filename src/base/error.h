/* SPDX-License-Identifier: MIT
 *
 * Errors. One rule for the whole project (doc/errors.md):
 *  - a function that can fail returns 0/-1, or NULL for a pointer;
 *  - its last argument is a `struct error *` on the caller's stack, which may be NULL;
 *  - only the leaf that found the problem sets it; callers on the way up prepend what they were doing;
 *  - the edge (main, a client's reply) prints it, once.
 * The text is written for the person who reads it: what, which, why, what to do.
 */
#ifndef RAD_BASE_ERROR_H
#define RAD_BASE_ERROR_H

#include <stdarg.h>
#include <stdbool.h>

enum error_code {
	ERR_NONE = 0,
	ERR_SYSTEM,	/* a system call failed */
	ERR_INVALID,	/* the caller's input is wrong; trying again will not help */
	ERR_NOT_FOUND,	/* the thing named does not exist */
	ERR_CONFLICT,	/* it exists, but not in a state that allows this */
	ERR_DENIED,	/* the caller may not */
	ERR_UNAVAILABLE,/* not now: no daemon, no driver, full, a deadline passed */
	ERR_CORRUPT,	/* stored or received bytes are not what they should be */
	ERR_INTERNAL,	/* a bug of ours */
};

struct error {
	enum error_code code;
	int no;		/* errno, of ERR_SYSTEM; else what a header says, or 0 */
	char text[1000];
};

#define ERROR_INIT ((struct error){ .code = ERR_NONE })

/* Sets *err and returns -1, so that failing is one line: `return error_set(err, ERR_INVALID, ...)`. */
int error_set(struct error *err, enum error_code code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* The same with ": " and the text of errno appended; the code is ERR_SYSTEM. */
int error_errno(struct error *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Whether the machine was short of something that may come back: descriptors, memory, processes, room on a disk, a user's quota
 * there included. */
bool error_is_shortage(const struct error *err);

/* Hands on an error that stood aside until it was known to be one. Returns -1. */
int error_pass(struct error *err, const struct error *why);

/* Prepends "<fmt>: " to an error that is already set. Returns -1. */
int error_wrap(struct error *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* A stable word for scripts: "invalid", "not_found", ... */
const char *error_code_name(enum error_code code);

/* The code of that word; ERR_INTERNAL if there is none. */
enum error_code error_code_from_name(const char *name);

#endif
