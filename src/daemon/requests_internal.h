/* SPDX-License-Identifier: MIT
 *
 * What the files requests*.c share. Nobody else includes it.
 */
#ifndef RAD_DAEMON_REQUESTS_INTERNAL_H
#define RAD_DAEMON_REQUESTS_INTERNAL_H

#include "daemon/requests.h"
#include "daemon/now.h"

/* One operation; as requests_run. */
typedef int (*request_operation)(const struct requests *q, const struct message *m, struct reply *reply, struct error *err);

/* requests_submit.c, requests_change.c, requests_look.c, requests_gpus.c, requests_purge.c, requests_reserve.c,
 * requests_users.c, requests_process.c, requests_announce.c */
int request_submit(const struct requests *q, const struct message *m, struct reply *reply, struct error *err);
int request_cancel(const struct requests *q, const struct message *m, struct reply *reply, struct error *err);
int request_hold(const struct requests *q, const struct message *m, struct reply *reply, struct error *err);
int request_release(const struct requests *q, const struct message *m, struct reply *reply, struct error *err);
int request_suspend(const struct requests *q, const struct message *m, struct reply *reply, struct error *err);
int request_resume(const struct requests *q, const struct message *m, struct reply *reply, struct error *err);
int request_signal(const struct requests *q, const struct message *m, struct reply *reply, struct error *err);
int request_requeue(const struct requests *q, const struct message *m, struct reply *reply, struct error *err);
int request_update(const struct requests *q, const struct message *m, struct reply *reply, struct error *err);
int request_captured(const struct requests *q, const struct message *m, struct reply *reply, struct error *err);
int request_list(const struct requests *q, const struct message *m, struct reply *reply, struct error *err);
int request_show(const struct requests *q, const struct message *m, struct reply *reply, struct error *err);
int request_events(const struct requests *q, const struct message *m, struct reply *reply, struct error *err);
int request_script(const struct requests *q, const struct message *m, struct reply *reply, struct error *err);
int request_why(const struct requests *q, const struct message *m, struct reply *reply, struct error *err);
int request_starts(const struct requests *q, const struct message *m, struct reply *reply, struct error *err);
int request_wait(const struct requests *q, const struct message *m, struct reply *reply, struct error *err);
int request_acct(const struct requests *q, const struct message *m, struct reply *reply, struct error *err);
int request_series(const struct requests *q, const struct message *m, struct reply *reply, struct error *err);
int request_gpus(const struct requests *q, const struct message *m, struct reply *reply, struct error *err);
int request_drain(const struct requests *q, const struct message *m, struct reply *reply, struct error *err);
int request_undrain(const struct requests *q, const struct message *m, struct reply *reply, struct error *err);
int request_purge(const struct requests *q, const struct message *m, struct reply *reply, struct error *err);
int request_users(const struct requests *q, const struct message *m, struct reply *reply, struct error *err);
int request_limit(const struct requests *q, const struct message *m, struct reply *reply, struct error *err);
int request_status(const struct requests *q, const struct message *m, struct reply *reply, struct error *err);
int request_reserve(const struct requests *q, const struct message *m, struct reply *reply, struct error *err);
int request_reservations(const struct requests *q, const struct message *m, struct reply *reply, struct error *err);
int request_unreserve(const struct requests *q, const struct message *m, struct reply *reply, struct error *err);

int request_give_back(const struct requests *q, const struct message *m, struct reply *reply, struct error *err);
int request_environ(const struct requests *q, const struct message *m, struct reply *reply, struct error *err);
int request_announce(const struct requests *q, const struct message *m, struct reply *reply, struct error *err);
int request_depart(const struct requests *q, const struct message *m, struct reply *reply, struct error *err);

/* requests_process.c: of a spec that is about a process. Whether that may become a task; */
int request_check_process(const struct requests *q, const struct message *m, const struct spec *s, struct error *err);
/* where it is: fills in `gpus` and `gpu_mem_mib` of the spec as well. Those of its processes that another may hold do not
 * count. */
struct process_places { char gpus[SPEC_MAX_GPUS][GPU_UUID_LEN]; uint32_t n; };
int request_place_process(const struct requests *q, struct spec *s, struct process_places *out, struct error *err);

/* requests_submit.c: who that is, by the user database. 0; 1: it has not answered yet; -1. */
int request_user_name(const struct requests *q, uid_t uid, const char **name, struct error *err);
/* The task of a spec that was checked: what is answered to its submission. Takes over one reference of the spec. NULL: the
 * store did not take it. */
json_t *request_submit_job(const struct requests *q, struct spec *s, struct process_places *places, struct error *err);

/* requests_check.c: what several of them ask first. 0, or -1 with the reason to refuse. */
int request_id(const struct message *m, task_id *id, struct error *err);
/* The list `ids`, or `id` alone; each once, ascending, however often it was named. Free *ids. Returns how many, 0 with an
 * error. */
size_t request_ids(const struct message *m, task_id **ids, struct error *err);
/* Sorts them; each is kept once. Returns how many. */
size_t request_sort_ids(task_id *ids, size_t n);
int request_need_owner(const struct message *m, const struct task *t, struct error *err);
int request_need_admin(const struct message *m, const char *what, struct error *err);
/* Whether the disk has room for what is new. */
int request_need_room(const struct requests *q, struct error *err);
/* Whether that user may have so many tasks more. */
int request_need_user_room(const struct requests *q, const struct message *m, uid_t uid, size_t more, struct error *err);
/* Whether his limits (daemon/allowing.h) let him have so many tasks more, and ever run such a one; NULL: the first only. */
int request_need_allowance(const struct requests *q, const struct message *m, uid_t uid, size_t more, const struct spec *s,
			   struct error *err);
/* Whether that user's unfinished tasks may take so many bytes more. */
int request_need_size(const struct requests *q, const struct message *m, size_t more, struct error *err);
/* Whether that user has added less to the store lately than he may; and that he adds so much now. */
int request_need_store(const struct requests *q, const struct message *m, struct error *err);
void request_spend_store(const struct requests *q, const struct message *m, size_t bytes);
/* Whether the task may be changed once more: each change is an event for ever. NULL, one that does not live: the core
 * says so. */
int request_need_changes(const struct task *t, struct error *err);
/* requests_gpus.c: adds to findings of placement what the core does not know: names, who drained a GPU and why. */
void request_explain(const struct requests *q, const struct message *m, json_t *findings);
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

#endif
