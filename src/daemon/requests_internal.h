/* SPDX-License-Identifier: MIT
 *
 * What the files requests*.c share. Nobody else includes it.
 */
#ifndef RAD_DAEMON_REQUESTS_INTERNAL_H
#define RAD_DAEMON_REQUESTS_INTERNAL_H

#include "daemon/requests.h"
#include "daemon/now.h"

/* One operation; as requests_run. */
typedef int request_operation(const struct requests *q, const struct message *m, struct reply *reply, struct error *err);

/* requests_submit.c */
request_operation request_submit;
/* requests_change.c */
request_operation request_cancel, request_hold, request_release, request_suspend, request_resume, request_signal,
	request_requeue, request_update;
/* requests_captured.c */
request_operation request_capturing, request_captured;
/* requests_look.c */
request_operation request_list, request_show, request_events, request_script, request_why, request_starts, request_wait,
	request_acct, request_series;
/* requests_gpus.c */
request_operation request_gpus, request_drain, request_undrain, request_status;
/* requests_purge.c */
request_operation request_purge;
/* requests_users.c */
request_operation request_users, request_limit;
/* requests_reserve.c */
request_operation request_reserve, request_reservations, request_unreserve;
/* requests_process.c */
request_operation request_give_back, request_environ;
/* requests_announce.c */
request_operation request_announce, request_depart;

/* requests_change.c: the live tasks that the request's ids stand for: each one itself, or all elements of an array job. Free
 * *ids. 0, or -1: there is none. */
int request_live_ids(const struct requests *q, const struct message *m, task_id **ids, size_t *n, struct error *err);

/* requests_process.c: whether the process that the spec names may become a task. 0, or -1 with why not. */
int request_check_process(const struct requests *q, const struct message *m, const struct spec *s, struct error *err);
/* On which GPUs that process and its descendants are, as far as they are the same user's. Fills in `gpus` and `gpu_mem_mib` of
 * the spec as well. */
struct process_places { char gpus[SPEC_MAX_GPUS][GPU_UUID_LEN]; uint32_t n; };
int request_place_process(const struct requests *q, struct spec *s, struct process_places *out, struct error *err);

/* requests_submit.c: the user's name, by the user database. 0; 1: it has not answered yet; -1: the user may submit nothing. */
int request_user_name(const struct requests *q, uid_t uid, const char **name, struct error *err);
/* Whether there is what tasks of that spec are to depend on. 0, or -1. */
int request_check_deps(const struct requests *q, const struct spec *s, const struct dependency *deps, size_t n,
		       struct error *err);
/* Adds to the list what a singleton of that user and name waits for: its unfinished jobs before that one. 0, or -1. */
int request_add_earlier(const struct requests *q, uid_t uid, const char *name, uint32_t job, struct dependency **deps,
			size_t *n, struct error *err);
/* Makes the task of a spec that was checked, and returns the answer to its submission. Takes over one reference of the spec.
 * NULL with an error: the store did not take it. */
json_t *request_submit_job(const struct requests *q, struct spec *s, struct process_places *places, struct error *err);

/* requests_gpus.c: adds to findings of placement what the core does not know: names, who drained a GPU and why. */
void request_explain(const struct requests *q, const struct message *m, json_t *findings);

/* requests_check.c: what several of them ask first. 0, or -1 with the reason to refuse. */
int request_id(const struct message *m, task_id *id, struct error *err);
/* The list `ids`, or `id` alone; each once, ascending, however often it was named. Free *ids. Returns how many, 0 with an
 * error. */
size_t request_ids(const struct message *m, task_id **ids, struct error *err);
int request_need_owner(const struct message *m, const struct task *t, struct error *err);
int request_need_admin(const struct message *m, const char *what, struct error *err);
/* Whether the disk has room for what is new. */
int request_need_room(const struct requests *q, struct error *err);
/* Whether that user may have so many tasks more. */
int request_need_user_room(const struct requests *q, const struct message *m, uid_t uid, size_t more, struct error *err);
/* Whether the user's limits (daemon/allowing.h) allow so many tasks more, and ever one of that spec (NULL: not asked). */
int request_need_allowance(const struct requests *q, const struct message *m, uid_t uid, size_t more, const struct spec *s,
			   struct error *err);
/* Whether that user's unfinished tasks may take so many bytes more. */
int request_need_size(const struct requests *q, const struct message *m, size_t more, struct error *err);
/* Whether the sender may add to the store, or has added too much to it lately. */
int request_need_store(const struct requests *q, const struct message *m, struct error *err);
/* The sender adds so much to it now. */
void request_spend_store(const struct requests *q, const struct message *m, size_t bytes);
/* Whether the task may be changed once more: each change is an event that is kept for ever. NULL, a task that does not live, is
 * let through: the core refuses it. */
int request_need_changes(const struct task *t, struct error *err);
/* Text of a person that is to stand in one line: what is no character of it becomes '?'. Takes NULL. */
void request_make_line(char *text);
/* No moment that people name is later (wall): the year 2200. */
#define REQUEST_LATEST_MS INT64_C(7258118400000)
/* An element of the job, ended or not, where the id stands for one; the id itself where it does not, or there is none. */
task_id request_any_element(const struct requests *q, task_id id);
/* A task, alive or from the store; *old is to be destroyed by the caller. NULL with an error. */
const struct task *request_any_task(const struct requests *q, task_id id, struct task **old, struct error *err);

/* Answers with that object, whose reference is taken over; -1 when it is NULL, for what set the error. */
static inline int request_answer(struct reply *reply, json_t *json)
{
	*reply = (struct reply){ .kind = REPLY_NOW, .json = json };
	return json ? 0 : -1;
}

/* The request is run anew when a user's name has come. Returns 0. */
static inline int request_again(struct reply *reply)
{
	*reply = (struct reply){ .kind = REPLY_AGAIN };
	return 0;
}

#endif
