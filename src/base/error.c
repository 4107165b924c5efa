/* SPDX-License-Identifier: MIT
 * The error object: see error.h for the rule. Nothing here allocates, so errors work when memory is short.
 */
#include "base/error.h"

#include "base/text.h"

#include <errno.h>
#include <string.h>

static const char *const code_names[] = {
	[ERR_NONE] = "none",
	[ERR_SYSTEM] = "system",
	[ERR_INVALID] = "invalid",
	[ERR_NOT_FOUND] = "not_found",
	[ERR_CONFLICT] = "conflict",
	[ERR_DENIED] = "denied",
	[ERR_UNAVAILABLE] = "unavailable",
	[ERR_CORRUPT] = "corrupt",
	[ERR_INTERNAL] = "internal",
};

static void add(struct error *err, const char *why)
{
	size_t used = strlen(err->text);
	text_printf(err->text + used, sizeof err->text - used, ": %s", why);
}

int error_set(struct error *err, enum error_code code, const char *fmt, ...)
{
	if (!err)
		return -1;
	va_list ap;
	va_start(ap, fmt);
	err->code = code;
	err->no = 0;
	text_vprintf(err->text, sizeof err->text, fmt, ap);
	va_end(ap);
	return -1;
}

int error_errno(struct error *err, const char *fmt, ...)
{
	int no = errno;
	const char *why = strerror(no);
	if (!err)
		return -1;
	va_list ap;
	va_start(ap, fmt);
	err->code = ERR_SYSTEM;
	err->no = no;
	text_vprintf(err->text, sizeof err->text, fmt, ap);
	va_end(ap);
	add(err, why);
	return -1;
}

bool error_is_shortage(const struct error *err)
{
	switch (err->code == ERR_SYSTEM ? err->no : 0) {
	case EMFILE: case ENFILE: case ENOMEM: case EAGAIN: case ENOBUFS: case ENOSPC: case EDQUOT: return true;
	default: return false;
	}
}

int error_pass(struct error *err, const struct error *why)
{
	if (err)
		*err = *why;
	return -1;
}

int error_wrap(struct error *err, const char *fmt, ...)
{
	if (!err)
		return -1;
	char inner[sizeof err->text];
	memcpy(inner, err->text, sizeof inner);
	va_list ap;
	va_start(ap, fmt);
	text_vprintf(err->text, sizeof err->text, fmt, ap);
	va_end(ap);
	add(err, inner);
	return -1;
}

const char *error_code_name(enum error_code code)
{
	return (size_t)code < sizeof code_names / sizeof *code_names ? code_names[code] : "internal";
}

enum error_code error_code_from_name(const char *name)
{
	for (size_t i = 0; i < sizeof code_names / sizeof *code_names; i++)
		if (name && !strcmp(name, code_names[i]))
			return (enum error_code)i;
	return ERR_INTERNAL;
}
