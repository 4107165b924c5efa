/* SPDX-License-Identifier: MIT
 * See explaining.h. Each task's reason is compared by its word: the numbers of one reason move with every sample.
 */
#include "daemon/explaining.h"

#include "base/alloc.h"
#include "base/idmap.h"
#include "base/json.h"
#include "base/log.h"
#include "base/scope.h"

#include <stdlib.h>
#include <string.h>

#define EVERY_MS 1000
#define MOST 100		/* tasks, first in line first: each is asked of every GPU */

struct explaining {
	struct idmap words;	/* task -> its reason's word when it was last told; words are for ever */
	int64_t next_ms;	/* mono */
};

/* One look at all waiting tasks. */
struct explained { struct explaining *e; struct core *core; struct now now; struct idmap words; size_t n; };

struct explaining *explaining_create(void)
{
	return alloc_zero(sizeof(struct explaining));
}

void explaining_destroy(struct explaining *e)
{
	if (!e)
		return;
	idmap_free(&e->words);
	free(e);
}

static void tell(const struct explained *x, task_id id)
{
	struct error ignored = ERROR_INIT;
	char text[TASK_ID_TEXT];
	scoped_json *why = core_why_json(x->core, id, x->now, &ignored);
	size_t i;
	json_t *g;
	task_id_text(id, text);
	log_debug("task %s: waits: %s: %s", text, json_string_value(json_object_get(why, "reason")),
		  json_string_value(json_object_get(why, "reason_text")));
	json_array_foreach(json_object_get(why, "gpus"), i, g)
		log_debug("task %s: GPU %s: %s", text, json_string_value(json_object_get(g, "uuid")),
			  json_string_value(json_object_get(g, "text")));
}

static void explain(void *ctx, const struct task *t)
{
	struct explained *x = ctx;
	if (t->state != TASK_PENDING || x->n == MOST)
		return;
	x->n++;
	const char *word = core_task_reason(x->core, t, x->now), *was = idmap_get(&x->e->words, t->id);
	if (!word)
		return;
	idmap_put(&x->words, t->id, (void *)word);
	if (!was || strcmp(was, word))
		tell(x, t->id);
}

void explaining_note(struct explaining *e, struct core *c, struct now now)
{
	if (!log_writes(LOG_DEBUG) || now.mono_ms < e->next_ms)
		return;
	struct explained x = { .e = e, .core = c, .now = now };
	e->next_ms = now.mono_ms + EVERY_MS;
	core_each_task(c, explain, &x);
	idmap_free(&e->words);
	e->words = x.words;
}
