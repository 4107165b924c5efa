/* SPDX-License-Identifier: MIT
 * See pilot_local.h.
 */
#include "cli/pilot_local.h"

#include "base/alloc.h"
#include "base/json.h"
#include "base/scope.h"
#include "cli/client.h"
#include "cli/pilot_node.h"
#include "cli/pilot_notice.h"
#include "submit/wire.h"

#include <stdio.h>
#include <string.h>

static void set_path(json_t *spec, const struct spec *s, const char *key, const char *pattern, task_id id)
{
	if (!pattern)
		return;
	scoped_free char *path = spec_expand_path(s, pattern, id), *literal = spec_literal_path(path);
	json_object_set_new(spec, key, json_text(literal));
}

/* Of its beginning and end the pilot tells, by its number in the queue. */
static void set_notices(json_t *spec, const struct spec *s)
{
	scoped_free char *words = pilot_notices_of_radd(s->notify);
	if (words)
		json_object_set_new(spec, "notify", json_text(words));
	else
		json_object_del(spec, "notify");
}

/* One task, by itself: what depends on its number in the queue is settled here, since radd counts by itself. */
static json_t *local_spec(const struct pilot_known_task *t, const json_t *said, unsigned claim)
{
	const struct spec *s = t->job->spec;
	char key[PILOT_KEY];
	json_t *spec = json_copy((json_t *)said);
	scoped_free char *name = alloc_printf("%s %.900s", pilot_node_key(t->id, claim, key), s->name ? s->name : "");
	json_object_set_new(spec, "name", json_text(name));
	set_path(spec, s, "output", s->output, t->id);
	set_path(spec, s, "error", s->error, t->id);
	json_object_set_new(spec, "hold", json_true());
	json_object_del(spec, "begin_s");
	json_object_del(spec, "array_limit");
	json_object_del(spec, "deps");
	json_object_del(spec, "singleton");
	set_notices(spec, s);
	if (t->record.claims > 1)	/* what it wrote elsewhere, earlier, stays */
		json_object_del(spec, "truncate");
	if (s->n_array)
		json_object_set_new(spec, "array", json_pack("[i]", (int)TASK_INDEX(t->id)));
	if (s->time_limit_s) {
		double left = (double)s->time_limit_s - t->record.ran_s;
		json_object_set_new(spec, "time_limit_s", json_integer(left < 1 ? 1 : (json_int_t)left));
	}
	return spec;
}

static json_t *local_environ(const struct pilot *p, task_id id, const json_t *said)
{
	char text[TASK_ID_TEXT];
	json_t *env = json_array(), *one;
	size_t i;
	json_array_foreach(said, i, one) {
		const char *item = json_string_value(one);
		if (item && strncmp(item, "RAD_QUEUE=", 10) && strncmp(item, "RAD_QUEUE_TASK=", 15))
			json_array_append(env, one);
	}
	scoped_free char *dir = alloc_printf("RAD_QUEUE=%s", p->dir), *task = alloc_printf("RAD_QUEUE_TASK=%s", task_id_text(id,
			text));
	json_array_append_new(env, spec_word_to_json(dir));
	json_array_append_new(env, json_text(task));
	return env;
}

json_t *pilot_local_request(const struct pilot *p, const struct pilot_known_task *t, unsigned claim, struct error *err)
{
	scoped_json *job = spool_job(p->s, TASK_JOB(t->id), true, err);
	if (!job)
		return NULL;
	json_t *request = wire_request("submit");
	json_object_set_new(request, "spec", local_spec(t, json_object_get(job, "spec"), claim));
	json_object_set_new(request, "environ", local_environ(p, t->id, json_object_get(job, "environ")));
	return request;
}

int pilot_local_try(const struct pilot_known_task *t, enum pilot_local_fit *fit, struct error *err)
{
	struct error why = ERROR_INIT;
	json_t *request = wire_request("submit");
	scoped_json *spec = spec_to_json(t->job->spec);
	json_object_set_new(request, "spec", local_spec(t, spec, 1));
	json_object_set_new(request, "environ", json_array());
	json_object_set_new(request, "dry_run", json_true());
	scoped_json *reply = client_call(request, &why);
	*fit = !reply ? PILOT_FITS_NEVER : json_is_true(json_object_get(reply, "fits_now")) ? PILOT_FITS : PILOT_FITS_LATER;
	if (!reply)
		*err = why;
	return !reply && (why.code == ERR_UNAVAILABLE || why.code == ERR_SYSTEM || why.code == ERR_INTERNAL) ? -1 : 0;
}
