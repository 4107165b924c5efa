/* SPDX-License-Identifier: MIT
 * See nobody.h. Rows are sent and come back by their names, so that settings may change while the database is asked.
 */
#include "daemon/nobody.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/scope.h"
#include "daemon/names.h"
#include "daemon/troubles.h"
#include "launch/worker.h"
#include "settings/who.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEADLINE_MS 30000	/* for all of them */
#define MAX_NAMES ((size_t)1 << 20)
#define AGAIN_MS 30000		/* from one answer to the next question */

struct nobody {
	uv_loop_t *loop;
	char *program;
	const struct settings *config;
	struct worker *worker;
	char *unknown;		/* lines, as the worker said them; owned */
	int64_t asked_ms;	/* mono */
};

struct nobody *nobody_create(uv_loop_t *loop, const char *program, const struct settings *config)
{
	struct nobody *n = alloc_zero(sizeof *n);
	*n = (struct nobody){ .loop = loop, .program = alloc_string(program), .config = config, .unknown = alloc_string("") };
	return n;
}

void nobody_destroy(struct nobody *n)
{
	if (!n)
		return;
	worker_stop(n->worker);
	free(n->program);
	free(n->unknown);
	free(n);
}

static bool is_line_of(const char *lines, const char *name)
{
	size_t len = strlen(name);
	for (const char *at = lines; *at; at += strcspn(at, "\n"), at += *at == '\n')
		if (!strncmp(at, name, len) && at[len] == '\n')
			return true;
	return false;
}

/* In words; free it. */
static char *nobody_text(const struct nobody *n, const struct settings_who *row)
{
	scoped_free char *source = who_source(n->config, row, ALLOWANCE_GPUS);
	return alloc_printf("%s: the user database has no such %s: that row is for nobody", source,
			    !strncmp(row->name, "user:", 5) ? "user" : "group");
}

static void on_nobody_answer(void *ctx, const struct buf *answer, const char *why)
{
	struct nobody *n = ctx;
	n->worker = NULL;
	if (why) {
		log_warn("the names of user: and group: lines in rad.conf were not checked: the user database does not answer: %s", why);
		return;
	}
	scoped_free char *before = n->unknown;
	n->unknown = alloc_string(buf_text(answer));
	for (size_t i = 0; i < n->config->n_whos; i++) {
		const struct settings_who *row = &n->config->whos[i];
		scoped_free char *text = nobody_text(n, row);
		if (is_line_of(n->unknown, row->name) && !is_line_of(before, row->name))
			log_warn("%s", text);
	}
}

void nobody_look(struct nobody *n)
{
	struct buf names = { 0 };
	char why[120] = "";
	const struct worker_plan plan = { .program = n->program, .flag = "--nobody", .deadline_ms = DEADLINE_MS,
					  .max_answer = MAX_NAMES };
	worker_cancel(n->worker);
	n->worker = NULL;
	n->asked_ms = clock_mono_ms();
	for (size_t i = 0; i < n->config->n_whos; i++)
		buf_printf(&names, "%s\n", n->config->whos[i].name);
	if (!names.len) {
		*n->unknown = 0;
		return;
	}
	n->worker = worker_start(n->loop, &plan, alloc_string(buf_text(&names)), on_nobody_answer, n, why, sizeof why);
	buf_free(&names);
	if (!n->worker)
		on_nobody_answer(n, NULL, why);
}

void nobody_tell(struct nobody *n, json_t *troubles)
{
	for (size_t i = 0; i < n->config->n_whos; i++) {
		scoped_free char *text = nobody_text(n, &n->config->whos[i]);
		if (is_line_of(n->unknown, n->config->whos[i].name))
			troubles_add(troubles, "settings", "%s", text);
	}
	if (*n->unknown && !n->worker && clock_mono_ms() - n->asked_ms >= AGAIN_MS)
		nobody_look(n);
}

/* The worker's side. */
int nobody_worker(void)
{
	char line[1024];
	while (fgets(line, sizeof line, stdin)) {
		line[strcspn(line, "\n")] = 0;
		bool user = !strncmp(line, "user:", 5);
		errno = 0;
		if (user ? getpwnam(line + 5) != NULL : !strncmp(line, "group:", 6) && getgrnam(line + 6))
			continue;
		if (names_database_failed())
			return 1;
		puts(line);
	}
	return fflush(stdout) ? 1 : 0;
}
