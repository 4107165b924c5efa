/* SPDX-License-Identifier: MIT
 * See pilot_notice.h.
 */
#include "cli/pilot_notice.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/json.h"
#include "base/scope.h"
#include "cli/client.h"
#include "submit/notices.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define GAP_MS 30000
#define LAST_MS 5000	/* a pilot that leaves waits for its last ones */
#define MOST 500	/* for one place in one gap */
#define KEPT_PLACES 20	/* more only where all of these have something to tell */

struct notice_place { char *to; json_t *list; int64_t more, sent_ms; pid_t last; };
struct pilot_notices { struct notice_place *places; size_t n, cap; };

struct pilot_notices *pilot_notices_create(void)
{
	return alloc_zero(sizeof(struct pilot_notices));
}

/* One that has told all, longest ago. */
static struct notice_place *unused_place(struct pilot_notices *n)
{
	struct notice_place *p = NULL;
	for (size_t i = 0; i < n->n; i++)
		if (!json_array_size(n->places[i].list) && (!p || n->places[i].sent_ms < p->sent_ms))
			p = &n->places[i];
	return p;
}

static struct notice_place *notice_place_of(struct pilot_notices *n, const char *to)
{
	for (size_t i = 0; i < n->n; i++)
		if (!strcmp(n->places[i].to, to))
			return &n->places[i];
	struct notice_place *p = n->n < KEPT_PLACES ? NULL : unused_place(n);
	if (p) {
		free(p->to);
		json_decref(p->list);
	} else {
		alloc_grow(n->places, n->n, n->cap);
		p = &n->places[n->n++];
	}
	*p = (struct notice_place){ .to = alloc_string(to), .list = json_array() };
	return p;
}

/* As radd's own: a failure before an end. */
static const char *word_of(const struct spool_record *r, const char *list)
{
	bool ended = r->state == SPOOL_ENDED, failed = ended && r->end != TASK_COMPLETED && r->end != TASK_CANCELLED;
	if (failed && notices_has(list, "fail"))
		return "fail";
	if (ended && notices_has(list, "end"))
		return "end";
	return r->state == SPOOL_CLAIMED && r->started && notices_has(list, "begin") ? "begin" : NULL;
}

/* What its radd said of it, by its name in the queue. */
static json_t *told_of(const struct spec *s, task_id id, const struct spool_record *r)
{
	char text[TASK_ID_TEXT];
	json_t *o = r->task ? json_copy(r->task) : json_object();
	json_object_set_new(o, "id", json_text(task_id_text(id, text)));
	json_object_set_new(o, "name", json_text_or_null(s->name));
	json_object_set_new(o, "state", json_text(task_state_name(r->state == SPOOL_ENDED ? r->end : TASK_RUNNING)));
	json_object_set_new(o, "reason_text", json_text_or_null(r->text));
	return o;
}

void pilot_notices_note(struct pilot_notices *n, const struct spec *s, task_id id, const struct spool_record *r)
{
	const char *word = n && s->notify && s->notify_to ? word_of(r, s->notify) : NULL;
	struct notice_place *p = word ? notice_place_of(n, s->notify_to) : NULL;
	if (p && json_array_size(p->list) < MOST)
		json_array_append_new(p->list, json_pack("{ss, so}", "event", word, "task", told_of(s, id, r)));
	else if (p)
		p->more++;
}

static void exec_radd(const char *program, int fd)
{
	setsid();
	dup2(fd, 0);
	execl(program, program, "--notify", (char *)NULL);
	_exit(127);
}

/* It lives on by itself, bounded by its own deadline; whose child it is may have no pilot left to ask, so it is nobody's; or
 * where `child` is not NULL it is a child that is waited for. -1: it was not begun. */
static int send(const char *program, const struct notice_place *p, pid_t *child)
{
	scoped_json *request = json_pack("{ss, sO, sI}", "to", p->to, "notices", p->list, "more", (json_int_t)p->more);
	scoped_free char *text = json_to_text(request);
	scoped_fd int fd = memfd_create("notices", MFD_CLOEXEC);
	int status = 0;
	if (fd < 0 || io_write_full(fd, text, strlen(text)) || lseek(fd, 0, SEEK_SET))
		return -1;
	fflush(NULL);
	pid_t pid = fork();
	if (!pid) {
		pid_t later = child ? 0 : fork();
		if (later)
			_exit(later < 0);
		exec_radd(program, fd);
	}
	if (child)
		*child = pid > 0 ? pid : 0;
	else
		while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
			;
	return pid < 0 || status ? -1 : 0;
}

/* What could not be sent, for want of a process perhaps, is sent with the next. */
static void send_all_of(struct notice_place *p, pid_t *child)
{
	scoped_free char *program = client_find_program("radd");
	if (!program || send(program, p, child))
		return;
	json_array_clear(p->list);
	p->more = 0;
	p->sent_ms = clock_mono_ms();
}

void pilot_notices_work(struct pilot_notices *n)
{
	int64_t now = clock_mono_ms();
	for (size_t i = 0; i < n->n; i++) {
		struct notice_place *p = &n->places[i];
		if (json_array_size(p->list) && (!p->sent_ms || now - p->sent_ms >= GAP_MS))
			send_all_of(p, NULL);
	}
}

/* What is left of a step when its first process is gone is killed by Slurm: so they are waited for. */
static void send_last(struct pilot_notices *n)
{
	size_t left = 0;
	for (struct notice_place *p = n->places; p < n->places + n->n; p++)
		if (json_array_size(p->list)) {
			send_all_of(p, &p->last);
			left += p->last > 0;
		}
	for (int64_t until = clock_mono_ms() + LAST_MS; left && clock_mono_ms() < until; poll(NULL, 0, 20))
		for (struct notice_place *p = n->places; p < n->places + n->n; p++)
			if (p->last && waitpid(p->last, NULL, WNOHANG)) {
				p->last = 0;
				left--;
			}
}

void pilot_notices_destroy(struct pilot_notices *n)
{
	if (!n)
		return;
	send_last(n);
	for (size_t i = 0; i < n->n; i++) {
		json_decref(n->places[i].list);
		free(n->places[i].to);
	}
	free(n->places);
	free(n);
}

char *pilot_notices_of_radd(const char *list)
{
	static const char *const words[] = { "oom", "slot", "mem" };
	scoped_buf kept = { 0 };
	for (size_t i = 0; i < COUNT_OF(words); i++)
		if (notices_has(list, words[i]))
			buf_printf(&kept, "%s%s", kept.len ? "," : "", words[i]);
	return kept.len ? buf_steal(&kept) : NULL;
}
