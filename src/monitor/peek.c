/* SPDX-License-Identifier: MIT
 * Reading with a deadline: see peek.h. A look belongs to who asked, also while its thread hangs: the thread tells that it is
 * over by its descriptor, as the last thing it does with the look.
 */
#include "monitor/peek.h"

#include "base/alloc.h"
#include "base/proc.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#define WAIT_MS 500
#define MOST_HANGING 16

struct peek_look {
	pid_t pid;
	uid_t uid;
	int over_fd;
	struct peek_found found;
};

struct peek {
	struct peek_look *hanging[MOST_HANGING];
	unsigned n;
};

struct peek *peek_create(void)
{
	return alloc_zero(sizeof(struct peek));
}

static bool look_is_over(const struct peek_look *l, int wait_ms)
{
	struct pollfd p = { .fd = l->over_fd, .events = POLLIN };
	uint64_t over;
	return poll(&p, 1, wait_ms) == 1 && read(l->over_fd, &over, sizeof over) == sizeof over;
}

static void look_free(struct peek_look *l)
{
	close(l->over_fd);
	free(l);
}

static void forget_over(struct peek *p)
{
	unsigned kept = 0;
	for (unsigned i = 0; i < p->n; i++)
		if (look_is_over(p->hanging[i], 0))
			look_free(p->hanging[i]);
		else
			p->hanging[kept++] = p->hanging[i];
	p->n = kept;
}

void peek_destroy(struct peek *p)
{
	if (p)
		forget_over(p);
	free(p);
}

static bool is_token(const char *text)
{
	return strlen(text) == PROC_TOKEN_LEN - 1 && strspn(text, "0123456789abcdef") == PROC_TOKEN_LEN - 1;
}

static void *look_there(void *arg)
{
	struct peek_look *l = arg;
	struct peek_found *f = &l->found;
	char id[TASK_ID_TEXT];
	const uint64_t over = 1;
	ssize_t n = proc_read(l->pid, "cmdline", f->cmdline, PEEK_CMDLINE + 1);
	f->n = n > 0 ? (size_t)n : 0;
	if (proc_environ(l->pid, "RAD_TASK_ID", id, sizeof id) || task_id_parse(id, &f->claimed, NULL))
		f->claimed = 0;
	if (f->claimed && (proc_environ(l->pid, "RAD_TASK_TOKEN", f->token, sizeof f->token) || !is_token(f->token)))
		*f->token = 0;
	return write(l->over_fd, &over, sizeof over) == sizeof over ? l : NULL;
}

/* No signal of ours is for that thread. */
static int look_start(struct peek_look *l)
{
	sigset_t all, before;
	pthread_attr_t attr;
	pthread_t thread;
	sigfillset(&all);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	int rc = l->over_fd < 0 ? -1 : pthread_create(&thread, &attr, look_there, l);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attr);
	return rc;
}

static bool may_look(struct peek *p, uid_t uid)
{
	forget_over(p);
	for (unsigned i = 0; i < p->n; i++)
		if (p->hanging[i]->uid == uid)
			return false;
	return p->n < MOST_HANGING;
}

bool peek_at(struct peek *p, pid_t pid, uid_t uid, struct peek_found *out)
{
	*out = (struct peek_found){ 0 };
	if (!may_look(p, uid))
		return false;
	struct peek_look *l = alloc_zero(sizeof *l);
	*l = (struct peek_look){ .pid = pid, .uid = uid, .over_fd = eventfd(0, EFD_CLOEXEC) };
	bool began = !look_start(l), over = began && look_is_over(l, WAIT_MS);
	if (over)
		*out = l->found;
	if (over || !began)
		look_free(l);
	else
		p->hanging[p->n++] = l;
	return over;
}
