/* SPDX-License-Identifier: MIT
 * What `rad estimate` and `rad parse` know of a task: see estimation.h.
 */
#include "cli/estimation.h"

#include "base/scope.h"
#include "cli/submit_client.h"
#include "cli/submit_files.h"
#include "parse/radfile.h"
#include "submit/options.h"

#include <string.h>

static int set_options(struct spec *s, const struct estimation *e, struct error *err)
{
	const struct { const char *name, *where, *value; } given[] = {
		{ "batch-size", "--batch-size", e->batch_size }, { "seq-len", "--seq-len", e->seq_len },
		{ "input-size", "--input-size", e->input_size },
		{ "optimizer", "--optimizer", e->optimizer }, { "precision", "--precision", e->precision },
	};
	struct submit_pending pending = { 0 };	/* none of these options leaves anything there */
	for (size_t i = 0; i < COUNT_OF(given); i++)
		if (given[i].value && options_set(s, &pending, options_find(given[i].name), given[i].value, given[i].where, err))
			return -1;
	return 0;
}

static struct spec *read_task_file(const char *path, struct error *err)
{
	struct submit_flags flags = { 0 };
	struct spec *s = NULL;
	submit_parse_file(path, &s, &flags, err);
	for (size_t i = 0; i < flags.n_notes; i++)
		cli_note("%s", flags.notes[i]);
	submit_flags_clear(&flags);
	return s;
}

static bool is_capture_name(const char *path)
{
	const char *dot = strrchr(path, '.');
	return dot && !strcmp(dot, ".radcap");
}

struct spec *estimation_read(const char *path, struct estimation *e, struct error *err)
{
	bool task_file = path && radfile_is_name(path), capture_file = path && is_capture_name(path);
	const char *summary = e->summary ? e->summary : task_file || capture_file ? NULL : path;
	const char *capture = e->capture ? e->capture : capture_file ? path : NULL;
	struct spec *s = task_file ? read_task_file(path, err) : spec_create();
	e->usage = s && (set_options(s, e, err) || submit_check_words(s, err));
	if (s && (e->usage || (summary && submit_read_model(s, summary, err)) ||
		  (capture && submit_read_capture(s, capture, err)))) {
		spec_unref(s);
		return NULL;
	}
	return s;
}
