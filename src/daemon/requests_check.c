/* SPDX-License-Identifier: MIT
 * Who may, and whether there is room: asked by several operations before they do anything. A refusal names whose limit it is
 * and what to do, since whoever meets it cannot look into rad.conf.
 */
#include "daemon/requests_internal.h"

int request_id(const struct message *m, task_id *id, struct error *err)
{
	const char *text = json_string_value(json_object_get(m->json, "id"));
	return text ? task_id_parse(text, id, err) : error_set(err, ERR_INVALID, "'id' must be a task id as text");
}

int request_need_owner(const struct message *m, const struct task *t, struct error *err)
{
	char id[TASK_ID_TEXT];
	if (request_is_admin(m->uid) || t->spec->uid == m->uid)
		return 0;
	return error_set(err, ERR_DENIED, "task %s: belongs to %s; only they and the administrator may do that",
			 task_id_text(t->id, id), t->spec->user);
}

int request_need_admin(const struct message *m, const char *what, struct error *err)
{
	if (request_is_admin(m->uid))
		return 0;
	return error_set(err, ERR_DENIED, "%s is for the administrator (root, or the user that radd runs as)", what);
}

int request_need_room(const struct requests *q, struct error *err)
{
	if (store_has_room(q->store))
		return 0;
	return error_set(err, ERR_UNAVAILABLE, "the disk of %s is full: nothing can be accepted until there is room", q->state_dir);
}

/* Every task costs everybody a line of `rad queue` and a look at each placement. */
int request_need_user_room(const struct requests *q, const struct message *m, uid_t uid, size_t more, struct error *err)
{
	size_t max = q->config->user_tasks, has = core_user_tasks(q->core, uid);
	if (!max || request_is_admin(m->uid) || has + more <= max)
		return 0;
	return error_set(err, ERR_UNAVAILABLE, "%zu more tasks: you have %zu unfinished ones, and a user may have %zu at a time "
			 "(user_tasks in rad.conf): wait for some to end, or cancel some", more, has, max);
}

const struct task *request_any_task(const struct requests *q, task_id id, struct task **old, struct error *err)
{
	const struct task *t = core_task(q->core, id);
	*old = NULL;
	return t ? t : (*old = store_load_task(q->store, id, err));
}
