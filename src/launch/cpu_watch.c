/* SPDX-License-Identifier: MIT
 * See cpu_watch.h. Where the kernel does not count delays, schedstat is not there, or is all zeros.
 */
#include "launch/cpu_watch.h"

#include "base/alloc.h"
#include "base/io.h"
#include "base/scope.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define LOOK_MS 6000

struct cpu_look {
	struct cpu_thread *threads;
	size_t n, cap;
	uint64_t ticks;
	bool told;		/* the kernel counts: a thread was seen to have got a core */
	cpu_set_t cores;	/* on which any of them may run; */
	bool anywhere;		/* or they are too many to be told */
};

static const char *read_text(const char *path, char *text, size_t size)
{
	scoped_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : io_read_full(fd, text, size - 1);
	text[n > 0 ? n : 0] = 0;
	return text;
}

/* Fields 14 to 17 are user and system time, its own and that of children waited for. */
static void add_process(struct cpu_look *l, pid_t pid)
{
	char path[40], text[1024];
	unsigned long long ticks[4];
	snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
	const char *p = strrchr(read_text(path, text, sizeof text), ')');
	if (p && sscanf(p + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu %llu %llu", &ticks[0], &ticks[1], &ticks[2],
			&ticks[3]) == 4)
		l->ticks += ticks[0] + ticks[1] + ticks[2] + ticks[3];
}

static void add_cores(struct cpu_look *l, pid_t tid)
{
	cpu_set_t its;
	if (!sched_getaffinity(tid, sizeof its, &its))
		CPU_OR(&l->cores, &l->cores, &its);
	else if (errno == EINVAL)
		l->anywhere = true;
}

static void add_threads(struct cpu_look *l, pid_t pid)
{
	char path[80], text[80];
	struct dirent *entry;
	snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
	scoped_dir DIR *dir = opendir(path);
	while (dir && (entry = readdir(dir))) {
		unsigned long long waited, times;
		struct cpu_thread t = { .tid = (pid_t)strtol(entry->d_name, NULL, 10) };
		snprintf(path, sizeof path, "/proc/%d/task/%d/schedstat", (int)pid, (int)t.tid);
		if (t.tid <= 0 || sscanf(read_text(path, text, sizeof text), "%*u %llu %llu", &waited, &times) != 2)
			continue;
		t.wait_ns = waited;
		l->told = l->told || times;
		add_cores(l, t.tid);
		alloc_grow(l->threads, l->n, l->cap);
		l->threads[l->n++] = t;
	}
}

static int by_tid(const void *a, const void *b)
{
	pid_t x = ((const struct cpu_thread *)a)->tid, y = ((const struct cpu_thread *)b)->tid;
	return (x > y) - (x < y);
}

/* What each waited since the last look; of one that is new, or bears the number of another that ended, since it began. */
static uint64_t waited_since(const struct cpu_watch *w, const struct cpu_look *l)
{
	uint64_t ns = 0;
	for (size_t i = 0, k = 0; i < l->n; i++) {
		const struct cpu_thread *t = &l->threads[i];
		while (k < w->n_threads && w->threads[k].tid < t->tid)
			k++;
		bool known = k < w->n_threads && w->threads[k].tid == t->tid && w->threads[k].wait_ns <= t->wait_ns;
		ns += t->wait_ns - (known ? w->threads[k].wait_ns : 0);
	}
	return ns;
}

static int64_t ms_of(const struct timeval *t)
{
	return (int64_t)t->tv_sec * 1000 + t->tv_usec / 1000;
}

/* A process that ends during a look may be missed by it, and is in the next one. */
static int64_t cpu_ms(const struct cpu_look *l)
{
	struct rusage ended;
	int64_t ms = (int64_t)(l->ticks * 1000 / (uint64_t)sysconf(_SC_CLK_TCK));
	return getrusage(RUSAGE_CHILDREN, &ended) ? ms : ms + ms_of(&ended.ru_utime) + ms_of(&ended.ru_stime);
}

/* What they could have run more than they did, where they may use fewer cores than we: a program that pins itself to one, with
 * all that it starts, waits for no other. */
static uint64_t could_run_ns(const struct cpu_look *l, int64_t span_ms, int64_t ran_ms)
{
	cpu_set_t ours;
	int n = CPU_COUNT(&l->cores);
	int64_t ms = n * span_ms - ran_ms;
	if (l->anywhere || sched_getaffinity(0, sizeof ours, &ours) || n >= CPU_COUNT(&ours))
		return UINT64_MAX;
	return ms > 0 ? (uint64_t)ms * 1000000 : 0;
}

void cpu_watch_look(struct cpu_watch *w, const struct cgroup *c, pid_t shim, int64_t mono_ms)
{
	struct cpu_look l = { 0 };
	if (!w->began_ms)
		w->began_ms = w->looked_ms = mono_ms;
	if (mono_ms - w->looked_ms < LOOK_MS)
		return;
	scoped_free pid_t *pids = NULL;
	size_t n = c->path[0] ? cgroup_members(c->path, &pids) : proc_descendants(shim, &pids);
	for (size_t i = 0; i < n; i++) {
		add_process(&l, pids[i]);
		add_threads(&l, pids[i]);
	}
	if (l.n)
		qsort(l.threads, l.n, sizeof *l.threads, by_tid);
	int64_t took = cpu_ms(&l), before = w->sums.cpu_ms;
	took = took > before ? took : before;
	uint64_t waited = waited_since(w, &l), could = could_run_ns(&l, mono_ms - w->looked_ms, took - before);
	w->wait_ns += waited < could ? waited : could;
	free(w->threads);
	w->threads = l.threads;
	w->n_threads = l.n;
	w->looked_ms = mono_ms;
	w->sums = (struct cpu_sums){ mono_ms - w->began_ms, took, l.told ? (int64_t)(w->wait_ns / 1000000) : -1 };
}
