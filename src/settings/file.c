/* SPDX-License-Identifier: MIT
 * Where settings come from: the file, variables, and which file it is. The file is YAML, read with libyaml's event parser,
 * because its marks give the line of every key (doc/decisions/0002-config-reader.md). Reading goes on after a wrong value or a
 * line that is none, so that one look shows all mistakes; what is not YAML in a way that no line shows ends it.
 */
#include "settings/settings.h"

#include "base/alloc.h"
#include "base/io.h"
#include "base/paths.h"
#include "base/scope.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <yaml.h>

#define MAX_FILE (1 << 20)

struct reader {
	struct settings *s;
	const char *path;
	settings_tell *tell;
	void *ctx;
	size_t mistakes;
	struct error first;
	const char *rest;	/* what the parser reads: the file from the line after this number of lines on */
	size_t before;
};

/* Always -1. */
static int mistake(struct reader *r, const struct error *err)
{
	if (!r->mistakes++)
		r->first = *err;
	if (r->tell)
		r->tell(r->ctx, err->text);
	return -1;
}

static void take(struct reader *r, const char *key, const char *value, size_t line)
{
	struct error err = ERROR_INIT;
	if (settings_set_named(r->s, key, value, (struct settings_source){ SETTINGS_FILE, line }, &err)) {
		error_wrap(&err, "%s:%zu", r->path, line);
		mistake(r, &err);
	}
}

/* The first colon that ends a key; NULL: there is none. */
static const char *key_colon(const char *p)
{
	while ((p = strchr(p, ':')) && p[1] != ' ' && p[1] != '\t')
		p++;
	return p;
}

/* What stands in the way of reading a line as 'key: value'; NULL: nothing that can be seen. Comments and the marks of a
 * document's ends are none. */
static const char *fault_of_line(const char *line)
{
	const char *colon = key_colon(line), *end = line + strlen(line);
	if (!line[strspn(line, " \t")] || line[strspn(line, " \t")] == '#' || !strcmp(line, "---") || !strcmp(line, "..."))
		return NULL;
	if (*line == ' ' || *line == '\t')
		return "does not begin at the left edge";
	if ((!colon && end[-1] != ':') || (colon && !strchr("\"'", colon[2]) && key_colon(colon + 2)))
		return "is not a 'key: value' line, with a blank after the colon";
	return NULL;
}

/* The text behind its first `lines` lines. */
static const char *behind(const char *text, size_t lines)
{
	for (; lines && *text; lines--) {
		text += strcspn(text, "\r\n");
		text += (*text == '\r' && text[1] == '\n') + !!*text;
	}
	return text;
}

static size_t lines_before(const char *text, size_t offset)
{
	size_t n = 0;
	for (const char *p = behind(text, 1); *p && (size_t)(p - text) <= offset; p = behind(p, 1))
		n++;
	return n;
}

/* What is not YAML, where it is: the parser notices it a line or more later, and in words of its own. Returns that line; 0 if
 * no line shows it. */
static size_t not_yaml(struct reader *r, const yaml_parser_t *parser)
{
	struct error err = ERROR_INIT;
	const char *p = r->rest;
	for (size_t line = 1; *p && line <= parser->problem_mark.line + 1; line++, p = behind(p, 1)) {
		scoped_free char *one = alloc_printf("%.*s", (int)strcspn(p, "\r\n"), p);
		const char *fault = fault_of_line(one);
		if (fault) {
			error_set(&err, ERR_INVALID, "%s:%zu: '%.60s' %s", r->path, r->before + line, one + strspn(one, " \t"), fault);
			mistake(r, &err);
			return line;
		}
	}
	bool bytes = parser->error == YAML_READER_ERROR;	/* these have no mark yet, only where they are */
	size_t line = bytes ? lines_before(r->rest, parser->problem_offset) : parser->problem_mark.line;
	error_set(&err, ERR_INVALID, "%s:%zu: not YAML: %s%s", r->path, r->before + line + 1,
		  parser->problem ? parser->problem : "unreadable", bytes ? ": save the file as UTF-8" : "");
	mistake(r, &err);
	return 0;
}

/* The flat mapping: scalars only, key then value. Returns 0 at the end, else the line after which it goes on. */
static size_t read_mapping(struct reader *r, yaml_parser_t *parser)
{
	scoped_free char *key = NULL;
	size_t key_line = 0;
	struct error err = ERROR_INIT;
	for (;;) {
		yaml_event_t e;
		if (!yaml_parser_parse(parser, &e))
			return not_yaml(r, parser);
		size_t line = e.start_mark.line + 1;
		yaml_event_type_t type = e.type;
		scoped_free char *text = type == YAML_SCALAR_EVENT ? alloc_string((const char *)e.data.scalar.value) : NULL;
		yaml_event_delete(&e);
		if (type == YAML_STREAM_END_EVENT && key) {
			error_set(&err, ERR_INVALID, "%s:%zu: '%.60s' is not a 'key: value' line", r->path, r->before + key_line, key);
			mistake(r, &err);
		}
		if (type == YAML_STREAM_END_EVENT)
			return 0;
		if (type == YAML_SEQUENCE_START_EVENT || type == YAML_ALIAS_EVENT || (type == YAML_MAPPING_START_EVENT && key)) {
			error_set(&err, ERR_INVALID, "%s:%zu: one 'key: value' a line is expected, no lists or blocks", r->path,
				  r->before + line);
			mistake(r, &err);
			while (strchr(" \t-", *behind(r->rest, line)) && *behind(r->rest, line))	/* more of it */
				line++;
			return line;
		}
		if (type != YAML_SCALAR_EVENT)
			continue;
		if (!key) {
			key = steal(text);
			key_line = line;
			continue;
		}
		take(r, key, text, r->before + line);
		free(steal(key));
	}
}

/* From behind a line that cannot be read the file is read as if it began there. */
static void read_all(struct reader *r, const struct buf *text)
{
	yaml_parser_t parser;
	struct error err = ERROR_INIT;
	size_t line = 0;
	r->rest = buf_text(text);
	do {
		if (!yaml_parser_initialize(&parser)) {
			error_set(&err, ERR_INTERNAL, "%s: the YAML parser cannot start", r->path);
			mistake(r, &err);
			return;
		}
		yaml_parser_set_input_string(&parser, (const unsigned char *)r->rest, text->len - (size_t)(r->rest - buf_text(text)));
		line = read_mapping(r, &parser);
		yaml_parser_delete(&parser);
		r->rest = behind(r->rest, line);
		r->before += line;
	} while (line && *r->rest);
}

int settings_read(struct settings *s, const char *path, bool must_exist, settings_tell *tell, void *ctx, struct error *err)
{
	struct reader r = { .s = s, .path = path, .tell = tell, .ctx = ctx };
	struct error unreadable = ERROR_INIT;
	scoped_buf text = { 0 };
	if (access(path, F_OK) && errno == ENOENT && !must_exist)
		return 0;
	free(s->file);
	s->file = alloc_string(path);
	if (io_read_file(path, MAX_FILE, &text, &unreadable))
		mistake(&r, &unreadable);
	else
		read_all(&r, &text);
	if (r.mistakes > 1 && !tell)
		return error_set(err, r.first.code, "%s (and %zu more: radd --check-config shows them)", r.first.text, r.mistakes - 1);
	return r.mistakes ? error_set(err, r.first.code, "%s", r.first.text) : 0;
}

static const char *said_path(void)
{
	const char *said = getenv("RAD_CONFIG");
	return said && *said ? said : NULL;
}

char *settings_path(void)
{
	const char *said = said_path();
	scoped_free char *folder = paths_own("XDG_CONFIG_HOME", ".config");
	if (said || !geteuid())
		return alloc_string(said ? said : "/etc/rad/rad.conf");
	return folder ? alloc_printf("%s/rad/rad.conf", folder) : alloc_string("");
}

static int read_environment(struct settings *s, struct error *err)
{
	for (const struct setting *row = settings_table; row->name; row++) {
		const char *value = row->environment ? getenv(row->environment) : NULL;
		if (value && *value && settings_set(s, row, value, (struct settings_source){ SETTINGS_ENVIRONMENT, 0 }, err))
			return error_wrap(err, "%s", row->environment);
	}
	return 0;
}

int settings_load(struct settings *s, const char *named, const char *devices, settings_tell *tell, void *ctx,
		  struct error *err)
{
	struct error why = ERROR_INIT;
	scoped_free char *usual = settings_path();
	bool must_exist = named || said_path();
	*s = settings_default();
	int mistaken = settings_read(s, named ? named : usual, must_exist, tell, ctx, err);
	int failed = read_environment(s, &why);
	if (!failed && devices)
		failed = settings_set_named(s, "devices", devices, (struct settings_source){ SETTINGS_COMMAND_LINE, 0 }, &why);
	if (failed && tell)
		tell(ctx, why.text);
	return mistaken ? -1 : failed ? error_pass(err, &why) : 0;
}
