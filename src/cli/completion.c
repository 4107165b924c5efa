/* SPDX-License-Identifier: MIT
 * Completion scripts: see completion.h. A script knows the verbs, and of each verb its options, what their values can be, and
 * whether its words are files. Only for ids of tasks it asks `rad queue`, and for GPUs `rad gpus`: for a second at most,
 * starting no daemon, and for as many as somebody may want to look through.
 */
#include "cli/completion.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/scope.h"
#include "base/words.h"

#include <string.h>

/* In each of the three shells; its argument is what a task is shown by. */
#define IDS "RAD_NO_START=1 timeout 1 rad queue --noheader -o '%s' 2>/dev/null | head -n 1000"

/* Those by which `rad drain` knows GPUs: numbers, but UUIDs of MIG instances and of what has lost its number. */
#define GPUS "RAD_NO_START=1 timeout 1 rad gpus -v 2>/dev/null | " \
	"awk '$2 ~ /^GPU-/ && $1 ~ /^[0-9]+$/ { print $1 } $2 ~ /^MIG-/ || ($1 ~ /^GPU-/ && index($2, $1) == 1) { print $2 }'"

struct target { FILE *out; const char *verbs; };	/* what `help` takes */

struct script {
	void (*begin)(FILE *out, const struct cli_verb *verbs);
	void (*verb)(void *target, const struct cli_verb *v, const struct args_option *options);
	void (*end)(FILE *out);
};

/* Words of tasks and GPUs are no files. */
static bool words_are_files(const struct cli_verb *v)
{
	return strchr(v->usage, '.') && !strstr(v->usage, "ID") && !strstr(v->usage, "GPU") && !strstr(v->usage, "LIMIT");
}

/* Whether they are ids of tasks that live. */
static bool words_are_ids(const struct cli_verb *v)
{
	return strstr(v->usage, "ID") != NULL;
}

/* Whether they are GPUs, in lists with commas between. */
static bool words_are_gpus(const struct cli_verb *v)
{
	return strstr(v->usage, "GPU...") != NULL;
}

static bool takes_gpus(const struct args_option *o)
{
	return !strcmp(o->name, "gpus") && o->arg && !strcmp(o->arg, "LIST");
}

/* What the words of a verb can be, or the first of them where files follow; NULL: they are free. */
static const char *words_of(const struct cli_verb *v, const struct target *t)
{
	static const char *const fixed[][2] = {
		{ "bench", "collocate solo" }, { "completion", "bash zsh fish" }, { "trace", "make import run" },
		{ "limit", "max_running= max_gpus= max_queued= max_mem=" },
		{ "update", "priority= time= begin= dependency= gpus= gpu-mem= mem= retries= max-slowdown= array= name=" },
		{ NULL },
	};
	return strcmp(v->name, "help") ? words_beside(fixed, v->name) : t->verbs;
}

static bool wants_value(const struct args_option *o)
{
	return o->arg && *o->arg != '[';
}

/* Text inside single quotes of a shell. */
static void quoted(FILE *out, const char *text)
{
	for (; *text; text++)
		fputs(*text == '\'' ? "'\\''" : (char[]){ *text, 0 }, out);
}

/* bash ------------------------------------------------------------------------------------------------------------------ */

static void begin_bash(FILE *out, const struct cli_verb *verbs)
{
	/* One file a line: names hold blanks. */
	fputs("# bash completion for rad\n_rad_ids()\n{\n\t", out);
	fprintf(out, IDS, "%i");
	fputs("\n}\n_rad_gpus()\n{\n"
	      "\tlocal before=${cur%\"${cur##*,}\"}\n"
	      "\tCOMPREPLY=($(compgen -P \"$before\" -W \"$(" GPUS ") $1\" -- \"${cur##*,}\"))\n}\n_rad_files()\n{\n"
	      "\tmapfile -t COMPREPLY < <(compgen \"$1\" -- \"$cur\")\n\tcompopt -o filenames 2>/dev/null\n}\n"
	      "_rad()\n{\n"
	      "\tlocal cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} options= files= words= ids= gpus=\n"
	      "\tif [[ $cur == = ]]; then cur=; fi\n"
	      "\tif [[ $prev == = ]]; then prev=${COMP_WORDS[COMP_CWORD-2]}; fi\n"
	      /* afterok:12:13, whose colons are words to bash */
	      "\tlocal before=\" ${COMP_WORDS[*]:2:COMP_CWORD-1}\" after=' (-d|--dependency)( =)? [a-z]+ :[0-9_ :]*$'\n"
	      "\tif [[ $before =~ $after ]]; then\n"
	      "\t\tCOMPREPLY=($(compgen -W \"$(_rad_ids)\" -- \"${cur#:}\"))\n\t\treturn\n\tfi\n"
	      "\tif (( COMP_CWORD == 1 )); then\n\t\tCOMPREPLY=($(compgen -W '", out);
	for (const struct cli_verb *v = verbs; v->name; v++)
		fprintf(out, "%s%s", v == verbs ? "" : " ", v->name);
	fputs("' -- \"$cur\"))\n\t\treturn\n\tfi\n"
	      "\tlocal verb=${COMP_WORDS[1]}\n"
	      "\tif (( COMP_CWORD > 2 )) && [[ \"$verb ${COMP_WORDS[2]}\" == 'bench solo' ]]; then verb=submit; fi\n"
	      "\tcase $verb in\n", out);
}

static void verb_bash(void *target, const struct cli_verb *v, const struct args_option *options)
{
	const struct target *t = target;
	FILE *out = t->out;
	const char *words = words_of(v, t);
	fprintf(out, "\t%s)\n\t\tcase $prev in\n", v->name);
	for (const struct args_option *o = options; o->name; o++) {
		if (!wants_value(o))
			continue;
		fprintf(out, "\t\t--%s", o->name);
		if (o->letter)
			fprintf(out, "|-%c", o->letter);
		if (o->words)
			fprintf(out, ") COMPREPLY=($(compgen -W '%s' -- \"$cur\")); return ;;\n", o->words);
		else if (takes_gpus(o))
			fputs(") _rad_gpus; return ;;\n", out);
		else if (args_takes_path(o))
			fprintf(out, ") _rad_files -%c; return ;;\n", strcmp(o->arg, "DIR") ? 'f' : 'd');
		else
			fputs(") return ;;\n", out);
	}
	fprintf(out, "\t\tesac\n\t\tfiles=%s ids=%s gpus=%s words='%s' options='", words_are_files(v) ? "yes" : "",
		words_are_ids(v) ? "yes" : "", words_are_gpus(v) ? "yes" : "", words ? words : "");
	for (const struct args_option *o = options; o->name; o++)
		if (o->help)
			fprintf(out, "--%s ", o->name);
	fputs("--help' ;;\n", out);
}

static void end_bash(FILE *out)
{
	fputs("\tesac\n\tif [[ $cur == -* ]]; then\n\t\tCOMPREPLY=($(compgen -W \"$options\" -- \"$cur\"))\n"
	      "\telif [[ $gpus ]]; then\n\t\t_rad_gpus all\n"
	      "\telif [[ $ids && $cur != *=* ]]; then\n\t\tCOMPREPLY=($(compgen -W \"$(_rad_ids) $words\" -- \"$cur\")) || :\n"
	      "\t\tif [[ ${COMPREPLY-} == *= ]]; then compopt -o nospace 2>/dev/null; fi\n"
	      "\telif [[ $words ]] && { (( COMP_CWORD == 2 )) || [[ ! $files ]]; }; then\n"
	      "\t\tCOMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
	      "\t\tif [[ ${COMPREPLY-} == *= ]]; then compopt -o nospace 2>/dev/null; fi\n"
	      "\telif [[ $files ]]; then\n\t\t_rad_files -f\n\tfi\n}\n"
	      "complete -F _rad rad\n", out);
}

/* zsh ------------------------------------------------------------------------------------------------------------------- */

/* zsh reads [ ] : in descriptions as its own. */
static void zsh_text(FILE *out, const char *text)
{
	for (; *text; text++) {
		if (strchr("[]:\\", *text))
			fputc('\\', out);
		quoted(out, (char[]){ *text, 0 });
	}
}

static void begin_zsh(FILE *out, const struct cli_verb *verbs)
{
	fputs("#compdef rad\n_rad_ids() {\n\tlocal -a ids\n\tids=(${(f)\"$(", out);
	fprintf(out, IDS, "%i:%j (%t)");
	fputs(")\"})\n\t_describe -V task ids \"$@\"\n}\n_rad_gpus() {\n\tcompset -P '*,'\n"
	      "\tcompadd \"$@\" -- ${(f)\"$(" GPUS ")\"}\n}\n_rad() {\n\tlocal -a verbs\n\tverbs=(\n", out);
	for (const struct cli_verb *v = verbs; v->name; v++) {
		fprintf(out, "\t\t'%s:", v->name);
		zsh_text(out, v->help);
		fputs("'\n", out);
	}
	fputs("\t)\n\tif (( CURRENT == 2 )); then\n\t\t_describe verb verbs\n\t\treturn\n\tfi\n"
	      "\tshift words\n\t(( CURRENT-- ))\n"
	      "\tif [[ $words[1] == bench && $words[2] == solo ]] && (( CURRENT > 2 )); then\n"
	      "\t\tshift words\n\t\t(( CURRENT-- ))\n\t\twords[1]=submit\n\tfi\n"
	      "\tcase $words[1] in\n", out);
}

/* `name`: with its dashes; `with_value`: how its value comes where it wants one. */
static void zsh_spelling(FILE *out, const struct args_option *o, const char *name, const char *with_value)
{
	bool optional = o->arg && !wants_value(o);
	fprintf(out, " \\\n\t\t'%s%s[", name, !o->arg ? "" : optional ? "=-" : with_value);
	zsh_text(out, o->help);
	fputc(']', out);
	if (o->arg)
		fprintf(out, "%s:%s:", optional ? ":" : "", "value");
	if (o->arg && o->words)
		fprintf(out, "(%s)", o->words);
	else if (takes_gpus(o))
		fputs("_rad_gpus", out);
	else if (args_takes_path(o))
		fputs(strcmp(o->arg, "DIR") ? "_files" : "_files -/", out);
	fputc('\'', out);
}

static void zsh_option(FILE *out, const struct args_option *o)
{
	scoped_free char *name = alloc_printf("--%s", o->name);
	zsh_spelling(out, o, name, "=");
	if (o->letter && (!o->arg || wants_value(o)))
		zsh_spelling(out, o, (char[]){ '-', o->letter, 0 }, "+");
}

static void verb_zsh(void *target, const struct cli_verb *v, const struct args_option *options)
{
	const struct target *t = target;
	FILE *out = t->out;
	const char *words = words_of(v, t);
	static const struct args_option help = { .name = "help", .help = "show this help" };
	fprintf(out, "\t%s) _arguments -S", v->name);
	for (const struct args_option *o = options; o->name; o++)
		if (o->help)
			zsh_option(out, o);
	zsh_option(out, &help);
	if (words_are_ids(v) && words)
		fprintf(out, " \\\n\t\t'*:task:{_rad_ids; compadd -S \"\" -- %s}'", words);
	else if (words)
		fprintf(out, " \\\n\t\t'%c:word:(%s)'", words_are_files(v) ? '1' : '*', words);
	else if (words_are_ids(v))
		fputs(" \\\n\t\t'*:task:_rad_ids'", out);
	else if (words_are_gpus(v))
		fputs(" \\\n\t\t'*:GPU:{_rad_gpus; compadd all}'", out);
	if (!words_are_ids(v) && !words_are_gpus(v) && (!words || words_are_files(v)))
		fprintf(out, " \\\n\t\t'*:%s'", words_are_files(v) ? "file:_files" : "word:");
	fputs(" ;;\n", out);
}

static void end_zsh(FILE *out)
{
	fputs("\tesac\n}\n_rad \"$@\"\n", out);
}

/* fish ------------------------------------------------------------------------------------------------------------------ */

static void begin_fish(FILE *out, const struct cli_verb *verbs)
{
	fputs("# fish completion for rad\nfunction __rad_ids\n\t", out);
	fprintf(out, "env " IDS, "%i\t%j (%t)");
	fputs("\nend\nfunction __rad_gpus\n\tenv " GPUS "\nend\ncomplete -c rad -n __fish_use_subcommand -f\n", out);
	for (const struct cli_verb *v = verbs; v->name; v++) {
		fprintf(out, "complete -c rad -n __fish_use_subcommand -f -a %s -d '", v->name);
		quoted(out, v->help);
		fputs("'\n", out);
	}
}

static void options_fish(FILE *out, const char *word, const struct args_option *options)
{
	bool letter = true;	/* -h is not taken */
	for (const struct args_option *o = options; o->name; o++) {
		letter = letter && o->letter != 'h';
		if (!o->help)
			continue;
		fprintf(out, "complete -c rad -n '__fish_seen_subcommand_from %s' -l %s", word, o->name);
		if (o->letter)
			fprintf(out, " -s %c", o->letter);
		if (wants_value(o))
			fputs(args_takes_path(o) ? " -r" : " -x", out);
		if (o->words || takes_gpus(o))
			fprintf(out, " -a '%s'", o->words ? o->words : "(__rad_gpus)");
		fputs(" -d '", out);
		quoted(out, o->help);
		fputs("'\n", out);
	}
	fprintf(out, "complete -c rad -n '__fish_seen_subcommand_from %s' -l help%s -d 'show this help'\n", word,
		letter ? " -s h" : "");
}

static void verb_fish(void *target, const struct cli_verb *v, const struct args_option *options)
{
	const struct target *t = target;
	FILE *out = t->out;
	const char *words = words_of(v, t);
	if (words)
		fprintf(out, "complete -c rad -n '__fish_seen_subcommand_from %s' -a '%s'\n", v->name, words);
	if (!words_are_files(v))
		fprintf(out, "complete -c rad -n '__fish_seen_subcommand_from %s' -f\n", v->name);
	if (words_are_ids(v))
		fprintf(out, "complete -c rad -n '__fish_seen_subcommand_from %s' -a '(__rad_ids)'\n", v->name);
	if (words_are_gpus(v))
		fprintf(out, "complete -c rad -n '__fish_seen_subcommand_from %s' -a 'all (__rad_gpus)'\n", v->name);
	options_fish(out, v->name, options);
	if (!strcmp(v->name, "submit"))
		options_fish(out, "solo", options);	/* rad bench solo takes them, too */
}

static void end_fish(FILE *out)
{
	(void)out;
}

/* All ------------------------------------------------------------------------------------------------------------------- */

static const struct { const char *name; struct script script; } shells[] = {
	{ "bash", { begin_bash, verb_bash, end_bash } },
	{ "zsh", { begin_zsh, verb_zsh, end_zsh } },
	{ "fish", { begin_fish, verb_fish, end_fish } },
};

int completion_write(FILE *out, const char *shell, const struct cli_verb *verbs, struct error *err)
{
	const struct script *script = NULL;
	for (size_t i = 0; i < COUNT_OF(shells); i++)
		if (!strcmp(shell, shells[i].name))
			script = &shells[i].script;
	if (!script)
		return error_set(err, ERR_INVALID, "'%.40s': completions are known for bash, zsh and fish", shell);
	script->begin(out, verbs);
	scoped_buf names = { 0 };
	for (const struct cli_verb *v = verbs; v->name; v++)
		buf_printf(&names, "%s%s", v == verbs ? "" : " ", v->name);
	struct target target = { out, buf_text(&names) };
	for (const struct cli_verb *v = verbs; v->name; v++) {
		struct cli_call c = { .verb = v, .describe = script->verb, .ctx = &target };
		cli_call(&c);
	}
	script->end(out);
	return 0;
}
