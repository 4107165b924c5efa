/* SPDX-License-Identifier: MIT
 * See untold.h. A list with the oldest first: it is short, and looked at when somebody asks about a task.
 */
#include "daemon/untold.h"

#include "base/alloc.h"
#include "base/json.h"
#include "base/words.h"

#include <stdlib.h>
#include <string.h>

#define MAX_OF_USER 50
#define MAX_WHY 300	/* bytes of what is said */

struct untold_one { uid_t uid; task_id id; int64_t t_ms; char *why; };
struct untold { struct untold_one *list; size_t n, cap; };

struct untold *untold_create(void)
{
	return alloc_zero(sizeof(struct untold));
}

void untold_destroy(struct untold *u)
{
	for (size_t i = 0; u && i < u->n; i++)
		free(u->list[i].why);
	if (u)
		free(u->list);
	free(u);
}

static void untold_drop(struct untold *u, size_t i)
{
	free(u->list[i].why);
	memmove(&u->list[i], &u->list[i + 1], (--u->n - i) * sizeof *u->list);
}

/* The one before it of the same task makes room, else the user's oldest. */
void untold_add(struct untold *u, uid_t uid, task_id id, int64_t t_ms, const char *why)
{
	size_t of_user = 0, oldest = 0;
	for (size_t i = u->n; i-- > 0;) {
		if (u->list[i].uid != uid)
			continue;
		if (u->list[i].id == id) {
			untold_drop(u, i);
			of_user = 0;
			break;
		}
		of_user++;
		oldest = i;
	}
	if (of_user >= MAX_OF_USER)
		untold_drop(u, oldest);
	alloc_grow(u->list, u->n, u->cap);
	u->list[u->n++] = (struct untold_one){ uid, id, t_ms, alloc_printf("%.*s", (int)words_cut(why, MAX_WHY), why) };
}

json_t *untold_json(const struct untold *u, task_id id, int64_t uid)
{
	json_t *o = NULL;
	char text[TASK_ID_TEXT];
	for (size_t i = 0; i < u->n; i++) {
		const struct untold_one *one = &u->list[i];
		bool meant = one->id == id || (TASK_INDEX(id) < 0 && TASK_JOB(one->id) == TASK_JOB(id));
		if (!meant || (uid >= 0 && one->uid != uid))
			continue;
		o = o ? o : json_object();
		json_object_set_new(o, task_id_text(one->id, text), json_pack("{so, so}", "time", json_time_or_null(one->t_ms), "text",
									      json_text_or_null(one->why)));
	}
	return o;
}
