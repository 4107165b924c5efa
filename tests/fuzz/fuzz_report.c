/* SPDX-License-Identifier: MIT
 *
 * Reports from files: whatever JSON is read as runs, what is written of them can be read again and says the same.
 */
#include "fuzz.h"

#include "account/report.h"
#include "base/json.h"

#include <string.h>

/* NULL: refused. */
static json_t *through(const json_t *file)
{
	struct error err = ERROR_INIT;
	struct report *r = report_create("t", 1000);
	struct buf csv = { 0 };
	json_t *out = NULL;

	if (!report_add_json(r, "run", file, &err)) {
		out = report_json(r);
		report_csv(r, &csv);
		report_series_csv(r, &csv);
	} else {
		FUZZ_HOLDS(err.code == ERR_INVALID && *err.text);
	}
	buf_free(&csv);
	report_destroy(r);
	return out;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	json_t *file = json_loadb((const char *)data, size, 0, NULL);
	json_t *once = file ? through(file) : NULL, *twice = once ? through(once) : NULL;

	if (once) {
		FUZZ_HOLDS(twice);
		char *a = json_to_text(json_object_get(once, "runs")), *b = json_to_text(json_object_get(twice, "runs"));

		FUZZ_HOLDS(!strcmp(a, b));
		free(a);
		free(b);
	}
	json_decref(file);
	json_decref(once);
	json_decref(twice);
	return 0;
}
