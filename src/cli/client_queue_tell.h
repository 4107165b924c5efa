/* SPDX-License-Identifier: MIT
 *
 * What a queue of files answers to who asks about its tasks. Private to client_queue*.c.
 */
#ifndef RAD_CLI_CLIENT_QUEUE_TELL_H
#define RAD_CLI_CLIENT_QUEUE_TELL_H

#include "base/error.h"
#include "spool/spool.h"
#include "task/spec.h"
#include "task/task.h"

#include <jansson.h>

/* A job, opened: its submission and who said what of it. */
struct queued {
	struct spool *s;
	uint32_t job;
	struct spec *spec;
	int64_t submitted_ms;
	char by[SPOOL_NAME];
	json_t *pilots;
	struct pilot_known *known;	/* the whole queue, once somebody asks what a task waits for; NULL before */
};

/* It is the caller's, as all in his queue are: by his name, or his number where he has none. */
void client_queued_owner(struct spec *s);
void client_queued_clear(struct queued *q);
/* How many tasks it has, and the id of each. */
size_t client_queued_size(const struct queued *q);
task_id client_queued_task(const struct queued *q, size_t i);
/* Calls `each` with the tasks that `word` names, until it returns something else than 0, which is returned. */
int client_queued_each(struct queued *q, const char *word, int (*each)(struct queued *q, task_id id, void *ctx,
		struct error *err), void *ctx, struct error *err);

/* The answer with these tasks: a new reference; takes the list's. */
json_t *client_queued_list_answer(json_t *tasks);
/* Answers to requests of these names; NULL with *err. */
json_t *client_queued_show(struct queued *q, const json_t *request, struct error *err);
json_t *client_queued_list(struct queued *q, const json_t *request, struct error *err);
json_t *client_queued_acct(struct queued *q, const json_t *request, struct error *err);
json_t *client_queued_events(struct queued *q, const json_t *request, struct error *err);
json_t *client_queued_script(struct queued *q, const json_t *request, struct error *err);

#endif
