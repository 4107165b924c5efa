/* SPDX-License-Identifier: MIT
 * Lines of a script that hold options of a command line: `#RAD --option=value`, and Slurm's `#SBATCH`. See radfile_private.h.
 *
 * A `#RAD` line is ours: what we do not know in it is a slip, and refused. A `#SBATCH` line is Slurm's, and says more than
 * there is on one machine: what has no meaning here is told and passed over, what has one is obeyed by the same table of
 * options, and what cannot be obeyed (two nodes) is refused, since the script would do something else than it says.
 */
#include "parse/radfile_private.h"

#include "base/alloc.h"
#include "base/scope.h"
#include "base/units.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

struct radfile_line radfile_trim(const char *text, size_t len)
{
	while (len && is_blank(text[len - 1]))
		len--;
	while (len && is_blank(*text))
		text++, len--;
	return (struct radfile_line){ text, len };
}

char *radfile_copy(struct radfile_line l)
{
	return alloc_printf("%.*s", (int)l.len, l.text);
}

bool radfile_next_line(const char *text, size_t len, size_t *at, struct radfile_line *l)
{
	if (*at >= len)
		return false;
	const char *end = memchr(text + *at, '\n', len - *at);
	*l = (struct radfile_line){ text + *at, end ? (size_t)(end - (text + *at)) : len - *at };
	*at += l->len + 1;
	return true;
}

void radfile_note(struct radfile *f, char *note)
{
	f->notes = alloc_resize(f->notes, f->n_notes + 1, sizeof *f->notes);
	f->notes[f->n_notes++] = note;
}

int radfile_add(struct radfile_reader *r, struct radfile_list *to, const struct submit_option *o, char *value, int line)
{
	scoped_free char *owned = value;
	for (size_t i = 0; i < to->n; i++)
		if (!strcmp(to->items[i].key, o->name))
			return error_set(r->err, ERR_INVALID, "%.300s:%d: '%s' was already set on line %d: keep one of them", r->name,
					 line, o->name, to->items[i].line);
	alloc_grow(to->items, to->n, to->cap);
	to->items[to->n++] = (struct rad_setting){ .key = alloc_string(o->name), .value = steal(owned), .line = line };
	return 0;
}

/* ---- #RAD lines ---- */

bool radfile_is_directive(struct radfile_line l)
{
	return l.len > 5 && !memcmp(l.text, "#RAD", 4) && is_blank(l.text[4]);
}

/* The next word of a `#RAD` line, quotes removed; NULL at its end, which a "#" begins. */
static char *next_word(struct radfile_line *l)
{
	*l = radfile_trim(l->text, l->len);
	if (!l->len || *l->text == '#')
		return NULL;
	struct buf word = { 0 };
	char quote = 0;
	size_t i = 0;
	for (; i < l->len && (quote || !is_blank(l->text[i])); i++) {
		char c = l->text[i];
		if (c == quote)
			quote = 0;
		else if (!quote && (c == '"' || c == '\''))
			quote = c;
		else
			buf_add(&word, &c, 1);
	}
	*l = (struct radfile_line){ l->text + i, l->len - i };
	return buf_steal(&word);
}

static int unknown_option(struct radfile_reader *r, const char *word)
{
	const struct submit_option *near = options_near(word);
	if (near)
		return error_set(r->err, ERR_INVALID, "%.300s:%d: unknown option '%.60s' after #RAD: did you mean '--%s'?", r->name,
				 r->scan.line, word, near->name);
	return error_set(r->err, ERR_INVALID, "%.300s:%d: unknown option '%.60s' after #RAD: see rad-submit(1)", r->name,
			 r->scan.line, word);
}

/* "--name=value", "--name value", "-G 2", "-G2". Takes the value off the line when it stands apart. */
static int directive_word(struct radfile_reader *r, const char *word, struct radfile_line *rest)
{
	const char *equals = NULL, *value = NULL;
	const struct submit_option *o = NULL;
	if (word[0] == '-' && word[1] == '-') {
		equals = strchr(word, '=');
		size_t len = equals ? (size_t)(equals - word - 2) : strlen(word + 2);
		scoped_free char *name = radfile_copy((struct radfile_line){ word + 2, len });
		o = options_find(name);
		value = equals ? equals + 1 : NULL;
	} else if (word[0] == '-' && word[1]) {
		o = options_find_letter(word[1]);
		value = word[2] ? word + 2 : NULL;
	}
	if (!o)
		return unknown_option(r, word);
	if (o->client_only)
		return error_set(r->err, ERR_INVALID, "%.300s:%d: '--%s' belongs on the command line, not in a file", r->name,
				 r->scan.line, o->name);
	if (!o->arg && value)
		return error_set(r->err, ERR_INVALID, "%.300s:%d: '--%s' takes no value, but '%.60s' was given", r->name,
				 r->scan.line, o->name, value);
	scoped_free char *apart = NULL;
	if (o->arg && *o->arg != '[' && !value && !(value = apart = next_word(rest)))
		return error_set(r->err, ERR_INVALID, "%.300s:%d: '--%s' needs a value: write --%s=%s", r->name, r->scan.line,
				 o->name, o->name, o->arg);
	return radfile_add(r, &r->directives, o, alloc_string(value ? value : ""), r->scan.line);
}

int radfile_directive(struct radfile_reader *r, struct radfile_line l)
{
	l = (struct radfile_line){ l.text + 4, l.len - 4 };
	struct radfile_line first = radfile_trim(l.text, l.len);
	if (!first.len || *first.text != '-') {
		/* A comment, unless it is an option whose dashes were forgotten. */
		size_t n = 0;
		while (n < first.len && (isalnum((unsigned char)first.text[n]) || strchr("-_", first.text[n])))
			n++;
		scoped_free char *name = radfile_copy((struct radfile_line){ first.text, n });
		const struct submit_option *o = n < first.len && first.text[n] == '=' ? options_find(name) : NULL;
		return !o ? 0 : error_set(r->err, ERR_INVALID, "%.300s:%d: '#RAD %s=': options begin with two dashes: write #RAD --%s=",
					  r->name, r->scan.line, name, o->name);
	}
	for (char *word; (word = next_word(&l));) {
		int failed = directive_word(r, word, &l);
		free(word);
		if (failed)
			return -1;
	}
	return 0;
}

/* ---- #SBATCH lines ---- */

bool radfile_is_sbatch(struct radfile_line l)
{
	return l.len > 8 && !memcmp(l.text, "#SBATCH", 7) && is_blank(l.text[7]);
}

/* One option: its name without dashes, its value if it was joined to it. The name is in the word. */
struct sbatch_word { char *word, *name, *value; };

static void sbatch_split(struct sbatch_word *w)
{
	bool is_long = w->word[1] == '-';
	char *equals = is_long ? strchr(w->word, '=') : NULL;
	w->name = w->word + 1 + is_long;
	w->value = equals ? equals + 1 : !is_long && w->word[1] && w->word[2] ? w->word + 2 : NULL;
	if (equals)
		*equals = 0;
}

/* By Slurm's name. */
static const struct submit_option *sbatch_option(const struct sbatch_word *w)
{
	static const struct { const char *slurm, *ours; } others[] = { { "gpus-per-node", "gpus" }, { "workdir", "chdir" } };
	if (w->name != w->word + 2)
		return options_find_letter(*w->name);
	for (size_t i = 0; i < COUNT_OF(others); i++)
		if (!strcmp(w->name, others[i].slurm))
			return options_find(others[i].ours);
	return options_find(w->name);
}

static void sbatch_pass_over(struct radfile_reader *r, const struct sbatch_word *w)
{
	bool is_long = w->name == w->word + 2;
	buf_printf(&r->unheard, "%s%s%.*s (line %d)", r->unheard.len ? ", " : "", is_long ? "--" : "-", is_long ? 60 : 1, w->name,
		   r->scan.line);
}

/* What Slurm would do and one machine cannot. */
static int sbatch_check_nodes(struct radfile_reader *r, const struct sbatch_word *w)
{
	bool nodes = !strcmp(w->name, "nodes") || (w->name == w->word + 1 && *w->name == 'N');
	if (!nodes || !w->value || strspn(w->value, "0123456789-") != strlen(w->value) || strtol(w->value, NULL, 10) < 2)
		return 0;
	return error_set(r->err, ERR_INVALID, "%.300s:%d: #SBATCH asks for %.20s nodes, and this is one machine", r->name,
			 r->scan.line, w->value);
}

/* Slurm lets the later one of two count. */
static void sbatch_set(struct radfile_reader *r, const struct submit_option *o, const char *value)
{
	struct radfile_list *l = &r->sbatch;
	size_t i = 0;
	while (i < l->n && strcmp(l->items[i].key, o->name))
		i++;
	if (i == l->n) {
		alloc_grow(l->items, l->n, l->cap);
		l->items[l->n++] = (struct rad_setting){ .key = alloc_string(o->name) };
	}
	free(l->items[i].value);
	l->items[i].value = alloc_string(value ? value : "");
	l->items[i].line = r->scan.line;
}

static int sbatch_word(struct radfile_reader *r, char *word, struct radfile_line *rest)
{
	struct sbatch_word w = { .word = word };
	sbatch_split(&w);
	const struct submit_option *o = sbatch_option(&w);
	struct radfile_line ahead = radfile_trim(rest->text, rest->len);
	bool wants = o ? o->arg && *o->arg != '[' : ahead.len && *ahead.text != '-';
	scoped_free char *apart = !w.value && wants ? next_word(rest) : NULL;
	if (apart)
		w.value = apart;
	if (sbatch_check_nodes(r, &w))
		return -1;
	if (!o || o->client_only || (!o->arg && w.value))
		sbatch_pass_over(r, &w);
	else if (!w.value && wants)
		return error_set(r->err, ERR_INVALID, "%.300s:%d: '--%s' needs a value", r->name, r->scan.line, o->name);
	else
		sbatch_set(r, o, w.value);
	return 0;
}

int radfile_sbatch(struct radfile_reader *r, struct radfile_line l)
{
	if (r->commands) {
		if (!r->late)
			radfile_note(r->out, alloc_printf("line %d: a #SBATCH line behind the first command is not read, nor is it by "
							  "sbatch", r->scan.line));
		r->late = true;
		return 0;
	}
	l = (struct radfile_line){ l.text + 7, l.len - 7 };
	for (char *word; (word = next_word(&l));) {
		int failed = *word == '-' && word[1] ? sbatch_word(r, word, &l) : 0;
		free(word);
		if (failed)
			return -1;
	}
	return 0;
}

static void note_slurm_use(struct radfile_reader *r, struct radfile_line l, int line, bool *srun, bool *variable)
{
	l = radfile_trim(l.text, l.len);
	if (!l.len || *l.text == '#')
		return;
	if (!*srun && l.len > 5 && !memcmp(l.text, "srun", 4) && is_blank(l.text[4])) {
		*srun = true;
		radfile_note(r->out, alloc_printf("line %d: srun is Slurm's: write the command without it", line));
	}
	if (!*variable && memmem(l.text, l.len, "SLURM_", 6)) {
		*variable = true;
		radfile_note(r->out, alloc_printf("line %d: Slurm's variables are not set here: there are RAD_TASK_ID, RAD_ARRAY_JOB_ID and "
						  "RAD_ARRAY_TASK_ID (rad(5))", line));
	}
}

void radfile_sbatch_notes(struct radfile_reader *r, const char *text, size_t len)
{
	bool any = false, srun = false, variable = false;
	size_t at = 0;
	int line = 0;
	if (r->unheard.len)
		radfile_note(r->out, alloc_printf("#SBATCH options that mean nothing here, and are passed over: %.900s",
						  buf_text(&r->unheard)));
	for (struct radfile_line l; radfile_next_line(text, len, &at, &l);) {
		line++;
		any = any || radfile_is_sbatch(l);
		if (any)
			note_slurm_use(r, l, line, &srun, &variable);
	}
}

/* ---- whether there are any ---- */

bool radfile_has_directives(const char *text, size_t len)
{
	size_t at = 0;
	for (struct radfile_line l; radfile_next_line(text, len, &at, &l);) {
		if (!radfile_is_directive(l) && !radfile_is_sbatch(l))
			continue;
		size_t mark = radfile_is_sbatch(l) ? 7 : 4;
		struct radfile_line rest = radfile_trim(l.text + mark, l.len - mark);
		if (rest.len > 1 && *rest.text == '-')
			return true;
	}
	return false;
}
