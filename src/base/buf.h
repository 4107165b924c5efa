/* SPDX-License-Identifier: MIT
 *
 * A growable run of bytes. `data` is always followed by a zero byte once anything was added, so text needs no copy.
 */
#ifndef RAD_BASE_BUF_H
#define RAD_BASE_BUF_H

#include <stdarg.h>
#include <stddef.h>

struct buf {
	char *data;	/* owned; NULL while empty */
	size_t len, cap;
};

void buf_add(struct buf *b, const void *bytes, size_t n);
void buf_add_text(struct buf *b, const char *text);
void buf_printf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Removes the first n bytes. */
void buf_drop(struct buf *b, size_t n);
/* The text, never NULL. Valid until the next change. */
const char *buf_text(const struct buf *b);
/* Hands over the text (never NULL; free it) and empties the buffer. */
char *buf_steal(struct buf *b);
void buf_free(struct buf *b);

#define scoped_buf __attribute__((cleanup(buf_free))) struct buf

#endif
