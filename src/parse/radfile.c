/* SPDX-License-Identifier: MIT
 * Task files: see radfile.h and rad(5). The text is checked once, line ends are made plain, and then every line is either
 * a setting, a line of options (radfile_lines.c) or script; setting lines leave an empty line behind.
 */
#include "parse/radfile_private.h"

#include "base/alloc.h"
#include "base/hash.h"
#include "base/scope.h"
#include "base/units.h"
#include "base/words.h"

#include <ctype.h>
#include <string.h>

bool radfile_is_name(const char *path)
{
	size_t len = strlen(path);
	return len > 4 && !strcmp(path + len - 4, ".rad");
}

/* ---- the text as a whole ---- */

int radfile_check_text(const char *name, const char *text, size_t len, struct error *err)
{
	int line = 1;
	for (size_t i = 0, n; i < len; i += n) {
		const unsigned char *p = (const unsigned char *)text + i;
		n = words_utf8(text + i, len - i);
		if (!*p)
			return error_set(err, ERR_INVALID, "%.300s:%d: a zero byte: this is not a text file", name, line);
		if (!n)
			return error_set(err, ERR_INVALID, "%.300s:%d: byte 0x%02x is not UTF-8: save the file as UTF-8 text", name, line, *p);
		line += *p == '\n';
	}
	return 0;
}

/* Copies the text without a byte order mark and with plain line ends. */
static void plain_text(const char *text, size_t len, struct buf *out, struct radfile *f)
{
	if (len >= 3 && !memcmp(text, "\xef\xbb\xbf", 3))
		text += 3, len -= 3;
	size_t at = 0, ends = 0;
	for (struct radfile_line l; radfile_next_line(text, len, &at, &l);) {
		bool windows = l.len && l.text[l.len - 1] == '\r';
		ends += windows;
		buf_add(out, l.text, l.len - windows);
		buf_add(out, "\n", 1);
	}
	if (ends)
		radfile_note(f, alloc_string("it has Windows line ends; they were read as plain ones"));
}

/* ---- settings ---- */

/* The length of the word that the line begins with, if a key may be one. */
static size_t name_length(struct radfile_line l)
{
	size_t n = 0;
	while (n < l.len && (isalnum((unsigned char)l.text[n]) || l.text[n] == '_' || (n && l.text[n] == '-')))
		n++;
	return n && !isdigit((unsigned char)*l.text) ? n : 0;
}

static bool blank_at(struct radfile_line l, size_t at)
{
	return at >= l.len || is_blank(l.text[at]);
}

/* The same if the line is "word:" and a blank or nothing follows, which makes it a setting; 0 if it is not. */
static size_t key_length(struct radfile_line l)
{
	size_t n = name_length(l);
	return n && n < l.len && l.text[n] == ':' && blank_at(l, n + 1) ? n : 0;
}

/* "gpu_mem:8G", "gpu_mem : 8G" and "gpu_mem = 8G" would be commands to bash, and fail when the task has waited for its turn. */
static int check_no_near_key(const struct radfile_reader *r, struct radfile_line l)
{
	size_t n = name_length(l), at = n;
	scoped_free char *key = radfile_copy((struct radfile_line){ l.text, n });
	while (at < l.len && is_blank(l.text[at]))
		at++;
	bool colon = at < l.len && l.text[at] == ':' && (at > n ? blank_at(l, at + 1) : !blank_at(l, at + 1) && l.text[at + 1] != ':');
	bool equals = at < l.len && l.text[at] == '=' && at > n && blank_at(l, at + 1);
	if (!n || !(colon || equals) || !options_find_key(key))
		return 0;
	struct radfile_line value = radfile_trim(l.text + at + 1, l.len - at - 1);
	return error_set(r->err, ERR_INVALID, "%.300s:%d: '%.*s': a setting is a key, a colon and a blank: write '%s: %.*s'", r->name,
			 r->scan.line, (int)(l.len < 60 ? l.len : 60), l.text, key,
			 (int)(value.len < 60 ? value.len : 60), value.text);
}

/* The value of a setting: " #" ends it, blanks around it and one pair of quotes do not belong to it. */
static char *setting_value(struct radfile_line l)
{
	for (size_t i = 1; i < l.len; i++)
		if (l.text[i] == '#' && is_blank(l.text[i - 1]))
			l.len = i;
	l = radfile_trim(l.text, l.len);
	if (l.len >= 2 && (*l.text == '"' || *l.text == '\'') && l.text[l.len - 1] == *l.text)
		l = (struct radfile_line){ l.text + 1, l.len - 2 };
	return radfile_copy(l);
}

static const char *key_of(const struct submit_option *o)
{
	return o->key;
}

static int unknown_key(struct radfile_reader *r, const char *key, int line)
{
	const struct submit_option *o = options_find(key);
	if (o && o->set)
		return error_set(r->err, ERR_INVALID, "%.300s:%d: '%.60s' is no setting of a task file: write '#RAD --%s%s' instead",
				 r->name, line, key, o->name, o->arg ? "=..." : "");
	scoped_free const char **words = options_names(key_of);
	const char *near = words_nearest(key, words);
	if (near)
		return error_set(r->err, ERR_INVALID, "%.300s:%d: unknown setting '%.60s': did you mean '%s'?", r->name, line, key, near);
	scoped_buf known = { 0 };
	for (size_t i = 0; words[i]; i++)
		buf_printf(&known, " %s", words[i]);
	return error_set(r->err, ERR_INVALID, "%.300s:%d: unknown setting '%.60s': expected a command, or one of%s", r->name, line,
			 key, buf_text(&known));
}

static int key_line(struct radfile_reader *r, struct radfile_line l, size_t key_len)
{
	scoped_free char *key = radfile_copy((struct radfile_line){ l.text, key_len });
	const struct submit_option *o = options_find_key(key);
	if (!o)
		return unknown_key(r, key, r->scan.line);
	char *value = setting_value((struct radfile_line){ l.text + key_len + 1, l.len - key_len - 1 });
	return radfile_add(r, &r->keys, o, value, r->scan.line);
}

/* ---- the positional form ---- */

#define POSITIONAL_MIN 9
#define POSITIONAL_MAX 12

struct positional { struct radfile_line field[POSITIONAL_MAX]; int line[POSITIONAL_MAX]; size_t n; };

static bool is_word(struct radfile_line l, const char *word)
{
	return l.len == strlen(word) && !memcmp(l.text, word, l.len);
}

static bool is_number(struct radfile_line l, bool whole)
{
	scoped_free char *text = radfile_copy(l);
	double d;
	int64_t i;
	return whole ? !units_parse_int(text, INT64_MIN, INT64_MAX, &i, NULL) : !units_parse_double(text, -1e15, 1e15, &d, NULL);
}

static bool is_positional(const char *text, size_t len, struct positional *p)
{
	size_t at = 0;
	int line = 0;
	for (struct radfile_line l; radfile_next_line(text, len, &at, &l);) {
		line++;
		l = radfile_trim(l.text, l.len);
		if (!l.len)
			continue;
		if (p->n == POSITIONAL_MAX)
			return false;
		p->line[p->n] = line;
		p->field[p->n++] = l;
	}
	if (p->n < POSITIONAL_MIN || *p->field[0].text != '#' || !is_number(p->field[5], true) || !is_number(p->field[7], true))
		return false;
	if (!is_word(p->field[6], "exclusive") && !is_word(p->field[6], "collocation"))
		return false;
	for (size_t i = POSITIONAL_MIN - 1; i < p->n; i++)
		if (!is_number(p->field[i], false))
			return false;
	return true;
}

static int set_positional(struct radfile_reader *r, const struct positional *p, size_t i, const char *name)
{
	return radfile_add(r, &r->keys, options_find(name), radfile_copy(p->field[i]), p->line[i]);
}

/* Memory figures: whole or not, 0 for unknown. */
static int positional_memory(struct radfile_reader *r, const struct positional *p)
{
	for (size_t i = 8; i < p->n; i++) {
		scoped_free char *text = radfile_copy(p->field[i]);
		double mib;
		if (units_parse_double(text, 0, SPEC_MAX_MIB, &mib, r->err))
			return error_wrap(r->err, "%.300s:%d: memory in MiB", r->name, p->line[i]);
		if (i > 8)
			r->out->estimates_mib[i - 9] = (uint64_t)(mib + 0.5);
		else if (mib > 0 && set_positional(r, p, i, "gpu-mem"))
			return -1;
	}
	return 0;
}

static int read_positional(struct radfile_reader *r, struct positional *p, bool honour_policy)
{
	static const char activate[] = "conda activate ";
	struct radfile_line *env = &p->field[1];
	if (env->len > strlen(activate) && !memcmp(env->text, activate, strlen(activate)))
		*env = radfile_trim(env->text + strlen(activate), env->len - strlen(activate));
	if (set_positional(r, p, 1, "env") || set_positional(r, p, 3, "model") || set_positional(r, p, 5, "batch-size") ||
	    set_positional(r, p, 7, "gpus") || positional_memory(r, p))
		return -1;
	if (honour_policy && set_positional(r, p, 6, "policy"))
		return -1;
	if (!honour_policy)
		radfile_note(r->out, alloc_printf("policy '%.*s' on line %d is ignored (positional_policy: honour in rad.conf changes that)",
					      (int)p->field[6].len, p->field[6].text, p->line[6]));
	for (int i = 1; i < p->line[2]; i++)
		buf_add(&r->script, "\n", 1);
	buf_add(&r->script, p->field[2].text, p->field[2].len);
	buf_add(&r->script, "\n", 1);
	return 0;
}

/* ---- scripts ---- */

static bool has_command(const char *script)
{
	size_t at = 0, len = strlen(script);
	for (struct radfile_line l; radfile_next_line(script, len, &at, &l);) {
		l = radfile_trim(l.text, l.len);
		if (l.len && *l.text != '#')
			return true;
	}
	return false;
}

/* "/usr/bin/env python3 -u": whether the program is Python. */
static bool is_python(struct radfile_line interpreter)
{
	for (size_t i = 0, n; i < interpreter.len; i += n + 1) {
		const char *word = interpreter.text + i, *base = word;
		for (n = 0; i + n < interpreter.len && !is_blank(word[n]); n++)
			if (word[n] == '/')
				base = word + n + 1;
		if (!strncmp(base, "python", 6) && base + 6 <= word + n)
			return true;
	}
	return false;
}

/* Python takes a script's folder and its name from where it reads it. What runs is the stored copy, but it is to find its
 * neighbours and its own name as it would where it was written. */
static const char python_start[] =
	"-c 'import sys, os; __file__ = sys.argv.pop(1); sys.argv[0] = __file__;"
	" sys.path[:1] = [os.path.dirname(__file__)] if sys.path[:1] == [\"\"] else sys.path[:1]; del sys, os;"
	" exec(compile(open(\"/dev/fd/9\", \"rb\").read(), __file__, \"exec\"))'";

/* bash runs the script, so one for another interpreter is handed to it as a file descriptor; its line numbers stay. */
static void wrap_script(struct radfile_reader *r, struct radfile_line interpreter, const char *text, size_t len)
{
	char end[40];
	snprintf(end, sizeof end, "RAD_SCRIPT_END_%016llx", (unsigned long long)hash_bytes(HASH_SEED, text, len));
	buf_printf(&r->script, "exec %.*s ", (int)interpreter.len, interpreter.text);
	if (r->path && is_python(interpreter)) {
		buf_printf(&r->script, "%s ", python_start);
		words_add_shell(&r->script, r->path);
	} else {
		buf_add_text(&r->script, "/dev/fd/9");
	}
	buf_printf(&r->script, " \"$@\" 9<<'%s'\n", end);
	buf_add(&r->script, text, len);
	buf_printf(&r->script, "%s\n", end);
}

/* "  gpu_mem: 8G" is a command, too, and will fail: told, not refused, since settings begin their lines and all else is
 * bash's. */
static void tell_indented_key(struct radfile_reader *r, struct radfile_line l)
{
	struct radfile_line bare = radfile_trim(l.text, l.len);
	size_t n = key_length(bare);
	scoped_free char *key = radfile_copy((struct radfile_line){ bare.text, n });
	if (!n || bare.text == l.text || r->indented || !options_find_key(key))
		return;
	r->indented = true;
	radfile_note(r->out, alloc_printf("line %d: '%s:' is indented, so bash gets it as a command: a setting begins its line",
					  r->scan.line, key));
}

static int read_line(struct radfile_reader *r, struct radfile_line l, bool keys, bool shell)
{
	bool inside = shell && shellscan_inside(&r->scan);
	size_t key = keys ? key_length(l) : 0;
	if (key && !inside) {
		shellscan_skip(&r->scan);
		buf_add(&r->script, "\n", 1);
		return key_line(r, l, key);
	}
	if (shell)
		shellscan_line(&r->scan, l.text, l.len);
	else
		shellscan_skip(&r->scan);
	if (keys && !inside && check_no_near_key(r, l))
		return -1;
	if (keys && !inside)
		tell_indented_key(r, l);
	bool options = radfile_is_directive(l) || radfile_is_sbatch(l);
	if (inside && (key || options))
		r->swallowed = r->scan.line;
	buf_add(&r->script, l.text, l.len);
	buf_add(&r->script, "\n", 1);
	struct radfile_line bare = radfile_trim(l.text, l.len);
	r->commands = r->commands || (bare.len && *bare.text != '#');
	if (inside || !options)
		return 0;
	return radfile_is_sbatch(l) ? radfile_sbatch(r, l) : radfile_directive(r, l);
}

/* Whether the first line, which ends at `end`, has the shell stop where a command fails: "-e", "-xe", "-o errexit". */
static bool stops_at_errors(const char *first, const char *end)
{
	bool named = false;	/* by the next word, of an option -o */
	for (const char *p = first, *next; p < end; p = next) {
		struct radfile_line word = { p, 0 };
		while (p + word.len < end && !is_blank(p[word.len]))
			word.len++;
		next = p + word.len + 1;
		if (named && is_word(word, "errexit"))
			return true;
		bool flags = p > first && word.len > 1 && *p == '-' && p[1] != '-';
		named = flags && memchr(p, 'o', word.len);
		if (flags && memchr(p, 'e', word.len))
			return true;
	}
	return false;
}

/* sbatch runs a script as its first line says, and that goes on behind a command that failed; ours are run by bash -e. So a
 * script that is Slurm's alone has that undone, in the place of the first line, which is a comment. */
static void run_as_sbatch(struct radfile_reader *r)
{
	const char *first = buf_text(&r->script), *end = strchr(first, '\n');
	if ((!r->slurm && !r->unheard.len) || r->keys.n || r->directives.n || radfile_is_name(r->name) || *first != '#' ||
	    (end && stops_at_errors(first, end)))
		return;
	scoped_free char *rest = alloc_string(end ? end : "");
	buf_drop(&r->script, r->script.len);
	buf_add_text(&r->script, "set +e");
	buf_add_text(&r->script, rest);
}

static int read_script(struct radfile_reader *r, const char *text, size_t len)
{
	bool keys = radfile_is_name(r->name);
	struct radfile_line interpreter = { text, 0 };
	interpreter.len = shellscan_other(text, len, &interpreter.text);
	if (keys && interpreter.len)
		return error_set(r->err, ERR_INVALID, "%.300s:1: '#!%.*s': a .rad file is a bash script: write '%.*s FILE' as its command",
				 r->name, (int)(interpreter.len < 60 ? interpreter.len : 60), interpreter.text,
				 (int)(interpreter.len < 60 ? interpreter.len : 60), interpreter.text);
	size_t at = 0;
	for (struct radfile_line l; radfile_next_line(text, len, &at, &l);)
		if (read_line(r, l, keys, !interpreter.len))
			return -1;
	radfile_sbatch_end(r, text, len);
	int from;
	const char *open = shellscan_unfinished(&r->scan, &from);
	if (open && r->swallowed)
		return error_set(r->err, ERR_INVALID, "%.300s:%d: this setting is inside the %s that began on line %d and never end%s",
				 r->name, r->swallowed, open, from, strcmp(open, "quotes") ? "s" : "");
	if (!has_command(buf_text(&r->script)))
		return error_set(r->err, ERR_INVALID, "%.300s: holds no command: expected at least one line that bash can run", r->name);
	if (!interpreter.len)
		run_as_sbatch(r);
	if (interpreter.len) {
		buf_free(&r->script);
		wrap_script(r, interpreter, text, len);
	}
	return 0;
}

static void free_list(struct radfile_list *l)
{
	for (size_t i = 0; i < l->n; i++) {
		free(l->items[i].key);
		free(l->items[i].value);
	}
	free(l->items);
}

static void append_list(struct radfile_list *to, struct radfile_list *from)
{
	for (size_t i = 0; i < from->n; i++) {
		alloc_grow(to->items, to->n, to->cap);
		to->items[to->n++] = from->items[i];
	}
	from->n = 0;
}

/* KEY lines first: others beat them, and ours beat Slurm's. */
static void hand_over(struct radfile_reader *r)
{
	struct radfile_list *all = &r->keys;
	append_list(all, &r->sbatch);
	append_list(all, &r->directives);
	r->out->settings = steal(all->items);
	r->out->n = all->n;
	all->n = 0;
	r->out->script = buf_steal(&r->script);
}

/* Fills r->out, and empties the reader again. */
static int parse(struct radfile_reader *r, const char *text, size_t len, bool positional_policy)
{
	*r->out = (struct radfile){ 0 };
	if (len > SPEC_MAX_TEXT)
		return error_set(r->err, ERR_INVALID, "%.300s: is larger than 1 MiB: a task file is a short script; keep data elsewhere",
				 r->name);
	if (radfile_check_text(r->name, text, len, r->err))
		return -1;
	struct positional p = { 0 };
	scoped_buf plain = { 0 };
	plain_text(text, len, &plain, r->out);
	int failed;
	if (strspn(buf_text(&plain), " \t\n") == plain.len) {
		failed = error_set(r->err, ERR_INVALID, "%.300s: is empty: expected a script with at least one command", r->name);
	} else if (radfile_is_name(r->name) && is_positional(plain.data, plain.len, &p)) {
		r->out->form = RAD_FORM_POSITIONAL;
		failed = read_positional(r, &p, positional_policy);
	} else {
		r->out->form = radfile_has_directives(plain.data, plain.len) ? RAD_FORM_DIRECTIVES : RAD_FORM_KEYS;
		failed = read_script(r, plain.data, plain.len);
	}
	if (failed)
		radfile_clear(r->out);
	else
		hand_over(r);
	free_list(&r->keys);
	free_list(&r->sbatch);
	free_list(&r->directives);
	buf_free(&r->unheard);
	buf_free(&r->script);
	return failed ? -1 : 0;
}

int radfile_parse(const char *name, const char *path, const char *text, size_t len, bool positional_policy,
		  struct radfile *out, struct error *err)
{
	struct radfile_reader r = { .name = name, .path = path, .out = out, .err = err };
	return parse(&r, text, len, positional_policy);
}

int radfile_parse_for_slurm(const char *name, const char *path, const char *text, size_t len, struct radfile *out,
			    struct error *err)
{
	struct radfile_reader r = { .name = name, .path = path, .for_slurm = true, .out = out, .err = err };
	return parse(&r, text, len, false);
}

void radfile_clear(struct radfile *f)
{
	free_list(&(struct radfile_list){ .items = f->settings, .n = f->n });
	for (size_t i = 0; i < f->n_notes; i++)
		free(f->notes[i]);
	free(f->notes);
	free(f->script);
	*f = (struct radfile){ 0 };
}
