/* SPDX-License-Identifier: MIT
 *
 * Process identities, remembered from sample to sample. An entry lives as long as the driver lists its pid: a driver goes on
 * listing one that has ended until its memory is free, and by then /proc knows nothing of it.
 */
#include "monitor/procs.h"

#include "base/alloc.h"
#include "base/io.h"
#include "base/scope.h"

#include <fcntl.h>
#include <string.h>

#define COMM_LEN 15	/* what the kernel keeps of a program's name */

struct procs_entry {
	struct proc_id id;
	uid_t uid;
	task_id claimed;
	bool mps_server;
	bool listed;	/* in the snapshot at hand */
};

struct procs {
	const char *mps_process;	/* NULL: none is one */
	struct procs_entry *entries;
	size_t n, cap;
};

struct procs *procs_create(const char *mps_process)
{
	struct procs *p = alloc_zero(sizeof *p);
	p->mps_process = mps_process;
	return p;
}

void procs_destroy(struct procs *p)
{
	if (p)
		free(p->entries);
	free(p);
}

/* A control daemon's name shortens to the same as its server's, but it holds no GPU context and so is in no driver's list. */
static bool is_mps_server(const struct procs *p, pid_t pid)
{
	char path[40], comm[32];
	if (!p->mps_process)
		return false;
	snprintf(path, sizeof path, "/proc/%d/comm", (int)pid);
	scoped_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : io_read_full(fd, comm, sizeof comm - 1);
	if (n <= 0)
		return false;
	comm[n] = 0;
	comm[strcspn(comm, "\n")] = 0;
	return strlen(p->mps_process) > COMM_LEN ? !strncmp(comm, p->mps_process, COMM_LEN) : !strcmp(comm, p->mps_process);
}

static task_id claimed_task(pid_t pid)
{
	char text[TASK_ID_TEXT];
	task_id id;
	if (proc_environ(pid, "RAD_TASK_ID", text, sizeof text) || task_id_parse(text, &id, NULL))
		return 0;
	return id;
}

static void entry_learn(const struct procs *p, struct procs_entry *e, pid_t pid, uint64_t start_ticks)
{
	/* What the pid was before says nothing of who has it now. */
	e->id = (struct proc_id){ .pid = pid, .start_ticks = start_ticks };
	e->uid = (uid_t)-1;
	e->claimed = 0;
	e->mps_server = false;
	if (!start_ticks)
		return;
	e->uid = proc_uid(pid);
	e->claimed = claimed_task(pid);
	e->mps_server = is_mps_server(p, pid);
}

static struct procs_entry *entry_of(struct procs *p, pid_t pid)
{
	/* One after the other: a server has tens of GPU processes, and a sample a second. */
	for (size_t i = 0; i < p->n; i++)
		if (p->entries[i].id.pid == pid)
			return &p->entries[i];
	alloc_grow(p->entries, p->n, p->cap);
	struct procs_entry *e = &p->entries[p->n++];
	memset(e, 0, sizeof *e);
	return e;
}

static const struct procs_entry *procs_identify(struct procs *p, pid_t pid)
{
	struct procs_entry *e = entry_of(p, pid);
	if (e->listed)		/* on a second GPU: it was looked up in this sample already */
		return e;
	uint64_t start = 0;
	bool known = e->id.pid == pid;
	bool alive = !proc_stat(pid, &start, NULL);
	if (!known || (alive && start != e->id.start_ticks))
		entry_learn(p, e, pid, start);
	e->listed = true;
	return e;
}

static void forget_unlisted(struct procs *p)
{
	size_t kept = 0;
	for (size_t i = 0; i < p->n; i++) {
		if (!p->entries[i].listed)
			continue;
		p->entries[kept] = p->entries[i];
		p->entries[kept++].listed = false;
	}
	p->n = kept;
}

void procs_fill(struct procs *p, struct snapshot *s)
{
	for (uint32_t i = 0; i < s->n_procs; i++) {
		struct proc_reading *r = &s->procs[i];
		const struct procs_entry *e = procs_identify(p, r->id.pid);
		r->id = e->id;
		r->uid = e->uid;
		r->claimed = e->claimed;
		r->mps_server = e->mps_server;
	}
	forget_unlisted(p);
}
