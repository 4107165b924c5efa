/* SPDX-License-Identifier: MIT
 *
 * Process identities, remembered from sample to sample. An entry lives as long as the driver lists its pid: a driver goes on
 * listing one that has ended until its memory is free, and by then /proc knows nothing of it.
 */
#include "monitor/procs.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "monitor/peek.h"
#include "monitor/program.h"

#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MACHINE_PID_NS 0xeffffffcu	/* the kernel's first one has this inode: PROC_PID_INIT_INO */
#define COMM_LEN 15		/* what the kernel keeps of a program's name */
#define AGAIN_MS 10000		/* until what could not be read is tried again; twice as long each time, since a try may hold us up */

struct procs_entry {
	struct proc_id id;
	uid_t uid;
	task_id claimed;
	char token[PROC_TOKEN_LEN];
	bool mps_server;
	bool listed;	/* in the snapshot at hand */
	int64_t again_ms, pause_ms;	/* mono: when it is read again, 0: it was read; how long after the last try */
	int64_t started_ms;
	char program[PROC_PROGRAM_LEN], command[PROC_COMMAND_LEN];
};

struct procs {
	const char *mps_process;	/* NULL: none is one */
	struct peek *peek;
	struct procs_entry *entries;
	size_t n, cap;
	bool contained;			/* this process has its pids in a namespace below the machine's */
	bool foreign_pids;		/* the driver tells the machine's */
};

struct procs *procs_create(const char *mps_process)
{
	struct procs *p = alloc_zero(sizeof *p);
	p->mps_process = mps_process;
	p->peek = peek_create();
	struct stat ns;
	p->contained = !stat("/proc/self/ns/pid", &ns) && ns.st_ino != MACHINE_PID_NS;
	return p;
}

void procs_destroy(struct procs *p)
{
	if (!p)
		return;
	peek_destroy(p->peek);
	free(p->entries);
	free(p);
}

static void read_comm(pid_t pid, char *comm, size_t size)
{
	proc_read(pid, "comm", comm, size);
	comm[strcspn(comm, "\n")] = 0;
}

/* A control daemon's name shortens to the same as its server's, but it holds no GPU context and so is in no driver's list. */
static bool is_mps_server(const struct procs *p, pid_t pid)
{
	char comm[32];
	if (!p->mps_process)
		return false;
	read_comm(pid, comm, sizeof comm);
	return strlen(p->mps_process) > COMM_LEN ? !strncmp(comm, p->mps_process, COMM_LEN) : !strcmp(comm, p->mps_process);
}

/* A command line that is longer than what is read ends where that ends. */
static void entry_learn_program(struct procs_entry *e, const struct peek_found *f, pid_t pid)
{
	char comm[32];
	read_comm(pid, comm, sizeof comm);
	program_describe(f->cmdline, f->n && f->cmdline[f->n - 1] ? f->n + 1 : f->n, comm, e->program, e->command);
}

/* Ticks are counted from the machine's start, the time it slept included. */
static int64_t started_ms(uint64_t start_ticks)
{
	struct timespec up;
	long hz = sysconf(_SC_CLK_TCK);
	if (hz <= 0 || clock_gettime(CLOCK_BOOTTIME, &up))
		return 0;
	int64_t up_ms = (int64_t)up.tv_sec * 1000 + up.tv_nsec / 1000000;
	return clock_wall_ms() - up_ms + (int64_t)(start_ticks * 1000 / (uint64_t)hz);
}

static void entry_learn(const struct procs *p, struct procs_entry *e, pid_t pid, uint64_t start_ticks, int64_t mono_ms)
{
	if (e->id.start_ticks != start_ticks)
		e->pause_ms = 0;
	e->again_ms = 0;
	/* What the pid was before says nothing of who has it now. */
	e->id = (struct proc_id){ .pid = pid, .start_ticks = start_ticks };
	e->uid = proc_uid(pid);		/* seen also where /proc hides all else (hidepid=1) */
	e->claimed = 0;
	e->mps_server = false;
	e->started_ms = 0;
	*e->program = *e->command = *e->token = 0;
	if (!start_ticks)
		return;
	struct peek_found found;
	e->started_ms = started_ms(start_ticks);
	if (!peek_at(p->peek, pid, e->uid, &found)) {
		e->pause_ms = e->pause_ms ? 2 * e->pause_ms : AGAIN_MS;
		e->again_ms = mono_ms + e->pause_ms;
	}
	entry_learn_program(e, &found, pid);
	e->claimed = found.claimed;
	memcpy(e->token, found.token, sizeof e->token);
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

static const struct procs_entry *procs_identify(struct procs *p, pid_t pid, int64_t mono_ms)
{
	struct procs_entry *e = entry_of(p, pid);
	if (e->listed)		/* on a second GPU: it was looked up in this sample already */
		return e;
	uint64_t start = 0;
	bool known = e->id.pid == pid;
	bool alive = !proc_stat(pid, &start, NULL);
	bool again = e->again_ms && mono_ms >= e->again_ms;
	if (!known || (alive && (start != e->id.start_ticks || again)))
		entry_learn(p, e, pid, start, mono_ms);
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

/* A real driver (one that has MPS servers) knows no namespaces of pids: in a container it tells the machine's numbers, of which
 * one that is nobody's here is the sign. Then none of them says whose memory it is. */
static void notice_foreign_pids(struct procs *p, const struct snapshot *s)
{
	for (uint32_t i = 0; i < s->n_procs && p->contained && p->mps_process && !p->foreign_pids; i++)
		if (!s->procs[i].id.start_ticks && s->procs[i].uid == (uid_t)-1)
			p->foreign_pids = true;
	if (p->contained && p->foreign_pids)
		log_warn("the driver tells processes by the machine's numbers, which are others in this container: whose memory is whose is "
			 "not known (a container with --pid=host knows it)");
	p->contained = p->contained && !p->foreign_pids;	/* told once */
}

static void forget_processes(struct snapshot *s)
{
	s->n_procs = 0;
	for (uint32_t i = 0; i < s->n_gpus; i++)
		s->gpus[i].valid &= ~(uint32_t)(GPU_PROCS | GPU_PROC_MEM);
}

void procs_fill(struct procs *p, struct snapshot *s)
{
	for (uint32_t i = 0; i < s->n_procs; i++) {
		struct proc_reading *r = &s->procs[i];
		const struct procs_entry *e = procs_identify(p, r->id.pid, s->mono_ms);
		r->id = e->id;
		r->uid = e->uid;
		r->claimed = e->claimed;
		r->mps_server = e->mps_server;
		r->started_ms = e->started_ms;
		memcpy(r->program, e->program, sizeof r->program);
		memcpy(r->command, e->command, sizeof r->command);
		memcpy(r->token, e->token, sizeof r->token);
	}
	forget_unlisted(p);
	notice_foreign_pids(p, s);
	if (p->foreign_pids)
		forget_processes(s);
}
