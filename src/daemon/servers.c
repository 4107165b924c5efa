/* SPDX-License-Identifier: MIT
 * The table of MPS servers: see servers.h. A server is started when the first task for it is placed, and stays for `mps_idle`
 * when the last one has ended: a process joins a server when it initialises CUDA, so an idle one costs nothing but 66 MiB a
 * GPU, while to stop it and start it again costs each of a series of short tasks a tenth of a second. It is in nobody's way:
 * its memory is counted as that of MPS, a program that is no client of it runs beside it, and placement asks whose clients are
 * on a GPU, not whose server.
 */
#include "daemon/servers.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/scope.h"
#include "daemon/troubles.h"
#include "device/device.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TRIM_MS 600000		/* between two looks at how long its logs are */
#define ENDING_MS 20000		/* what is left of a server and does not end by then hangs in the driver */

/* One that runs, or comes up. */
struct entry {
	struct mps_server *server;
	int64_t idle_ms;	/* mono, when it was first seen without clients; 0: it has some */
	bool sick;		/* a client of it ended by a fault, which may have left it in a state that takes no others */
	bool left;		/* its control daemon was killed or hangs, and its clients go on: no other comes to it */
	int64_t trim_ms;	/* mono, when its logs are looked at next */
	int64_t ending_ms;	/* mono, since when what is left of it is being ended; 0: it is not */
};

struct servers {
	char *run_dir;
	const struct device *device;
	bool serve_all;		/* one can serve all users */
	char *why;
	struct entry *list;
	size_t n, cap;
	struct error last;	/* of the start that failed, for *why */
};

static void servers_add(void *ctx, struct mps_server *server)
{
	struct servers *s = ctx;
	alloc_grow(s->list, s->n, s->cap);
	s->list[s->n++] = (struct entry){ .server = server, .trim_ms = clock_mono_ms() + TRIM_MS };
}

static bool servers_none_needed(const struct servers *s)
{
	return device_kind(s->device)->mps != DEVICE_MPS_SERVER;
}

/* Once: another driver comes with a restart of the machine, or of all that uses it. Only root has several users. Tried,
 * not looked up by version: what a driver can do is what its control daemon does (decision 99). */
static void servers_find_out(struct servers *s)
{
	s->serve_all = servers_none_needed(s);
	if (servers_none_needed(s))
		s->why = alloc_string("nothing has to be started for it");
	else if (geteuid())
		s->why = alloc_string("this radd has one user");
	else if (!mps_available(device_kind(s->device)))
		s->why = alloc_string(MPS_CONTROL " was not there when radd started");
	else
		s->serve_all = mps_serves_all(s->run_dir, MPS_TRIAL_MS, &s->why);
}

struct servers *servers_create(const char *run_dir, const struct device *device)
{
	struct servers *s = alloc_zero(sizeof *s);
	s->run_dir = alloc_string(run_dir);
	s->device = device;
	mps_adopt(run_dir, servers_add, s);
	for (size_t i = 0; i < s->n; i++)
		s->list[i].left = mps_is_left(s->list[i].server);
	servers_find_out(s);
	return s;
}

enum core_mps servers_can(const struct servers *s, const char **why)
{
	*why = s->why;
	return !mps_available(device_kind(s->device)) ? CORE_MPS_NONE : s->serve_all ? CORE_MPS_TOGETHER : CORE_MPS_APART;
}

void servers_destroy(struct servers *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->n; i++)
		mps_release(s->list[i].server);
	free(s->list);
	free(s->why);
	free(s->run_dir);
	free(s);
}

static bool servers_has_gpus(const char *list, const struct task *t)
{
	const struct attempt *a = task_attempt(t);
	bool all = true;
	for (unsigned i = 0; i < a->n_gpus && all; i++)
		all = device_place(list, a->gpus[i]) >= 0;
	return all;
}

/* Whose server it is to be a client of. One for all that could not be had after all leaves its user's own. */
static uid_t servers_user(const struct servers *s, const struct task *t)
{
	return task_attempt(t)->together && s->serve_all ? MPS_ALL_USERS : t->spec->uid;
}

/* Both are asked, since one user may have two: a second one for GPUs that came after the first had begun. */
static bool servers_serves(const struct servers *s, const struct mps_server *server, const struct task *t)
{
	return mps_uid(server) == servers_user(s, t) && servers_has_gpus(mps_gpus(server), t);
}

static struct entry *servers_entry(const struct servers *s, const struct task *t)
{
	for (size_t i = 0; i < s->n; i++)
		if (!s->list[i].left && !s->list[i].ending_ms && !mps_silent_ms(s->list[i].server) && servers_serves(s, s->list[i].server, t))
			return &s->list[i];
	return NULL;
}

static struct mps_server *servers_find(const struct servers *s, const struct task *t)
{
	const struct entry *e = servers_entry(s, t);
	return e ? e->server : NULL;
}

static void servers_drop(struct servers *s, struct entry *e)
{
	mps_release(e->server);
	*e = s->list[--s->n];
}

/* Stopped first: to release it gives back the object alone, and leaves the server as it is. One that could not be stays where
 * it is, for the next try. What is left of one whose control daemon was killed is waited for. `what` it is, for people. */
static void servers_end(struct servers *s, struct entry *e, const char *what)
{
	if (mps_stop(e->server))
		return;
	log_info("MPS: stopping the %s server of %s", what, mps_whose(e->server));
	if (mps_is_left(e->server))
		e->ending_ms = clock_mono_ms();
	else
		servers_drop(s, e);
}

static void servers_look_at_end(struct servers *s, struct entry *e)
{
	bool left = mps_is_left(e->server);
	if (left && clock_mono_ms() - e->ending_ms <= ENDING_MS)
		return;
	if (left)
		log_error("MPS: a server of %s, whose control daemon %d was killed, does not end: it hangs in the driver, and holds memory "
			  "of GPUs (ps -s %d)", mps_whose(e->server), (int)mps_control(e->server).pid,
			  (int)mps_control(e->server).pid);
	servers_drop(s, e);
}

/* Of that user: he may have put something there that does not end, which is nobody else's to wait for. */
static bool servers_are_ending(const struct servers *s, uid_t uid)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->list[i].ending_ms && mps_uid(s->list[i].server) == uid)
			return true;
	return false;
}

/* Attempts that are placed count from then on, a GPU each. */
static size_t servers_clients(const struct mps_server *server, const struct core *core)
{
	scoped_free char *gpus = alloc_string(mps_gpus(server));
	char *rest = gpus;
	int64_t of = mps_uid(server) == MPS_ALL_USERS ? MAP_MPS_ALL : (int64_t)mps_uid(server);
	size_t n = 0;
	for (char *uuid; (uuid = strsep(&rest, ","));)
		n += core_mps_clients(core, uuid, of);
	return n;
}

/* Those that have been idle for that long, or ended while they were, or are sick: no task is to wait for one of those to be
 * given up, nor to be the one that finds out. */
static void servers_stop_idle(struct servers *s, const struct core *core, int64_t idle_ms, int64_t mono_ms)
{
	for (size_t i = s->n; i-- > 0;) {
		struct entry *e = &s->list[i];
		if (e->ending_ms) {
			servers_look_at_end(s, e);
			continue;
		}
		bool used = servers_clients(e->server, core) > 0;
		e->idle_ms = used ? 0 : e->idle_ms ? e->idle_ms : mono_ms;
		bool silent = mps_silent_ms(e->server);
		if (used || (!e->sick && !silent && mono_ms - e->idle_ms < idle_ms && mps_poll(e->server) != MPS_FAILED))
			continue;
		servers_end(s, e, e->sick ? "sick" : silent ? "silent" : "idle");
	}
}

/* Not before the task's own GPUs are known: right after radd's start none is. What idles goes first, or it would hold memory of
 * each GPU for nobody beside the new one; and what was left of another, or it would have the GPU where that is given to one
 * process alone. */
static enum mps_state servers_start(struct servers *s, const struct core *core, const struct task *t, const char **why)
{
	scoped_buf gpus = { 0 };
	core_mps_gpus(core, &gpus);
	if (!servers_has_gpus(buf_text(&gpus), t))
		return MPS_STARTING;
	servers_stop_idle(s, core, 0, clock_mono_ms());
	if (servers_are_ending(s, servers_user(s, t)))
		return MPS_STARTING;
	s->last = ERROR_INIT;
	struct mps_server *server = mps_start(s->run_dir, buf_text(&gpus), servers_user(s, t), t->spec->gid,
						t->spec->user, &s->last);
	if (!server) {
		*why = s->last.text;
		return MPS_FAILED;
	}
	log_info("MPS: starting a server for %s", mps_whose(server));
	servers_add(s, server);
	mps_poll(server);	/* begins to ask whether it is ready; if it has ended already, the next look gives it up and says why */
	return MPS_STARTING;
}

void servers_note_fault(struct servers *s, const struct task *t)
{
	struct entry *e = servers_entry(s, t);
	if (e)
		e->sick = true;
}

static bool servers_has_others(const struct entry *e, const struct core *core, const struct task *t)
{
	return servers_clients(e->server, core) > task_attempt(t)->n_gpus;
}

/* One that is placed in the turn in which the last client ended would get the sick server, since it counts as a client of it
 * already. */
static void servers_replace_sick(struct servers *s, const struct core *core, const struct task *t)
{
	struct entry *e = servers_entry(s, t);
	if (!e || !e->sick || servers_has_others(e, core, t))
		return;
	servers_end(s, e, "sick");
}

/* What is left of it serves clients that are in the midst of their work, until there is none: nothing of ours ends that. */
static void servers_give_up(struct servers *s, struct entry *e, const struct core *core, const struct task *t)
{
	bool hangs = mps_has_served(e->server);
	if ((!hangs && !mps_is_left(e->server)) || !servers_has_others(e, core, t)) {
		servers_end(s, e, "failed");
		return;
	}
	e->left = true;
	log_warn("MPS: the control daemon of %s %s: it goes on for its clients, beside the next one", mps_whose(e->server),
		 hangs ? "does not answer" : "was killed, and its server left");
}

void servers_tell(const struct servers *s, json_t *troubles)
{
	for (size_t i = 0; i < s->n; i++) {
		const struct entry *e = &s->list[i];
		int64_t silent_ms = mps_silent_ms(e->server);
		if (silent_ms)
			troubles_add(troubles, "mps", "the MPS control daemon of %s (pid %d) has not answered for %lld s: its clients go on, "
				     "new ones get another; see %s/log/control.log", mps_whose(e->server), (int)mps_control(e->server).pid,
				     (long long)silent_ms / 1000, mps_folder(e->server));
		else if (e->left)
			troubles_add(troubles, "mps", "the MPS control daemon of %s (pid %d) was killed or does not answer: its server stays "
				     "until its clients have ended, beside the next one", mps_whose(e->server), (int)mps_control(e->server).pid);
	}
}

/* Asked by each task that starts, and again while it waits. A server that failed is given up here, so that the next try
 * starts another. */
enum mps_state servers_want(struct servers *s, const struct core *core, const struct task *t, const char **why)
{
	/* Before it is looked for: what this gives up must not be found. */
	servers_replace_sick(s, core, t);
	struct entry *e = servers_entry(s, t);
	if (servers_none_needed(s))
		return MPS_READY;
	if (!e)
		return servers_start(s, core, t, why);
	if (e->sick && !servers_has_others(e, core, t))		/* it could not be stopped yet */
		return MPS_STARTING;
	mps_name_user(e->server, t->spec->user);
	enum mps_state state = mps_poll(e->server);
	if (state == MPS_FAILED) {
		error_set(&s->last, ERR_UNAVAILABLE, "the MPS server of %s did not start, or ended; see %s/log/control.log",
			  mps_whose(e->server), mps_folder(e->server));
		*why = s->last.text;
		servers_give_up(s, e, core, t);
	}
	return state;
}

const char *servers_pipe_dir(const struct servers *s, const struct task *t)
{
	const struct mps_server *server = servers_find(s, t);
	if (servers_none_needed(s))
		return device_file(s->device);
	return server ? mps_pipe_dir(server) : NULL;
}

/* A server numbers GPUs as they were when it began, the driver as they are now. */
bool servers_count_alike(const struct servers *s, const struct task *t, const struct core_gpu_ref *gpus, size_t n)
{
	const struct mps_server *server = servers_find(s, t);
	bool alike = server;
	if (servers_none_needed(s))
		return true;
	for (size_t i = 0; i < n && alike; i++)
		alike = device_place(mps_gpus(server), gpus[i].uuid) == (int)gpus[i].index;
	return alike;
}

bool servers_end_clients(const struct servers *s)
{
	return !servers_none_needed(s);
}

/* Its user may have several; only that whose client it is knows a process. */
void servers_terminate_clients(struct servers *s, const struct task *t, const pid_t *pids, size_t n)
{
	for (size_t i = 0; i < s->n; i++)
		if (servers_serves(s, s->list[i].server, t))
			mps_terminate_clients(s->list[i].server, pids, n);
}

static void servers_trim(struct servers *s, int64_t mono_ms)
{
	for (size_t i = 0; i < s->n; i++)
		if (mono_ms >= s->list[i].trim_ms) {
			s->list[i].trim_ms = mono_ms + TRIM_MS;
			mps_trim(s->list[i].server);
		}
}

void servers_tidy(struct servers *s, const struct core *core, int64_t idle_ms)
{
	int64_t now = clock_mono_ms();
	for (size_t i = 0; i < s->n; i++)
		if (!s->list[i].left && !s->list[i].ending_ms)
			mps_watch(s->list[i].server);
	servers_stop_idle(s, core, idle_ms, now);
	servers_trim(s, now);
}
