/* SPDX-License-Identifier: MIT
 * See submit_files.h. They are read here, with the caller's rights, and go with the task: radd opens no file of a user.
 */
#include "cli/submit_files.h"

#include "base/alloc.h"
#include "base/io.h"
#include "base/scope.h"
#include "base/words.h"
#include "cli/submit_caller.h"
#include "estimate/capture.h"
#include "parse/radfile.h"
#include "parse/summary.h"

#include <string.h>

static char *base64(const struct buf *in)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	char *out = alloc_zero((in->len + 2) / 3 * 4 + 1), *p = out;
	for (size_t i = 0; i < in->len; i += 3) {
		uint32_t v = 0;
		for (size_t k = 0; k < 3; k++)
			v = v << 8 | (i + k < in->len ? (unsigned char)in->data[i + k] : 0);
		for (int k = 0; k < 4; k++)
			*p++ = i + (size_t)k > in->len ? '=' : digits[v >> (18 - 6 * k) & 63];
	}
	return out;
}

/* Estimators would only decline what cannot be read; here the person is there to hear why. */
static int check_summary(const char *path, const char *text, struct error *err)
{
	struct summary summary;
	int rc = summary_parse(path, text, strlen(text), &summary, err);
	summary_clear(&summary);
	return rc;
}

int submit_read_model(struct spec *s, const char *path, struct error *err)
{
	scoped_buf text = { 0 };
	if (io_read_file(path, SPEC_MAX_TEXT, &text, err) || radfile_check_text(path, buf_text(&text), text.len, err))
		return -1;
	if (!text.len)
		return error_set(err, ERR_INVALID, "%.300s: is empty: expected a printed model summary", path);
	if (check_summary(path, buf_text(&text), err))
		return -1;
	free(s->model);
	free(s->model_name);
	s->model = buf_steal(&text);
	s->model_name = submit_caller_name(words_base(path));
	return 0;
}

int submit_read_capture(struct spec *s, const char *path, struct error *err)
{
	scoped_buf bytes = { 0 };
	if (io_read_file(path, SPEC_MAX_CAPTURE / 4 * 3, &bytes, err))
		return -1;
	if (!bytes.len)
		return error_set(err, ERR_INVALID, "%.300s: is empty: expected a capture made by `rad capture`", path);
	scoped_capture capture = { 0 };
	if (capture_read(bytes.data, bytes.len, &capture, err))
		return error_wrap(err, "%.300s", path);
	free(s->capture);
	s->capture = base64(&bytes);
	return 0;
}
