/* SPDX-License-Identifier: MIT
 * See slurm_file.h. Lines are looked at as sbatch does: those before the first command. #RAD lines stand anywhere.
 */
#include "cli/slurm_file.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/io.h"
#include "base/scope.h"
#include "parse/radfile.h"
#include "submit/options.h"
#include "task/spec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLANKS " \t\r"

static const char *line_end(const char *line)
{
	return line + strcspn(line, "\n");
}

/* The words of a line after its first one; the value of -p and its longer names. */
static void read_sbatch_line(const char *line, const char *end, char **partition)
{
	scoped_free char *text = alloc_printf("%.*s", (int)(end - line), line);
	char *rest = text;
	strtok_r(rest, BLANKS, &rest);
	for (char *word; (word = strtok_r(rest, BLANKS, &rest)) && *word != '#';) {
		const char *value = NULL;
		size_t len = strcspn(word, "=");
		/* "--part=x", as getopt_long has it */
		if (len > 4 && len <= strlen("--partition") && !strncmp(word, "--partition", len))
			value = word[len] ? word + len + 1 : strtok_r(rest, BLANKS, &rest);
		else if (!strncmp(word, "-p", 2))
			value = word[2] ? word + 2 : strtok_r(rest, BLANKS, &rest);
		if (!value)
			continue;
		free(*partition);
		*partition = alloc_string(value);
	}
}

char *slurm_file_partition(const char *script)
{
	const char *given = getenv("SBATCH_PARTITION");
	char *partition = NULL;
	if (given && *given)
		return alloc_string(given);
	for (const char *line = script ? script : "", *end; *line; line = *end ? end + 1 : end) {
		end = line_end(line);
		if (!strncmp(line, "#SBATCH", 7) && strchr(BLANKS, line[7]))
			read_sbatch_line(line, end, &partition);
		else if (*line != '#' && line + strspn(line, BLANKS) != end)
			break;
	}
	return partition;
}

/* What a size is made of, and the name that a .rad file gives: all else says to radd alone when and how it is started. */
static const char *const heard[] = {
	"batch-size", "capture", "exclusive", "gpu-mem", "gpus", "gpus-per-node", "gres", "input-size", "job-name", "model", "name",
	"optimizer", "policy", "precision", "seq-len", "share", NULL,
};

static void note(struct buf *found, const struct submit_option *o, const char *dashes)
{
	const char *const *name = heard;
	while (o && *name && strcmp(o->name, *name))
		name++;
	if (o && !*name)
		buf_printf(found, "%s%s%s", found->len ? ", " : "", dashes, o->name);
}

static void note_line(struct buf *found, const char *line, const char *end, bool keys)
{
	size_t len = strcspn(line, ": \t\n");
	if (!strncmp(line, "#RAD", 4) && (line[4] == ' ' || line[4] == '\t')) {
		for (const char *word = line + 4; word < end; word += strcspn(word, " \t\r\n")) {
			word += strspn(word, BLANKS);
			if (*word == '#' || word >= end)
				break;
			scoped_free char *name = alloc_printf("%.*s", (int)strcspn(word, "= \t\r\n"), word);
			note(found, *name != '-' ? NULL : name[1] == '-' ? options_find(name + 2) : options_find_letter(name[1]), "--");
		}
	} else if (keys && line[len] == ':') {
		scoped_free char *key = alloc_printf("%.*s", (int)len, line);
		note(found, options_find_key(key), "");
	}
}

char *slurm_file_idle(const char *path)
{
	scoped_buf text = { 0 }, found = { 0 };
	bool keys = radfile_is_name(path);
	if (io_read_file(path, SPEC_MAX_TEXT, &text, NULL))
		return NULL;
	for (const char *line = buf_text(&text), *end; *line; line = *end ? end + 1 : end) {
		end = line_end(line);
		note_line(&found, line, end, keys);
	}
	return found.len ? alloc_string(buf_text(&found)) : NULL;
}
