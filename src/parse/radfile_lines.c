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
#include "base/words.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static int other_dash(struct radfile_reader *r, const char *word)
{
	return error_set(r->err, ERR_INVALID, "%.300s:%d: '%.*s' begins with another dash than '-': type it anew", r->name,
			 r->scan.line, (int)words_cut(word, 60), word);
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
	if (!o->set)
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
	scoped_free char *dashed = radfile_copy(first);
	if (words_other_dash(dashed))
		return other_dash(r, dashed);
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

static void sbatch_pass_over(struct radfile_reader *r, const char *dashes, const char *name)
{
	if (r->for_slurm)
		return;
	buf_printf(&r->unheard, "%s%s%.60s (line %d)", r->unheard.len ? ", " : "", dashes, name, r->scan.line);
}

/* Slurm lets the later one of two count. */
static void sbatch_set(struct radfile_reader *r, const char *key, const char *value, int line)
{
	struct radfile_list *l = &r->sbatch;
	size_t i = 0;
	while (i < l->n && strcmp(l->items[i].key, key))
		i++;
	if (i == l->n) {
		alloc_grow(l->items, l->n, l->cap);
		l->items[l->n++] = (struct rad_setting){ .key = alloc_string(key) };
	}
	free(l->items[i].value);
	l->items[i].value = alloc_string(value ? value : "");
	l->items[i].line = line;
}

/* What one option comes to. `name` is as it was written, for what is told. */
static int sbatch_apply(struct radfile_reader *r, const struct sbatch_option *o, const char *dashes, const char *name,
			const char *value)
{
	bool of_gpus = strstr(o->name, "gpus") || !strncmp(o->name, "ntasks", 6) || !strcmp(o->name, "gres");
	if (r->for_slurm && (!of_gpus || o->kind == SBATCH_REFUSED))
		return 0;
	bool failed = sbatch_check(o, value, r->err);
	if (!failed && sbatch_is_idle(o, value)) {
		sbatch_pass_over(r, dashes, name);
		return 0;
	}
	r->slurm = true;
	if (!failed && o->kind == SBATCH_OBEYED)
		sbatch_set(r, o->said, value, r->scan.line);
	if (!failed && o->kind == SBATCH_COUNTED) {
		failed = sbatch_count(&r->counts, o, value, r->err);
		r->counted = r->scan.line;
	}
	if (failed && o->kind == SBATCH_COUNTED)
		error_wrap(r->err, "--%s", o->name);
	return failed ? error_wrap(r->err, "%.300s:%d", r->name, r->scan.line) : 0;
}

/* sbatch refuses what it does not know. A slip is refused here too; else it may be of a Slurm that is newer than our rows. */
static int sbatch_unknown(struct radfile_reader *r, const char *dashes, const char *name, struct radfile_line *rest)
{
	const char *near = dashes[1] ? sbatch_near(name) : NULL;
	struct radfile_line ahead = radfile_trim(rest->text, rest->len);
	if (near && !r->for_slurm)
		return error_set(r->err, ERR_INVALID, "%.300s:%d: unknown option '--%.60s' after #SBATCH: did you mean '--%s'?", r->name,
				 r->scan.line, name, near);
	if (ahead.len && *ahead.text != '-')
		free(next_word(rest));
	sbatch_pass_over(r, dashes, name);
	return 0;
}

/* "--name=value", "--name value", "-n2", "-n 2". Takes the value off the line when it stands apart. */
static int sbatch_word(struct radfile_reader *r, char *word, struct radfile_line *rest)
{
	bool is_long = word[1] == '-';
	char *name = word + 1 + is_long, *equals = is_long ? strchr(name, '=') : NULL, letter[2] = { *name };
	const char *value = equals ? equals + 1 : !is_long && name[1] ? name + 1 : NULL, *dashes = is_long ? "--" : "-";
	if (equals)
		*equals = 0;
	const struct sbatch_option *o = !*name ? NULL : is_long ? sbatch_find(name) : sbatch_find_letter(*name);
	if (!o)
		return !*name ? 0 : sbatch_unknown(r, dashes, is_long ? name : letter, rest);
	scoped_free char *apart = !value && o->value == '=' ? next_word(rest) : NULL;
	if (!value)
		value = apart;
	if (r->for_slurm && (value ? !o->value : o->value == '='))
		return 0;
	if (!value && o->value == '=')
		return error_set(r->err, ERR_INVALID, "%.300s:%d: '--%s' needs a value", r->name, r->scan.line, o->name);
	if (value && !o->value)
		return error_set(r->err, ERR_INVALID, "%.300s:%d: '--%s' takes no value, but '%.60s' was given", r->name, r->scan.line,
				 o->name, value);
	return sbatch_apply(r, o, dashes, is_long ? name : letter, value);
}

static const char *sbatch_value(const struct radfile_reader *r, const char *key)
{
	for (size_t i = 0; i < r->sbatch.n; i++)
		if (!strcmp(r->sbatch.items[i].key, key))
			return r->sbatch.items[i].value;
	return NULL;
}

/* The number at the end of "2", "a100:2", "gpu:a100:2"; 0: there is none. */
static int64_t last_number(const char *value)
{
	const char *colon = value ? strrchr(value, ':') : NULL;
	int64_t n = 0;
	return value && !units_parse_int(colon ? colon + 1 : value, 0, SPEC_MAX_GPUS, &n, NULL) ? n : 0;
}

static int64_t sbatch_gpus(const struct radfile_reader *r)
{
	static const char *const keys[] = { "gpus", "gpus-per-node", "gres" };
	for (size_t i = 0; i < COUNT_OF(keys); i++)
		if (sbatch_value(r, keys[i]))
			return last_number(sbatch_value(r, keys[i])) ? last_number(sbatch_value(r, keys[i])) : 1;
	return 0;
}

/* sbatch mails to nobody who does not say of what, and ours would. */
static void sbatch_drop_address(struct radfile_reader *r)
{
	struct radfile_list *l = &r->sbatch;
	for (size_t i = 0; !sbatch_value(r, "mail-type") && i < l->n; i++)
		if (!strcmp(l->items[i].key, "mail-user")) {
			buf_printf(&r->unheard, "%s--mail-user without --mail-type (line %d)", r->unheard.len ? ", " : "", l->items[i].line);
			free(l->items[i].key);
			free(l->items[i].value);
			memmove(l->items + i, l->items + i + 1, (--l->n - i) * sizeof *l->items);
			return;
		}
}

/* What is said per GPU, per CPU and per task, as sums. */
static void sbatch_add_up(struct radfile_reader *r)
{
	struct sbatch_sum sum = sbatch_sum(&r->counts, sbatch_gpus(r), last_number(sbatch_value(r, "cpus-per-task")));
	char text[128];
	if (sum.gpus) {
		snprintf(text, sizeof text, "%s%s%lld", r->counts.gpu_type, *r->counts.gpu_type ? ":" : "", (long long)sum.gpus);
		sbatch_set(r, "gpus", text, r->counted);
	}
	if (sum.cpus) {
		snprintf(text, sizeof text, "%lld", (long long)sum.cpus);
		sbatch_set(r, "cpus-per-task", text, r->counted);
	}
	if (sum.mem_mib && !sbatch_value(r, "mem")) {
		snprintf(text, sizeof text, "%llu", (unsigned long long)sum.mem_mib);
		sbatch_set(r, "mem", text, r->counted);
	}
}

/* What is no option is refused, as by sbatch: the rest of "--gres = gpu:2", where the value is "=". */
static int sbatch_other(struct radfile_reader *r, const char *word)
{
	if (!strcmp(word, "hetjob") || !strcmp(word, "packjob"))
		return error_set(r->err, ERR_INVALID, "%.300s:%d: #SBATCH %s asks for several jobs of one script, which is not done "
				 "here: give each a script of its own", r->name, r->scan.line, word);
	return error_set(r->err, ERR_INVALID, "%.300s:%d: '%.*s' after #SBATCH is no option, and refused by sbatch, too: an option is "
			 "--NAME=VALUE without blanks, and # begins a comment", r->name, r->scan.line, (int)words_cut(word, 60), word);
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
		bool option = *word == '-' && word[1];
		int failed = r->for_slurm && !option ? 0 : words_other_dash(word) && !r->for_slurm ? other_dash(r, word) :
			     option ? sbatch_word(r, word, &l) : sbatch_other(r, word);
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

void radfile_sbatch_end(struct radfile_reader *r, const char *text, size_t len)
{
	bool any = false, srun = false, variable = false;
	size_t at = 0;
	int line = 0;
	sbatch_add_up(r);
	sbatch_drop_address(r);
	if (r->unheard.len)
		radfile_note(r->out, alloc_printf("#SBATCH options that mean nothing here, and are passed over: %.900s",
						  buf_text(&r->unheard)));
	for (struct radfile_line l; radfile_next_line(text, len, &at, &l);) {
		line++;
		any = any || radfile_is_sbatch(l);
		if (any && !r->for_slurm)
			note_slurm_use(r, l, line, &srun, &variable);
	}
}

/* ---- whether there are any ---- */

/* "gpus=2 ...": a directive whose dashes were forgotten, which is told where it is read. */
static bool sets_something(struct radfile_line l)
{
	size_t n = 0;
	while (n < l.len && (isalnum((unsigned char)l.text[n]) || l.text[n] == '-' || l.text[n] == '_'))
		n++;
	return n && n < l.len && l.text[n] == '=';
}

bool radfile_has_directives(const char *text, size_t len)
{
	size_t at = 0;
	for (struct radfile_line l; radfile_next_line(text, len, &at, &l);) {
		if (!radfile_is_directive(l) && !radfile_is_sbatch(l))
			continue;
		size_t mark = radfile_is_sbatch(l) ? 7 : 4;
		struct radfile_line rest = radfile_trim(l.text + mark, l.len - mark);
		scoped_free char *said = radfile_copy(rest);
		if (rest.len > 1 && (*said == '-' || sets_something(rest) || words_other_dash(said)))
			return true;
	}
	return false;
}
