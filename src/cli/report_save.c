/* SPDX-License-Identifier: MIT
 * Reports to files: the form by the file's name.
 */
#include "cli/report_save.h"

#include "base/io.h"
#include "base/json.h"
#include "base/scope.h"
#include "base/words.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static void fill(const struct report *r, const char *path, enum report_form form, struct buf *out)
{
	if (form == REPORT_SERIES_CSV) {
		report_series_csv(r, out);
	} else if (form == REPORT_TASKS_CSV || words_end_in(path, ".csv")) {
		report_csv(r, out);
	} else if (words_end_in(path, ".json")) {
		scoped_json *v = report_json(r);
		scoped_free char *text = json_to_text(v);
		buf_printf(out, "%s\n", text);
	} else {
		report_html(r, out);
	}
}

int report_save(const struct report *r, const char *path, enum report_form form, struct error *err)
{
	scoped_buf out = { 0 };
	fill(r, path, form, &out);
	if (strcmp(path, "-"))
		return io_save_file(path, out.data, out.len, err);
	if (fwrite(out.data, 1, out.len, stdout) == out.len || errno == EPIPE)
		return 0;
	error_errno(err, "output");
	clearerr(stdout);	/* told: cli_finish has nothing to add */
	return -1;
}
