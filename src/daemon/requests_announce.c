/* SPDX-License-Identifier: MIT
 * Jobs of another resource manager on this machine, told of by its part here (Slurm's plugin: slurm/): `announce` when one
 * comes, `depart` when its processes have ended. Only who may act for everybody is believed, since a task's user is named here
 * and not asked of the kernel.
 *
 * Such a task is a process that is there already (requests_process.c): the one that starts the user's processes below it. Where
 * `at` says which GPUs the other one gave it, it stands there from now on; else it is a lease, and waits for a place as any
 * task of that user does.
 */
#include "daemon/requests_internal.h"

#include "base/alloc.h"
#include "base/json.h"
#include "launch/launch.h"
#include "launch/record.h"
#include "submit/validate.h"

#include <signal.h>
#include <string.h>

#define JOB_MAX 100	/* characters of a job's name */

struct announcement {
	const char *job;
	struct message of;	/* as if its user had sent it */
	const json_t *at;	/* NULL: it needs a place */
};

static int announce_read(const struct message *m, struct announcement *a, struct error *err)
{
	int64_t uid = -1, gid = -1;
	a->job = json_string_value(json_object_get(m->json, "job"));
	a->at = json_object_get(m->json, "at");
	if (!a->job || !*a->job || strlen(a->job) > JOB_MAX)
		return error_set(err, ERR_INVALID, "'job' must be a text of 1 to %d characters", JOB_MAX);
	if (json_read_int(m->json, "uid", 0, UINT32_MAX - 1, &uid, err) || json_read_int(m->json, "gid", 0, UINT32_MAX - 1, &gid, err))
		return -1;
	if (uid < 0 || gid < 0)
		return error_set(err, ERR_INVALID, "'uid' and 'gid' must say whose job it is");
	if (a->at && (!json_array_size(a->at) || json_array_size(a->at) > SPEC_MAX_GPUS))
		return error_set(err, ERR_INVALID, "'at' must be a list of 1 to %d GPUs", SPEC_MAX_GPUS);
	a->of = *m;
	a->of.uid = (uid_t)uid;
	a->of.gid = (gid_t)gid;
	return 0;
}

/* Its steps come one by one, and an answer may have been lost: a job is one task, as long as that lives. One that was put back
 * and comes again is another. */
struct announced { const struct announcement *a; task_id found; };

static void announced_look(void *ctx, const struct task *t)
{
	struct announced *l = ctx;
	const char *job = t->spec->announced;
	if (job && t->spec->uid == l->a->of.uid && !strcmp(job, l->a->job) && !t->stopping && !proc_gone(spec_process(t->spec)))
		l->found = t->id;
}

static int announce_places(const struct requests *q, const struct announcement *a, struct spec *s, struct process_places *out,
			   struct error *err)
{
	for (size_t i = 0; i < json_array_size(a->at); i++) {
		const char *word = json_string_value(json_array_get(a->at, i));
		const char *uuid = word ? core_find_gpu(q->core, word, err) : NULL;
		if (!word)
			return error_set(err, ERR_INVALID, "'at' must be a list of texts: indices or UUIDs of GPUs");
		if (!uuid)
			return -1;
		for (uint32_t k = 0; k < out->n; k++)
			if (!strcmp(out->gpus[k], uuid))
				return error_set(err, ERR_INVALID, "'at' names GPU %s twice", uuid);
		snprintf(out->gpus[out->n++], GPU_UUID_LEN, "%s", uuid);
	}
	s->gpus = out->n;
	return 0;
}

/* What a user may have bounds what he is given here, not what somebody else gave him. */
static int announce_may_wait(const struct requests *q, const struct announcement *a, const struct spec *s, struct error *err)
{
	const struct message *of = &a->of;
	return request_need_user_room(q, of, of->uid, 1, err) || request_need_allowance(q, of, of->uid, 1, s, err) ||
	       core_feasible(q->core, s, err) ? -1 : 0;
}

static struct spec *announce_spec(const struct requests *q, const struct message *m, const struct announcement *a,
				  const char *name, struct process_places *places, struct error *err)
{
	struct spec *s = spec_from_json(json_object_get(m->json, "spec"), NULL, err);
	if (!s)
		return NULL;
	s->uid = a->of.uid;
	s->gid = a->of.gid;
	s->user = alloc_string(name);
	free(s->announced);
	s->announced = alloc_string(a->job);
	request_make_line(s->announced);
	s->lease = !a->at;
	s->capture_until_s = s->capture_turn_s = 0;
	if (!s->process_pid)
		error_set(err, ERR_INVALID, "'process_pid' of 'spec' must name the process that starts the job's");
	else if (!submit_validate(s, err) && !request_check_process(q, m, s, err) &&
		 !(a->at ? announce_places(q, a, s, places, err) : announce_may_wait(q, a, s, err)))
		return s;
	spec_unref(s);
	return NULL;
}

int request_announce(const struct requests *q, const struct message *m, struct reply *reply, struct error *err)
{
	struct announcement a = { 0 };
	char text[TASK_ID_TEXT];
	const char *name;
	if (request_need_admin(m, "announcing jobs", err) || request_need_room(q, err) || announce_read(m, &a, err))
		return -1;
	struct announced same = { .a = &a };
	core_each_task(q->core, announced_look, &same);
	if (same.found)
		return request_answer(reply, json_pack("{si, ss, sb}", "schema", 1, "id", task_id_text(same.found, text), "joined", 1));
	int unknown = request_user_name(q, a.of.uid, &name, err);
	if (unknown)
		return unknown > 0 ? request_again(reply) : -1;
	struct process_places places = { .n = 0 };
	struct spec *s = announce_spec(q, m, &a, name, &places, err);
	json_t *answer = s ? request_submit_job(q, s, &places, err) : NULL;
	if (answer)
		json_object_set_new(answer, "joined", json_false());
	return request_answer(reply, answer);
}

/* How it ended is what whoever waited for its processes says, as a shim would have written it. */
int request_depart(const struct requests *q, const struct message *m, struct reply *reply, struct error *err)
{
	struct exit_record record;
	task_id id;
	char text[TASK_ID_TEXT];
	if (request_need_admin(m, "telling how jobs ended", err) || request_id(m, &id, err))
		return -1;
	if (record_from_json(json_object_get(m->json, "record"), &record))
		return error_set(err, ERR_INVALID, "'record' must be an exit record, as rad-shim writes it");
	const struct task *t = core_task(q->core, id);
	if (!t || !t->spec->announced || t->state != TASK_RUNNING)
		return error_set(err, ERR_CONFLICT, "task %s: is no announced job that runs", task_id_text(id, text));
	struct exit_report report = { 0 };
	launch_report(&record, &report);
	report.never_began = false;
	/* That is how the other one ends jobs; what dies of it is no fault of its neighbours, nor of its own. */
	if (record.signal == SIGTERM && !t->stopping && core_cancel(q->core, id, t->spec->uid, now_read(), err))
		return -1;
	if (!q->departed(q->ctx, id, &report))
		return error_set(err, ERR_CONFLICT, "task %s: its end is known already", task_id_text(id, text));
	return request_answer(reply, json_pack("{si, si}", "schema", 1, "changed", 1));
}
