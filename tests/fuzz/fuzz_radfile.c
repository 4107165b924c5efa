/* SPDX-License-Identifier: MIT
 *
 * Task files: any bytes are read or refused in one line that names the file; what is read keeps its line numbers, and its
 * settings can be applied or refused.
 */
#include "fuzz.h"

#include "parse/radfile.h"
#include "submit/options.h"
#include "submit/signature.h"

#include <stdlib.h>
#include <string.h>

static size_t count_lines(const char *text, size_t len)
{
	size_t n = 0;

	for (size_t i = 0; i < len; i++)
		n += text[i] == '\n';
	return n;
}

static void refused(const struct error *err, const char *begin)
{
	FUZZ_HOLDS(err->code == ERR_INVALID);
	FUZZ_HOLDS(!strncmp(err->text, begin, strlen(begin)) && !strchr(err->text, '\n'));
}

static void check(const char *name, const char *text, size_t len, bool positional_policy)
{
	struct radfile f;
	struct error err = ERROR_INIT;

	if (radfile_parse(name, NULL, text, len, positional_policy, &f, &err)) {
		FUZZ_HOLDS(!f.settings && !f.script && !f.notes);
		refused(&err, name);
		return;
	}
	size_t lines = count_lines(text, len);
	struct submit_pending pending = { 0 };
	struct spec *s = spec_create();

	for (size_t i = 0; i < f.n; i++) {
		const struct submit_option *o = options_find(f.settings[i].key);

		FUZZ_HOLDS(o && o->set && f.settings[i].line >= 1 && (size_t)f.settings[i].line <= lines + 1);
		if (options_set(s, &pending, o, f.settings[i].value, "here", &err))
			FUZZ_HOLDS(!strncmp(err.text, "here: ", 6));
	}
	s->script = f.script;
	f.script = NULL;
	FUZZ_HOLDS(*s->script);
	if (f.form == RAD_FORM_KEYS)
		FUZZ_HOLDS(count_lines(s->script, strlen(s->script)) >= lines);
	free(signature_make(s, NULL, 0));
	spec_unref(s);
	options_pending_clear(&pending);
	radfile_clear(&f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	/* A copy of the exact size, so that a read past its end is seen. */
	char *text = malloc(size + !size);

	memcpy(text, data, size);
	check("t.rad", text, size, false);
	check("t.rad", text, size, true);
	check("t.sh", text, size, false);
	free(text);
	return 0;
}
