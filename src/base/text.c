/* SPDX-License-Identifier: MIT
 * See text.h. Nothing here allocates, so errors work when memory is short.
 */
#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

size_t text_whole(const char *text, size_t n)
{
	size_t at = n;
	while (at && n - at < 3 && ((unsigned char)text[at - 1] & 0xc0) == 0x80)
		at--;
	if (!at)
		return n;
	unsigned char first = (unsigned char)text[at - 1];
	size_t bytes = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc0 ? 2 : 1;
	return n - (at - 1) < bytes ? at - 1 : n;
}

/* ---- precisions ---- */

/* One conversion, from behind its '%'. */
struct conversion {
	char *digits;	/* of its precision; NULL: it has none, or the argument before says it */
	size_t n_digits;
	size_t most;	/* what they say */
	unsigned longs;	/* how many 'l', or as many for the types of that size */
	char kind;
};

/* Past it. `ap` is a pointer so that the caller's list goes on. */
static char *read_conversion(char *p, struct conversion *c, va_list *ap)
{
	*c = (struct conversion){ .digits = NULL };
	p += strspn(p, "-+ #0'");
	if (*p == '*')
		(void)va_arg(*ap, int);
	p += strspn(p, "*0123456789");
	if (*p == '.' && p[1] == '*') {
		(void)va_arg(*ap, int);
		p += 2;
	} else if (*p == '.') {
		c->digits = ++p;
		c->n_digits = strspn(p, "0123456789");
		for (size_t i = 0; i < c->n_digits && c->most < SIZE_MAX / 100; i++)
			c->most = c->most * 10 + (size_t)(p[i] - '0');
		p += c->n_digits;
	}
	for (; *p && strchr("hlzjt", *p); p++)
		c->longs += *p == 'l' ? 1 : *p == 'h' ? 0 : sizeof(long) == sizeof(size_t) ? 1 : 2;
	c->kind = *p;
	return *p ? p + 1 : p;
}

/* Fewer bytes where so many would cut a character; written with as many digits, so that the format stays as long. Only as much
 * of the text is looked at as is printed: there may be no more. */
static void lessen(const struct conversion *c, const char *text)
{
	size_t n = text ? strnlen(text, c->most) : 0;
	if (!c->n_digits || !n || n < c->most)
		return;
	n = text_whole(text, n);
	for (size_t i = c->n_digits; i-- > 0; n /= 10)
		c->digits[i] = (char)('0' + n % 10);
}

/* False: what follows is not known, so it stays as it is. */
static bool pass_argument(const struct conversion *c, va_list *ap)
{
	switch (c->kind) {
	case 's': lessen(c, va_arg(*ap, const char *)); return true;
	case 'd': case 'i': case 'u': case 'x': case 'X': case 'o': case 'c':
		if (c->longs > 1)
			(void)va_arg(*ap, long long);
		else if (c->longs)
			(void)va_arg(*ap, long);
		else
			(void)va_arg(*ap, int);
		return true;
	case 'e': case 'f': case 'g': case 'E': case 'F': case 'G': (void)va_arg(*ap, double); return true;
	case 'p': (void)va_arg(*ap, void *); return true;
	case '%': case 'm': return true;
	default: return false;
	}
}

/* Whether a precision stands in it, and is no argument. */
static bool says_precision(const char *fmt)
{
	for (const char *p = fmt; (p = strstr(p, "%.")); p += 2)
		if (p[2] >= '0' && p[2] <= '9')
			return true;
	return false;
}

/* The format with precisions that cut no character of these arguments: itself, or made in `copy`. */
__attribute__((format(printf, 1, 0)))
static const char *mend_format(const char *fmt, va_list ap, char copy[TEXT_FORMAT])
{
	size_t n = strlen(fmt);
	struct conversion c;
	va_list rest;
	if (n >= TEXT_FORMAT || !says_precision(fmt))
		return fmt;
	memcpy(copy, fmt, n + 1);
	va_copy(rest, ap);
	for (char *p = copy; (p = strchr(p, '%'));) {
		p = read_conversion(p + 1, &c, &rest);
		if (!pass_argument(&c, &rest))
			break;
	}
	va_end(rest);
	return copy;
}

/* ---- into room ---- */

int text_vprintf(char *out, size_t room, const char *fmt, va_list ap)
{
	char copy[TEXT_FORMAT];
	int n = vsnprintf(out, room, mend_format(fmt, ap, copy), ap);
	if (n >= 0 && room && (size_t)n >= room)
		out[text_whole(out, room - 1)] = 0;
	return n;
}

int text_printf(char *out, size_t room, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	int n = text_vprintf(out, room, fmt, ap);
	va_end(ap);
	return n;
}
