/* SPDX-License-Identifier: MIT
 *
 * What radfile.c and radfile_lines.c share: a file being read, and the lines in it that are options of a command line, `#RAD`
 * and `#SBATCH`. Nobody else includes it.
 */
#ifndef RAD_PARSE_RADFILE_PRIVATE_H
#define RAD_PARSE_RADFILE_PRIVATE_H

#include "base/buf.h"
#include "parse/radfile.h"
#include "parse/shellscan.h"
#include "submit/options.h"
#include "submit/sbatch.h"

struct radfile_line { const char *text; size_t len; };

struct radfile_list { struct rad_setting *items; size_t n, cap; };

/* A file being read. */
struct radfile_reader {
	const char *name, *path;
	struct radfile *out;
	struct error *err;
	struct radfile_list keys, sbatch, directives;	/* in this order: what comes later beats what came earlier */
	struct buf unheard;	/* "#SBATCH" options that mean nothing here: "--partition (line 3), ..." */
	struct sbatch_counts counts;	/* numbers of "#SBATCH" that multiply others, the last of them on that line */
	int counted;
	bool for_slurm;		/* it goes to sbatch, which obeys or refuses its lines itself: only what GPUs they ask for counts */
	bool slurm;		/* there were "#SBATCH" options that mean something */
	bool commands;		/* the first line that bash runs has come: sbatch reads no lines behind it */
	bool late;		/* and there was one */
	struct shellscan scan;
	struct buf script;
	int swallowed;	/* last line that looks like a setting but stands inside something; 0: none */
	bool indented;	/* a setting that is indented was told of; the first is enough */
};

/* Lines and blanks. */
static inline bool is_blank(char c) { return c == ' ' || c == '\t'; }
struct radfile_line radfile_trim(const char *text, size_t len);
/* A copy; free it. */
char *radfile_copy(struct radfile_line l);
/* Takes the line at *at; false at the end. A last line without its line end counts. */
bool radfile_next_line(const char *text, size_t len, size_t *at, struct radfile_line *l);

/* Takes over the value. A setting that was made before is an error. */
int radfile_add(struct radfile_reader *r, struct radfile_list *to, const struct submit_option *o, char *value, int line);
/* Takes over the text. */
void radfile_note(struct radfile *f, char *note);

bool radfile_is_directive(struct radfile_line l);
/* A line that is one, outside of quotes and here-documents: its options become settings. */
int radfile_directive(struct radfile_reader *r, struct radfile_line l);

bool radfile_is_sbatch(struct radfile_line l);
/* The same of a `#SBATCH` line, as far as its options mean something here. */
int radfile_sbatch(struct radfile_reader *r, struct radfile_line l);
/* When all is read: sums of what multiplies; what was not heard, and what of Slurm's the script itself uses, as notes. */
void radfile_sbatch_end(struct radfile_reader *r, const char *text, size_t len);

#endif
