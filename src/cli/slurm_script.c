/* SPDX-License-Identifier: MIT
 * See slurm_script.h.
 */
#include "cli/slurm_script.h"

#include "base/units.h"
#include "parse/shellscan.h"

#include <stdio.h>
#include <string.h>

#define COUNT_OF(list) (sizeof (list) / sizeof *(list))

/* The word at p, quotes removed, cut where it is longer. Returns what follows it; NULL: the line ends, or a comment begins. */
static const char *next_word(const char *p, char *word, size_t size)
{
	size_t n = 0;
	p += strspn(p, " \t\r");
	if (!*p || *p == '\n' || *p == '#')
		return NULL;
	for (char quote = 0; *p && *p != '\n' && (quote || !strchr(" \t\r", *p)); p++)
		if (*p == quote || (!quote && (*p == '"' || *p == '\'')))
			quote = quote ? 0 : *p;
		else if (n + 1 < size)
			word[n++] = *p;
	word[n] = 0;
	return p;
}

/* What "--name=2", "-G2" says; "": its value is the next word, if it has one; NULL: it is another option. */
static const char *value_in(const char *word, const char *name, char letter)
{
	size_t len = strlen(name);
	if (letter && word[0] == '-' && word[1] == letter)
		return word + 2;
	if (strncmp(word, name, len) || (word[len] && word[len] != '='))
		return NULL;
	return word + len + (word[len] == '=');
}

/* What `#RAD` lines say of an option: the value of the last one. letter 0: it has none; flag: its value is never apart. */
struct directive { const char *name; char letter; bool flag, found; char value[64]; };

static void take_directive(const char *p, struct directive *options, size_t n)
{
	char word[64];
	struct directive *apart = NULL;	/* whose value is the next word */
	p += strspn(p, " \t");
	for (bool options_follow = *p == '-'; options_follow && (p = next_word(p, word, sizeof word));) {
		struct directive *before = apart;
		apart = NULL;
		if (before)
			snprintf(before->value, sizeof before->value, "%s", word);
		for (size_t i = 0; !before && i < n; i++) {
			const char *value = value_in(word, options[i].name, options[i].letter);
			if (!value)
				continue;
			options[i].found = true;
			snprintf(options[i].value, sizeof options[i].value, "%s", value);
			apart = *value || options[i].flag ? NULL : &options[i];
		}
	}
}

/* The lines that radd's own clients take for directives: none in a here-document, which holds somebody else's text. */
static void read_directives(const char *script, struct directive *options, size_t n)
{
	struct shellscan scan = { 0 };
	const char *other;
	bool shell = !shellscan_other(script, strlen(script), &other);
	for (const char *line = script, *end; *line; line = *end ? end + 1 : end) {
		end = line + strcspn(line, "\n");
		size_t len = (size_t)(end - line);
		bool inside = shell && shellscan_inside(&scan);
		if (shell)
			shellscan_line(&scan, line, len - (len && end[-1] == '\r'));
		if (!inside && !strncmp(line, "#RAD", 4) && (line[4] == ' ' || line[4] == '\t'))
			take_directive(line + 4, options, n);
	}
}

bool slurm_script_wish(const char *script, struct slurm_wish *w)
{
	enum { MEM, GPUS, EXCLUSIVE, POLICY };
	struct directive o[] = {
		[MEM] = { .name = "--gpu-mem" }, [GPUS] = { .name = "--gpus", .letter = 'G' },
		[EXCLUSIVE] = { .name = "--exclusive", .flag = true }, [POLICY] = { .name = "--policy" },
	};
	int64_t gpus = 1;
	if (!strstr(script, "#RAD"))
		return false;
	read_directives(script, o, COUNT_OF(o));
	if (!o[MEM].found || units_parse_mib(o[MEM].value, &w->claim_mib, NULL) || !w->claim_mib)
		return false;
	if (o[GPUS].found && units_parse_int(o[GPUS].value, 1, 1024, &gpus, NULL))
		return false;
	w->gpus = (unsigned)gpus;
	w->exclusive = o[EXCLUSIVE].found || (o[POLICY].found && !strcmp(o[POLICY].value, "exclusive"));
	return true;
}
