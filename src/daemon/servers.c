/* SPDX-License-Identifier: MIT
 * The table of MPS servers: see servers.h. A server is started when the first task for it is placed and stopped when the
 * last one has ended: a process joins a server when it initialises CUDA, so an idle server costs nothing but 66 MiB a GPU.
 */
#include "daemon/servers.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/log.h"
#include "base/scope.h"
#include "device/device.h"

#include <stdlib.h>
#include <string.h>

struct servers {
	char *run_dir;
	const struct device *device;
	struct mps_server **list;
	size_t n, cap;
	struct error last;	/* of the start that failed, for *why */
};

static void servers_add(void *ctx, struct mps_server *server)
{
	struct servers *s = ctx;
	alloc_grow(s->list, s->n, s->cap);
	s->list[s->n++] = server;
}

static bool servers_none_needed(const struct servers *s)
{
	return device_kind(s->device)->mps != DEVICE_MPS_SERVER;
}

struct servers *servers_create(const char *run_dir, const struct device *device)
{
	struct servers *s = alloc_zero(sizeof *s);
	s->run_dir = alloc_string(run_dir);
	s->device = device;
	mps_adopt(run_dir, servers_add, s);
	return s;
}

void servers_destroy(struct servers *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->n; i++)
		mps_release(s->list[i]);
	free(s->list);
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

static bool servers_serves(const struct mps_server *server, const struct task *t)
{
	return mps_uid(server) == t->spec->uid && servers_has_gpus(mps_gpus(server), t);
}

static struct mps_server *servers_find(const struct servers *s, const struct task *t)
{
	for (size_t i = 0; i < s->n; i++)
		if (servers_serves(s->list[i], t))
			return s->list[i];
	return NULL;
}

static void servers_forget(struct servers *s, struct mps_server *server)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->list[i] == server)
			s->list[i] = s->list[--s->n];
	mps_stop(server);
	mps_release(server);
}

/* Not before the task's own GPUs are known: right after radd's start none is. */
static enum mps_state servers_start(struct servers *s, const struct core *core, const struct task *t, const char **why)
{
	scoped_buf gpus = { 0 };
	core_mps_gpus(core, &gpus);
	if (!servers_has_gpus(buf_text(&gpus), t))
		return MPS_STARTING;
	s->last = ERROR_INIT;
	struct mps_server *server = mps_start(s->run_dir, buf_text(&gpus), t->spec->uid, t->spec->gid, &s->last);
	if (!server) {		/* a trouble of ours, not of the server: see servers.h */
		*why = s->last.text;
		return MPS_STARTING;
	}
	log_info("MPS: starting a server for uid %u", (unsigned)t->spec->uid);
	servers_add(s, server);
	return mps_poll(server);
}

enum mps_state servers_want(struct servers *s, const struct core *core, const struct task *t, const char **why)
{
	struct mps_server *server = servers_find(s, t);
	if (servers_none_needed(s))
		return MPS_READY;
	if (!server)
		return servers_start(s, core, t, why);
	enum mps_state state = mps_poll(server);
	if (state == MPS_FAILED) {
		*why = "the MPS server did not start; its log is in the 'log' folder beside its pipe folder";
		servers_forget(s, server);
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

/* Its user may have several; only that whose client it is knows the process. */
void servers_terminate_client(struct servers *s, const struct task *t, pid_t client)
{
	for (size_t i = 0; i < s->n; i++)
		if (servers_serves(s->list[i], t))
			mps_terminate_client(s->list[i], client);
}

static bool servers_has_clients(const struct mps_server *server, const struct core *core)
{
	scoped_free char *gpus = alloc_string(mps_gpus(server));
	char *rest = gpus;
	for (char *uuid; (uuid = strsep(&rest, ","));) {
		uid_t uid;
		if (core_mps_clients(core, uuid, &uid) && uid == mps_uid(server))
			return true;
	}
	return false;
}

void servers_tidy(struct servers *s, const struct core *core)
{
	for (size_t i = s->n; i-- > 0;)
		if (!servers_has_clients(s->list[i], core)) {
			log_info("MPS: stopping the idle server of uid %u", (unsigned)mps_uid(s->list[i]));
			servers_forget(s, s->list[i]);
		}
}
