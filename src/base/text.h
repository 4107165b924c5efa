/* SPDX-License-Identifier: MIT
 *
 * Text for people into room that is bounded: as printf, but no UTF-8 character is cut in two, neither by a precision ("%.40s")
 * nor at the end of the room. alloc_printf, buf_printf, json_printf, errors and the log do it by themselves.
 */
#ifndef RAD_BASE_TEXT_H
#define RAD_BASE_TEXT_H

#include <stdarg.h>
#include <stddef.h>

#define TEXT_FORMAT 512	/* bytes of a format in which precisions are looked at; of a longer one they stay as they are */

/* Of n bytes: how many are left without the part of a character at their end. */
size_t text_whole(const char *text, size_t n);

/* As snprintf: what they return is what there would be with enough room. */
int text_printf(char *out, size_t room, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
int text_vprintf(char *out, size_t room, const char *fmt, va_list ap) __attribute__((format(printf, 3, 0)));

#endif
