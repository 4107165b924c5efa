/* SPDX-License-Identifier: MIT
 * See queue_format.h. A field is %[.][size]letter: cut or filled to that size, to the right with a dot. The letters are
 * those of squeue as far as one machine has what they mean; others are refused, since a column of blanks would be taken for
 * an answer.
 */
#include "cli/queue_format.h"

#include "base/alloc.h"
#include "base/scope.h"
#include "base/units.h"
#include "cli/format.h"
#include "cli/member.h"
#include "cli/term.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MOST_COLUMNS 1000	/* of one field */

typedef char *(*value_of)(const json_t *task, const json_t *gpus);

static char *text_member(const json_t *t, const char *key)
{
	return alloc_string(member_text(t, key));
}

static char *seconds(double s)
{
	char text[FORMAT_LEN];
	return alloc_string(format_seconds(s, text));
}

static char *moment(const json_t *t, const char *key)
{
	char text[FORMAT_LEN];
	return alloc_string(*member_text(t, key) ? format_time(member_text(t, key), text) : "N/A");
}

static task_id id_of(const json_t *t)
{
	task_id id = 0;
	task_id_parse(member_text(t, "id"), &id, NULL);
	return id;
}

static char *where(const json_t *t, const json_t *gpus)
{
	return format_gpus(json_object_get(member_last_attempt(t), "gpus"), gpus);
}

#define VALUE(name, expression) \
	static char *value_##name(const json_t *t, const json_t *gpus) \
	{ \
		(void)t, (void)gpus; \
		return expression; \
	}
VALUE(id, text_member(t, "id"))
VALUE(job, alloc_printf("%u", TASK_JOB(id_of(t))))
VALUE(index, TASK_INDEX(id_of(t)) < 0 ? alloc_string("N/A") : alloc_printf("%d", TASK_INDEX(id_of(t))))
VALUE(name, text_member(t, "name"))
VALUE(user, text_member(t, "user"))
VALUE(code, alloc_string(member_state(t) == TASK_STATE_COUNT ? "?" : task_state_code(member_state(t))))
VALUE(state, text_member(t, "state"))
VALUE(ran, seconds(member_number(t, "run_s")))
VALUE(limit, isnan(member_number(t, "time_limit_s")) ? alloc_string("UNLIMITED") : seconds(member_number(t, "time_limit_s")))
VALUE(left, isnan(member_number(t, "time_limit_s")) ? alloc_string("UNLIMITED") :
	    seconds(fmax(0, member_number(t, "time_limit_s") - member_number(t, "run_s"))))
VALUE(submitted, moment(t, "submit_time"))
VALUE(started, moment(t, "start_time"))
VALUE(ended, moment(t, "end_time"))
VALUE(priority, alloc_printf("%lld", (long long)member_int(t, "priority")))
VALUE(gres, alloc_printf("gpu:%lld", (long long)member_int(t, "gpus_requested")))
VALUE(folder, text_member(t, "cwd"))
VALUE(command, text_member(t, "command"))
VALUE(reason, alloc_string(*member_text(t, "reason") ? member_text(t, "reason") : "None"))
VALUE(gpus, where(t, gpus))

static char *value_memory(const json_t *t, const json_t *gpus)
{
	char text[FORMAT_LEN];
	(void)gpus;
	return alloc_string(format_mib(member_number(json_object_get(t, "estimate"), "claim_mib"), text));
}

static char *value_place(const json_t *t, const json_t *gpus)
{
	enum task_state s = member_state(t);
	return s == TASK_PENDING || s == TASK_HELD ? alloc_printf("(%s)", member_text(t, "reason")) : where(t, gpus);
}

/* `member`: what radd is asked for it, beside id, name, user and state; NULL: nothing. */
static const struct field { char letter; const char *title; value_of value; const char *member, *member2; } fields[] = {
	{ 'i', "JOBID", value_id }, { 'A', "JOBID", value_job }, { 'F', "ARRAY_JOB_ID", value_job },
	{ 'K', "ARRAY_TASK_ID", value_index }, { 'j', "NAME", value_name }, { 'u', "USER", value_user },
	{ 't', "ST", value_code }, { 'T', "STATE", value_state }, { 'M', "TIME", value_ran, "run_s" },
	{ 'l', "TIME_LIMIT", value_limit, "time_limit_s" }, { 'L', "TIME_LEFT", value_left, "time_limit_s", "run_s" },
	{ 'V', "SUBMIT_TIME", value_submitted, "submit_time" }, { 'S', "START_TIME", value_started, "start_time" },
	{ 'e', "END_TIME", value_ended, "end_time" }, { 'Q', "PRIORITY", value_priority, "priority" },
	{ 'p', "PRIORITY", value_priority, "priority" }, { 'b', "TRES_PER_NODE", value_gres, "gpus_requested" },
	{ 'Z', "WORK_DIR", value_folder, "cwd" }, { 'o', "COMMAND", value_command, "command" },
	{ 'r', "REASON", value_reason, "reason" }, { 'N', "GPUS", value_gpus, "attempts" },
	{ 'm', "GPU_MEM", value_memory, "estimate" }, { 'R', "GPU(REASON)", value_place, "reason", "attempts" },
};

/* The field that begins at *p, a '%', and goes on behind it. NULL: it stands for nothing. */
static const struct field *take_field(const char **p, bool *right, unsigned *size)
{
	const char *at = *p + 1;
	*right = *at == '.';
	at += *right;
	*size = 0;
	for (; isdigit((unsigned char)*at) && *size <= MOST_COLUMNS; at++)
		*size = *size * 10 + (unsigned)(*at - '0');
	for (size_t i = 0; *at && *size <= MOST_COLUMNS && i < COUNT_OF(fields); i++)
		if (fields[i].letter == *at) {
			*p = at + 1;
			return &fields[i];
		}
	return NULL;
}

int queue_format_check(const char *format, struct error *err)
{
	bool right;
	unsigned size;
	for (const char *p = format; *p;) {
		if (*p != '%' || p[1] == '%')
			p += 1 + (*p == '%');
		else if (!take_field(&p, &right, &size))
			return error_set(err, ERR_INVALID, "'%.40s': stands for nothing: a field is %%[.][size] and one of "
					 "i A F K j u t T M l L V S e Q p b Z o r N m R", p);
	}
	return 0;
}

size_t queue_format_members(const char *format, const char *members[QUEUE_FORMAT_MEMBERS])
{
	bool right;
	unsigned size;
	size_t n = 0;
	for (const char *p = format; *p;) {
		const struct field *f = *p == '%' && p[1] != '%' ? take_field(&p, &right, &size) : NULL;
		const char *const asked[] = { f ? f->member : NULL, f ? f->member2 : NULL };
		for (size_t i = 0; i < COUNT_OF(asked); i++) {
			size_t k = 0;
			while (k < n && asked[i] && strcmp(members[k], asked[i]))
				k++;
			if (asked[i] && k == n && n < QUEUE_FORMAT_MEMBERS)
				members[n++] = asked[i];
		}
		if (!f)
			p += 1 + (*p == '%');
	}
	return n;
}

/* Cut and filled by columns of the terminal, not by bytes. */
static void print_field(const char *text, bool right, unsigned size, FILE *out)
{
	const struct term plain = { .utf8 = true };
	scoped_free char *clean = term_text(text, 0, &plain);
	size_t keep = strlen(clean);
	while (size && term_columns(clean) > size) {
		do
			keep--;
		while (keep && ((unsigned char)clean[keep] & 0xc0) == 0x80);
		clean[keep] = 0;
	}
	unsigned columns = term_columns(clean);
	int fill = size > columns ? (int)(size - columns) : 0;
	fprintf(out, "%*s%s%*s", right ? fill : 0, "", clean, right ? 0 : fill, "");
}

/* `task` NULL: the titles. */
static void print_line(const char *format, const json_t *task, const json_t *gpus, FILE *out)
{
	bool right;
	unsigned size;
	for (const char *p = format; *p;) {
		const struct field *f = *p == '%' && p[1] != '%' ? take_field(&p, &right, &size) : NULL;
		if (f) {
			scoped_free char *text = task ? f->value(task, gpus) : alloc_string(f->title);
			print_field(text, right, size, out);
		} else {
			putc(*p, out);
			p += 1 + (*p == '%');
		}
	}
	putc('\n', out);
}

void queue_format_print(const char *format, bool titles, const json_t *tasks, const json_t *gpus, FILE *out)
{
	size_t i;
	json_t *t;
	if (titles)
		print_line(format, NULL, gpus, out);
	json_array_foreach(tasks, i, t)
		print_line(format, t, gpus, out);
}
