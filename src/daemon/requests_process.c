/* SPDX-License-Identifier: MIT
 * Processes that are there already: whether one may become a task, where it is, and what a lease is to be told.
 *
 * A message names a process by pid and start time; that it is its sender's is asked of the kernel, by the uid that the socket
 * has. So another's process cannot be named, whatever is sent, nor can one that got its number later.
 */
#include "daemon/requests_internal.h"

#include "base/alloc.h"
#include "base/json.h"
#include "base/scope.h"
#include "daemon/now.h"
#include "launch/adopted.h"

#include <string.h>

/* The live task of a process that waits for its place, or has it: a process is one task. */
struct same { struct proc_id process; task_id found; };

/* The start time too: a pid alone may be another process's by now. */
static void find_same(void *ctx, const struct task *t)
{
	struct same *s = ctx;
	if (t->spec->process_pid == s->process.pid && t->spec->process_ticks == s->process.start_ticks)
		s->found = t->id;
}

/* Its own word (a process that waits or has its place), and the kernel's (it descends from a task). */
static int process_is_free(const struct requests *q, const struct message *m, struct proc_id process, struct error *err)
{
	char text[TASK_ID_TEXT];
	struct same same = { .process = process };
	const struct proc_reading p = { .id = process, .uid = m->uid };
	core_each_task(q->core, find_same, &same);
	if (!same.found && q->owner)
		same.found = q->owner(q->ctx, &p);
	if (!same.found)
		return 0;
	return error_set(err, ERR_CONFLICT, "process %d: belongs to task %s already", (int)process.pid,
			 task_id_text(same.found, text));
}

/* Its memory and that of what descends from it, on each GPU. */
int request_place_process(const struct requests *q, struct spec *s, struct process_places *out, struct error *err)
{
	struct core_process_at at = { 0 };
	struct core_process p;
	const char *last = NULL;
	uint64_t there_mib = 0, most_mib = 0;
	out->n = 0;
	while (core_next_process(q->core, &at, &p)) {
		if (p.process->uid != s->uid || p.process->mps_server || !proc_descends(p.process->id.pid, (pid_t)s->process_pid))
			continue;
		if (last != p.gpu->uuid) {
			if (out->n == SPEC_MAX_GPUS)
				break;
			memcpy(out->gpus[out->n++], p.gpu->uuid, GPU_UUID_LEN);
			last = p.gpu->uuid;
			there_mib = 0;
		}
		there_mib += p.gpu->valid & GPU_PROC_MEM ? p.process->mem_mib : 0;
		most_mib = there_mib > most_mib ? there_mib : most_mib;
	}
	if (!out->n)
		return error_set(err, ERR_NOT_FOUND, "process %d: is on no GPU of this radd, so there is nothing to count; before it takes "
				 "one, 'rad lease' gets it a place", (int)s->process_pid);
	s->gpus = out->n;
	s->gpu_mem_mib = most_mib > s->gpu_mem_mib ? most_mib : s->gpu_mem_mib;
	return 0;
}

/* The kernel's word about the process first, so that nobody learns by asking which task another's process belongs to. */
int request_check_process(const struct requests *q, const struct message *m, const struct spec *s, struct error *err)
{
	struct proc_id process = spec_process(s);
	if (adopted_check(process, m->uid, err))
		return -1;
	return process_is_free(q, m, process, err);
}

/* Whose it is can be asked only of a task that is there; that there is none, or that it is no lease, is the core's to say. */
int request_give_back(const struct requests *q, const struct message *m, struct reply *reply, struct error *err)
{
	task_id id;
	if (request_id(m, &id, err))
		return -1;
	const struct task *t = core_task(q->core, id);
	if (t && request_need_owner(m, t, err))
		return -1;
	if (core_give_back(q->core, id, m->uid, now_read(), err))
		return -1;
	return request_answer(reply, json_pack("{si, si}", "schema", 1, "changed", 1));
}

/* Not with '?', since what they say is opened: a folder of the state, say. */
static json_t *variables_json(char **env, struct error *err)
{
	json_t *o = json_object();
	for (char **e = env; *e; e++) {
		size_t n = strcspn(*e, "=");
		scoped_free char *name = alloc_printf("%.*s", (int)n, *e);
		if (json_object_set_new(o, name, json_exact(*e + n + 1))) {
			error_set(err, ERR_UNAVAILABLE, "%s: what it is to have is not UTF-8: %.300s", name, *e + n + 1);
			json_decref(o);
			return NULL;
		}
	}
	return o;
}

/* As a program that is started gets it, so that a lease in a notebook sees the same GPUs by the same numbers. */
int request_environ(const struct requests *q, const struct message *m, struct reply *reply, struct error *err)
{
	task_id id;
	char text[TASK_ID_TEXT];
	if (request_id(m, &id, err))
		return -1;
	const struct task *t = core_task(q->core, id);
	if (t && request_need_owner(m, t, err))
		return -1;
	if (!t || !(t->spec->lease || t->spec->announced) || t->state != TASK_RUNNING || !task_attempt(t)->shim.pid)
		return error_set(err, ERR_CONFLICT, "task %s: is no lease that has its place", task_id_text(id, text));
	char **env = q->environment(q->ctx, t);
	json_t *variables = variables_json(env, err);
	alloc_free_list(env);
	if (!variables)
		return -1;
	return request_answer(reply, json_pack("{si, ss, so}", "schema", 1, "id", task_id_text(id, text), "environ", variables));
}
