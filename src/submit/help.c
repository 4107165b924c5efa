/* SPDX-License-Identifier: MIT
 * What is made from the option table: `--help` and completion scripts. See options.h.
 */
#include "base/buf.h"
#include "base/scope.h"
#include "submit/options.h"

#include <string.h>

/* "--gpus=N", "--nice[=N]", "--hold" */
static char *long_form(const struct submit_option *o)
{
	struct buf text = { 0 };
	buf_printf(&text, "--%s", o->name);
	if (o->arg && *o->arg == '[')
		buf_printf(&text, "[=%s", o->arg + 1);
	else if (o->arg)
		buf_printf(&text, "=%s", o->arg);
	return buf_steal(&text);
}

void options_help(FILE *out)
{
	for (const struct submit_option *o = submit_options; o->name; o++) {
		scoped_free char *form = long_form(o);
		if (o->letter)
			fprintf(out, "  -%c, %-22s %s\n", o->letter, form, o->help);
		else
			fprintf(out, "      %-22s %s\n", form, o->help);
	}
}

/* Words that a value can only be one of; NULL where it is free. */
static const char *value_words(const struct submit_option *o)
{
	static const struct { const char *name, *words; } known[] = {
		{ "share", "auto never mps streams mig" },
		{ "policy", "exclusive collocation" },
		{ "dependency", "afterok: afterany: afternotok:" },
	};
	for (size_t i = 0; i < COUNT_OF(known); i++)
		if (!strcmp(known[i].name, o->name))
			return known[i].words;
	return NULL;
}

static bool takes_path(const struct submit_option *o)
{
	return o->arg && (!strcmp(o->arg, "FILE") || !strcmp(o->arg, "DIR"));
}

/* Text inside single quotes of a shell. */
static void quoted(FILE *out, const char *text)
{
	for (; *text; text++)
		fputs(*text == '\'' ? "'\\''" : (char[]){ *text, 0 }, out);
}

static void bash_values(FILE *out)
{
	for (const struct submit_option *o = submit_options; o->name; o++) {
		if (!o->arg || *o->arg == '[')
			continue;
		fprintf(out, "\t--%s", o->name);
		if (o->letter)
			fprintf(out, "|-%c", o->letter);
		if (value_words(o))
			fprintf(out, ") COMPREPLY=($(compgen -W '%s' -- \"$cur\")); return ;;\n", value_words(o));
		else if (takes_path(o))
			fprintf(out, ") _rad_files -%c; return ;;\n", strcmp(o->arg, "DIR") ? 'f' : 'd');
		else
			fputs(") return ;;\n", out);
	}
}

static void complete_bash(FILE *out, const struct options_verb *verbs)
{
	/* One file a line: names hold blanks. */
	fputs("# bash completion for rad\n_rad_files()\n{\n"
	      "\tmapfile -t COMPREPLY < <(compgen \"$1\" -- \"$cur\")\n\tcompopt -o filenames 2>/dev/null\n}\n"
	      "_rad()\n{\n"
	      "\tlocal cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
	      "\tif [[ $cur == = ]]; then cur=; fi\n"
	      "\tif [[ $prev == = ]]; then prev=${COMP_WORDS[COMP_CWORD-2]}; fi\n"
	      "\tif (( COMP_CWORD == 1 )); then\n\t\tCOMPREPLY=($(compgen -W '", out);
	for (const struct options_verb *v = verbs; v->name; v++)
		fprintf(out, "%s%s", v == verbs ? "" : " ", v->name);
	fputs("' -- \"$cur\"))\n\t\treturn\n\tfi\n"
	      "\tcase ${COMP_WORDS[1]} in submit|run|estimate) ;; *) return ;; esac\n"
	      "\tcase $prev in\n", out);
	bash_values(out);
	fputs("\tesac\n\tif [[ $cur == -* ]]; then\n\t\tCOMPREPLY=($(compgen -W '", out);
	for (const struct submit_option *o = submit_options; o->name; o++)
		fprintf(out, "%s--%s", o == submit_options ? "" : " ", o->name);
	fputs("' -- \"$cur\"))\n\telse\n\t\t_rad_files -f\n\tfi\n}\n"
	      "complete -F _rad rad\n", out);
}

/* zsh reads [ ] : in descriptions as its own. */
static void zsh_text(FILE *out, const char *text)
{
	for (; *text; text++) {
		if (strchr("[]:\\", *text))
			fputc('\\', out);
		quoted(out, (char[]){ *text, 0 });
	}
}

static void complete_zsh(FILE *out, const struct options_verb *verbs)
{
	fputs("#compdef rad\n_rad() {\n\tlocal -a verbs\n\tverbs=(\n", out);
	for (const struct options_verb *v = verbs; v->name; v++) {
		fprintf(out, "\t\t'%s:", v->name);
		zsh_text(out, v->help);
		fputs("'\n", out);
	}
	fputs("\t)\n\tif (( CURRENT == 2 )); then\n\t\t_describe verb verbs\n\t\treturn\n\tfi\n"
	      "\tcase $words[2] in submit|run|estimate) ;; *) return ;; esac\n"
	      "\tshift words\n\t(( CURRENT-- ))\n\t_arguments -S", out);
	for (const struct submit_option *o = submit_options; o->name; o++) {
		bool optional = o->arg && *o->arg == '[';
		fprintf(out, " \\\n\t\t'--%s%s[", o->name, !o->arg ? "" : optional ? "=-" : "=");
		zsh_text(out, o->help);
		fputc(']', out);
		if (o->arg)
			fprintf(out, "%s:%s:", optional ? ":" : "", "value");
		if (o->arg && value_words(o))
			fprintf(out, "(%s)", value_words(o));
		else if (takes_path(o))
			fputs(strcmp(o->arg, "DIR") ? "_files" : "_files -/", out);
		fputc('\'', out);
	}
	fputs(" \\\n\t\t'*:file:_files'\n}\n_rad \"$@\"\n", out);
}

static void complete_fish(FILE *out, const struct options_verb *verbs)
{
	fputs("# fish completion for rad\ncomplete -c rad -n __fish_use_subcommand -f\n", out);
	for (const struct options_verb *v = verbs; v->name; v++) {
		fprintf(out, "complete -c rad -n __fish_use_subcommand -f -a %s -d '", v->name);
		quoted(out, v->help);
		fputs("'\n", out);
	}
	for (const struct submit_option *o = submit_options; o->name; o++) {
		fprintf(out, "complete -c rad -n '__fish_seen_subcommand_from submit run estimate' -l %s", o->name);
		if (o->letter)
			fprintf(out, " -s %c", o->letter);
		if (o->arg && *o->arg != '[')
			fputs(takes_path(o) ? " -r" : " -x", out);
		if (value_words(o))
			fprintf(out, " -a '%s'", value_words(o));
		fputs(" -d '", out);
		quoted(out, o->help);
		fputs("'\n", out);
	}
}

int options_completion(FILE *out, const char *shell, const struct options_verb *verbs, struct error *err)
{
	static const struct { const char *name; void (*write)(FILE *, const struct options_verb *); } shells[] = {
		{ "bash", complete_bash }, { "zsh", complete_zsh }, { "fish", complete_fish },
	};
	for (size_t i = 0; i < COUNT_OF(shells); i++)
		if (!strcmp(shell, shells[i].name)) {
			shells[i].write(out, verbs);
			return 0;
		}
	return error_set(err, ERR_INVALID, "'%.40s': completions are known for bash, zsh and fish", shell);
}
