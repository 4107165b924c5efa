/* SPDX-License-Identifier: MIT
 * The table of MPS servers: see servers.h. A server is started when the first task for it is placed and stopped when the
 * last one has ended: a process joins a server when it initialises CUDA, so an idle server costs nothing but 66 MiB.
 */
#include "daemon/servers.h"

#include "base/alloc.h"
#include "base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct entry {
	char uuid[GPU_UUID_LEN];
	uid_t uid;
	struct mps_server *server;
};

struct servers {
	char *run_dir;
	struct entry *entries;
	size_t n, cap;
	struct error last;	/* of the start that failed, for *why */
};

struct servers *servers_create(const char *run_dir)
{
	struct servers *s = alloc_zero(sizeof *s);
	s->run_dir = alloc_string(run_dir);
	return s;
}

void servers_destroy(struct servers *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->n; i++)
		mps_release(s->entries[i].server);
	free(s->entries);
	free(s->run_dir);
	free(s);
}

static struct entry *find(const struct servers *s, const char *uuid)
{
	for (size_t i = 0; i < s->n; i++)
		if (!strcmp(s->entries[i].uuid, uuid))
			return &s->entries[i];
	return NULL;
}

static void forget(struct servers *s, struct entry *e, bool stop)
{
	if (stop)
		mps_stop(e->server);
	mps_release(e->server);
	*e = s->entries[--s->n];
}

static void add(struct servers *s, const char *uuid, uid_t uid, struct mps_server *server)
{
	alloc_grow(s->entries, s->n, s->cap);
	struct entry *e = &s->entries[s->n++];
	snprintf(e->uuid, sizeof e->uuid, "%s", uuid);
	e->uid = uid;
	e->server = server;
}

enum mps_state servers_want(struct servers *s, const char *uuid, uid_t uid, gid_t gid, const char **why)
{
	struct entry *e = find(s, uuid);
	if (e && e->uid != uid) {
		forget(s, e, true);
		e = NULL;
	}
	if (!e) {
		s->last = ERROR_INIT;
		struct mps_server *server = mps_start(s->run_dir, uuid, uid, gid, &s->last);
		/* One is there already: left behind by a former radd, or still on its way out, which is worth waiting for. */
		if (!server && s->last.code == ERR_CONFLICT && !(server = mps_adopt(s->run_dir, uuid, uid, gid)))
			return MPS_STARTING;
		if (!server) {
			*why = s->last.text;
			return MPS_FAILED;
		}
		log_info("MPS: starting a server for %s, uid %u", uuid, (unsigned)uid);
		add(s, uuid, uid, server);
		e = find(s, uuid);
	}
	enum mps_state state = mps_poll(e->server);
	if (state == MPS_FAILED) {
		*why = "the MPS server did not start; its log is in the 'log' folder beside its pipe folder";
		forget(s, e, true);
	}
	return state;
}

void servers_adopt(struct servers *s, const char *uuid, uid_t uid, gid_t gid)
{
	struct mps_server *server = find(s, uuid) ? NULL : mps_adopt(s->run_dir, uuid, uid, gid);
	if (server)
		add(s, uuid, uid, server);
}

static struct mps_server *server_of(const struct servers *s, const char *uuid, uid_t uid)
{
	const struct entry *e = find(s, uuid);
	return e && e->uid == uid ? e->server : NULL;
}

const char *servers_pipe_dir(const struct servers *s, const char *uuid, uid_t uid)
{
	const struct mps_server *server = server_of(s, uuid, uid);
	return server ? mps_pipe_dir(server) : NULL;
}

void servers_terminate_client(struct servers *s, const char *uuid, uid_t uid, pid_t client)
{
	struct mps_server *server = server_of(s, uuid, uid);
	if (server)
		mps_terminate_client(server, client);
}

void servers_tidy(struct servers *s, const struct core *core)
{
	uid_t uid;
	for (size_t i = s->n; i-- > 0;)
		if (!core_mps_clients(core, s->entries[i].uuid, &uid)) {
			log_info("MPS: stopping the idle server of %s", s->entries[i].uuid);
			forget(s, &s->entries[i], true);
		}
}
