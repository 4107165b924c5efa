/* SPDX-License-Identifier: MIT
 * Command lines: see program.h. A process may rewrite its own, so it is taken for bytes without a form. What interpreters there
 * are need not be known exactly: of one that is not, its name alone is shown.
 */
#include "monitor/program.h"

#include "base/words.h"

#include <string.h>

/* Their first word that is no option is a script. `code`: after this option comes a program's text, which is nobody's name. */
static const struct interpreter { const char *name; const char *code, *module, *with_value; } interpreters[] = {
	{ "python", "c", "m", "WXQ" }, { "pypy", "c", "m", "WXQ" }, { "bash", "c", NULL, "oO" }, { "sh", "c", NULL, "o" },
	{ "dash", "c", NULL, "o" }, { "zsh", "c", NULL, "o" }, { "perl", "eE", NULL, "IMm" }, { "ruby", "e", NULL, "Ir" },
	{ "julia", "eE", NULL, "pLtJ" }, { "Rscript", "e", NULL, NULL }, { "node", "ep", NULL, "r" },
};

/* "python3.11" is python. */
static const struct interpreter *interpreter_of(const char *name)
{
	for (size_t i = 0; i < sizeof interpreters / sizeof *interpreters; i++) {
		size_t len = strlen(interpreters[i].name);
		if (!strncmp(name, interpreters[i].name, len) && strspn(name + len, "0123456789.") == strlen(name + len))
			return &interpreters[i];
	}
	return NULL;
}

static bool holds(const char *letters, char c)
{
	return letters && c && strchr(letters, c);
}

static const char *next_word(const char *word, const char *end)
{
	const char *next = word + strlen(word) + 1;
	return next < end ? next : NULL;
}

/* Appends as far as there is room, in printable ASCII, up to the first blank if `one_word`. */
static void add_clean(char *out, size_t size, const char *text, bool one_word)
{
	size_t n = strlen(out);
	for (; *text && n + 1 < size && !(one_word && *text == ' '); text++)
		out[n++] = *text >= ' ' && *text < 0x7f ? *text : '?';
	out[n] = 0;
}

/* The letters of one word: "-uc" is -u and -c. Says what follows them: nothing of note, a value, or a program. */
enum follows { FOLLOWS_NOTHING, FOLLOWS_VALUE, FOLLOWS_CODE, FOLLOWS_MODULE };

static enum follows read_letters(const struct interpreter *of, const char *word, const char **rest)
{
	*rest = NULL;
	if (word[1] == '-')
		return FOLLOWS_NOTHING;
	for (const char *p = word + 1; *p; p++) {
		enum follows f = holds(of->code, *p) ? FOLLOWS_CODE : holds(of->module, *p) ? FOLLOWS_MODULE :
				 holds(of->with_value, *p) ? FOLLOWS_VALUE : FOLLOWS_NOTHING;
		*rest = p[1] ? p + 1 : NULL;
		if (f != FOLLOWS_NOTHING)
			return f;
	}
	return FOLLOWS_NOTHING;
}

/* Scripts are named by the last part of their path: what lies before says where somebody's home is, and no more. */
static void add_script(const struct interpreter *of, const char *word, const char *end, char *program)
{
	const char *rest;
	enum follows f = FOLLOWS_NOTHING;
	for (; word && word[0] == '-' && word[1]; word = next_word(word, end)) {
		f = read_letters(of, word, &rest);
		if (f == FOLLOWS_CODE || f == FOLLOWS_MODULE)
			break;
		if (f == FOLLOWS_VALUE && !rest && !(word = next_word(word, end)))
			return;
	}
	if (!word)
		return;
	if (f == FOLLOWS_CODE) {
		add_clean(program, PROC_PROGRAM_LEN, " -c", false);
		return;
	}
	bool module = f == FOLLOWS_MODULE;
	const char *name = !module ? words_base(word) : rest ? rest : next_word(word, end);
	add_clean(program, PROC_PROGRAM_LEN, module ? " -m " : " ", false);
	add_clean(program, PROC_PROGRAM_LEN, name ? name : "", module);
}

static void add_command(const char *word, const char *end, char *command)
{
	size_t room = PROC_COMMAND_LEN - strlen("...");
	for (const char *w = word; w; w = next_word(w, end)) {
		if (w != word)
			add_clean(command, room, " ", false);
		add_clean(command, room, w, false);
		if (strlen(command) + 1 == room) {
			strcat(command, "...");
			return;
		}
	}
}

/* A title like "server: worker 3" stands where the name was: its first word is all that is taken. */
void program_describe(const char *cmdline, size_t n, const char *comm, char program[PROC_PROGRAM_LEN],
		      char command[PROC_COMMAND_LEN])
{
	char name[PROC_PROGRAM_LEN] = "";
	*program = *command = 0;
	if (!n || !*cmdline || cmdline[n - 1]) {
		add_clean(program, PROC_PROGRAM_LEN, comm, false);
		add_clean(command, PROC_COMMAND_LEN, comm, false);
		return;
	}
	const char *end = cmdline + n;
	add_command(cmdline, end, command);
	const char *slash = memrchr(cmdline, '/', strcspn(cmdline, " ")), *base = name;
	add_clean(name, sizeof name, slash ? slash + 1 : cmdline, true);	/* a path may be longer than what is shown */
	if (*base == '-')	/* a login shell */
		base++;
	add_clean(program, PROC_PROGRAM_LEN, base, false);
	const struct interpreter *of = interpreter_of(base);
	if (of && next_word(cmdline, end))
		add_script(of, next_word(cmdline, end), end, program);
}
